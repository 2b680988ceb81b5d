//! Symbols, modes and dtypes beside each other.

use std::time::Instant;

use nowcast::family::Located;
use nowcast::forecaster::memory::in_words;
use nowcast::{Error, ModelFamily, Result};
use serde::Serialize;
use serde_json::json;

use super::super::columns::aligned;
use super::super::evaluation::{Inputs, Model, Paths, symbols};
use super::super::synthetic::Synthetic;
use super::super::ways::{self, Choice};
use super::super::{input, print, print_json};
use super::milliseconds;
use super::summary::Summary;
use super::times::{self, Times};
use crate::arguments::{BenchArguments, ModeName, spelled};
use crate::model;
use crate::peak::{peak_bytes, restart_peak};
use crate::progress::Progress;

/// One symbol in one mode, dtype and device.
#[derive(Debug, Serialize)]
struct Row {
    symbol: String,
    mode: String,
    dtype: String,
    device: String,
    load_ms: f64,
    first_ms: f64,
    median_ms: f64,
    p99_ms: f64,
    sigma_ms: f64,
    /// Median of the eager mode on the same device over this one.
    speedup: Option<f64>,
    /// Weights and plan.
    planned_bytes: usize,
    /// The most that loading and forecasting added to what the process had, where the system tells.
    measured_bytes: Option<u64>,
}

/// What every mode is timed on.
struct Timing<'a> {
    arguments: &'a BenchArguments,
    located: &'a Located,
    /// Symbols by name.
    symbols: Vec<(String, Inputs)>,
}

pub(super) fn run(arguments: &BenchArguments) -> Result<()> {
    if !arguments.files.is_empty() && (arguments.batch != 1 || arguments.variates != 1) {
        return Err(Error::Setting(
            "--batch and --variates shape synthetic input: leave them out, or the files".into(),
        ));
    }
    let run = &arguments.model.run;
    let tables = input::tables(&arguments.files, &arguments.columns)?;
    let located = model::locate(&arguments.model.model, run)?;
    match located.family() {
        ModelFamily::Toto => model::refuse_candle_flags(&arguments.model.model, &[arguments.candles.given()])?,
        ModelFamily::Kronos => model::refuse_series_flags(&arguments.model.model, &[], run)?,
    }
    let family = located.family();
    let inputs = match tables.is_empty() {
        true => vec![("synthetic".to_string(), synthetic(arguments, family)?)],
        false => symbols(&tables, &arguments.columns, family, arguments.horizon)?
            .iter()
            .map(|symbol| Ok((symbol.name.clone(), symbol.latest(arguments.context, family)?)))
            .collect::<Result<_>>()?,
    };
    let timing = Timing { arguments, located: &located, symbols: inputs };
    let choices = ways::distinct(run)?;
    let total = choices.len() * timing.symbols.len() * (arguments.runs + 1);
    let mut progress = Progress::new("timing");
    let (mut done, mut rows) = (0, Vec::new());
    for choice in &choices {
        rows.extend(timing.rows(choice, &mut || {
            done += 1;
            progress.update(done, total);
        })?);
    }
    drop(progress);
    compare_with_eager(&mut rows);
    // Symbol by symbol, as people compare.
    rows.sort_by_key(|row| timing.symbols.iter().position(|(name, _)| *name == row.symbol));
    if arguments.json {
        return print_json(&json!({
            "settings": {
                "model": arguments.model.model, "context": arguments.context, "horizon": arguments.horizon,
                "samples": arguments.samples, "batch": arguments.batch, "variates": arguments.variates,
                "runs": arguments.runs, "warm_up_ms": arguments.warm_up, "threads": run.threads,
                "version": env!("CARGO_PKG_VERSION"),
            },
            "rows": rows,
        }));
    }
    print(table(&rows).as_bytes())
}

fn synthetic(arguments: &BenchArguments, family: ModelFamily) -> Result<Inputs> {
    let BenchArguments { context, variates, horizon, batch, .. } = *arguments;
    let synthetic = Synthetic { context, variates, horizon };
    Ok(match family {
        ModelFamily::Toto => Inputs::Series((0..batch).map(|item| synthetic.series(item)).collect::<Result<_>>()?),
        ModelFamily::Kronos => Inputs::Candles((0..batch).map(|item| synthetic.candles(item)).collect::<Result<_>>()?),
    })
}

impl Timing<'_> {
    /// Every symbol in one mode; `tell` hears of each forecast.
    fn rows(&self, choice: &Choice, tell: &mut dyn FnMut()) -> Result<Vec<Row>> {
        let arguments = self.arguments;
        let mut rows = Vec::new();
        for (symbol, inputs) in &self.symbols {
            let before = restart_peak();
            let started = Instant::now();
            let mut model = Model::load(self.located, &arguments.model.run, choice)?;
            model.set_candle_options(arguments.candles.options(arguments.horizon));
            let load_ms = milliseconds(started);
            let paths = match arguments.samples {
                Some(0) => Paths::Exact,
                samples => Paths::Sampled(samples.unwrap_or(model.default_paths())),
            };
            let (horizon, limit) = (arguments.horizon, arguments.model.run.memory_limit);
            let forecast = |seed| model.forecast(inputs, horizon, paths, seed, limit).map(drop);
            let times = Times::of(arguments.runs, times::after(arguments.warm_up()), forecast, |_| tell())?;
            let summary = Summary::of(&times.runs_ms);
            rows.push(Row {
                symbol: symbol.clone(),
                mode: spelled(&choice.mode),
                dtype: spelled(&choice.dtype),
                device: choice.device.clone(),
                load_ms,
                first_ms: times.first_ms,
                median_ms: summary.median,
                p99_ms: summary.p99,
                sigma_ms: summary.sigma,
                speedup: None,
                planned_bytes: model.weight_bytes() + model.counters().planned_bytes,
                measured_bytes: before.and_then(|before| Some(peak_bytes()?.saturating_sub(before))),
            });
        }
        Ok(rows)
    }
}

fn compare_with_eager(rows: &mut [Row]) {
    let eager = spelled(&ModeName::Eager);
    let medians: Vec<(String, String, f64)> = rows
        .iter()
        .filter(|row| row.mode == eager)
        .map(|row| (row.symbol.clone(), row.device.clone(), row.median_ms))
        .collect();
    for row in rows {
        let found = medians.iter().find(|(symbol, device, _)| *symbol == row.symbol && *device == row.device);
        row.speedup = found.map(|(_, _, median)| median / row.median_ms);
    }
}

fn table(rows: &[Row]) -> String {
    let heading =
        ["symbol", "mode", "dtype", "device", "first", "median", "99%", "sigma", "to eager", "planned", "measured"];
    let time = |milliseconds: f64| format!("{milliseconds:.2} ms");
    let cells = |row: &Row| {
        vec![
            row.symbol.clone(),
            row.mode.clone(),
            row.dtype.clone(),
            row.device.clone(),
            time(row.first_ms),
            time(row.median_ms),
            time(row.p99_ms),
            time(row.sigma_ms),
            row.speedup.map_or_else(|| "-".into(), |speedup| format!("{speedup:.2}x")),
            in_words(row.planned_bytes),
            row.measured_bytes.map_or_else(|| "-".into(), |bytes| in_words(bytes as usize)),
        ]
    };
    aligned(&heading, 4, &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_compared_with_the_eager_mode_of_its_symbol_and_device() {
        let row = |symbol: &str, mode: &str, device: &str, median_ms: f64| Row {
            symbol: symbol.into(),
            mode: mode.into(),
            dtype: "f32".into(),
            device: device.into(),
            load_ms: 1.0,
            first_ms: 1.0,
            median_ms,
            p99_ms: 1.0,
            sigma_ms: 1.0,
            speedup: None,
            planned_bytes: 1,
            measured_bytes: None,
        };
        let mut rows = [
            row("a", "eager", "cpu", 8.0),
            row("a", "default", "cpu", 2.0),
            row("b", "default", "cpu", 2.0),
            row("a", "default", "cuda:0", 1.0),
        ];
        compare_with_eager(&mut rows);
        assert_eq!(rows.map(|row| row.speedup), [Some(1.0), Some(4.0), None, None]);
    }
}
