//! The `nowcast` program: it parses the command line, runs one command, and says what went wrong in one line.

mod arguments;
mod commands;
mod model;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = arguments::Program::parse();
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
