//! The `nowcast` program: it parses the command line, runs one command, and says what went wrong in one line.

// What cannot fail says why (`expect`); tests may unwrap.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod arguments;
mod commands;
mod configuration;
mod device;
mod heap;
mod message;
mod model;
mod peak;
mod progress;
mod usage;
mod watching;

use std::process::ExitCode;

use arguments::{Program, Unread};
use nowcast_cli::interrupt;
use watching::Watching;

/// Exit status of everything that is wrong with what the user gave.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    heap::give_back_large_buffers();
    let program = match Program::read(std::env::args_os()) {
        Ok(program) => program,
        Err(Unread::Usage(error)) => return usage::answer(&error),
        Err(Unread::Setting(error)) => return refuse(&error),
    };
    let watching = Watching::begin(&program.places.log, program.places.stats);
    if let Err(error) = interrupt::install(|text| message::say("note", &text)) {
        message::say("warning", &format!("Ctrl-C may leave files with temporary names: {error}"));
    }
    let code = commands::run(program).unwrap_or_else(|error| refuse(&error));
    watching.finish();
    code
}

fn refuse(error: &nowcast::Error) -> ExitCode {
    message::say("error", error);
    ExitCode::from(BAD_INPUT)
}
