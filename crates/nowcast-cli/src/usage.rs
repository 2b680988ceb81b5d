//! What is said about a wrong command line: one line that names the mistake and where to read on.

use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::Program;
use crate::{BAD_INPUT, configuration, message};

/// Prints help and version as asked; of a mistake, one line.
pub(crate) fn answer(error: &clap::Error) -> ExitCode {
    let asked = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if asked {
        // A reader that has gone away is no error.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { BAD_INPUT } else { 0 });
    }
    let command = std::env::args_os().nth(1).and_then(|name| {
        let program = Program::command();
        name.to_str().and_then(|name| program.find_subcommand(name)).map(|command| command.get_name().to_string())
    });
    let text = one_line(&error.render().to_string(), command.as_deref());
    match variable(error, std::env::args().skip(1)) {
        Some(name) => message::say("error", &format!("{name}: {text}")),
        None => message::say("error", &text),
    }
    ExitCode::from(BAD_INPUT)
}

/// The variable behind a wrong value, where the command line does not have the flag.
fn variable(error: &clap::Error, mut arguments: impl Iterator<Item = String>) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split([' ', '=', '[']).next()?.strip_prefix("--")?;
    let written = arguments.any(|argument| argument.strip_prefix("--").is_some_and(|name| name.starts_with(flag)));
    let name = configuration::variable_of(flag);
    (!written && std::env::var_os(&name).is_some()).then_some(name)
}

/// The paragraphs before the usage, joined.
fn one_line(text: &str, command: Option<&str>) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let said = text
        .lines()
        .map(str::trim)
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"));
    let mut line = String::new();
    for part in said.filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line += if line.ends_with(':') || part.starts_with('[') { " " } else { "; " };
        }
        line += part;
    }
    let command = command.map_or_else(String::new, |command| format!(" {command}"));
    format!("{line}; see nowcast{command} --help")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::arguments::Unread;

    fn line(arguments: &[&str]) -> String {
        let read = Program::read(arguments.iter().map(OsString::from));
        let Err(Unread::Usage(error)) = read else { panic!("{read:?}") };
        one_line(&error.render().to_string(), arguments.get(1).copied())
    }

    #[test]
    fn mistakes_are_one_line_with_their_cure() {
        assert_eq!(
            line(&["nowcast", "forecast", "a.csv"]),
            "the following required arguments were not provided: --horizon <N>; see nowcast forecast --help"
        );
        assert_eq!(
            line(&["nowcast", "forecast", "a.csv", "--horizon", "8", "--decode", "best"]),
            "invalid value 'best' for '--decode <DECODE>' [possible values: sample, mean]; see nowcast forecast --help"
        );
        let close = line(&["nowcast", "forecast", "a.csv", "--horizn", "8"]);
        assert!(close.contains("unexpected argument '--horizn'") && close.contains("'--horizon'"), "{close}");
    }
}
