//! Runs that succeed, and their answers.

use std::fs;
use std::path::Path;

use nowcast::data::{ReadOptions, Table};
use nowcast::{ForecastOptions, Forecaster, Series};
use serde_json::Value;

use crate::program::{Call, Run, model, repository};

/// Steps of one patch of the small model: up to here answers are exact.
pub(crate) const PATCH: usize = 16;

pub(crate) fn succeed(call: Call) -> Run {
    let run = call.run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    succeed(Call::new(arguments))
}

/// `forecast FILE --model <small> --context 256` and more.
pub(crate) fn forecast(file: &str, more: &[&str]) -> Run {
    run(&[&["forecast", file, "--model", &model(), "--context", "256"], more].concat())
}

pub(crate) fn json(file: &str, more: &[&str]) -> Value {
    parse(&forecast(file, &[more, &["--output", "json"]].concat()))
}

pub(crate) fn parse(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).expect("the standard output is JSON and nothing else")
}

pub(crate) fn example(name: &str) -> String {
    repository("examples").join(name).display().to_string()
}

pub(crate) fn vix() -> String {
    example("vix_daily.csv")
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The answer of the library to the same question.
pub(crate) fn from_library(options: &ForecastOptions) -> Vec<nowcast::Forecast> {
    let table = Table::read(Path::new(&vix()), &ReadOptions::default()).unwrap();
    let series: Vec<Series> = table.series().unwrap();
    Forecaster::load(&model()).unwrap().forecast(&series, options).unwrap()
}
