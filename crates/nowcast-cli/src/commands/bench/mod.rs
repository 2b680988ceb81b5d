//! `nowcast bench`: one way to run a model, timed on synthetic input, or all of them beside each other.

mod comparison;
mod summary;

use std::fmt::Write;
use std::time::Instant;

use nowcast::family::Located;
use nowcast::forecaster::memory::in_words;
use nowcast::forecaster::{Counters, DEFAULT_PATHS, DEFAULT_SAMPLES};
use nowcast::{Error, ForecastOptions, Result};
use serde_json::{Map, Value, json};

use super::synthetic::Synthetic;
use super::{print, print_json};
use crate::arguments::{BenchArguments, FilterName, ModeName, WindowName, spelled};
use crate::model;
use crate::peak::peak_bytes;
use crate::progress::Progress;
use summary::Summary;

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
    if arguments.compare || !arguments.files.is_empty() {
        return comparison::run(arguments);
    }
    let BenchArguments { context, variates, horizon, .. } = *arguments;
    let synthetic = Synthetic { context, variates, horizon };
    let started = Instant::now();
    let timed = match model::locate(&arguments.model.model, &arguments.model.run)? {
        Located::Toto(source) => {
            model::refuse_candle_flags(&arguments.model.model, &[arguments.candles.given()])?;
            let (mut forecaster, mode) = model::load_series(&source, &arguments.model.run)?;
            let load_ms = milliseconds(started);
            let series = (0..arguments.batch).map(|item| synthetic.series(item)).collect::<Result<Vec<_>>>()?;
            let mut options = ForecastOptions::new(arguments.horizon);
            let samples = arguments.samples.unwrap_or(DEFAULT_SAMPLES);
            options.context = Some(arguments.context);
            options.samples = (samples > 0).then_some(samples);
            options.memory_limit = arguments.model.run.memory_limit;
            let times_ms = time(arguments.runs, |seed| {
                options.seed = seed;
                forecaster.forecast(&series, &options).map(drop)
            })?;
            let (counters, weight_bytes) = (forecaster.counters(), forecaster.weight_bytes());
            let input = format!("{} series of {} x {}", arguments.batch, arguments.variates, arguments.context);
            Timed { mode, samples, input, settings: Map::new(), load_ms, times_ms, counters, weight_bytes }
        }
        Located::Kronos(source) => {
            let variates = if arguments.variates == 1 { Vec::new() } else { vec!["--variates".to_string()] };
            model::refuse_series_flags(&arguments.model.model, &variates, &arguments.model.run)?;
            let (mut forecaster, mode) = model::load_candles(&source, &arguments.model.run)?;
            let load_ms = milliseconds(started);
            let candles = (0..arguments.batch).map(|item| synthetic.candles(item)).collect::<Result<Vec<_>>>()?;
            let mut options = arguments.candles.options(arguments.horizon);
            let samples = arguments.samples.unwrap_or(DEFAULT_PATHS);
            options.context = Some(arguments.context);
            options.samples = Some(samples);
            options.memory_limit = arguments.model.run.memory_limit;
            let times_ms = time(arguments.runs, |seed| {
                options.seed = seed;
                forecaster.forecast(&candles, &options).map(drop)
            })?;
            let (counters, weight_bytes) = (forecaster.counters(), forecaster.weight_bytes());
            let max_context = options.max_context.unwrap_or(forecaster.max_context());
            let settings = [
                ("max_context", json!(max_context)),
                ("temperature", json!(options.temperature)),
                ("top_k", json!(options.top_k)),
                ("top_p", json!(options.top_p)),
                ("filter", json!(spelled(&arguments.candles.filter.unwrap_or(FilterName::Reference)))),
                ("window", json!(spelled(&arguments.candles.window.unwrap_or(WindowName::Exact)))),
            ];
            let settings = settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
            let input = format!("{} market(s) of {} candles", arguments.batch, arguments.context);
            Timed { mode, samples, input, settings, load_ms, times_ms, counters, weight_bytes }
        }
    };
    timed.report(arguments)
}

fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

/// Times one forecast more than `runs`: the first one writes the plan.
fn time(runs: usize, mut forecast: impl FnMut(u64) -> Result<()>) -> Result<Vec<f64>> {
    let mut progress = Progress::new("timing");
    let mut times = Vec::with_capacity(runs + 1);
    for run in 0..=runs {
        let started = Instant::now();
        forecast(run as u64)?;
        times.push(milliseconds(started));
        progress.update(run + 1, runs + 1);
    }
    Ok(times)
}

/// What was measured.
struct Timed {
    mode: ModeName,
    samples: usize,
    /// What was forecast, in words.
    input: String,
    /// Settings that only this family has.
    settings: Map<String, Value>,
    load_ms: f64,
    /// The first forecast, then the timed ones.
    times_ms: Vec<f64>,
    counters: Counters,
    weight_bytes: usize,
}

impl Timed {
    fn report(&self, arguments: &BenchArguments) -> Result<()> {
        let (first, runs) = (self.times_ms[0], &self.times_ms[1..]);
        let (summary, counters, peak) = (Summary::of(runs), &self.counters, peak_bytes());
        if !arguments.json {
            return print(self.text(arguments, &summary, peak).as_bytes());
        }
        let mut settings = json!({
            "model": arguments.model.model, "context": arguments.context, "horizon": arguments.horizon,
            "samples": self.samples, "batch": arguments.batch, "variates": arguments.variates,
            "runs": arguments.runs, "mode": spelled(&self.mode),
            "dtype": spelled(&arguments.model.run.dtype), "threads": arguments.model.run.threads,
            "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(settings) = settings.as_object_mut() {
            settings.extend(self.settings.clone());
        }
        print_json(&json!({
            "settings": settings,
            "load_ms": self.load_ms,
            "first_ms": first,
            "median_ms": summary.median,
            "p99_ms": summary.p99,
            "sigma_ms": summary.sigma,
            "runs_ms": runs,
            "weight_bytes": self.weight_bytes,
            "planned_bytes": counters.planned_bytes,
            "peak_bytes": peak,
            "counters": {
                "plans_built": counters.plans_built, "plans_reused": counters.plans_reused,
                "graphs_captured": counters.graphs_captured, "graphs_replayed": counters.graphs_replayed,
                "host_syncs": counters.host_syncs, "operations_run": counters.operations_run,
            },
        }))
    }

    fn text(&self, arguments: &BenchArguments, summary: &Summary, peak: Option<u64>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}, {} steps, {} samples: median {:.3} ms, 99% {:.3} ms, sigma {:.3} ms over {} runs",
            self.input, arguments.horizon, self.samples, summary.median, summary.p99, summary.sigma, arguments.runs
        );
        let _ = writeln!(text, "load {:.1} ms, first forecast {:.1} ms", self.load_ms, self.times_ms[0]);
        let _ = writeln!(
            text,
            "weights {}, plan {}, peak {}",
            in_words(self.weight_bytes),
            in_words(self.counters.planned_bytes),
            peak.map_or_else(|| "unknown".into(), |bytes| in_words(bytes as usize))
        );
        let _ = writeln!(text, "plans built {}, reused {}", self.counters.plans_built, self.counters.plans_reused);
        text
    }
}
