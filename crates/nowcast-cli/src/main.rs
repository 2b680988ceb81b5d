//! The `nowcast` program: it parses the command line, runs one command, and says what went wrong in one line.

mod arguments;
mod commands;
mod device;
mod heap;
mod message;
mod model;
mod progress;
mod usage;

use std::process::ExitCode;

/// Exit status of everything that is wrong with what the user gave.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    heap::give_back_large_buffers();
    let arguments = match arguments::Program::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return usage::answer(&error),
    };
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            message::say("error", &error);
            ExitCode::from(BAD_INPUT)
        }
    }
}
