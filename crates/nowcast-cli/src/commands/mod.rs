//! One file for each command.

mod asks;
mod backtest;
mod baseline;
mod bench;
mod columns;
mod config;
mod doctor;
mod evaluation;
mod files;
mod forecast;
mod input;
mod inspect;
mod params;
mod stability;
mod symbols;
mod synthetic;
mod tune;
mod verify;
mod ways;

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use nowcast::{Error, Result};

use crate::arguments::{Command, Program};

/// Runs a command; its exit status says whether what it checked holds.
pub(crate) fn run(program: Program) -> Result<ExitCode> {
    match program.command {
        Command::Forecast(arguments) => forecast::run(arguments, program.places.stats).map(|()| ExitCode::SUCCESS),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Stability(arguments) => stability::run(&arguments),
        Command::Baseline(arguments) => baseline::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Bench(arguments) => bench::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Config(arguments) => config::run(&arguments, &program.places).map(|()| ExitCode::SUCCESS),
        Command::Backtest(arguments) => backtest::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Completions(arguments) => {
            let mut script = Vec::new();
            clap_complete::generate(arguments.shell, &mut Program::command(), "nowcast", &mut script);
            print(&script).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Writes to the standard output; a reader that has gone away (`| head`) is no error.
fn print(bytes: &[u8]) -> Result<()> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::file("standard output", error)),
        _ => Ok(()),
    }
}

/// Writes a value as indented JSON.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::Data(format!("cannot write JSON: {error}")))?;
    text.push(b'\n');
    print(&text)
}
