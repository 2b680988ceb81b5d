//! A model at work: alone, compared with its unfused self on the CPU, and together with others in little memory.

use std::sync::Arc;

use jiff::civil::date;
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::Device;

use crate::candles::CandleColumns;
use crate::family::Located;
use crate::forecast::Forecast;
use crate::{
    CandleForecaster, CandleOptions, Candles, Decode, Error, ForecastOptions, Forecaster, MemoryBudget, Result, Series,
    kronos, toto,
};

/// Bars and steps of the candles that are forecast.
const BARS: (usize, usize) = (40, 4);
/// Patches of the series that is forecast.
const PATCHES: usize = 4;
const SAMPLES: usize = 16;
const ROUNDS: usize = 3;

/// A model on a device.
pub(super) enum Loaded {
    Series(Forecaster),
    Candles(CandleForecaster),
}

impl Loaded {
    pub(super) fn load(source: &Located, device: Arc<dyn Device>, eager: bool) -> Result<Self> {
        match source {
            Located::Toto(source) => {
                let options = toto::LoadOptions { eager, ..toto::LoadOptions::default() };
                Forecaster::load_with(source, device, options).map(Self::Series)
            }
            Located::Kronos(source) => {
                let options = kronos::LoadOptions { eager, ..kronos::LoadOptions::default() };
                CandleForecaster::load_with(source, device, options).map(Self::Candles)
            }
        }
    }

    fn with_budget(self, budget: &MemoryBudget) -> Result<Self> {
        match self {
            Self::Series(forecaster) => forecaster.with_budget(budget).map(Self::Series),
            Self::Candles(forecaster) => forecaster.with_budget(budget).map(Self::Candles),
        }
    }

    /// What has nothing of chance: the mean path, or the likeliest tokens.
    pub(super) fn certain(&mut self) -> Result<Vec<Forecast>> {
        match self {
            Self::Series(forecaster) => {
                let mut options = Self::series_options(forecaster);
                (options.decode, options.paths) = (Decode::Mean, false);
                forecaster.forecast(&[series(forecaster)?], &options)
            }
            Self::Candles(forecaster) => {
                let mut options = CandleOptions::new(BARS.1);
                (options.top_k, options.samples) = (1, Some(1));
                forecaster.forecast(&[market()?], &options)
            }
        }
    }

    /// Sample paths.
    fn sampled(&mut self) -> Result<Vec<Forecast>> {
        match self {
            Self::Series(forecaster) => {
                let mut options = Self::series_options(forecaster);
                options.samples = Some(SAMPLES);
                forecaster.forecast(&[series(forecaster)?], &options)
            }
            Self::Candles(forecaster) => {
                let mut options = CandleOptions::new(BARS.1);
                options.samples = Some(SAMPLES);
                forecaster.forecast(&[market()?], &options)
            }
        }
    }

    /// Two patches, so that the first is fed back.
    fn series_options(forecaster: &Forecaster) -> ForecastOptions {
        let mut options = ForecastOptions::new(forecaster.config().patch_size * 3 / 2 + 1);
        options.paths = true;
        options
    }

    fn weight_bytes(&self) -> usize {
        match self {
            Self::Series(forecaster) => forecaster.weight_bytes(),
            Self::Candles(forecaster) => forecaster.weight_bytes(),
        }
    }

    fn planned_bytes(&self) -> usize {
        match self {
            Self::Series(forecaster) => forecaster.counters().planned_bytes,
            Self::Candles(forecaster) => forecaster.counters().planned_bytes,
        }
    }

    /// How far two ways to compute a forecast may lie apart, in parts of its spread: each layer rounds sums of as many
    /// terms as its hidden rows are wide, whose errors grow as the root of their number, and every step goes through
    /// all layers again.
    fn tolerance(&self) -> f64 {
        let (layers, hidden) = match self {
            Self::Series(forecaster) => (forecaster.config().layers.len(), forecaster.config().mlp_hidden),
            Self::Candles(forecaster) => {
                let (coder, model) = (forecaster.tokenizer_config(), forecaster.predictor_config());
                let layers = coder.encoder_blocks + model.blocks + coder.decoder_blocks;
                (layers, coder.transformer.hidden.max(model.transformer.hidden))
            }
        };
        let steps = if matches!(self, Self::Series(_)) { 2 } else { BARS.1 };
        16.0 * (layers * steps) as f64 * (hidden as f64).sqrt() * f64::from(f32::EPSILON)
    }
}

/// A wave with a trend.
fn wave(length: usize) -> Vec<f64> {
    (0..length).map(|step| 100.0 + (step as f64 / 7.0).sin() * 3.0 + step as f64 / 50.0).collect()
}

fn series(forecaster: &Forecaster) -> Result<Series> {
    let values = wave(PATCHES * forecaster.config().patch_size);
    Series::new("wave", values.into_iter().map(|value| value as f32).collect())
}

fn market() -> Result<Candles> {
    let close = wave(BARS.0);
    let shifted = |shift: f64| close.iter().map(|value| value + shift).collect();
    let (open, high, low) = (shifted(0.1), shifted(0.5), shifted(-0.5));
    let day = |day: usize| date(2024, 1, 1).at(0, 0, 0, 0) + jiff::Span::new().days(day as i64);
    let columns = CandleColumns { open, high, low, close, volume: None, amount: None };
    Candles::new("wave", columns, (0..BARS.0).map(day).collect(), (BARS.0..BARS.0 + BARS.1).map(day).collect())
}

/// Every digit of the paths.
fn digits(forecasts: &[Forecast]) -> Vec<u32> {
    let variates = forecasts.iter().flat_map(Forecast::variates);
    variates.filter_map(|variate| variate.paths()).flatten().flatten().map(|value| value.to_bits()).collect()
}

/// A model that does its work alone.
pub(super) struct Alone<'a> {
    pub(super) name: &'a str,
    source: &'a Located,
    digits: Vec<u32>,
    weights: usize,
    plan: usize,
}

impl<'a> Alone<'a> {
    /// Compares a model on the device with its unfused self on the CPU, and with itself.
    pub(super) fn examine(name: &'a str, source: &'a Located, device: &Arc<dyn Device>) -> Result<Self> {
        let mut model = Loaded::load(source, Arc::clone(device), false)?;
        let found = model.certain()?;
        let expected = Loaded::load(source, Arc::new(CpuDevice::new(None)), true)?.certain()?;
        compare(&found, &expected, model.tolerance())?;
        let digits_once = digits(&model.sampled()?);
        if digits(&model.sampled()?) != digits_once {
            return Err(Error::Device("the same seed gives other digits the second time".into()));
        }
        let (weights, plan) = (model.weight_bytes(), model.planned_bytes());
        Ok(Self { name, source, digits: digits_once, weights, plan })
    }
}

fn compare(found: &[Forecast], expected: &[Forecast], tolerance: f64) -> Result<()> {
    let pairs = found.iter().flat_map(Forecast::variates).zip(expected.iter().flat_map(Forecast::variates));
    for (found, expected) in pairs {
        let (found_mean, expected_mean) = (found.mean(), expected.mean());
        let largest = expected_mean.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let limit = tolerance * largest;
        for (step, (x, y)) in expected_mean.iter().zip(&found_mean).enumerate() {
            if (x - y).is_nan() || (x - y).abs() > limit {
                return Err(Error::Device(format!(
                    "step {step} of {} is {y} where the unfused model on the CPU says {x} (limit {limit:.1e})",
                    found.name()
                )));
            }
        }
    }
    Ok(())
}

/// Models in turn, in memory for the weights of all and the plan of one.
pub(super) fn together(models: &[Alone<'_>], device: &Arc<dyn Device>) -> Result<()> {
    let weights: usize = models.iter().map(|model| model.weights).sum();
    let plan = models.iter().map(|model| model.plan + model.digits.len() * size_of::<f32>()).max().unwrap_or(0);
    let budget = MemoryBudget::new(weights + plan);
    let load = |model: &Alone<'_>| Loaded::load(model.source, Arc::clone(device), false)?.with_budget(&budget);
    let mut loaded = models.iter().map(load).collect::<Result<Vec<_>>>()?;
    for round in 1..=ROUNDS {
        for (model, loaded) in models.iter().zip(&mut loaded) {
            if digits(&loaded.sampled()?) != model.digits {
                return Err(Error::Device(format!("{} has other digits than alone, in round {round}", model.name)));
            }
            if budget.held() > budget.limit() {
                return Err(Error::Device(format!("the models hold {} of {} bytes", budget.held(), budget.limit())));
            }
        }
    }
    Ok(())
}
