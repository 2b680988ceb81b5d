//! `nowcast forecast`: files in, forecasts out.

mod candles;
mod series;

use std::path::Path;
use std::time::{Duration, Instant};

use nowcast::data::{ReadOptions, Table, Times};
use nowcast::family::Located;
use nowcast::forecaster::Counters;
use nowcast::{Error, Result};
use nowcast_cli::output::{Answer, Format, check_target, render, same_file, write_file};
use nowcast_cli::plot::{self, ChartFormat};
use serde_json::{Value, json};

use super::print;
use crate::arguments::{ForecastArguments, OutputName};
use crate::{message, model};

/// Width assumed where the terminal does not tell.
const PIPE_WIDTH: Option<usize> = None;

/// Forecasts; `stats` tells counters and times too.
pub(crate) fn run(arguments: &ForecastArguments, stats: bool) -> Result<()> {
    let format = format(arguments)?;
    let chart = arguments.plot.as_deref().map(|path| Ok((path, ChartFormat::of(path)?))).transpose()?;
    if let Some(level) = arguments.quantiles.iter().find(|level| !(0.0 < **level && **level < 1.0)) {
        return Err(Error::Setting(format!("--quantiles {level}: a level lies between 0 and 1, such as 0.9")));
    }
    check_files(arguments)?;
    let tables = read(arguments)?;
    let answer = match model::locate(&arguments.model.model, &arguments.model.run)? {
        Located::Toto(source) => series::forecast(arguments, &tables, &source, stats)?,
        Located::Kronos(source) => candles::forecast(arguments, &tables, &source, stats)?,
    };
    // Nothing is said or written before all of it is there.
    let chart = chart.map(|(path, format)| Ok((path, plot::render(&answer, format)?))).transpose()?;
    let bytes = render(&answer, format, PIPE_WIDTH)?;
    for note in &answer.notes {
        message::say("note", note);
    }
    if stats {
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
    inputs.extend(arguments.future_times.as_deref());
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

fn read(arguments: &ForecastArguments) -> Result<Vec<Table>> {
    let options = ReadOptions {
        time: arguments.time.clone(),
        columns: arguments.columns.clone(),
        fill_gaps: arguments.series.fill_gaps,
    };
    let future = arguments.future_times.as_deref().map(Times::read).transpose()?;
    let read = |path: &std::path::PathBuf| {
        let table = Table::read(path, &options)?;
        match &future {
            Some(future) => table.with_future(future, arguments.horizon),
            None => Ok(table),
        }
    };
    arguments.files.iter().map(read).collect()
}

/// What a run took.
struct Took {
    load: Duration,
    forecast: Duration,
}

impl Took {
    fn of(load: Duration, forecast_since: Instant) -> Self {
        Self { load, forecast: forecast_since.elapsed() }
    }
}

/// Counters, which the same run has again, and where they were asked for the times, which it has not.
fn note_stats(answer: &mut Answer, counters: Counters, weight_bytes: usize, took: Option<Took>) {
    if let Some(Took { load, forecast }) = took {
        let milliseconds = |time: Duration| json!(time.as_secs_f64() * 1e3);
        answer.stats.push(("load_ms".into(), milliseconds(load)));
        answer.stats.push(("forecast_ms".into(), milliseconds(forecast)));
    }
    let counts: [(&str, Value); 8] = [
        ("plans_built", json!(counters.plans_built)),
        ("plans_reused", json!(counters.plans_reused)),
        ("graphs_captured", json!(counters.graphs_captured)),
        ("graphs_replayed", json!(counters.graphs_replayed)),
        ("host_syncs", json!(counters.host_syncs)),
        ("operations_run", json!(counters.operations_run)),
        ("planned_bytes", json!(counters.planned_bytes)),
        ("weight_bytes", json!(weight_bytes)),
    ];
    answer.stats.extend(counts.map(|(name, value)| (name.into(), value)));
}
