//! Where the two halves of a Kronos model are.

use nowcast_engine::device::Device;

use super::config::{PredictorConfig, TokenizerConfig};
use super::{Half, Kronos, LoadOptions};
use crate::Result;
use crate::checkpoint::ModelSource;

/// The files of a model and of the tokenizer it was trained with.
#[derive(Debug, Clone, PartialEq)]
pub struct KronosSource {
    /// The tokenizer.
    pub tokenizer: ModelSource,
    /// The model itself.
    pub predictor: ModelSource,
}

impl KronosSource {
    /// Both architectures.
    ///
    /// # Errors
    /// A `config.json` cannot be read or does not describe its half.
    pub fn configs(&self) -> Result<(TokenizerConfig, PredictorConfig)> {
        let tokenizer = TokenizerConfig::from_json(&self.tokenizer.config()?)?;
        Ok((tokenizer, PredictorConfig::from_json(&self.predictor.config()?)?))
    }
}

impl Kronos {
    /// Opens both halves and loads them onto a device.
    ///
    /// # Errors
    /// As [`Kronos::load`], or a file cannot be opened.
    pub fn open(source: &KronosSource, device: &dyn Device, options: LoadOptions) -> Result<Self> {
        let (tokenizer, predictor) = source.configs()?;
        let (tokenizer_weights, predictor_weights) = (source.tokenizer.checkpoint()?, source.predictor.checkpoint()?);
        let tokenizer = Half { config: tokenizer, checkpoint: &tokenizer_weights };
        let predictor = Half { config: predictor, checkpoint: &predictor_weights };
        Self::load(tokenizer, predictor, device, options)
    }
}
