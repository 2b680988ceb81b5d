//! Models as forecasters of windows: many windows in one call, and of each forecast only what a backtest keeps.

use super::{History, Prediction, Predictor, Price, Question, Symbol};
use crate::forecast::VariateForecast;
use crate::forecaster::DEFAULT_SAMPLES;
use crate::{Aggregation, CandleForecaster, CandleOptions, Error, Forecast, ForecastOptions, Forecaster, Result};

/// Context of a Toto model in a backtest, where nobody says otherwise.
pub const DEFAULT_CONTEXT: usize = 512;

/// Forecasts of one call are at most so large; longer lists of windows take a few calls, with the same digits.
const CALL_BYTES: usize = 256 << 20;
/// Windows of one call are at most so many: what they need beside their forecasts is bounded, too.
const CALL_WINDOWS: usize = 512;
/// A distribution that is no sample takes this much for each step.
const MIXTURE_BYTES: usize = 1024;

/// How a model forecasts one symbol.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<Options> {
    /// Options of the forecaster; the horizon is that of the backtest.
    pub options: Options,
    /// The point forecast.
    pub point: Aggregation,
}

/// Answers how a symbol of this name is forecast.
pub type Asks<Options> = Box<dyn Fn(&str) -> Ask<Options>>;

/// A model that forecasts windows: [`SeriesPredictor`], [`CandlePredictor`].
pub struct ModelPredictor<Model, Options> {
    name: String,
    forecaster: Model,
    asks: Asks<Options>,
}

/// A Toto model. Closes are forecast alone, and highs and lows, where they are needed, as series of their own: every window
/// has the digits of [`Forecaster::forecast`] of the same column that ends where the window does.
pub type SeriesPredictor = ModelPredictor<Forecaster, ForecastOptions>;

/// A Kronos model: every window has the digits of [`CandleForecaster::forecast`] of the bars before it.
pub type CandlePredictor = ModelPredictor<CandleForecaster, CandleOptions>;

impl<Model, Options> ModelPredictor<Model, Options> {
    /// A model under a name.
    pub fn new(name: impl Into<String>, forecaster: Model, asks: Asks<Options>) -> Self {
        Self { name: name.into(), forecaster, asks }
    }

    /// Asks differently from now on.
    pub fn ask(&mut self, asks: Asks<Options>) {
        self.asks = asks;
    }

    /// The model.
    pub fn forecaster(&self) -> &Model {
        &self.forecaster
    }
}

impl Predictor for SeriesPredictor {
    fn name(&self) -> &str {
        &self.name
    }

    fn context(&self, symbol: &Symbol, _: usize) -> usize {
        (self.asks)(symbol.name()).options.context.unwrap_or(DEFAULT_CONTEXT)
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let forecaster = &mut self.forecaster;
        in_calls(windows, &self.asks, progress, |windows, ask, progress| {
            let mut options = ask.options.clone();
            options.horizon = question.horizon;
            let context = options.context.unwrap_or(DEFAULT_CONTEXT);
            options.context = Some(context);
            options.quantiles.extend(question.levels.iter().copied().chain(ask.point.level()));
            let prices: &[Price] = match question.high_and_low && windows.iter().all(History::is_candle) {
                true => &[Price::Close, Price::High, Price::Low],
                false => &[Price::Close],
            };
            let samples = options.samples.unwrap_or(DEFAULT_SAMPLES);
            let each = forecast_bytes(question.horizon, samples, prices.len());
            in_pieces(windows, each, options.memory_limit, progress, |windows, progress| {
                let series = |window: &History<'_>| {
                    prices.iter().map(|price| window.series(*price, context)).collect::<Vec<_>>()
                };
                let series = windows.iter().flat_map(series).collect::<Result<Vec<_>>>()?;
                let forecasts = forecaster.forecast_with_progress(&series, &options, progress)?;
                let answers: Vec<&[Forecast]> = forecasts.chunks(prices.len()).collect();
                in_parallel(&answers, |answer| {
                    let variate = |place: usize| answer.get(place).map(|forecast| &forecast.variates()[0]);
                    reduce([variate(0), None, variate(1), variate(2)], &ask.point, question)
                })
            })
        })
    }
}

impl Predictor for CandlePredictor {
    fn name(&self) -> &str {
        &self.name
    }

    fn context(&self, symbol: &Symbol, horizon: usize) -> usize {
        self.forecaster.context(&CandleOptions { horizon, ..(self.asks)(symbol.name()).options })
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let forecaster = &mut self.forecaster;
        in_calls(windows, &self.asks, progress, |windows, ask, progress| {
            let options = CandleOptions { horizon: question.horizon, ..ask.options.clone() };
            let context = forecaster.context(&options);
            let each = forecast_bytes(question.horizon, options.paths(), 6);
            in_pieces(windows, each, options.memory_limit, progress, |windows, progress| {
                let candles = windows.iter().map(|window| window.candles(context, question.horizon));
                let candles = candles.collect::<Result<Vec<_>>>()?;
                let forecasts = forecaster.forecast_with_progress(&candles, &options, progress)?;
                in_parallel(&forecasts, |forecast| {
                    let field = |name: &str| forecast.variate(name);
                    reduce([field("close"), field("open"), field("high"), field("low")], &ask.point, question)
                })
            })
        })
    }
}

/// Bytes of the forecast of one window, generously.
fn forecast_bytes(horizon: usize, samples: usize, fields: usize) -> usize {
    let step = samples.saturating_mul(size_of::<f32>()).max(MIXTURE_BYTES);
    horizon.saturating_mul(fields).saturating_mul(step)
}

/// Forecasts the windows of the symbols that are asked alike together, whatever their order.
fn in_calls<Options: PartialEq>(
    windows: &[History<'_>],
    asks: &Asks<Options>,
    progress: &mut dyn FnMut(usize, usize),
    mut forecast: impl FnMut(&[History<'_>], &Ask<Options>, &mut dyn FnMut(usize)) -> Result<Vec<Prediction>>,
) -> Result<Vec<Prediction>> {
    let mut groups: Vec<(Ask<Options>, Vec<usize>)> = Vec::new();
    for symbol in windows.chunk_by(|a, b| a.name() == b.name()) {
        let ask = asks(symbol[0].name());
        let first = groups.iter().map(|(_, members)| members.len()).sum::<usize>();
        let members = first..first + symbol.len();
        match groups.iter_mut().find(|(other, _)| *other == ask) {
            Some((_, group)) => group.extend(members),
            None => groups.push((ask, members.collect())),
        }
    }
    let mut predictions: Vec<Option<Prediction>> = windows.iter().map(|_| None).collect();
    let mut done = 0;
    for (ask, members) in groups {
        let group: Vec<History<'_>> = members.iter().map(|&place| windows[place]).collect();
        let answers = forecast(&group, &ask, &mut |of_group| progress(done + of_group, windows.len()))?;
        done += group.len();
        members.into_iter().zip(answers).for_each(|(place, answer)| predictions[place] = Some(answer));
    }
    Ok(predictions.into_iter().map(|prediction| prediction.expect("every window belongs to one group")).collect())
}

/// Forecasts as many windows at a time as bounded memory allows.
fn in_pieces(
    windows: &[History<'_>],
    bytes_of_each: usize,
    limit: Option<usize>,
    progress: &mut dyn FnMut(usize),
    mut forecast: impl FnMut(&[History<'_>], &mut dyn FnMut(usize, usize)) -> Result<Vec<Prediction>>,
) -> Result<Vec<Prediction>> {
    let bytes = limit.map_or(CALL_BYTES, |limit| CALL_BYTES.min(limit / 4));
    let piece = (bytes / bytes_of_each.max(1)).clamp(1, CALL_WINDOWS);
    let mut predictions = Vec::with_capacity(windows.len());
    for part in windows.chunks(piece) {
        let before = predictions.len();
        let mut inside = |done: usize, total: usize| progress(before + done * part.len() / total.max(1));
        predictions.extend(forecast(part, &mut inside)?);
    }
    Ok(predictions)
}

/// Applies a function to every item on all cores, in order.
fn in_parallel<Item: Sync, Answer: Send>(
    items: &[Item],
    function: impl Fn(&Item) -> Result<Answer> + Sync,
) -> Result<Vec<Answer>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = items
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().map(&function).collect::<Result<Vec<Answer>>>()))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<Answer>>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(workers.into_iter().map(join).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// What is kept of the forecasts of close, open, high and low.
fn reduce(fields: [Option<&VariateForecast>; 4], rule: &Aggregation, question: &Question) -> Result<Prediction> {
    let [close, open, high, low] = fields;
    let Some(close) = close else { return Err(Error::Data("a forecast has no close".into())) };
    let point = |field: Option<&VariateForecast>| field.map(|field| field.point(rule)).transpose();
    let levels = question.levels.iter().map(|&level| Aggregation::Quantile(level));
    let mut numbers = close.points(&std::iter::once(*rule).chain(levels).collect::<Vec<_>>())?;
    let quantiles = numbers.split_off(1);
    Ok(Prediction {
        close: numbers.swap_remove(0),
        quantiles,
        open: point(open)?,
        high: if question.high_and_low { point(high)? } else { None },
        low: if question.high_and_low { point(low)? } else { None },
    })
}
