//! The effective settings of a command line, each with its origin.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, Command};
use nowcast::{Error, Result};

use super::{Configuration, Origin, each_argument, settable, variables};

/// A setting as it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effective {
    /// The flag's name.
    pub(crate) flag: String,
    /// Its values; none where the command decides by itself.
    pub(crate) values: Vec<String>,
    /// Whether the flag takes several values, and whether it is a switch or a number.
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

/// How a value is written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Switch,
    One,
    List,
}

/// Every setting of the command that `arguments` begins with.
///
/// # Errors
/// As [`Configuration::find`], an unknown command, or flags it does not take.
pub(crate) fn effective(program: Command, arguments: &[OsString]) -> Result<(Configuration, Vec<Effective>)> {
    let program = each_argument(program, &|argument| argument.required(false)).mut_subcommands(free);
    let configuration = Configuration::find(&program, arguments)?;
    let mut program = configuration.apply(program);
    let usage = |error: clap::Error| {
        let text = error.render().to_string();
        Error::Setting(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string())
    };
    let matches = program.try_get_matches_from_mut(arguments).map_err(usage)?;
    let unknown = || Error::Setting("name a command, such as nowcast config --explain forecast".into());
    let (name, mut matches) = matches.subcommand().ok_or_else(unknown)?;
    let mut command = program.find_subcommand(name).ok_or_else(unknown)?;
    while let Some((name, beneath)) = matches.subcommand() {
        (matches, command) = (beneath, command.find_subcommand(name).ok_or_else(unknown)?);
    }
    let mut found = Vec::new();
    for argument in command.get_arguments().filter(|argument| settable(argument)) {
        let (Some(flag), id) = (argument.get_long(), argument.get_id().as_str()) else { continue };
        let values = matches.get_raw(id).into_iter().flatten();
        let values = values.map(|value| value.to_string_lossy().into_owned()).collect();
        let origin = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => Origin::Variable(variables::name_of(flag)),
            _ => configuration.get(flag).map_or(Origin::Default, |(_, origin)| origin),
        };
        found.push(Effective { flag: flag.to_string(), values, kind: kind(argument), origin });
    }
    Ok((configuration, found))
}

/// A command that runs without what it needs to do its work.
fn free(command: Command) -> Command {
    command.subcommand_required(false).arg_required_else_help(false)
}

fn kind(argument: &Arg) -> Kind {
    match argument.get_action() {
        clap::ArgAction::SetTrue => Kind::Switch,
        clap::ArgAction::Append => Kind::List,
        _ => Kind::One,
    }
}
