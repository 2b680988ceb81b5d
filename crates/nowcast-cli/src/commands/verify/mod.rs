//! `nowcast verify`: every way to run a model against its eager mode, or stored values of the public reference.

mod goldens;
mod modes;

use std::process::ExitCode;

use nowcast::{Error, Result};

use crate::arguments::{Given, RunArguments, VerifyArguments};

pub(crate) fn run(arguments: &VerifyArguments) -> Result<ExitCode> {
    for flag in ["--memory-limit", "--variate-labels"] {
        if was_given(&arguments.run, flag) {
            return Err(Error::Setting(format!("{flag}: verify runs with and without limits by itself; leave it out")));
        }
    }
    // The parser lets this pass: what it requires stands against the model.
    if arguments.family.is_some() && arguments.goldens.is_none() {
        return Err(Error::Setting("--family chooses among the cases of --goldens DIR: leave it out".into()));
    }
    match (&arguments.goldens, &arguments.model) {
        (Some(folder), _) => goldens::run(arguments, folder),
        (None, Some(model)) => modes::run(arguments, model),
        (None, None) => Err(Error::Setting("name a model, or a folder of cases with --goldens".into())),
    }
}

/// Whether the user gave a flag.
fn was_given(run: &Given<RunArguments>, flag: &str) -> bool {
    run.given().iter().any(|given| given == flag)
}

fn verdict(pass: bool) -> &'static str {
    if pass { "PASS" } else { "FAIL" }
}
