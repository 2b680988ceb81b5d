//! Toto's way of the data: series are padded to patches, grouped by shape, run through plans, and answered.

mod options;
pub(crate) mod prepare;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::Device;
use nowcast_engine::extent::Live;
use nowcast_engine::operation::{MixtureQuantiles, SortSamples};
use nowcast_engine::plan::Section;

pub use options::{DEFAULT_SAMPLES, Decode, ForecastOptions, Xpos};

use super::budget::MemoryBudget;
use super::keeper::{Keeper, Load};
use super::plans::{Observe, Planned, bucket};
use super::{Counters, memory};
use crate::checkpoint::{HubOptions, ModelSource, resolve};
use crate::forecast::Forecast;
use crate::series::Series;
use crate::toto::config::TotoConfig;
use crate::toto::forward::{self, Shape};
use crate::toto::{LoadOptions, Toto};
use crate::{Error, Result};
use prepare::{Prepared, prepare};
use run::Run;

/// Steps of history that suit a published Toto checkpoint; it was trained on up to this many.
const TOTO_CONTEXT: usize = 4096;
/// Steps of history that suit the shipped model.
const NANO_CONTEXT: usize = 512;

/// A model ready to forecast; the [crate documentation](crate) shows one at work.
pub struct Forecaster {
    config: TotoConfig,
    keeper: Keeper<Toto>,
    default_context: usize,
}

impl Forecaster {
    /// Loads a model onto the CPU: `nano`, a directory, or the id of a Hugging Face repository.
    ///
    /// # Errors
    /// The model cannot be found or does not fit its config.
    pub fn load(model: &str) -> Result<Self> {
        let source = resolve(model, &HubOptions::from_environment())?;
        Self::load_with(&source, Arc::new(CpuDevice::new(None)), LoadOptions::default())
    }

    /// Loads a model onto a device.
    ///
    /// # Errors
    /// The checkpoint does not fit its config, or the device has no room for it.
    pub fn load_with(source: &ModelSource, device: Arc<dyn Device>, options: LoadOptions) -> Result<Self> {
        let config = TotoConfig::from_json(&source.config()?)?;
        let default_context = match source {
            ModelSource::BuiltIn { .. } => NANO_CONTEXT,
            ModelSource::Folder(_) => TOTO_CONTEXT,
        };
        let (source, shape) = (source.clone(), config.clone());
        let load = move || Toto::load(shape.clone(), &source.checkpoint()?, &*device, options);
        Self::new(config, default_context, Box::new(load))
    }

    /// A forecaster whose model is brought onto its device by `load`.
    pub(crate) fn new(config: TotoConfig, default_context: usize, load: Load<Toto>) -> Result<Self> {
        Ok(Self { config, keeper: Keeper::new(load)?, default_context })
    }

    /// Shares a memory budget with other forecasters.
    ///
    /// # Errors
    /// The weights alone exceed it.
    pub fn with_budget(mut self, budget: &MemoryBudget) -> Result<Self> {
        self.keeper.join(budget)?;
        Ok(self)
    }

    /// Gives the memory of weights and plans back; the next forecast loads the weights again.
    pub fn unload(&mut self) {
        self.keeper.unload();
    }

    /// The architecture.
    pub fn config(&self) -> &TotoConfig {
        &self.config
    }

    /// Bytes of the weights on the device, also while they are unloaded.
    pub fn weight_bytes(&self) -> usize {
        self.keeper.weight_bytes()
    }

    /// Bytes of weights and plans that are held now.
    pub fn held_bytes(&self) -> usize {
        self.keeper.held_bytes()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.keeper.counters()
    }

    /// Past steps looked at when [`ForecastOptions::context`] is `None`.
    pub fn default_context(&self) -> usize {
        self.default_context
    }

    /// Bytes of the plan that would serve one series of `context` steps and this many variates.
    ///
    /// # Errors
    /// The options are out of range, or sizes overflow.
    pub fn planned_bytes(&self, context: usize, variates: usize, options: &ForecastOptions) -> Result<usize> {
        options.check(self.patch_size())?;
        let patches = context.div_ceil(self.patch_size()).max(1);
        let group = Group { variates, exogenous: 0, known_future: false, patches };
        let results = self.path_bytes(variates, options).unwrap_or(usize::MAX);
        let work = self.keeper.at_work()?;
        let model = work.model();
        let bytes = |shape| model.resident().plan_bytes(&model.plan(shape)?.plan).map_err(Error::of_device);
        let limit = work.plan_limit(results, options.memory_limit)?;
        bytes(memory::fit(self.shape(group, 1, options), limit, bytes)?)
    }

    /// Forecasts every series on its own; each answer has the digits it would have alone.
    ///
    /// # Errors
    /// Options out of range, a series without values, or not enough memory.
    pub fn forecast(&mut self, series: &[Series], options: &ForecastOptions) -> Result<Vec<Forecast>> {
        self.forecast_with_progress(series, options, &mut |_, _| ())
    }

    /// As [`Self::forecast`]; `progress` hears how much of the work is done, as `(done, total)`.
    ///
    /// # Errors
    /// As [`Self::forecast`].
    pub fn forecast_with_progress(
        &mut self,
        series: &[Series],
        options: &ForecastOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Forecast>> {
        options.check(self.patch_size())?;
        let context = options.context.unwrap_or(self.default_context);
        let variates: usize = series.iter().map(Series::variates).sum();
        let results = memory::check_results(self.path_bytes(variates, options), options.memory_limit)?;
        let mut groups: BTreeMap<Group, Vec<(usize, Prepared)>> = BTreeMap::new();
        for (index, one) in series.iter().enumerate() {
            let prepared = prepare(one, context, self.patch_size())?;
            groups.entry(Group::of(one, prepared.patches)).or_default().push((index, prepared));
        }
        let samples = self.samples(options);
        let (mut done, total) = (0, series.len() * samples);
        let mut forecasts: Vec<Option<Forecast>> = series.iter().map(|_| None).collect();
        let mut work = self.keeper.at_work()?;
        let pool = Arc::clone(&work.model().pool);
        let mut room = work.room(results, options.memory_limit)?;
        for (group, members) in groups {
            let mut wanted = self.shape(group, members.len(), options);
            let mut rest = &members[..];
            while !rest.is_empty() {
                let (shape, ready, counters) = work.ready(wanted, &mut room)?;
                let (batch, behind) = rest.split_at(shape.capacity.batch.min(rest.len()));
                (wanted, rest) = (shape, behind);
                let chunks = samples.div_ceil(shape.capacity.samples) as u64;
                let before = ready.executable.activity();
                let run = Run { series, batch, options, shape, samples, pool: &pool };
                let answers = run.forecast(ready, self.config.head.components(), &mut |paths| {
                    done += paths;
                    progress(done, total);
                })?;
                counters.add(before, ready.executable.activity());
                let plan = ready.executable.plan();
                counters.operations_run += plan.operations(Section::Prefill).len() as u64
                    + chunks * plan.operations(Section::Decode).len() as u64;
                for ((index, _), answer) in batch.iter().zip(answers) {
                    forecasts[*index] = Some(answer);
                }
            }
        }
        Ok(forecasts.into_iter().map(|forecast| forecast.expect("every series belongs to one group")).collect())
    }

    fn patch_size(&self) -> usize {
        self.config.patch_size
    }

    /// Paths of every series: 1 where nothing is sampled.
    fn samples(&self, options: &ForecastOptions) -> usize {
        let sampled = options.decode == Decode::Sample && !options.is_exact(self.patch_size());
        if sampled { options.samples.unwrap_or(DEFAULT_SAMPLES) } else { 1 }
    }

    /// Bytes of the answer's paths for this many variates; `None` where they overflow.
    pub fn path_bytes(&self, variates: usize, options: &ForecastOptions) -> Option<usize> {
        let values = variates.checked_mul(self.samples(options))?.checked_mul(options.horizon)?;
        values.checked_mul(size_of::<f32>())
    }

    /// Whether the device solves for quantiles.
    fn solves(&self, decode: forward::Decode) -> bool {
        decode == forward::Decode::Exact && self.config.head.components() <= MixtureQuantiles::MOST_COMPONENTS
    }

    /// The shape of a group as a whole, whether or not it fits.
    fn shape(&self, group: Group, batch: usize, options: &ForecastOptions) -> Shape {
        let decode = match options.decode {
            Decode::Mean => forward::Decode::Mean,
            Decode::Sample if options.is_exact(self.patch_size()) => forward::Decode::Exact,
            Decode::Sample => forward::Decode::Sample,
        };
        let sorted = decode == forward::Decode::Sample && !options.paths;
        let most_samples = if sorted { SortSamples::MOST_SAMPLES } else { usize::MAX };
        let samples = self.samples(options).min(most_samples);
        Shape {
            capacity: Live { batch: bucket(batch), context: bucket(group.patches), samples },
            variates: group.variates,
            exogenous: group.exogenous,
            known_future: group.known_future,
            horizon: options.horizon,
            decode,
            uncached_xpos: options.xpos == Xpos::Uncached,
            levels: if self.solves(decode) { options.quantiles.len() } else { 0 },
            sorted,
            observe: Observe::Nothing,
        }
    }
}

/// What series must share to run in one plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    variates: usize,
    exogenous: usize,
    known_future: bool,
    patches: usize,
}

impl Group {
    fn of(series: &Series, patches: usize) -> Self {
        Self {
            variates: series.variates(),
            exogenous: series.exogenous(),
            known_future: !series.future().is_empty(),
            patches,
        }
    }
}
