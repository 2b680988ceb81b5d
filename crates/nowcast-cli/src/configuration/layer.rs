//! One source of settings: a `nowcast.toml`, or a preset.

use std::collections::BTreeMap;

use clap::Command;
use toml::{Table, Value};

/// The values of one setting; lists have several.
pub(super) type Values = Vec<String>;

/// Settings for every command, and for one command alone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    general: BTreeMap<String, Values>,
    commands: BTreeMap<String, BTreeMap<String, Values>>,
}

impl Layer {
    /// Reads a table: `flag = value`, and `[command]` tables of the same.
    ///
    /// # Errors
    /// A key that is no flag of the program, or a value that its flag does not take; the text names the key.
    pub(super) fn read(table: &Table, program: &Command) -> Result<Self, String> {
        let mut layer = Self::default();
        for (key, value) in table {
            match value {
                Value::Table(settings) => {
                    let Some(command) = program.find_subcommand(key).filter(|command| !command.is_hide_set()) else {
                        let names = program.get_subcommands().map(Command::get_name);
                        return Err(format!("[{key}] is no command{}", nearest(key, names)));
                    };
                    let mut found = BTreeMap::new();
                    for (flag, value) in settings {
                        let name = dashed(flag);
                        let values = read_value(&name, value, &[command])
                            .map_err(|reason| format!("[{key}] {flag} {reason}"))?;
                        found.insert(name, values);
                    }
                    layer.commands.insert(key.clone(), found);
                }
                value => {
                    let all: Vec<&Command> = program.get_subcommands().collect();
                    let name = dashed(key);
                    let values = read_value(&name, value, &all).map_err(|reason| format!("{key} {reason}"))?;
                    layer.general.insert(name, values);
                }
            }
        }
        Ok(layer)
    }

    /// The values of a command's flag; what is said for the command wins.
    pub(super) fn get(&self, command: &str, flag: &str) -> Option<&Values> {
        self.commands.get(command).and_then(|settings| settings.get(flag)).or_else(|| self.general.get(flag))
    }
}

/// `max_context` and `max-context` are one flag.
fn dashed(key: &str) -> String {
    key.replace('_', "-")
}

/// The values of a flag, if one of the commands has it and takes them.
fn read_value(flag: &str, value: &Value, commands: &[&Command]) -> Result<Values, String> {
    let values = match value {
        Value::Array(items) => items.iter().map(scalar).collect::<Result<Vec<_>, _>>()?,
        value => vec![scalar(value)?],
    };
    let mut taken = None;
    for argument in commands.iter().flat_map(|command| super::flags(command)).filter(|found| named(found, flag)) {
        match check(&argument, &values) {
            Ok(()) => return Ok(values),
            Err(reason) => taken = Some(reason),
        }
    }
    Err(taken.unwrap_or_else(|| {
        let names: Vec<String> = commands
            .iter()
            .flat_map(|command| super::flags(command))
            .filter_map(|argument| argument.get_long().map(str::to_string))
            .collect();
        format!("is no flag here{}", nearest(flag, names.iter().map(String::as_str)))
    }))
}

fn named(argument: &clap::Arg, flag: &str) -> bool {
    argument.get_long() == Some(flag)
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(switch) => Ok(switch.to_string()),
        Value::Datetime(time) => Ok(time.to_string()),
        Value::Array(_) | Value::Table(_) => Err("holds more than a list of values".into()),
    }
}

/// Whether a flag takes these values, by the flag's own parser.
fn check(argument: &clap::Arg, values: &[String]) -> Result<(), String> {
    let Some(name) = argument.get_long() else { return Err("is no flag".into()) };
    let switch = !argument.get_action().takes_values();
    if switch {
        let fits = matches!(values, [value] if value == "true" || value == "false");
        return if fits { Ok(()) } else { Err("is on or off: write true or false".into()) };
    }
    if let (Some(delimiter), Some(value)) = (
        argument.get_value_delimiter(),
        values
            .iter()
            .find(|value| values.len() > 1 && argument.get_value_delimiter().is_some_and(|d| value.contains(d))),
    ) {
        return Err(format!("has a {delimiter:?} within {value:?}, which divides values"));
    }
    // A flag on its own, without what it requires or excludes.
    let mut alone = clap::Arg::new("value")
        .long(name.to_string())
        .action(argument.get_action().clone())
        .allow_hyphen_values(true)
        .value_parser(argument.get_value_parser().clone());
    if let Some(delimiter) = argument.get_value_delimiter() {
        alone = alone.value_delimiter(delimiter);
    }
    let line = values.iter().map(|value| format!("--{name}={value}"));
    let parsed = Command::new("check").no_binary_name(true).arg(alone).try_get_matches_from(line);
    parsed.map(drop).map_err(|error| {
        let text = error.render().to_string();
        let first: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let first = first.join(" ");
        format!("does not fit: {}", first.strip_prefix("error: ").unwrap_or(&first))
    })
}

/// `; did you mean X?`, where something is near.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let best = names.map(|name| (strsim::jaro_winkler(wrong, name), name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, name)) if likeness > 0.8 => format!("; did you mean {name}?"),
        _ => String::new(),
    }
}
