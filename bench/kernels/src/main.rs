//! Times our products beside those of well-kept crates and of PyTorch, interleaved in one run.
//!
//! Everybody multiplies the same numbers, with as many copies of the weights in turn as one forecast reads, and every
//! result is checked against sums in f64 before it is timed.

mod contestant;
mod engine;
mod problem;
mod report;
mod rten;
mod strided;
mod torch;

use clap::Parser;
use contestant::{Contestant, Result};
use engine::Engine;
use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::cpu::roofline;
use nowcast_engine::dtype::Dtype;
use problem::Problem;
use report::{Limits, Report, Row};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use strided::{Library, Order, Strided};
use torch::Python;

/// Operations of one timed run at most, so that contestants take turns often.
const OPERATIONS: f64 = 10e9;
/// What one limit of the machine is looked for.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two contestants, so that the threads of the last one sleep.
const PAUSE: Duration = Duration::from_millis(20);

/// Times our products beside those of well-kept crates and of PyTorch.
///
/// Example: nowcast-kernel-lab --python .venv/bin/python --out results/kernels.json
#[derive(Parser)]
struct Arguments {
    /// Rows of the products.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32, 200, 512, 1344, 1792])]
    rows: Vec<usize>,
    /// Inputs and outputs of the products, such as 768x2304.
    #[arg(long, value_delimiter = ',', value_parser = shape, default_value = "768x2304,768x6144,3072x768")]
    shapes: Vec<(usize, usize)>,
    /// Rounds: each contestant takes its turn once in each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// MiB of f32 weights that are read in turn (a forecast of Toto reads 451); bf16 and int8 have as many matrices.
    #[arg(long, default_value_t = 451)]
    weights: usize,
    /// A Python interpreter that has PyTorch, to time it, MKL and oneDNN too.
    #[arg(long)]
    python: Option<PathBuf>,
    /// A file for the raw rows, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn shape(text: &str) -> std::result::Result<(usize, usize), String> {
    let (inputs, outputs) = text.split_once('x').ok_or("write inputs and outputs as 768x2304")?;
    let number = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is no number of values")),
        Ok(number) => Ok(number),
    };
    Ok((number(inputs)?, number(outputs)?))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.rounds == 0 || arguments.rows.contains(&0) {
        return Err("--rounds and --rows must be at least 1".into());
    }
    let pool = ThreadPool::shared(ThreadPool::available_threads());
    let python =
        arguments.python.as_ref().map(|path| Python::start(path, pool.threads()).map(|p| Rc::new(RefCell::new(p))));
    let python = python.transpose()?;
    let mut versions = json!({ "crates": crates() });
    if let Some(python) = &python {
        versions["python"] = python.borrow_mut().versions()?;
    }
    let mut rows = Vec::new();
    for &(inputs, outputs) in &arguments.shapes {
        for &height in &arguments.rows {
            let problem = Problem { rows: height, inputs, outputs };
            rows.extend(compare(problem, arguments, &pool, python.as_ref())?);
        }
    }
    if let Some(path) = &arguments.out {
        let report = Report {
            date: jiff::Zoned::now().date().to_string(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            processor: report::processor(),
            threads: pool.threads(),
            versions,
            rows,
        };
        report::write(&report, path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Checks everybody's results, then times them in turn.
fn compare(
    problem: Problem,
    arguments: &Arguments,
    pool: &Arc<ThreadPool>,
    python: Option<&Rc<RefCell<Python>>>,
) -> Result<Vec<Row>> {
    let bytes = arguments.weights << 20;
    let copies = (bytes / (4 * problem.inputs * problem.outputs)).max(1);
    let limits = Limits {
        bandwidth: roofline::read_bandwidth(pool, bytes, PATIENCE)?,
        peak: roofline::peak(pool, Dtype::F32, PATIENCE).ok_or("f32 has no peak")?,
    };
    let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::Int8] {
        contestants.push(Box::new(Engine::new(problem, dtype, copies, pool)));
    }
    for library in [Library::Gemm, Library::MatrixMultiply, Library::Faer] {
        for order in [Order::Outputs, Order::Inputs] {
            contestants.push(Box::new(Strided::new(problem, library, order, copies, pool.threads())));
        }
    }
    contestants.push(Box::new(rten::Floats::new(problem, copies)));
    contestants.push(Box::new(rten::Integers::new(problem, copies)));
    if let Some(python) = python {
        for torch in Python::prepare(python, problem, copies)? {
            contestants.push(Box::new(torch));
        }
    }
    let calls = ((OPERATIONS / problem.operations()).ceil() as usize).clamp(1, copies);
    let mut rows = Vec::new();
    for contestant in &mut contestants {
        let (name, dtype, error) = (contestant.name(), contestant.dtype(), contestant.largest_error()?);
        if error > 1.0 {
            return Err(format!("{name} in {dtype}, {problem:?}: {error} times the error allowed").into());
        }
        rows.push(Row { problem, limits, name, dtype, error, calls, seconds: Vec::new() });
    }
    for round in 0..=arguments.rounds {
        for (contestant, row) in contestants.iter_mut().zip(&mut rows) {
            std::thread::sleep(PAUSE);
            let elapsed = contestant.time(calls)?.as_secs_f64();
            // The first round finds cold page tables.
            if round > 0 {
                row.seconds.push(elapsed);
            }
        }
    }
    report::print(problem, limits, &rows);
    Ok(rows)
}

/// The versions of the crates, from the lock file.
fn crates() -> Value {
    let lock = include_str!("../Cargo.lock");
    let version = |name: &str| {
        let (_, package) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        package.split('"').next()
    };
    ["nowcast-engine", "faer", "private-gemm-x86", "gemm", "matrixmultiply", "rten-gemm"]
        .into_iter()
        .map(|name| (name.to_string(), json!(version(name))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
