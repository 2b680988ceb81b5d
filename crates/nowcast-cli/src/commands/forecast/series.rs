//! Toto: every column is a series, or every file is one.

use std::time::Instant;

use nowcast::checkpoint::ModelSource;
use nowcast::data::Table;
use nowcast::{Aggregation, Decode, Error, Forecast, ForecastOptions, Forecaster, Result, Series, Xpos};
use nowcast_cli::output::{Answer, Question, Timeline};
use nowcast_cli::plot;
use serde_json::json;

use super::{Took, note_stats};
use crate::arguments::{DecodeName, ForecastArguments, ModeName, XposName, spelled};
use crate::progress::Progress;
use crate::{device, model};

pub(super) fn forecast(
    arguments: &ForecastArguments,
    tables: &[Table],
    source: &ModelSource,
    stats: bool,
) -> Result<Answer> {
    model::refuse_candle_flags(&arguments.model.model, &[arguments.candles.given(), arguments.mending.given()])?;
    let options = options(arguments);
    let series = series(arguments, tables)?;
    if arguments.plot.is_some() {
        plot::check_panels(series.iter().map(Series::variates).sum())?;
    }
    let started = Instant::now();
    let (mut forecaster, mode) = model::load_series(source, &arguments.model.run)?;
    let loaded = started.elapsed();
    let mut answer = Answer::new(question(arguments, &options, &series, &forecaster, mode)?)?;
    let started = Instant::now();
    let mut progress = Progress::new("forecasting");
    let forecasts =
        forecaster.forecast_with_progress(&series, &options, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    gather(&mut answer, arguments, tables, &series, forecasts)?;
    let took = stats.then(|| Took::of(loaded, started));
    note_stats(&mut answer, forecaster.counters(), forecaster.weight_bytes(), took);
    Ok(answer)
}

fn decode(arguments: &ForecastArguments) -> DecodeName {
    arguments.series.decode.unwrap_or(DecodeName::Sample)
}

fn xpos(arguments: &ForecastArguments) -> XposName {
    arguments.series.xpos.unwrap_or(XposName::Cached)
}

fn point(arguments: &ForecastArguments) -> Aggregation {
    arguments.point.unwrap_or(Aggregation::Median)
}

fn options(arguments: &ForecastArguments) -> ForecastOptions {
    let mut options = ForecastOptions::new(arguments.horizon);
    options.context = arguments.context;
    options.samples = arguments.samples;
    options.paths = arguments.paths;
    options.seed = arguments.seed;
    options.decode = match decode(arguments) {
        DecodeName::Sample => Decode::Sample,
        DecodeName::Mean => Decode::Mean,
    };
    options.xpos = match xpos(arguments) {
        XposName::Cached => Xpos::Cached,
        XposName::Uncached => Xpos::Uncached,
    };
    options.memory_limit = arguments.model.run.memory_limit;
    options.quantiles = arguments.quantiles.clone();
    options.quantiles.extend(point(arguments).level());
    options
}

fn series(arguments: &ForecastArguments, tables: &[Table]) -> Result<Vec<Series>> {
    let mut series = Vec::new();
    for table in tables {
        if arguments.series.multivariate {
            series.push(table.multivariate()?);
        } else {
            series.extend(table.series()?);
        }
    }
    Ok(series)
}

/// Puts forecasts and their time axes together: one entry for each column of each table.
fn gather(
    answer: &mut Answer,
    arguments: &ForecastArguments,
    tables: &[Table],
    series: &[Series],
    forecasts: Vec<Forecast>,
) -> Result<()> {
    let context = answer.question().context;
    let mut variates = series.iter().zip(forecasts).flat_map(|(series, forecast)| {
        forecast.into_variates().into_iter().enumerate().map(move |(index, variate)| (series.values(index), variate))
    });
    for table in tables {
        answer.notes.extend(table.notes.iter().map(|note| format!("{}: {note}", table.name)));
        for column in &table.columns {
            let Some((values, variate)) = variates.next() else {
                return Err(Error::Data(format!("{}: a column has no forecast", table.name)));
            };
            let seen = &values[values.len().saturating_sub(context)..];
            let missing = seen.iter().filter(|value| value.is_nan()).count();
            if missing > 0 {
                let note = format!(
                    "{}: {missing} of the last {} values of {:?} are missing: masked",
                    table.name,
                    seen.len(),
                    column.name
                );
                answer.notes.push(note);
            }
            let past = plot::past_shown(arguments.horizon).min(values.len());
            let timeline = Timeline::of_table(table, past, arguments.horizon);
            answer.push(values[values.len() - past..].to_vec(), timeline, variate)?;
        }
    }
    Ok(())
}

fn question(
    arguments: &ForecastArguments,
    options: &ForecastOptions,
    series: &[Series],
    forecaster: &Forecaster,
    mode: ModeName,
) -> Result<Question> {
    let context = options.context.unwrap_or(forecaster.default_context());
    let longest = series.iter().map(Series::length).max().unwrap_or(0);
    let levels = if options.decode == Decode::Mean { Vec::new() } else { arguments.quantiles.clone() };
    let point = point(arguments);
    let device = device::meant(&arguments.model.run.device)?;
    Ok(Question {
        model: arguments.model.model.clone(),
        horizon: options.horizon,
        context: context.min(longest),
        point,
        levels,
        paths: arguments.paths,
        settings: vec![
            ("context".into(), json!(context)),
            ("samples".into(), json!(options.samples)),
            ("seed".into(), json!(options.seed)),
            ("decode".into(), json!(spelled(&decode(arguments)))),
            ("xpos".into(), json!(spelled(&xpos(arguments)))),
            ("multivariate".into(), json!(arguments.series.multivariate)),
            ("point".into(), json!(point.to_string())),
            ("mode".into(), json!(spelled(&mode))),
            ("dtype".into(), json!(spelled(&arguments.model.run.dtype))),
            ("device".into(), json!(device)),
            ("memory_limit".into(), json!(options.memory_limit)),
            ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ],
    })
}
