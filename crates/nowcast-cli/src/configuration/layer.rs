//! One source of settings: a `nowcast.toml`, or a preset.

use std::collections::BTreeMap;

use clap::{Arg, Command};
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
            let Value::Table(settings) = value else {
                let values = read_value(key, value, &super::flags(program)).map_err(|why| format!("{key} {why}"))?;
                layer.general.insert(dashed(key), values);
                continue;
            };
            let Some(command) = program.find_subcommand(key) else {
                let names = program.get_subcommands().map(Command::get_name);
                return Err(format!("[{key}] is no command{}", nearest(key, names)));
            };
            let flags: Vec<Arg> = super::flags(command).into_iter().chain(super::own_flags(program)).collect();
            let read = |(flag, value): (&String, &Value)| {
                let values = read_value(flag, value, &flags).map_err(|why| format!("[{key}] {flag} {why}"))?;
                Ok((dashed(flag), values))
            };
            layer.commands.insert(key.clone(), settings.iter().map(read).collect::<Result<_, String>>()?);
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

/// The values of a key, if one of the flags has that name and takes them.
fn read_value(key: &str, value: &Value, flags: &[Arg]) -> Result<Values, String> {
    let values = match value {
        Value::Array(items) => items.iter().map(scalar).collect::<Result<Vec<_>, _>>()?,
        value => vec![scalar(value)?],
    };
    let name = dashed(key);
    let mut refused = None;
    for flag in flags.iter().filter(|flag| flag.get_long() == Some(&name)) {
        match check(flag, &values) {
            Ok(()) => return Ok(values),
            Err(reason) => refused = Some(reason),
        }
    }
    let unknown = || format!("is no flag here{}", nearest(&name, flags.iter().filter_map(Arg::get_long)));
    Err(refused.unwrap_or_else(unknown))
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
fn check(argument: &Arg, values: &[String]) -> Result<(), String> {
    let Some(name) = argument.get_long() else { return Err("is no flag".into()) };
    let switch = !argument.get_action().takes_values();
    if switch {
        let fits = matches!(values, [value] if value == "true" || value == "false");
        return if fits { Ok(()) } else { Err("is on or off: write true or false".into()) };
    }
    let divided = |delimiter: char| values.iter().find(|value| values.len() > 1 && value.contains(delimiter));
    if let Some(value) = argument.get_value_delimiter().and_then(divided) {
        return Err(format!("has a comma within {value:?}, which divides values"));
    }
    // A flag on its own, without what it requires or excludes.
    let mut alone = Arg::new("value")
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
