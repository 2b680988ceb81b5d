//! `nowcast bench`: one way to run a model, timed on synthetic input, or all of them beside each other.

mod comparison;
mod occupied;
mod roofline;
mod summary;
mod times;
mod workload;

use std::fmt::Write;
use std::time::{Duration, Instant};

use nowcast::Result;
use nowcast::forecaster::memory::in_words;
use serde_json::json;

use super::{print, print_json};
use crate::arguments::{BenchArguments, ModeName};
use crate::device::{self, Care};
use crate::model;
use crate::peak::peak_bytes;
use crate::progress::Progress;
use occupied::Occupied;
use summary::Summary;
use times::Times;
use workload::Workload;

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    workload::check(arguments)?;
    if arguments.compare || !arguments.files.is_empty() {
        return comparison::run(arguments);
    }
    if arguments.roofline {
        return roofline::run(arguments);
    }
    let started = Instant::now();
    let run = &arguments.model.run;
    let located = model::locate(&arguments.model.model, run)?;
    let (device, mode) = device::open(&run.device, run.threads, run.mode, Care { poison: false, sync: run.sync })?;
    let occupied = Occupied::since_now(&run.device, &device)?;
    let mut workload = Workload::new(&located, arguments, device, mode)?;
    let load_ms = milliseconds(started);
    let times = time(arguments.runs, arguments.warm_up(), &mut workload)?;
    Timed { workload, mode, load_ms, times, occupied: occupied.bytes() }.report(arguments)
}

fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

fn time(runs: usize, warm_up: Duration, workload: &mut Workload) -> Result<Times> {
    let mut progress = Progress::new("timing");
    Times::of(runs, times::after(warm_up), |seed| workload.forecast(seed), |done| progress.update(done, runs + 1))
}

/// What was measured.
struct Timed {
    workload: Workload,
    mode: ModeName,
    load_ms: f64,
    times: Times,
    /// Memory of the GPU that model and plan took.
    occupied: Option<usize>,
}

impl Timed {
    fn report(&self, arguments: &BenchArguments) -> Result<()> {
        let times = &self.times;
        let (summary, counters, peak) = (Summary::of(&times.runs_ms), self.workload.counters(), peak_bytes());
        if !arguments.json {
            return print(self.text(arguments, &summary, peak).as_bytes());
        }
        print_json(&json!({
            "settings": self.workload.settings(arguments, self.mode),
            "load_ms": self.load_ms,
            "first_ms": times.first_ms,
            "warm_up_runs": times.warm_up_runs,
            "median_ms": summary.median,
            "p99_ms": summary.p99,
            "sigma_ms": summary.sigma,
            "runs_ms": times.runs_ms,
            "weight_bytes": self.workload.weight_bytes(),
            "planned_bytes": counters.planned_bytes,
            "device_bytes": self.occupied,
            "peak_bytes": peak,
            "counters": {
                "plans_built": counters.plans_built, "plans_reused": counters.plans_reused,
                "graphs_captured": counters.graphs_captured, "graphs_replayed": counters.graphs_replayed,
                "host_syncs": counters.host_syncs, "operations_run": counters.operations_run,
            },
        }))
    }

    fn text(&self, arguments: &BenchArguments, summary: &Summary, peak: Option<u64>) -> String {
        let (input, samples, counters) =
            (self.workload.input(arguments), self.workload.samples(), self.workload.counters());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{input}, {} steps, {samples} samples: {} over {} runs",
            arguments.horizon,
            summary.text(),
            arguments.runs
        );
        let (first_ms, warm_up_runs) = (self.times.first_ms, self.times.warm_up_runs);
        let _ =
            writeln!(text, "load {:.1} ms, first forecast {first_ms:.1} ms, {warm_up_runs} to warm up", self.load_ms);
        let _ = writeln!(
            text,
            "weights {}, plan {}, peak {}",
            in_words(self.workload.weight_bytes()),
            in_words(counters.planned_bytes),
            peak.map_or_else(|| "unknown".into(), |bytes| in_words(bytes as usize))
        );
        if let Some(occupied) = self.occupied {
            let _ = writeln!(text, "on the GPU {}, as its driver counts", in_words(occupied));
        }
        let _ = writeln!(text, "plans built {}, reused {}", counters.plans_built, counters.plans_reused);
        text
    }
}
