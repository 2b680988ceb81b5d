//! `nowcast forecast`: files in, forecasts out.

mod candles;
mod series;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nowcast::data::{ReadOptions, Table, Times};
use nowcast::family::Located;
use nowcast::forecaster::Counters;
use nowcast::{Error, Result};
use nowcast_cli::output::{Answer, Format, render, write_file};
use nowcast_cli::plot::{self, ChartFormat};
use serde_json::{Value, json};

use super::{files, params, print};
use crate::arguments::{ForecastArguments, OutputName};
use crate::{message, model};

/// Width assumed where the terminal does not tell.
const PIPE_WIDTH: Option<usize> = None;

/// Forecasts; `stats` tells counters and times too.
pub(crate) fn run(mut arguments: Box<ForecastArguments>, stats: bool) -> Result<()> {
    let targets = Targets::of(&arguments)?;
    let tables = read(&arguments)?;
    tune(&mut arguments, &tables)?;
    let arguments = &*arguments;
    let answer = match model::locate(&arguments.model.model, &arguments.model.run)? {
        Located::Toto(source) => series::forecast(arguments, &tables, &source, stats)?,
        Located::Kronos(source) => candles::forecast(arguments, &tables, &source, stats)?,
    };
    // Nothing is said or written before all of it is there.
    let chart = targets.chart.map(|(path, format)| Ok((path, plot::render(&answer, format)?))).transpose()?;
    let bytes = render(&answer, targets.format, PIPE_WIDTH)?;
    for note in &answer.notes {
        message::say("note", note);
    }
    if stats {
        for (name, value) in &answer.stats {
            message::say(name, value);
        }
    }
    if let Some((path, chart)) = chart {
        write_file(&path, &chart)?;
    }
    match targets.out {
        Some(path) => write_file(&path, &bytes),
        None => print(&bytes),
    }
}

/// Where the answer goes, and as what.
struct Targets {
    out: Option<PathBuf>,
    format: Format,
    chart: Option<(PathBuf, ChartFormat)>,
}

impl Targets {
    /// Checks all that can be wrong before a file is read.
    fn of(arguments: &ForecastArguments) -> Result<Self> {
        let out = files::out(arguments.out.as_deref());
        let format = files::format(arguments.output, out)?;
        if arguments.paths && arguments.output != OutputName::Json {
            return Err(Error::Setting("--paths belongs to the JSON output: add --output json".into()));
        }
        let chart =
            arguments.plot.as_deref().map(|path| Ok((path.to_path_buf(), ChartFormat::of(path)?))).transpose()?;
        if let Some(level) = arguments.quantiles.iter().find(|level| !(0.0 < **level && **level < 1.0)) {
            return Err(Error::Setting(format!("--quantiles {level}: a level lies between 0 and 1, such as 0.9")));
        }
        let inputs = arguments.files.iter().chain(&arguments.future_times).chain(&arguments.params);
        files::check(inputs.map(PathBuf::as_path), [out, arguments.plot.as_deref()].into_iter().flatten())?;
        Ok(Self { out: out.map(PathBuf::from), format, chart })
    }
}

/// Where no flag says otherwise, takes what was tuned for the symbols.
fn tune(arguments: &mut ForecastArguments, tables: &[Table]) -> Result<()> {
    let Some(path) = &arguments.params else { return Ok(()) };
    let tuned = params::read(path, std::slice::from_ref(&arguments.model.model))?;
    let series = |table: &Table| -> Vec<String> {
        table.columns.iter().map(|column| format!("{}/{}", table.name, column.name)).collect()
    };
    let names: Vec<String> = tables.iter().flat_map(series).collect();
    let tuned = params::common(&tuned, names.iter().map(String::as_str))?;
    arguments.context = arguments.context.or(tuned.context);
    arguments.samples = arguments.samples.or(tuned.samples);
    arguments.point = arguments.point.or(tuned.rule()?);
    let candles = &mut *arguments.candles;
    candles.temperature = candles.temperature.or(tuned.temperature);
    candles.top_k = candles.top_k.or(tuned.top_k);
    candles.top_p = candles.top_p.or(tuned.top_p);
    candles.clip = candles.clip.or(tuned.clip);
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
