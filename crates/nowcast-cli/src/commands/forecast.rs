//! `nowcast forecast`: files in, forecasts out.

use std::path::Path;
use std::time::Instant;

use nowcast::data::{ReadOptions, Table};
use nowcast::{Decode, Error, Forecast, ForecastOptions, Forecaster, Result, Series, Xpos};
use nowcast_cli::output::{Answer, Format, Question, Timeline, render, write_file};
use nowcast_cli::plot::{self, ChartFormat};
use serde_json::{Value, json};

use super::print;
use crate::arguments::{DecodeName, ForecastArguments, ModeName, OutputName, XposName};
use crate::model;
use crate::progress::Progress;

/// Width assumed where the terminal does not tell.
const PIPE_WIDTH: Option<usize> = None;

pub(crate) fn run(arguments: &ForecastArguments) -> Result<()> {
    let format = format(arguments)?;
    let chart = arguments.plot.as_deref().map(|path| Ok((path, ChartFormat::of(path)?))).transpose()?;
    let options = options(arguments)?;
    let tables = read(arguments)?;
    let series = series(arguments, &tables)?;
    let started = Instant::now();
    let (mut forecaster, mode) = model::load(&arguments.model.model, &arguments.model.run)?;
    let loaded = started.elapsed();
    let started = Instant::now();
    let mut progress = Progress::new("forecasting");
    let forecasts =
        forecaster.forecast_with_progress(&series, &options, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    let mut answer = Answer::new(question(arguments, &options, &forecaster, mode))?;
    gather(&mut answer, arguments, &tables, &series, forecasts)?;
    answer.stats = stats(&forecaster, loaded.as_secs_f64(), started.elapsed().as_secs_f64());
    for note in &answer.notes {
        eprintln!("note: {note}");
    }
    if arguments.stats {
        for (name, value) in &answer.stats {
            eprintln!("{name}: {value}");
        }
    }
    if let Some((path, format)) = chart {
        write_file(path, &plot::render(&answer, format)?)?;
    }
    let bytes = render(&answer, format, PIPE_WIDTH)?;
    match &arguments.out {
        Some(path) => write_file(path, &bytes),
        None => print(&bytes),
    }
}

fn format(arguments: &ForecastArguments) -> Result<Format> {
    let format = match arguments.output {
        OutputName::Table => Format::Table,
        OutputName::Csv => Format::Csv,
        OutputName::Json => Format::Json,
        #[cfg(feature = "parquet")]
        OutputName::Parquet => Format::Parquet,
    };
    if !format.is_text() && arguments.out.is_none() {
        return Err(Error::Setting("Parquet is not for the screen: name a file with --out FILE".into()));
    }
    if arguments.paths && arguments.output != OutputName::Json {
        return Err(Error::Setting("--paths belongs to the JSON output: add --output json".into()));
    }
    Ok(format)
}

fn options(arguments: &ForecastArguments) -> Result<ForecastOptions> {
    let mut options = ForecastOptions::new(arguments.horizon);
    options.context = arguments.context;
    options.samples = arguments.samples;
    options.paths = arguments.paths;
    options.seed = arguments.seed;
    options.decode = match arguments.decode {
        DecodeName::Sample => Decode::Sample,
        DecodeName::Mean => Decode::Mean,
    };
    options.xpos = match arguments.xpos {
        XposName::Cached => Xpos::Cached,
        XposName::Uncached => Xpos::Uncached,
    };
    options.memory_limit = arguments.model.run.memory_limit;
    if let Some(level) = arguments.quantiles.iter().find(|level| !(0.0 < **level && **level < 1.0)) {
        return Err(Error::Setting(format!("--quantiles {level}: a level lies between 0 and 1, such as 0.9")));
    }
    Ok(options)
}

fn read(arguments: &ForecastArguments) -> Result<Vec<Table>> {
    let options = ReadOptions {
        time: arguments.time.clone(),
        columns: arguments.columns.clone(),
        fill_gaps: arguments.fill_gaps,
    };
    arguments.files.iter().map(|path: &std::path::PathBuf| Table::read(Path::new(path), &options)).collect()
}

fn series(arguments: &ForecastArguments, tables: &[Table]) -> Result<Vec<Series>> {
    let mut series = Vec::new();
    for table in tables {
        if arguments.multivariate {
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
    let mut variates = series.iter().zip(forecasts).flat_map(|(series, forecast)| {
        let variates: Vec<_> = forecast.variates().to_vec();
        variates.into_iter().enumerate().map(move |(index, variate)| (series.values(index), variate))
    });
    for table in tables {
        answer.notes.extend(table.notes.iter().map(|note| format!("{}: {note}", table.name)));
        for _ in &table.columns {
            let Some((values, variate)) = variates.next() else {
                return Err(Error::Data(format!("{}: a column has no forecast", table.name)));
            };
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
    forecaster: &Forecaster,
    mode: ModeName,
) -> Question {
    let name = |value: &dyn std::fmt::Debug| Value::from(format!("{value:?}").to_lowercase());
    let context = options.context.unwrap_or(forecaster.default_context());
    let levels = if options.decode == Decode::Mean { Vec::new() } else { arguments.quantiles.clone() };
    Question {
        model: arguments.model.model.clone(),
        horizon: options.horizon,
        context,
        point: arguments.point,
        levels,
        paths: arguments.paths,
        settings: vec![
            ("context".into(), json!(context)),
            ("samples".into(), json!(options.samples)),
            ("seed".into(), json!(options.seed)),
            ("decode".into(), name(&options.decode)),
            ("xpos".into(), name(&options.xpos)),
            ("multivariate".into(), json!(arguments.multivariate)),
            ("point".into(), json!(arguments.point.to_string())),
            ("mode".into(), name(&mode)),
            ("dtype".into(), name(&arguments.model.run.dtype)),
            ("device".into(), json!("cpu")),
            ("memory_limit".into(), json!(options.memory_limit)),
            ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ],
    }
}

fn stats(forecaster: &Forecaster, load_seconds: f64, forecast_seconds: f64) -> Vec<(String, Value)> {
    let counters = forecaster.counters();
    vec![
        ("load_ms".into(), json!(load_seconds * 1e3)),
        ("forecast_ms".into(), json!(forecast_seconds * 1e3)),
        ("plans_built".into(), json!(counters.plans_built)),
        ("plans_reused".into(), json!(counters.plans_reused)),
        ("graphs_captured".into(), json!(counters.graphs_captured)),
        ("graphs_replayed".into(), json!(counters.graphs_replayed)),
        ("host_syncs".into(), json!(counters.host_syncs)),
        ("operations_run".into(), json!(counters.operations_run)),
        ("planned_bytes".into(), json!(counters.planned_bytes)),
        ("weight_bytes".into(), json!(forecaster.model().weight_bytes())),
    ]
}
