//! What a run found, for people and for machines.

use crate::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// What the machine could do just before a problem was timed.
#[derive(Clone, Copy, Serialize)]
pub struct Limits {
    /// Bytes read per second from a buffer as large as the weights in turn.
    pub bandwidth: f64,
    /// f32 operations per second.
    pub peak: f64,
}

/// A contestant's times for a problem.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub problem: Problem,
    #[serde(flatten)]
    pub limits: Limits,
    pub name: String,
    pub dtype: &'static str,
    /// The largest error, in units of what the dtype and the number of inputs allow.
    pub error: f64,
    /// Products in each of the times below.
    pub calls: usize,
    /// One time for each round.
    pub seconds: Vec<f64>,
}

impl Row {
    /// The median time of one product, in seconds.
    pub fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2] / self.calls as f64
    }

    fn bytes(&self) -> f64 {
        let Problem { inputs, outputs, .. } = self.problem;
        let bytes_per_weight = match self.dtype {
            "int8" => 1,
            "bf16" => 2,
            _ => 4,
        };
        (inputs * outputs * bytes_per_weight) as f64
    }

    /// Operations and weight bytes per second, and the larger of their shares of the limits.
    fn rates(&self) -> (f64, f64, f64) {
        let (operations, bytes) = (self.problem.operations() / self.median(), self.bytes() / self.median());
        (operations, bytes, (operations / self.limits.peak).max(bytes / self.limits.bandwidth))
    }
}

/// Everything that is kept of a run.
#[derive(Serialize)]
pub struct Report {
    pub date: String,
    pub command: String,
    pub processor: String,
    pub threads: usize,
    pub versions: Value,
    pub rows: Vec<Row>,
}

/// Prints the contestants of one problem, the fastest of each dtype first.
pub fn print(problem: Problem, limits: Limits, rows: &[Row]) {
    let Problem { rows: height, inputs, outputs } = problem;
    println!(
        "\n{height} x {inputs} -> {outputs}: {:.1} GB/s, f32 {:.0} GFLOPS",
        limits.bandwidth / 1e9,
        limits.peak / 1e9
    );
    let mut order: Vec<&Row> = rows.iter().collect();
    let dtype = |row: &Row| ["f32", "bf16", "int8"].iter().position(|name| *name == row.dtype);
    order.sort_by(|a, b| dtype(a).cmp(&dtype(b)).then(a.median().total_cmp(&b.median())));
    println!("{:6} {:44} {:>9} {:>8} {:>7} {:>7} {:>12}", "", "", "us", "GFLOPS", "GB/s", "limit", "error/bound");
    for row in order {
        let (operations, bytes, share) = row.rates();
        let (time, error) = (row.median() * 1e6, row.error);
        println!(
            "{:6} {:44} {time:>9.1} {:>8.1} {:>7.2} {:>6.1}% {error:>12.1e}",
            row.dtype,
            row.name,
            operations / 1e9,
            bytes / 1e9,
            share * 100.0
        );
    }
}

/// Writes the report under a temporary name and renames it.
pub fn write(report: &Report, path: &Path) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, serde_json::to_string_pretty(report)? + "\n")?;
    std::fs::rename(unfinished, path)
}

/// The processor's name, as the system gives it.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")).and_then(|line| line.split(':').nth(1));
    name.map_or_else(|| std::env::consts::ARCH.into(), |name| name.trim().into())
}
