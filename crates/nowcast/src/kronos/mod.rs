//! Kronos: a decoder-only forecaster of candles, <https://arxiv.org/abs/2508.02739>.
//!
//! A tokenizer turns each candle (open, high, low, close, volume, amount) into a coarse and a fine token; a
//! transformer predicts the next pair, the fine token after the coarse one. Everything is as in the reference's
//! evaluation mode. Scripts that load the reference and forget `.eval()` run with dropout and with a causal mask
//! between the tokens that lets the fine one see the first candle only: their results differ.
//!
//! | file | what it owns |
//! |---|---|
//! | [`config`] | the two `config.json` |
//! | [`source`] | which folder or Hub name holds which half |
//! | `weights` | tensors by their published names, folded on the way to the device |
//! | `forward` | encoding, the generation loop, decoding, written down once as a plan |
//! | `blocks`, `embedding` | the pieces the loop is made of |
//! | `normalise` | from candles to the model's units and back |

mod blocks;
pub mod config;
mod embedding;
pub(crate) mod forward;
pub(crate) mod normalise;
mod observe;
pub mod source;
mod weights;

use std::sync::Arc;

use nowcast_engine::device::{Device, Resident};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::Plan;
use nowcast_engine::weights::WeightList;

use crate::checkpoint::Checkpoint;
use crate::forecaster::plans::{PlanShape, Planned};
use crate::weights::check_dtype;
use crate::{Error, Result};
use config::{PredictorConfig, TokenizerConfig};
pub use forward::Window;
pub use nowcast_engine::token_sampling::Filter;
pub use source::KronosSource;
use weights::{PredictorWeights, TIME_TABLES, TokenizerWeights};

/// How a checkpoint is brought onto a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Operation by operation, without folding or fusion: the accuracy baseline.
    pub eager: bool,
    /// In what numbers the predictor's weights are kept and multiplied; the tokenizer is f32 always, for a sign that
    /// flips is another token. The eager mode knows f32 only.
    pub dtype: Dtype,
}

/// A half of a model: its shape and its tensors.
pub struct Half<'a, C> {
    /// The architecture.
    pub config: C,
    /// The weights.
    pub checkpoint: &'a Checkpoint,
}

/// Tokenizer and predictor on a device.
pub struct Kronos {
    pub(crate) tokenizer_config: TokenizerConfig,
    pub(crate) predictor_config: PredictorConfig,
    pub(crate) options: LoadOptions,
    tokenizer: TokenizerWeights,
    predictor: PredictorWeights,
    pub(crate) resident: Arc<dyn Resident>,
}

/// How many values each time feature has.
pub(crate) fn time_entries() -> [usize; 5] {
    TIME_TABLES.map(|(_, entries)| entries)
}

impl Kronos {
    /// Loads both halves onto a device.
    ///
    /// # Errors
    /// A checkpoint does not fit its config or holds weights that are not finite, the halves do not belong together, or
    /// the device does not support the dtype or has no room.
    pub fn load(
        tokenizer: Half<'_, TokenizerConfig>,
        predictor: Half<'_, PredictorConfig>,
        device: &dyn Device,
        options: LoadOptions,
    ) -> Result<Self> {
        let (tokens, expected) = (tokenizer.config.bits, predictor.config.bits);
        if tokens != expected {
            return Err(Error::Checkpoint(format!(
                "the tokenizer makes tokens of {} + {} bits and the model reads {} + {}: name the model's own tokenizer",
                tokens.s1, tokens.s2, expected.s1, expected.s2
            )));
        }
        check_dtype(device, options.dtype, options.eager)?;
        let mut list = WeightList::default();
        let threads = device.host_threads();
        let predictor_weights =
            PredictorWeights::new(&predictor.config, predictor.checkpoint, options, threads, &mut list)?;
        let tokenizer_weights =
            TokenizerWeights::new(&tokenizer.config, tokenizer.checkpoint, options.eager, &mut list)?;
        let resident = device.load(list).map_err(Error::of_device)?;
        predictor.checkpoint.check_rows()?;
        tokenizer.checkpoint.check_rows()?;
        Ok(Self {
            tokenizer_config: tokenizer.config,
            predictor_config: predictor.config,
            options,
            tokenizer: tokenizer_weights,
            predictor: predictor_weights,
            resident,
        })
    }

    /// The tokenizer's architecture.
    pub fn tokenizer_config(&self) -> &TokenizerConfig {
        &self.tokenizer_config
    }

    /// The predictor's architecture.
    pub fn predictor_config(&self) -> &PredictorConfig {
        &self.predictor_config
    }

    /// Bytes the weights occupy on the device.
    pub fn weight_bytes(&self) -> usize {
        self.resident.bytes()
    }
}

impl Planned for Kronos {
    type Shape = forward::Shape;
    type Tensors = forward::KronosPlan;

    fn plan(&self, shape: Self::Shape) -> Result<Self::Tensors> {
        self.write_plan(shape)
    }

    fn of(tensors: &Self::Tensors) -> &Arc<Plan> {
        &tensors.plan
    }

    fn resident(&self) -> &Arc<dyn Resident> {
        &self.resident
    }
}

impl PlanShape for forward::Shape {
    fn capacity(&mut self) -> &mut Live {
        &mut self.capacity
    }

    fn rows_per_sample(&self) -> usize {
        1
    }
}
