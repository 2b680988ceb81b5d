//! `nowcast stability`: how far errors and times move from run to run, from seed to seed and from mode to mode.

use std::process::ExitCode;
use std::time::Instant;

use nowcast::family::Located;
use nowcast::{Error, ModelFamily, Result};
use serde::Serialize;
use serde_json::json;

use super::columns::aligned;
use super::evaluation::{Model, Paths, Scores, Study, Symbol, symbols};
use super::ways::{self, Choice};
use super::{input, print, print_json};
use crate::arguments::{DtypeName, ModeName, StabilityArguments, spelled};
use crate::model;
use crate::progress::Progress;

/// Across seeds, sigma(MAE) of 256 sample paths may be this share of the mean; of other numbers as Monte Carlo error goes.
const MOST_SIGMA_OF_256: f64 = 0.01;

/// Without sampling only rounding stands between two modes: about 1e-5 of a deviation, and an error is of that size.
const MOST_MOVED_BY_ROUNDING: f64 = 1e-4;

/// A lower dtype's MAE may differ from eager f32's by this share.
const MOST_MOVED_BY_DTYPE: f64 = 0.05;

/// One symbol, one mode, one way to tell the future.
#[derive(Debug, Serialize)]
struct Row {
    symbol: String,
    mode: String,
    dtype: String,
    device: String,
    /// `exact`, or how many paths.
    quantiles: String,
    mae: f64,
    /// Standard deviation of the MAE over runs of one seed.
    sigma_mae_same_seed: f64,
    /// The same over seeds, as a share of the mean.
    sigma_mae_seeds: f64,
    sigma_limit: f64,
    /// Difference from the eager f32 mode on the CPU, as a share.
    mae_against_eager: f64,
    eager_limit: f64,
    median_ms: f64,
    sigma_ms: f64,
    /// Plans built, graphs captured and host synchronisations after the first run.
    plans_built: u64,
    graphs_captured: u64,
    host_syncs: u64,
    pass: bool,
}

pub(crate) fn run(arguments: &StabilityArguments) -> Result<ExitCode> {
    if arguments.seeds < 2 || arguments.repeats < 2 || arguments.seeds.max(arguments.repeats) > 10_000 {
        return Err(Error::Setting("--seeds and --repeats: give 2 to 10000 each, a spread needs two".into()));
    }
    if arguments.study.horizon == 0 || arguments.study.windows == 0 {
        return Err(Error::Setting("--horizon and --windows: give at least 1 each".into()));
    }
    let run = &arguments.model.run;
    let tables = input::tables(&arguments.files, &arguments.columns)?;
    let located = model::locate(&arguments.model.model, run)?;
    if located.family() == ModelFamily::Kronos {
        model::refuse_series_flags(&arguments.model.model, &[], run)?;
    }
    let symbols = symbols(&tables, &arguments.columns, located.family(), arguments.study.horizon)?;
    let choices = ways::distinct(run)?;
    let baseline = Choice { mode: ModeName::Eager, dtype: DtypeName::F32, device: "cpu".into() };
    let all = std::iter::once(&baseline).chain(choices.iter().filter(|&choice| *choice != baseline));

    let mut progress = Progress::new("studying");
    let mut study = Studying { arguments, located: &located, symbols: &symbols, eager: Vec::new(), rows: Vec::new() };
    let total = 1 + choices.iter().filter(|&choice| *choice != baseline).count();
    for (done, choice) in all.enumerate() {
        study.study(choice, choices.contains(choice), &mut |part| {
            progress.update(done * 1000 + (part * 1000.0) as usize, total * 1000);
        })?;
    }
    drop(progress);
    let rows = study.rows;
    let failed = rows.iter().filter(|row| !row.pass).count();
    if arguments.json {
        print_json(&json!({
            "model": arguments.model.model, "version": env!("CARGO_PKG_VERSION"),
            "settings": {
                "horizon": arguments.study.horizon, "windows": arguments.study.windows,
                "context": arguments.study.context, "samples": arguments.study.samples,
                "seeds": arguments.seeds, "repeats": arguments.repeats,
            },
            "passed": rows.len() - failed, "failed": failed, "rows": rows,
        }))?;
    } else {
        print(table(&rows, failed).as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// What the study of one mode needs of those before it.
struct Studying<'a> {
    arguments: &'a StabilityArguments,
    located: &'a Located,
    symbols: &'a [Symbol],
    /// MAE of the eager mode, in the order of symbols and ways to tell the future.
    eager: Vec<f64>,
    rows: Vec<Row>,
}

impl Studying<'_> {
    /// All symbols in one mode; `tell` hears the share that is done. The first mode is what the others are compared with.
    fn study(&mut self, choice: &Choice, shown: bool, tell: &mut dyn FnMut(f64)) -> Result<()> {
        let arguments = self.arguments;
        let mut model = Model::load(self.located, &arguments.model.run, choice)?;
        let horizon = arguments.study.horizon;
        let context = arguments.study.context.unwrap_or(model.context(horizon));
        let study = Study { context, horizon, windows: arguments.study.windows };
        let sampled = Paths::Sampled(arguments.study.samples.unwrap_or(model.default_paths()));
        let exact = model.is_exact(horizon).then_some(Paths::Exact);
        let paths: Vec<Paths> = exact.into_iter().chain([sampled]).collect();
        let first = self.eager.is_empty();
        let total = self.symbols.len() * paths.len();
        let mut eager = Vec::new();
        for (done, (symbol, &paths)) in
            self.symbols.iter().flat_map(|symbol| paths.iter().map(move |paths| (symbol, paths))).enumerate()
        {
            let mut part = |share: f64| tell((done as f64 + share) / total as f64);
            let mut row = self.row(&mut model, choice, symbol, study, paths, &mut part)?;
            if first {
                eager.push(row.mae);
            } else {
                row.mae_against_eager = row.mae / self.eager[done] - 1.0;
            }
            row.pass = row.sigma_mae_same_seed == 0.0
                && row.sigma_mae_seeds <= row.sigma_limit
                && row.mae_against_eager.abs() <= row.eager_limit
                && row.plans_built + row.graphs_captured + row.host_syncs == 0;
            if shown {
                self.rows.push(row);
            }
        }
        if first {
            self.eager = eager;
        }
        Ok(())
    }

    fn row(
        &self,
        model: &mut Model,
        choice: &Choice,
        symbol: &Symbol,
        study: Study,
        paths: Paths,
        tell: &mut dyn FnMut(f64),
    ) -> Result<Row> {
        let windows = symbol.windows(study, model.family())?;
        let limit = self.arguments.model.run.memory_limit;
        // The first run plans; it is not timed.
        let forecast = |model: &mut Model, seed: u64| -> Result<(f64, f64)> {
            let started = Instant::now();
            let forecasts = model.forecast(&windows.inputs, study.horizon, paths, seed, limit)?;
            let milliseconds = started.elapsed().as_secs_f64() * 1e3;
            Ok((Scores::of(&symbol.name, &windows.actual, &forecasts)?.mae, milliseconds))
        };
        let (first, _) = forecast(model, 0)?;
        let before = model.counters();
        let (mut same, mut by_seed, mut times) = (vec![first], vec![first], Vec::new());
        let (seeds, repeats) = (self.arguments.seeds, self.arguments.repeats);
        for run in 1..seeds + repeats - 1 {
            let seed = run.saturating_sub(repeats - 1) as u64;
            let (mae, milliseconds) = forecast(model, seed)?;
            if seed == 0 { &mut same } else { &mut by_seed }.push(mae);
            times.push(milliseconds);
            tell(run as f64 / (seeds + repeats - 1) as f64);
        }
        let after = model.counters();
        let mae = by_seed.iter().sum::<f64>() / by_seed.len() as f64;
        let (quantiles, sigma_limit) = match paths {
            Paths::Exact => ("exact".into(), 0.0),
            Paths::Sampled(samples) => {
                (format!("{samples} paths"), MOST_SIGMA_OF_256 * (256.0 / samples as f64).sqrt())
            }
        };
        times.sort_unstable_by(f64::total_cmp);
        Ok(Row {
            symbol: symbol.name.clone(),
            mode: spelled(&choice.mode),
            dtype: spelled(&choice.dtype),
            device: choice.device.clone(),
            quantiles,
            mae,
            sigma_mae_same_seed: sigma(&same),
            sigma_mae_seeds: sigma(&by_seed) / mae,
            sigma_limit,
            mae_against_eager: 0.0,
            eager_limit: match (choice.dtype, paths) {
                (DtypeName::F32, Paths::Exact) => MOST_MOVED_BY_ROUNDING,
                // A draw may tip over by a rounding: no further than another seed is from this one.
                (DtypeName::F32, Paths::Sampled(_)) => sigma_limit,
                _ => MOST_MOVED_BY_DTYPE,
            },
            median_ms: times[times.len() / 2],
            sigma_ms: sigma(&times),
            plans_built: after.plans_built - before.plans_built,
            graphs_captured: after.graphs_captured - before.graphs_captured,
            host_syncs: after.host_syncs - before.host_syncs,
            pass: false,
        })
    }
}

/// Standard deviation of a sample; exactly 0 of equal numbers.
fn sigma(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let from_first = |value: &f64| value - values[0];
    let mean = values.iter().map(from_first).sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (from_first(value) - mean).powi(2)).sum();
    (squares / (count - 1.0).max(1.0)).sqrt()
}

fn table(rows: &[Row], failed: usize) -> String {
    let heading = [
        "symbol",
        "mode",
        "quantiles",
        "MAE",
        "same seed",
        "over seeds",
        "limit",
        "to eager",
        "limit",
        "median",
        "sigma",
        "plans",
        "graphs",
        "syncs",
        "",
    ];
    let percent = |share: f64| format!("{:.3}%", 100.0 * share);
    let cells = |row: &Row| -> Vec<String> {
        vec![
            row.symbol.clone(),
            format!("{} {} {}", row.mode, row.dtype, row.device),
            row.quantiles.clone(),
            format!("{:.6}", row.mae),
            if row.sigma_mae_same_seed == 0.0 { "0".into() } else { format!("{:.1e}", row.sigma_mae_same_seed) },
            if row.sigma_mae_seeds == 0.0 { "0".into() } else { percent(row.sigma_mae_seeds) },
            if row.sigma_limit == 0.0 { "0".into() } else { percent(row.sigma_limit) },
            if row.mae_against_eager == 0.0 { "0".into() } else { format!("{:+.1e}%", 100.0 * row.mae_against_eager) },
            percent(row.eager_limit),
            format!("{:.2} ms", row.median_ms),
            format!("{:.2} ms", row.sigma_ms),
            row.plans_built.to_string(),
            row.graphs_captured.to_string(),
            row.host_syncs.to_string(),
            (if row.pass { "PASS" } else { "FAIL" }).into(),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    format!("{}{} passed, {failed} failed\n", aligned(&heading, 3, &rows), rows.len() - failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_have_no_spread_at_all() {
        assert_eq!(sigma(&[0.1, 0.1, 0.1]), 0.0);
        assert!((sigma(&[1.0, 2.0, 3.0, 4.0]) - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
    }
}
