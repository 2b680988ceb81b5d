//! What a caller asks of a forecast of candles.

use nowcast_engine::token_sampling::{Filter, TokenSampling};

use crate::kronos::Window;
use crate::{Error, Result};

/// Sample paths drawn when nobody says how many.
pub const DEFAULT_PATHS: usize = 30;

/// Most sample paths of one forecast: the sample index is one 32-bit word of the random key.
const MOST_SAMPLES: usize = 1 << 24;

/// One request. Start from [`CandleOptions::new`] and change what matters; the defaults of temperature, top-p and clip
/// are those of the reference's `KronosPredictor.predict`.
///
/// ```
/// let mut options = nowcast::CandleOptions::new(24);
/// options.samples = Some(100);
/// options.temperature = 0.6;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CandleOptions {
    /// Candles to forecast.
    pub horizon: usize,
    /// Greatest number of past candles to look at (and to normalise by); `None` takes as many as leave the window room
    /// for the horizon, so that it does not slide, but at least half of the window.
    pub context: Option<usize>,
    /// Tokens in the model's window, `max_context` of the reference; `None` takes what suits the model.
    pub max_context: Option<usize>,
    /// Sample paths; `None` draws [`DEFAULT_PATHS`].
    pub samples: Option<usize>,
    /// Seed of the random numbers: the same seed gives the same digits.
    pub seed: u64,
    /// Divides the logits; `T` of the reference.
    pub temperature: f64,
    /// Keeps only the most probable tokens, this many; 0 keeps all, 1 always takes the most probable.
    pub top_k: usize,
    /// Keeps the most probable tokens up to this cumulative probability; 1 keeps all.
    pub top_p: f64,
    /// What happens where top-k and top-p are both on.
    pub filter: Filter,
    /// Normalised values beyond this are clipped.
    pub clip: f64,
    /// What happens to tokens older than the window.
    pub window: Window,
    /// Mend candles no market could print: high and low made to enclose open and close, no negative volume.
    pub repair: bool,
    /// Most bytes that weights, plan and results may take together.
    pub memory_limit: Option<usize>,
}

impl CandleOptions {
    /// Defaults for a horizon.
    pub fn new(horizon: usize) -> Self {
        Self {
            horizon,
            context: None,
            max_context: None,
            samples: None,
            seed: 0,
            temperature: 1.0,
            top_k: 0,
            top_p: 0.9,
            filter: Filter::default(),
            clip: 5.0,
            window: Window::default(),
            repair: false,
            memory_limit: None,
        }
    }

    /// Sample paths of every market.
    pub fn paths(&self) -> usize {
        self.samples.unwrap_or(DEFAULT_PATHS)
    }

    /// How tokens are drawn.
    pub(super) fn token_sampling(&self) -> TokenSampling {
        let Self { temperature, top_k, top_p, filter, .. } = *self;
        TokenSampling { temperature: temperature as f32, top_k, top_p, filter }
    }

    pub(crate) fn check(&self, max_context: usize) -> Result<()> {
        let fault = |message: String| Err(Error::Setting(message));
        if max_context == 0 || max_context > MOST_CONTEXT {
            return fault(format!("the window is {max_context} tokens: choose 1 to {MOST_CONTEXT}"));
        }
        if self.horizon == 0 || self.horizon > max_context {
            return fault(format!(
                "the horizon is {}: choose 1 to {max_context} candles, as many as the model's window holds",
                self.horizon
            ));
        }
        if self.context == Some(0) {
            return fault("the context is 0: give at least 1 past candle".into());
        }
        if self.samples.is_some_and(|samples| samples == 0 || samples > MOST_SAMPLES) {
            return fault(format!("{} samples: choose 1 to {MOST_SAMPLES}", self.paths()));
        }
        let temperature = self.temperature as f32;
        if !temperature.is_normal() || temperature < 0.0 {
            let cure = "choose a number above 0, such as 0.6 (or --top-k 1 for always the most probable token)";
            return fault(format!("the temperature is {}: {cure}", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return fault(format!("top_p is {}: choose a number above 0 and up to 1", self.top_p));
        }
        if !(self.clip > 0.0 && (self.clip as f32).is_finite()) {
            return fault(format!("the clip is {}: choose a number above 0, such as 5", self.clip));
        }
        Ok(())
    }
}

/// Twice the longest of the published models; every step of a sliding window is a part of the plan.
const MOST_CONTEXT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_named_with_what_is_allowed() {
        type Change = fn(&mut CandleOptions);
        let wrong: [(&str, Change); 10] = [
            ("horizon", |options| options.horizon = 0),
            ("horizon", |options| options.horizon = 513),
            ("context", |options| options.context = Some(0)),
            ("samples", |options| options.samples = Some(0)),
            ("temperature", |options| options.temperature = 0.0),
            ("temperature", |options| options.temperature = f64::NAN),
            ("temperature", |options| options.temperature = 1e-45),
            ("top_p", |options| options.top_p = 0.0),
            ("top_p", |options| options.top_p = 1.01),
            ("clip", |options| options.clip = -5.0),
        ];
        assert!(CandleOptions::new(512).check(512).is_ok());
        for (name, change) in wrong {
            let mut options = CandleOptions::new(24);
            change(&mut options);
            let error = options.check(512).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains('\n'), "{error}");
        }
    }
}
