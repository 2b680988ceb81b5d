//! Every operation beside its limit, for people and for machines.

use std::fmt::Write;

use nowcast::device::ProfileEntry;
use nowcast::forecaster::memory::in_words;
use serde_json::{Map, Value, json};

use super::super::summary::Summary;
use super::limits::Limits;

/// Operations that take a smaller share of the time are shown together.
const SHOWN: f64 = 0.002;

/// What the operations of a forecast took, each beside the least it could take.
pub(super) struct Table<'a> {
    limits: &'a Limits,
    /// Of all forecasts together.
    entries: Vec<ProfileEntry>,
    forecasts: usize,
    summary: Summary,
    /// Passes over a buffer as large as the weights.
    control: Summary,
    /// Seconds of all forecasts from call to answer.
    seconds: f64,
}

/// One line: of one forecast, all its calls together.
struct Line {
    calls: f64,
    seconds: f64,
    bytes: f64,
    flops: f64,
    /// The least it could take, and never more than it took: what runs from a cache does not excuse what does not.
    least: f64,
}

impl Line {
    fn share(&self) -> f64 {
        self.least / self.seconds
    }

    fn json(&self) -> Map<String, Value> {
        let pairs = [
            ("calls", json!(self.calls)),
            ("ms", json!(self.seconds * 1e3)),
            ("bytes", json!(self.bytes)),
            ("flops", json!(self.flops)),
            ("gigabytes_per_second", json!(self.bytes / self.seconds / 1e9)),
            ("gigaflops", json!(self.flops / self.seconds / 1e9)),
            ("limit_ms", json!(self.least * 1e3)),
            ("share_of_limit", json!(self.share())),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn text(&self, name: &str, shape: &str) -> String {
        format!(
            "{name:<16} {shape:<44} {:>6.0} {:>9.3} {:>9.1} {:>9.3} {:>8.1} {:>8.1} {:>6.1}%\n",
            self.calls,
            self.seconds * 1e3,
            self.bytes / 1e6,
            self.flops / 1e9,
            self.bytes / self.seconds / 1e9,
            self.flops / self.seconds / 1e9,
            100.0 * self.share(),
        )
    }
}

impl<'a> Table<'a> {
    /// From what was noted during forecasts that took these times, and the times of as many passes over a buffer.
    pub(super) fn new(limits: &'a Limits, entries: Vec<ProfileEntry>, times_ms: &[f64], control_ms: &[f64]) -> Self {
        let seconds = times_ms.iter().sum::<f64>() / 1e3;
        let (summary, control) = (Summary::of(times_ms), Summary::of(control_ms));
        Self { limits, entries, forecasts: times_ms.len(), summary, control, seconds }
    }

    /// Some entries as one line.
    fn line<'e>(&self, entries: impl Iterator<Item = &'e ProfileEntry>) -> Line {
        let forecasts = self.forecasts as f64;
        let mut line = Line { calls: 0.0, seconds: 0.0, bytes: 0.0, flops: 0.0, least: 0.0 };
        for entry in entries {
            let seconds = entry.time.as_secs_f64();
            line.calls += entry.calls as f64 / forecasts;
            line.seconds += seconds / forecasts;
            line.bytes += entry.bytes as f64 / forecasts;
            line.flops += entry.flops as f64 / forecasts;
            line.least += self.limits.seconds(entry).min(seconds) / forecasts;
        }
        line
    }

    fn operations(&self) -> Line {
        self.line(self.entries.iter())
    }

    /// Products alone.
    fn products(&self) -> Line {
        self.line(self.entries.iter().filter(|entry| entry.operation == "linear"))
    }

    /// Seconds of a forecast outside its operations: preparing, planning, reading, assembling.
    fn outside(&self) -> f64 {
        self.seconds / self.forecasts as f64 - self.operations().seconds
    }

    pub(super) fn json(&self, settings: Map<String, Value>) -> Value {
        let limits = self.limits;
        let peaks: Map<String, Value> =
            limits.peaks.iter().map(|(dtype, peak)| (dtype.name().to_string(), json!(peak / 1e9))).collect();
        let operation = |entry: &ProfileEntry| {
            let mut line = self.line(std::iter::once(entry)).json();
            line.insert("operation".into(), json!(entry.operation));
            line.insert("shape".into(), json!(entry.shape));
            line.insert("dtype".into(), json!(entry.dtype.name()));
            Value::Object(line)
        };
        json!({
            "settings": settings,
            "limits": {
                "device": limits.device,
                "memory_gigabytes_per_second": limits.memory / 1e9,
                "buffer_bytes": limits.buffer,
                "last_level_cache_bytes": limits.cache_bytes,
                "weight_bytes": limits.weight_bytes,
                "weights_fit_last_level_cache": limits.weights_fit(),
                "weights_gigabytes_per_second": limits.weights / 1e9,
                "gigaflops": peaks,
            },
            "median_ms": self.summary.median,
            "p99_ms": self.summary.p99,
            "sigma_ms": self.summary.sigma,
            "control": {
                "median_ms": self.control.median, "p99_ms": self.control.p99, "sigma_ms": self.control.sigma,
            },
            "operations": self.entries.iter().map(operation).collect::<Vec<_>>(),
            "products": self.products().json(),
            "all_operations": self.operations().json(),
            "outside_ms": self.outside() * 1e3,
        })
    }

    pub(super) fn text(&self, input: &str, horizon: usize, samples: usize) -> String {
        let limits = self.limits;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", limits.device);
        let _ = write!(text, "memory {:.1} GB/s (a buffer of {})", limits.memory / 1e9, in_words(limits.buffer));
        for (dtype, peak) in &limits.peaks {
            let _ = write!(text, ", {dtype} {:.0} GFLOPS", peak / 1e9);
        }
        let weights = in_words(limits.weight_bytes);
        let cache = match (limits.weights_fit(), limits.cache_bytes) {
            (Some(true), Some(size)) => format!("fit the last-level cache of {}", in_words(size)),
            (Some(false), Some(size)) => format!("do not fit the last-level cache of {}", in_words(size)),
            _ => "beside a last-level cache of unknown size".into(),
        };
        let _ = writeln!(text, "\nweights of {weights} {cache}: {:.1} GB/s for their size", limits.weights / 1e9);
        let _ = writeln!(
            text,
            "{input}, {horizon} steps, {samples} samples: {} over {} runs",
            self.summary.text(),
            self.forecasts
        );
        let _ = writeln!(text, "a buffer of {weights}, read as often: {}\n", self.control.text());
        let _ = writeln!(
            text,
            "{:<16} {:<44} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8} {:>7}",
            "operation", "shape", "calls", "ms", "MB", "GFLOP", "GB/s", "GFLOPS", "limit"
        );
        let all = self.operations();
        let few = |entry: &&ProfileEntry| self.line(std::iter::once(*entry)).seconds < SHOWN * all.seconds;
        for entry in self.entries.iter().filter(|entry| !few(entry)) {
            text += &self.line(std::iter::once(entry)).text(entry.operation, &entry.shape);
        }
        if self.entries.iter().any(|entry| few(&entry)) {
            text += &self.line(self.entries.iter().filter(few)).text("others", "each below 0.2% of the time");
        }
        text += &self.products().text("products", "");
        text += &all.text("all operations", "");
        let _ = writeln!(text, "{:<16} {:<44} {:>6} {:>9.3}", "outside them", "", "", self.outside() * 1e3);
        text
    }
}
