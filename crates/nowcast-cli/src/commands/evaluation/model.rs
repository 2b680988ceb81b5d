//! A model of either family behind one face.

use nowcast::family::Located;
use nowcast::forecast::VariateForecast;
use nowcast::forecaster::{Counters, DEFAULT_PATHS, DEFAULT_SAMPLES};
use nowcast::{
    CandleForecaster, CandleOptions, Error, Forecast, ForecastOptions, Forecaster, ModelFamily, Result, kronos, toto,
};

use super::super::ways::Choice;
use super::Inputs;
use crate::arguments::{ModeName, RunArguments};
use crate::device::{self, Care};

/// Past steps where nobody says how many, if the model's window has room for them.
const CONTEXT: usize = 512;

/// A loaded model.
pub(in super::super) enum Model {
    Series(Forecaster),
    /// With what is asked of every forecast.
    Candles(CandleForecaster, Box<CandleOptions>),
}

/// How the future is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Paths {
    /// By the mixture itself, without sampling.
    Exact,
    /// By this many sample paths.
    Sampled(usize),
}

impl Model {
    /// Loads a model as one mode, dtype and device run it.
    pub(in super::super) fn load(located: &Located, run: &RunArguments, choice: &Choice) -> Result<Self> {
        let (device, mode) =
            device::open(&choice.device, run.threads, Some(choice.mode), Care { poison: false, sync: run.sync })?;
        let (eager, dtype) = (mode == ModeName::Eager, choice.dtype.into());
        match located {
            Located::Toto(source) => {
                let options = toto::LoadOptions { eager, variate_labels: run.variate_labels, dtype };
                Ok(Self::Series(Forecaster::load_with(source, device, options)?))
            }
            Located::Kronos(source) => {
                let options = kronos::LoadOptions { eager, dtype };
                let forecaster = CandleForecaster::load_with(source, device, options)?;
                Ok(Self::Candles(forecaster, Box::new(CandleOptions::new(1))))
            }
        }
    }

    /// What is asked of every forecast of candles; nothing to a model of series.
    pub(in super::super) fn set_candle_options(&mut self, options: CandleOptions) {
        if let Self::Candles(_, kept) = self {
            **kept = options;
        }
    }

    pub(in super::super) fn family(&self) -> ModelFamily {
        match self {
            Self::Series(_) => ModelFamily::Toto,
            Self::Candles(..) => ModelFamily::Kronos,
        }
    }

    /// Past steps where nobody says how many.
    pub(in super::super) fn context(&self, horizon: usize) -> usize {
        match self {
            Self::Series(_) => CONTEXT,
            Self::Candles(forecaster, _) => forecaster.context(&CandleOptions::new(horizon)).min(CONTEXT),
        }
    }

    /// Sample paths where nobody says how many.
    pub(in super::super) fn default_paths(&self) -> usize {
        match self {
            Self::Series(_) => DEFAULT_SAMPLES,
            Self::Candles(..) => DEFAULT_PATHS,
        }
    }

    /// Whether the mixture answers without sampling.
    pub(in super::super) fn is_exact(&self, horizon: usize) -> bool {
        match self {
            Self::Series(forecaster) => horizon <= forecaster.config().patch_size,
            Self::Candles(..) => false,
        }
    }

    /// A forecast for each input; of candles that of the close.
    pub(in super::super) fn forecast(
        &mut self,
        inputs: &Inputs,
        horizon: usize,
        paths: Paths,
        seed: u64,
        memory_limit: Option<usize>,
    ) -> Result<Vec<VariateForecast>> {
        let samples = match paths {
            Paths::Exact => None,
            Paths::Sampled(samples) => Some(samples),
        };
        let (forecasts, variate) = match (self, inputs) {
            (Self::Series(forecaster), Inputs::Series(series)) => {
                let mut options = ForecastOptions::new(horizon);
                (options.samples, options.seed, options.memory_limit) = (samples, seed, memory_limit);
                options.context = series.iter().map(nowcast::Series::length).max();
                (forecaster.forecast(series, &options)?, 0)
            }
            (Self::Candles(forecaster, options), Inputs::Candles(markets)) => {
                options.horizon = horizon;
                (options.samples, options.seed, options.memory_limit) = (samples, seed, memory_limit);
                options.context = markets.iter().map(nowcast::Candles::len).max();
                (forecaster.forecast(markets, options)?, super::super::input::CLOSE)
            }
            _ => return Err(Error::Data("the windows were cut for a model of the other family".into())),
        };
        Ok(forecasts
            .into_iter()
            .map(Forecast::into_variates)
            .map(|mut variates| variates.swap_remove(variate))
            .collect())
    }

    pub(in super::super) fn counters(&self) -> Counters {
        match self {
            Self::Series(forecaster) => forecaster.counters(),
            Self::Candles(forecaster, _) => forecaster.counters(),
        }
    }

    pub(in super::super) fn weight_bytes(&self) -> usize {
        match self {
            Self::Series(forecaster) => forecaster.weight_bytes(),
            Self::Candles(forecaster, _) => forecaster.weight_bytes(),
        }
    }
}
