//! What a caller asks of a forecast.

use crate::forecast::check_level;
use crate::{Error, Result};

/// Sample paths drawn when nobody says how many.
pub const DEFAULT_SAMPLES: usize = 256;

/// Most patches a forecast decodes: every decoded patch is part of the plan.
pub(super) const MOST_DECODED_PATCHES: usize = 1024;

/// Most sample paths of one forecast: the sample index is one 32-bit word of the random key.
pub(super) const MOST_SAMPLES: usize = 1 << 24;

/// What is fed back from patch to patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Decode {
    /// Samples; or nothing at all when the horizon fits one patch and the exact mixture answers.
    #[default]
    Sample,
    /// The mean of the mixture, one path (the reference's `num_samples=None`).
    Mean,
}

/// Where xPos is anchored while decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Xpos {
    /// At each call's own middle, as the reference's default with its KV cache.
    #[default]
    Cached,
    /// At the context's middle throughout, as in training (the reference's `use_kv_cache=False`).
    Uncached,
}

/// One request. Start from [`ForecastOptions::new`] and change what matters.
///
/// ```
/// let mut options = nowcast::ForecastOptions::new(24);
/// options.samples = Some(512);
/// options.seed = 7;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ForecastOptions {
    /// Steps to forecast.
    pub horizon: usize,
    /// Greatest number of past steps to look at; `None` takes what suits the model.
    pub context: Option<usize>,
    /// Sample paths; `None` answers exactly where that is possible, and draws [`DEFAULT_SAMPLES`] elsewhere.
    pub samples: Option<usize>,
    /// Keep the sample paths (and therefore sample even where the exact mixture would do). Otherwise the samples of each
    /// step are left, sorted by the device.
    pub paths: bool,
    /// Levels whose quantiles the device solves along with the forecast where the exact mixture answers; the host solves
    /// others when they are asked for.
    pub quantiles: Vec<f64>,
    /// Seed of the random numbers: the same seed gives the same digits.
    pub seed: u64,
    /// What is fed back.
    pub decode: Decode,
    /// Where xPos is anchored.
    pub xpos: Xpos,
    /// Most bytes that weights, plan and results may take together.
    pub memory_limit: Option<usize>,
}

impl ForecastOptions {
    /// Defaults for a horizon.
    pub fn new(horizon: usize) -> Self {
        Self {
            horizon,
            context: None,
            samples: None,
            paths: false,
            quantiles: Vec::new(),
            seed: 0,
            decode: Decode::default(),
            xpos: Xpos::default(),
            memory_limit: None,
        }
    }

    pub(crate) fn check(&self, patch_size: usize) -> Result<()> {
        let most = MOST_DECODED_PATCHES.saturating_mul(patch_size);
        if self.horizon == 0 || self.horizon > most {
            return Err(Error::Setting(format!("the horizon is {}: choose 1 to {most} steps", self.horizon)));
        }
        if self.context == Some(0) {
            return Err(Error::Setting("the context is 0: give at least 1 past step".into()));
        }
        self.quantiles.iter().try_for_each(|&level| check_level(level))?;
        match self.samples {
            Some(samples) if samples == 0 || samples > MOST_SAMPLES => {
                Err(Error::Setting(format!("{samples} samples: choose 1 to {MOST_SAMPLES}")))
            }
            Some(_) if self.decode == Decode::Mean => {
                Err(Error::Setting("the mean decode has no samples: leave out one of the two".into()))
            }
            _ if self.paths && self.decode == Decode::Mean => {
                Err(Error::Setting("the mean decode has no sample paths: use the sample decode".into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether the mixture of the first patch answers without sampling.
    pub(super) fn is_exact(&self, patch_size: usize) -> bool {
        self.decode == Decode::Sample && self.samples.is_none() && !self.paths && self.horizon <= patch_size
    }
}
