//! `nowcast config`: the settings that a command line would have, and where each comes from.

use std::ffi::OsString;
use std::fmt::Write;

use nowcast::{Error, Result};
use serde_json::json;
use toml::{Table, Value};

use super::{print, print_json};
use crate::arguments::{ConfigArguments, Places, Program};
use crate::configuration::{Configuration, Effective, Kind, Origin, effective};

pub(crate) fn run(arguments: &ConfigArguments, places: &Places) -> Result<()> {
    let line: Vec<OsString> = [OsString::from("nowcast")]
        .into_iter()
        .chain(places.flags())
        .chain(if arguments.line.is_empty() { vec!["forecast".into()] } else { arguments.line.clone() })
        .collect();
    let (configuration, settings) = effective(Program::command_line(), &line)?;
    if arguments.json {
        let file = configuration.file().map(|path| path.display().to_string());
        let settings: Vec<_> = settings
            .iter()
            .map(|found| {
                let value = (!found.values.is_empty()).then(|| value(found));
                json!({"flag": found.flag, "value": value, "origin": found.origin.to_string()})
            })
            .collect();
        return print_json(&json!({"file": file, "settings": settings}));
    }
    print(if arguments.explain { explained(&configuration, &settings) } else { as_file(&settings)? }.as_bytes())
}

/// One line for each setting: name, value, origin.
fn explained(configuration: &Configuration, settings: &[Effective]) -> String {
    let rows: Vec<(&str, String, String)> = settings
        .iter()
        .map(|found| {
            let shown = if found.values.is_empty() { "-".into() } else { found.values.join(",") };
            (found.flag.as_str(), shown, found.origin.to_string())
        })
        .collect();
    let width = |cell: fn(&(&str, String, String)) -> usize| rows.iter().map(cell).max().unwrap_or(0);
    let (names, values) = (width(|row| row.0.chars().count()), width(|row| row.1.chars().count()));
    let mut text = match configuration.file() {
        Some(path) => format!("# {}\n", path.display()),
        None => "# no nowcast.toml here, in a folder above, or in the user's configuration\n".to_string(),
    };
    for (name, value, origin) in &rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:names$}  {value:values$}  {origin}");
    }
    text
}

/// The settings that are not defaults, as a `nowcast.toml` would say them.
fn as_file(settings: &[Effective]) -> Result<String> {
    let chosen = settings.iter().filter(|found| found.origin != Origin::Default && !found.values.is_empty());
    let table: Table = chosen.map(|found| (found.flag.clone(), value(found))).collect();
    toml::to_string(&table).map_err(|error| Error::Setting(format!("cannot write the settings as TOML: {error}")))
}

fn value(found: &Effective) -> Value {
    let one = |text: &String| match (found.kind, text.parse::<i64>(), text.parse::<f64>()) {
        (Kind::Switch, ..) => Value::Boolean(text == "true"),
        (_, Ok(number), _) => Value::Integer(number),
        (_, _, Ok(number)) if number.is_finite() => Value::Float(number),
        _ => Value::String(text.clone()),
    };
    match (found.kind, found.values.as_slice()) {
        (Kind::List, values) => Value::Array(values.iter().map(one).collect()),
        (_, [value]) => one(value),
        (_, values) => Value::String(values.join(",")),
    }
}
