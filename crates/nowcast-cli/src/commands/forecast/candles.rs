//! Kronos: every file is a market.

use std::time::Instant;

use nowcast::candles::{Consistency, repair_forecast};
use nowcast::data::{Frequency, Stamp, Table};
use nowcast::kronos::KronosSource;
use nowcast::{Aggregation, CandleForecaster, CandleOptions, Candles, Error, Forecast, Result};
use nowcast_cli::output::{Answer, MarketForecast, Question, Timeline};
use nowcast_cli::plot;
use serde_json::json;

use super::{Took, note_stats};
use crate::arguments::{FilterName, ForecastArguments, ModeName, WindowName, spelled};
use crate::progress::Progress;
use crate::{device, model};

pub(super) fn forecast(
    arguments: &ForecastArguments,
    tables: &[Table],
    source: &KronosSource,
    stats: bool,
) -> Result<Answer> {
    let name = &arguments.model.model;
    model::refuse_series_flags(name, arguments.series.given(), &arguments.model.run)?;
    let options = options(arguments);
    let mut notes = Vec::new();
    let candles = tables.iter().map(|table| candles(arguments, table, &mut notes)).collect::<Result<Vec<_>>>()?;
    if arguments.plot.is_some() {
        plot::check_panels(candles.len())?;
    }
    let started = Instant::now();
    let (mut forecaster, mode) = model::load_candles(source, &arguments.model.run)?;
    let loaded = started.elapsed();
    let mut answer = Answer::new(question(arguments, &options, &candles, &forecaster, mode)?)?;
    answer.notes = notes;
    let started = Instant::now();
    let mut progress = Progress::new("forecasting");
    let forecasts =
        forecaster.forecast_with_progress(&candles, &options, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    for ((table, candles), forecast) in tables.iter().zip(&candles).zip(forecasts) {
        answer.push_market(market(arguments, table, candles, forecast)?)?;
    }
    let found: Vec<String> = answer.markets().iter().filter_map(|market| market.note()).collect();
    answer.notes.extend(found);
    let took = stats.then(|| Took::of(loaded, started));
    note_stats(&mut answer, forecaster.counters(), forecaster.weight_bytes(), took);
    Ok(answer)
}

/// The bars of a file, and what is to be said about them.
fn candles(arguments: &ForecastArguments, table: &Table, notes: &mut Vec<String>) -> Result<Candles> {
    let (candles, found) = match arguments.columns.is_empty() {
        true => Candles::from_table(table, arguments.horizon)?,
        false => Candles::from_chosen(table, arguments.horizon)?,
    };
    let sessions = match &table.frequency {
        Frequency::Sessions(sessions) if arguments.future_times.is_none() => {
            vec![format!("the bars to come are timed as the sessions seen ({sessions}); holidays need --future-times")]
        }
        _ => Vec::new(),
    };
    let all = table.notes.iter().cloned().chain(found).chain(sessions);
    notes.extend(all.map(|note| format!("{}: {note}", table.name)));
    Ok(candles)
}

fn options(arguments: &ForecastArguments) -> CandleOptions {
    let mut options = arguments.candles.options(arguments.horizon);
    options.context = arguments.context;
    options.samples = arguments.samples;
    options.seed = arguments.seed;
    options.memory_limit = arguments.model.run.memory_limit;
    options
}

/// The forecast of one market with its past; bars are counted before they are mended.
fn market(
    arguments: &ForecastArguments,
    table: &Table,
    candles: &Candles,
    forecast: Forecast,
) -> Result<MarketForecast> {
    let consistency = Consistency::of_forecast(&forecast, candles)?;
    let forecast = if arguments.mending.repair { repair_forecast(&forecast)? } else { forecast };
    let shown = plot::past_bars_shown(arguments.horizon).min(candles.len());
    let past = &candles.rows()[candles.len() - shown..];
    let history = std::array::from_fn(|field| past.iter().map(|row| row[field] as f32).collect());
    let name = candles.name().to_string();
    let timeline = timeline(table, candles, shown, arguments.horizon)?;
    Ok(MarketForecast { name, history, timeline, forecast, consistency, repaired: arguments.mending.repair })
}

/// The stamps of the last `shown` bars that were kept, and those of the bars to come as the file would write them.
fn timeline(table: &Table, candles: &Candles, shown: usize, horizon: usize) -> Result<Timeline> {
    let (Some(times), Some(future)) = (&table.times, table.future(horizon)) else {
        return Err(Error::Data(format!("{}: the times of the bars are not known", table.name)));
    };
    let past = candles.stamps()[candles.len() - shown..].iter().map(|clock| Stamp::civil(*clock));
    Ok(Timeline::Dated { stamps: past.chain(future).collect(), style: times.style.clone() })
}

fn question(
    arguments: &ForecastArguments,
    options: &CandleOptions,
    candles: &[Candles],
    forecaster: &CandleForecaster,
    mode: ModeName,
) -> Result<Question> {
    let context = forecaster.context(options);
    let longest = candles.iter().map(Candles::len).max().unwrap_or(0);
    let point = arguments.point.unwrap_or(Aggregation::Mean);
    let run = &arguments.model.run;
    let device = device::meant(&arguments.model.run.device)?;
    Ok(Question {
        model: arguments.model.model.clone(),
        horizon: options.horizon,
        context: context.min(longest),
        point,
        levels: arguments.quantiles.clone(),
        paths: arguments.paths,
        settings: vec![
            ("context".into(), json!(context)),
            ("max_context".into(), json!(options.max_context.unwrap_or(forecaster.max_context()))),
            ("samples".into(), json!(options.paths())),
            ("seed".into(), json!(options.seed)),
            ("temperature".into(), json!(options.temperature)),
            ("top_k".into(), json!(options.top_k)),
            ("top_p".into(), json!(options.top_p)),
            ("filter".into(), json!(spelled(&arguments.candles.filter.unwrap_or(FilterName::Reference)))),
            ("clip".into(), json!(options.clip)),
            ("window".into(), json!(spelled(&arguments.candles.window.unwrap_or(WindowName::Exact)))),
            ("repair".into(), json!(arguments.mending.repair)),
            ("tokenizer".into(), json!(run.tokenizer)),
            ("point".into(), json!(point.to_string())),
            ("mode".into(), json!(spelled(&mode))),
            ("dtype".into(), json!(spelled(&run.dtype))),
            ("device".into(), json!(device)),
            ("memory_limit".into(), json!(options.memory_limit)),
            ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ],
    })
}
