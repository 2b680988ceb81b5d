//! Cases of Kronos.

mod forecasts;
mod sampling;
mod stages;
mod twin;

use std::collections::BTreeMap;
use std::path::Path;

use nowcast_engine::device::Launch;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Section, Tensor};
use nowcast_engine::token_sampling::TokenSampling;

use super::{Check, Setting};
use crate::checkpoint::{Checkpoint, ModelSource};
use crate::forecaster::plans::Ready;
use crate::kronos::config::{PredictorConfig, TokenizerConfig};
use crate::kronos::{Half, Kronos, KronosSource, LoadOptions};
use crate::{Error, Result};
pub(crate) use twin::Twin;

/// What a case is about decides which tensors it stores.
pub(super) fn verify(folder: &Path, setting: &Setting) -> Result<Vec<Check>> {
    let path = folder.join("case.json");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
    let stored = Stored(Checkpoint::open(&folder.join("golden.safetensors"))?);
    if stored.0.tensor("logits").is_some() {
        return sampling::verify(&text, &stored);
    }
    let model = Model::open(folder)?;
    if stored.0.tensor("stamp").is_some() {
        return stages::verify(&model, &stored, setting);
    }
    forecasts::verify(&text, &model, &stored, setting)
}

/// The tensors of a case.
struct Stored(Checkpoint);

impl Stored {
    fn tensor(&self, name: &str) -> Result<Vec<f64>> {
        match self.0.tensor(name) {
            Some(tensor) => tensor.to_f64(),
            None => Err(self.missing(name)),
        }
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>> {
        match self.0.tensor(name) {
            Some(tensor) => tensor.to_i64(),
            None => Err(self.missing(name)),
        }
    }

    /// Integers of a known number, each below its bound; the bounds repeat.
    fn bounded(&self, name: &str, count: usize, bounds: &[usize]) -> Result<Vec<i64>> {
        let values = self.integers(name)?;
        self.same_size(name, values.len(), count)?;
        let inside = |(value, &bound): (&i64, &usize)| usize::try_from(*value).is_ok_and(|value| value < bound);
        match values.iter().zip(bounds.iter().cycle()).find(|pair| !inside(*pair)) {
            None => Ok(values),
            Some((value, bound)) => Err(Error::Data(format!("{name} holds {value}, allowed: 0 to {}", bound - 1))),
        }
    }

    /// A tensor of a known size.
    fn sized(&self, name: &str, count: usize) -> Result<Vec<f64>> {
        let values = self.tensor(name)?;
        self.same_size(name, values.len(), count)?;
        Ok(values)
    }

    /// A batch of series: their number, their candles and their fields, none of them zero.
    fn series(&self, name: &str) -> Result<[usize; 3]> {
        match self.shape(name)?[..] {
            [batch, context, fields] if batch > 0 && context > 0 && fields > 0 => Ok([batch, context, fields]),
            ref other => Err(Error::Data(format!("{name} is {other:?}, not [series, candles, fields]"))),
        }
    }

    fn shape(&self, name: &str) -> Result<Vec<usize>> {
        self.0.tensor(name).map(|tensor| tensor.shape.to_vec()).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        Error::Data(format!("{} stores no {name}", self.0.origin()))
    }

    /// Refuses a tensor of another size than is computed.
    fn same_size(&self, name: &str, stored: usize, computed: usize) -> Result<()> {
        if stored == computed {
            return Ok(());
        }
        Err(Error::Data(format!("{name} holds {stored} values where {computed} are computed")))
    }
}

/// Both halves of a case's model.
struct Model {
    tokenizer: (TokenizerConfig, Checkpoint),
    predictor: (PredictorConfig, Checkpoint),
}

impl Model {
    fn open(folder: &Path) -> Result<Self> {
        let [tokenizer, predictor] = ["tokenizer", "model"].map(|half| ModelSource::Folder(folder.join(half)));
        let source = KronosSource { tokenizer, predictor };
        let (tokenizer, predictor) = source.configs()?;
        Ok(Self {
            tokenizer: (tokenizer, source.tokenizer.checkpoint()?),
            predictor: (predictor, source.predictor.checkpoint()?),
        })
    }

    fn load(&self, setting: &Setting) -> Result<Kronos> {
        let tokenizer = Half { config: self.tokenizer.0, checkpoint: &self.tokenizer.1 };
        let predictor = Half { config: self.predictor.0, checkpoint: &self.predictor.1 };
        Kronos::load(tokenizer, predictor, &*setting.device, LoadOptions { eager: setting.eager, dtype: setting.dtype })
    }

    fn twin(&self) -> Twin<'_> {
        Twin { tokenizer: (self.tokenizer.0, &self.tokenizer.1), predictor: (self.predictor.0, &self.predictor.1) }
    }
}

/// Runs a plan once, always taking the most probable token, and reads what it observed.
fn run(ready: &mut Ready<Kronos>, live: Live, named: &[(String, Tensor)]) -> Result<BTreeMap<String, Vec<f64>>> {
    let launch = Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::GREEDY };
    for section in [Section::Prefill, Section::Decode] {
        ready.run(section, &launch)?;
    }
    let read = |(name, tensor): &(String, Tensor)| {
        let mut values = vec![0.0; tensor.rows.count(live) * tensor.width];
        ready.executable.read(*tensor, &mut values);
        (name.clone(), values)
    };
    Ok(named.iter().map(read).collect())
}

/// Integers must be equal: the error is how many are not.
fn equal(name: &str, ours: &[i64], stored: &[i64]) -> Check {
    let different = if ours.len() == stored.len() {
        ours.iter().zip(stored).filter(|(ours, stored)| ours != stored).count()
    } else {
        ours.len().max(stored.len())
    };
    Check::new(format!("{name} (differing)"), different as f64, None, 0.0)
}

fn integers(values: &[f64]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

/// One of the two tokens of each pair.
fn of_pairs(pairs: &[f64], position: usize) -> Vec<i64> {
    integers(pairs).chunks(2).map(|pair| pair[position]).collect()
}
