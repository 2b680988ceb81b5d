//! `nowcast bench`: forecasts of synthetic random walks, timed.

use std::fmt::Write;
use std::time::Instant;

use nowcast::forecaster::memory::in_words;
use nowcast::{Error, ForecastOptions, Result, Series};
use serde_json::{Value, json};

use super::{print, print_json};
use crate::arguments::{BenchArguments, spelled};
use crate::model;
use crate::progress::Progress;

/// More than this is a typing error, not a benchmark.
const MOST_VALUES: usize = 1 << 30;

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let values = [arguments.batch, arguments.variates, arguments.context]
        .into_iter()
        .try_fold(1usize, usize::checked_mul)
        .filter(|&values| (1..=MOST_VALUES).contains(&values));
    if values.is_none() || arguments.runs == 0 || arguments.runs > 1_000_000 {
        return Err(Error::Setting(format!(
            "batch, variates, context and runs must be at least 1, and the input at most {MOST_VALUES} values"
        )));
    }
    let started = Instant::now();
    let (mut forecaster, mode) = model::load(&arguments.model.model, &arguments.model.run)?;
    let load_ms = milliseconds(started);
    let series = (0..arguments.batch).map(|item| walk(arguments, item)).collect::<Result<Vec<_>>>()?;
    let mut options = ForecastOptions::new(arguments.horizon);
    options.context = Some(arguments.context);
    options.samples = (arguments.samples > 0).then_some(arguments.samples);
    options.memory_limit = arguments.model.run.memory_limit;

    let mut progress = Progress::new("timing");
    let mut times = Vec::with_capacity(arguments.runs + 1);
    for run in 0..=arguments.runs {
        options.seed = run as u64;
        let started = Instant::now();
        forecaster.forecast(&series, &options)?;
        times.push(milliseconds(started));
        progress.update(run + 1, arguments.runs + 1);
    }
    drop(progress);
    let (first, runs) = (times[0], &times[1..]);
    let summary = Summary::of(runs);
    let counters = forecaster.counters();
    let settings = json!({
        "model": arguments.model.model, "context": arguments.context, "horizon": arguments.horizon,
        "samples": arguments.samples, "batch": arguments.batch, "variates": arguments.variates,
        "runs": arguments.runs, "mode": spelled(&mode),
        "dtype": spelled(&arguments.model.run.dtype), "threads": arguments.model.run.threads,
        "version": env!("CARGO_PKG_VERSION"),
    });
    let peak = peak_bytes();
    if arguments.json {
        return print_json(&json!({
            "settings": settings,
            "load_ms": load_ms,
            "first_ms": first,
            "median_ms": summary.median,
            "p99_ms": summary.p99,
            "sigma_ms": summary.sigma,
            "runs_ms": runs,
            "weight_bytes": forecaster.weight_bytes(),
            "planned_bytes": counters.planned_bytes,
            "peak_bytes": peak,
            "counters": {
                "plans_built": counters.plans_built, "plans_reused": counters.plans_reused,
                "graphs_captured": counters.graphs_captured, "graphs_replayed": counters.graphs_replayed,
                "host_syncs": counters.host_syncs, "operations_run": counters.operations_run,
            },
        }));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} series of {} x {}, {} steps, {} samples: median {:.3} ms, 99% {:.3} ms, sigma {:.3} ms over {} runs",
        arguments.batch,
        arguments.variates,
        arguments.context,
        arguments.horizon,
        arguments.samples,
        summary.median,
        summary.p99,
        summary.sigma,
        arguments.runs
    );
    let _ = writeln!(text, "load {load_ms:.1} ms, first forecast {first:.1} ms");
    let _ = writeln!(
        text,
        "weights {}, plan {}, peak {}",
        in_words(forecaster.weight_bytes()),
        in_words(counters.planned_bytes),
        peak.as_u64().map_or_else(|| "unknown".into(), |bytes| in_words(bytes as usize))
    );
    let _ = writeln!(text, "plans built {}, reused {}", counters.plans_built, counters.plans_reused);
    print(text.as_bytes())
}

fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

/// A random walk from a linear congruential generator: the same on every machine.
fn walk(arguments: &BenchArguments, item: usize) -> Result<Series> {
    let variates = (0..arguments.variates).map(|variate| {
        let mut state = (item * arguments.variates + variate) as u64 + 1;
        let mut level = 100.0f64;
        let values = (0..arguments.context).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            level += (state >> 40) as f64 / f64::from(1 << 24) - 0.5;
            level as f32
        });
        (format!("item {item} variate {variate}"), values.collect())
    });
    Series::multivariate(variates.collect())
}

/// Median, 99% quantile and standard deviation of the timed runs.
struct Summary {
    median: f64,
    p99: f64,
    sigma: f64,
}

impl Summary {
    fn of(runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |level: f64| sorted[((sorted.len() - 1) as f64 * level).round() as usize];
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / runs.len() as f64;
        Self { median: at(0.5), p99: at(0.99), sigma: variance.sqrt() }
    }
}

/// The most memory the process had resident, where the system tells.
fn peak_bytes() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(Value::Null, |kibibytes| json!(kibibytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_known_times() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!((summary.median, summary.p99), (3.0, 5.0));
        assert!((summary.sigma - 2f64.sqrt()).abs() < 1e-12);
    }
}
