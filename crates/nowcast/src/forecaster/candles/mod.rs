//! Kronos' way of the data: candles are normalised by their own context, turned into tokens, continued path by path,
//! and answered field by field.

mod options;
pub(crate) mod prepare;

use std::collections::BTreeMap;
use std::sync::Arc;

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::Live;
use nowcast_engine::plan::Section;

pub use options::{CandleOptions, DEFAULT_PATHS};

use super::budget::MemoryBudget;
use super::keeper::Keeper;
use super::plans::{Observe, Planned, Ready, bucket};
use super::{Counters, memory};
use crate::candles::{Candles, repair_forecast};
use crate::checkpoint::HubOptions;
use crate::family::{Located, locate};
use crate::forecast::{Distribution, Forecast, VariateForecast};
use crate::kronos::config::{CANDLE_FIELDS, PredictorConfig, TokenizerConfig};
use crate::kronos::forward::Shape;
use crate::kronos::{Kronos, KronosSource, LoadOptions};
use crate::{Error, Result};
use prepare::{Prepared, prepare};

/// A Kronos model ready to forecast candles.
///
/// ```
/// use nowcast::candles::{CandleColumns, Candles};
/// use nowcast::{CandleForecaster, CandleOptions};
///
/// # fn main() -> nowcast::Result<()> {
/// # let day = |day: i64| jiff::civil::date(2024, 1, 1).at(0, 0, 0, 0) + jiff::Span::new().days(day);
/// # let close: Vec<f64> = (0..100).map(|day| 100.0 + (f64::from(day) / 7.0).sin()).collect();
/// # let [open, high, low] = [0.0, 0.5, -0.5].map(|shift| close.iter().map(|value| value + shift).collect());
/// let columns = CandleColumns { open, high, low, close, volume: None, amount: None };
/// let market = Candles::new("example", columns, (0..100).map(day).collect(), (100..108).map(day).collect())?;
/// let mut forecaster = CandleForecaster::load("kronos-nano")?;
/// let forecasts = forecaster.forecast(&[market], &CandleOptions::new(8))?;
/// let close = forecasts[0].variate("close").expect("one variate for each field");
/// println!("mean {:?}, 80% interval {:?} to {:?}", close.mean(), close.quantile(0.1)?, close.quantile(0.9)?);
/// # assert!(close.quantile(0.9)?.iter().zip(close.quantile(0.1)?).all(|(high, low)| *high >= low));
/// # Ok(())
/// # }
/// ```
pub struct CandleForecaster {
    tokenizer: TokenizerConfig,
    predictor: PredictorConfig,
    keeper: Keeper<Kronos>,
}

impl CandleForecaster {
    /// Loads a model onto the CPU: `kronos-nano`, a directory, or the id of a Hugging Face repository, whose tokenizer
    /// is found by itself.
    ///
    /// # Errors
    /// The model cannot be found, is no Kronos model, or does not fit its config.
    pub fn load(model: &str) -> Result<Self> {
        match locate(model, None, &HubOptions::from_environment(), &mut |_| ())? {
            Located::Kronos(source) => Self::load_with(&source, Arc::new(CpuDevice::new(None)), LoadOptions::default()),
            Located::Toto(_) => Err(Error::Setting(format!(
                "{model} is a Toto model, which forecasts series: load it with Forecaster, or name a Kronos model"
            ))),
        }
    }

    /// Loads a model onto a device.
    ///
    /// # Errors
    /// A checkpoint does not fit its config, or the device has no room for it.
    pub fn load_with(source: &KronosSource, device: Arc<dyn Device>, options: LoadOptions) -> Result<Self> {
        let (tokenizer, predictor) = source.configs()?;
        let source = source.clone();
        let load = move || Kronos::open(&source, &*device, options);
        Ok(Self { tokenizer, predictor, keeper: Keeper::new(Box::new(load))? })
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

    /// The tokenizer's architecture.
    pub fn tokenizer_config(&self) -> &TokenizerConfig {
        &self.tokenizer
    }

    /// The predictor's architecture.
    pub fn predictor_config(&self) -> &PredictorConfig {
        &self.predictor
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

    /// Tokens in the window when [`CandleOptions::max_context`] is `None`.
    pub fn max_context(&self) -> usize {
        self.predictor.default_max_context()
    }

    /// Past candles looked at: those asked for, else as many as leave the window room for the horizon, but at least half
    /// of the window.
    pub fn context(&self, options: &CandleOptions) -> usize {
        let window = options.max_context.unwrap_or(self.max_context());
        options.context.unwrap_or(window.saturating_sub(options.horizon).max(window / 2))
    }

    /// Bytes of the plan that would serve one market of `context` candles.
    ///
    /// # Errors
    /// The options are out of range, or sizes overflow.
    pub fn planned_bytes(&self, context: usize, options: &CandleOptions) -> Result<usize> {
        let window = self.window(options)?;
        let results = Self::path_bytes(1, options).unwrap_or(usize::MAX);
        let work = self.keeper.at_work()?;
        let model = work.model();
        let bytes = |shape| model.resident().plan_bytes(&model.plan(shape)?.plan).map_err(Error::of_device);
        let limit = work.plan_limit(results, options.memory_limit)?;
        bytes(memory::fit(Self::shape(context.max(1), 1, window, options), limit, bytes)?)
    }

    /// Bytes of the answer's paths for this many markets; `None` where they overflow.
    pub fn path_bytes(markets: usize, options: &CandleOptions) -> Option<usize> {
        let values = markets.checked_mul(options.paths())?.checked_mul(options.horizon)?.checked_mul(CANDLE_FIELDS)?;
        values.checked_mul(size_of::<f32>())
    }

    /// Forecasts every market on its own, whatever its length; each answer has the digits it would have alone. A
    /// forecast has six variates, named as [`Candles::FIELDS`], whose paths belong together.
    ///
    /// # Errors
    /// Options out of range, a market without future times, or not enough memory.
    pub fn forecast(&mut self, markets: &[Candles], options: &CandleOptions) -> Result<Vec<Forecast>> {
        self.forecast_with_progress(markets, options, &mut |_, _| ())
    }

    /// As [`Self::forecast`]; `progress` hears how much of the work is done, as `(done, total)`.
    ///
    /// # Errors
    /// As [`Self::forecast`].
    pub fn forecast_with_progress(
        &mut self,
        markets: &[Candles],
        options: &CandleOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Forecast>> {
        let window = self.window(options)?;
        let results = memory::check_results(Self::path_bytes(markets.len(), options), options.memory_limit)?;
        let context = self.context(options);
        let mut groups: BTreeMap<usize, Vec<(usize, Prepared)>> = BTreeMap::new();
        for (index, market) in markets.iter().enumerate() {
            let prepared = prepare(market, context, options.horizon, options.clip as f32)?;
            groups.entry(prepared.context).or_default().push((index, prepared));
        }
        let samples = options.paths();
        let (mut done, total) = (0, markets.len() * samples);
        let mut forecasts: Vec<Option<Forecast>> = markets.iter().map(|_| None).collect();
        let mut work = self.keeper.at_work()?;
        let mut room = work.room(results, options.memory_limit)?;
        for (context, members) in groups {
            let mut wanted = Self::shape(context, members.len(), window, options);
            let mut rest = &members[..];
            while !rest.is_empty() {
                let (shape, ready, counters) = work.ready(wanted, &mut room)?;
                let (batch, behind) = rest.split_at(shape.capacity.batch.min(rest.len()));
                (wanted, rest) = (shape, behind);
                let before = ready.executable.activity();
                let answers = Run { batch, options, shape }.forecast(ready, &mut |paths| {
                    done += paths;
                    progress(done, total);
                })?;
                counters.add(before, ready.executable.activity());
                let plan = ready.executable.plan();
                let chunks = samples.div_ceil(shape.capacity.samples) as u64;
                counters.operations_run += plan.operations(Section::Prefill).len() as u64
                    + chunks * plan.operations(Section::Decode).len() as u64;
                for ((index, _), answer) in batch.iter().zip(answers) {
                    forecasts[*index] = Some(answer?);
                }
            }
        }
        Ok(forecasts.into_iter().map(|forecast| forecast.expect("every market belongs to one group")).collect())
    }

    fn window(&self, options: &CandleOptions) -> Result<usize> {
        let window = options.max_context.unwrap_or(self.max_context());
        options.check(window)?;
        Ok(window)
    }

    /// The shape of markets of one length, whether or not it fits.
    fn shape(context: usize, batch: usize, max_context: usize, options: &CandleOptions) -> Shape {
        let slides = context + options.horizon > max_context;
        // A window that slides has a plan of its own for every length.
        let capacity = if slides { context } else { bucket(context).min(max_context - options.horizon) };
        Shape {
            capacity: Live { batch: bucket(batch), context: capacity, samples: options.paths() },
            horizon: options.horizon,
            max_context,
            window: options.window,
            observe: Observe::Nothing,
        }
    }
}

/// One batch on its way through a plan.
struct Run<'a> {
    batch: &'a [(usize, Prepared)],
    options: &'a CandleOptions,
    shape: Shape,
}

impl Run<'_> {
    fn forecast(&self, ready: &mut Ready<Kronos>, progress: &mut dyn FnMut(usize)) -> Result<Vec<Result<Forecast>>> {
        prepare::write(ready, self.batch.iter().map(|(_, prepared)| prepared));
        let (horizon, samples) = (self.options.horizon, self.options.paths());
        let live = Live { batch: self.batch.len(), context: self.batch[0].1.context, samples: 1 };
        let token_sampling = self.options.token_sampling();
        let mut launch = Launch { live, seed: self.options.seed, first_sample: 0, token_sampling };
        ready.run(Section::Prefill, &launch)?;
        let fields_of_market = || std::array::from_fn(|_| Vec::with_capacity(samples * horizon));
        let mut fields: Vec<[Vec<f32>; CANDLE_FIELDS]> = self.batch.iter().map(|_| fields_of_market()).collect();
        for first in (0..samples).step_by(self.shape.capacity.samples) {
            launch.live.samples = self.shape.capacity.samples.min(samples - first);
            launch.first_sample = first as u32;
            ready.run(Section::Decode, &launch)?;
            let (candles, _) = ready.executable.view(ready.tensors.output).as_chunks::<CANDLE_FIELDS>();
            let markets = candles.chunks(launch.live.samples * horizon).zip(&mut fields).zip(self.batch);
            for ((candles, fields), (_, Prepared { units, .. })) in markets {
                for (field, values) in fields.iter_mut().enumerate() {
                    values.extend(candles.iter().map(|candle| units.restore(field, candle[field].into()) as f32));
                }
            }
            progress(self.batch.len() * launch.live.samples);
        }
        let assemble = |fields: [Vec<f32>; CANDLE_FIELDS]| {
            let variate = |(name, values): (&str, Vec<f32>)| {
                VariateForecast::new(name, Distribution::Paths { samples, values: values.into() })
            };
            let forecast = Forecast::new(Candles::FIELDS.into_iter().zip(fields).map(variate).collect::<Result<_>>()?)?;
            if self.options.repair { repair_forecast(&forecast) } else { Ok(forecast) }
        };
        Ok(fields.into_iter().map(assemble).collect())
    }
}
