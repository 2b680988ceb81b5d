//! `nowcast forecast`: files in, forecasts out.

use std::path::Path;
use std::time::{Duration, Instant};

use nowcast::data::{ReadOptions, Table};
use nowcast::{Decode, Error, Forecast, ForecastOptions, Forecaster, Result, Series, Xpos};
use nowcast_cli::output::{Answer, Format, Question, Timeline, check_target, render, same_file, write_file};
use nowcast_cli::plot::{self, ChartFormat};
use serde_json::{Value, json};

use super::print;
use crate::arguments::{DecodeName, ForecastArguments, ModeName, OutputName, XposName, spelled};
use crate::progress::Progress;
use crate::{message, model};

/// Width assumed where the terminal does not tell.
const PIPE_WIDTH: Option<usize> = None;

pub(crate) fn run(arguments: &ForecastArguments) -> Result<()> {
    let format = format(arguments)?;
    let chart = arguments.plot.as_deref().map(|path| Ok((path, ChartFormat::of(path)?))).transpose()?;
    let options = options(arguments)?;
    check_files(arguments)?;
    let tables = read(arguments)?;
    let series = series(arguments, &tables)?;
    if chart.is_some() {
        plot::check_panels(series.iter().map(Series::variates).sum())?;
    }
    let started = Instant::now();
    let (mut forecaster, mode) = model::load(&arguments.model.model, &arguments.model.run)?;
    let loaded = started.elapsed();
    let mut answer = Answer::new(question(arguments, &options, &series, &forecaster, mode))?;
    let started = Instant::now();
    let mut progress = Progress::new("forecasting");
    let forecasts =
        forecaster.forecast_with_progress(&series, &options, &mut |done, total| progress.update(done, total))?;
    drop(progress);
    gather(&mut answer, arguments, &tables, &series, forecasts)?;
    answer.stats = stats(&forecaster);
    if arguments.stats {
        answer.stats.splice(0..0, [("load_ms", loaded), ("forecast_ms", started.elapsed())].map(milliseconds));
    }
    // Nothing is said or written before all of it is there.
    let chart = chart.map(|(path, format)| Ok((path, plot::render(&answer, format)?))).transpose()?;
    let bytes = render(&answer, format, PIPE_WIDTH)?;
    for note in &answer.notes {
        message::say("note", note);
    }
    if arguments.stats {
        for (name, value) in &answer.stats {
            message::say(name, value);
        }
    }
    if let Some((path, chart)) = chart {
        write_file(path, &chart)?;
    }
    match out(arguments) {
        Some(path) => write_file(path, &bytes),
        None => print(&bytes),
    }
}

/// The file for the answer; `-` is the standard output.
fn out(arguments: &ForecastArguments) -> Option<&Path> {
    arguments.out.as_deref().filter(|path| *path != Path::new("-"))
}

fn format(arguments: &ForecastArguments) -> Result<Format> {
    let format = match arguments.output {
        OutputName::Table => Format::Table,
        OutputName::Csv => Format::Csv,
        OutputName::Json => Format::Json,
        #[cfg(feature = "parquet")]
        OutputName::Parquet => Format::Parquet,
    };
    if !format.is_text() && out(arguments).is_none() {
        return Err(Error::Setting("Parquet is not for the screen: name a file with --out FILE".into()));
    }
    if arguments.paths && arguments.output != OutputName::Json {
        return Err(Error::Setting("--paths belongs to the JSON output: add --output json".into()));
    }
    Ok(format)
}

/// Nothing is computed that could not be written, and no input is lost to an output.
fn check_files(arguments: &ForecastArguments) -> Result<()> {
    let mut inputs: Vec<&Path> = Vec::new();
    for input in &arguments.files {
        if inputs.iter().any(|other| same_file(other, input)) {
            return Err(Error::Setting(format!("{} is given twice: once is enough", input.display())));
        }
        inputs.push(input);
    }
    let mut outputs: Vec<&Path> = Vec::new();
    for output in [out(arguments), arguments.plot.as_deref()].into_iter().flatten() {
        check_target(output)?;
        if inputs.iter().chain(&outputs).any(|other| same_file(other, output)) {
            return Err(Error::Setting(format!(
                "{} would be overwritten, but it is also another file of this run: name a new one",
                output.display()
            )));
        }
        outputs.push(output);
    }
    Ok(())
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
) -> Question {
    let context = options.context.unwrap_or(forecaster.default_context());
    let longest = series.iter().map(Series::length).max().unwrap_or(0);
    let levels = if options.decode == Decode::Mean { Vec::new() } else { arguments.quantiles.clone() };
    Question {
        model: arguments.model.model.clone(),
        horizon: options.horizon,
        context: context.min(longest),
        point: arguments.point,
        levels,
        paths: arguments.paths,
        settings: vec![
            ("context".into(), json!(context)),
            ("samples".into(), json!(options.samples)),
            ("seed".into(), json!(options.seed)),
            ("decode".into(), json!(spelled(&arguments.decode))),
            ("xpos".into(), json!(spelled(&arguments.xpos))),
            ("multivariate".into(), json!(arguments.multivariate)),
            ("point".into(), json!(arguments.point.to_string())),
            ("mode".into(), json!(spelled(&mode))),
            ("dtype".into(), json!(spelled(&arguments.model.run.dtype))),
            ("device".into(), json!("cpu")),
            ("memory_limit".into(), json!(options.memory_limit)),
            ("version".into(), json!(env!("CARGO_PKG_VERSION"))),
        ],
    }
}

fn milliseconds((name, time): (&str, Duration)) -> (String, Value) {
    (name.into(), json!(time.as_secs_f64() * 1e3))
}

/// Counters only: the same run has the same.
fn stats(forecaster: &Forecaster) -> Vec<(String, Value)> {
    let counters = forecaster.counters();
    vec![
        ("plans_built".into(), json!(counters.plans_built)),
        ("plans_reused".into(), json!(counters.plans_reused)),
        ("graphs_captured".into(), json!(counters.graphs_captured)),
        ("graphs_replayed".into(), json!(counters.graphs_replayed)),
        ("host_syncs".into(), json!(counters.host_syncs)),
        ("operations_run".into(), json!(counters.operations_run)),
        ("planned_bytes".into(), json!(counters.planned_bytes)),
        ("weight_bytes".into(), json!(forecaster.weight_bytes())),
    ]
}
