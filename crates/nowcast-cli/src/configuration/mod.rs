//! Settings beside the command line: flags win over variables, variables over `nowcast.toml`, and that over a preset.
//!
//! A variable is `NOWCAST_` and the name of the flag (`NOWCAST_MAX_CONTEXT`); those of the old scripts count as
//! `--mode`. `nowcast.toml` holds `flag = value` for every command and `[command]` tables for one. Whatever is found
//! becomes the default of the flag, so that each value is read, checked and explained by the flag's own parser.

mod explain;
mod layer;
mod variables;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgMatches, Command};
use nowcast::{Error, Result};
use toml::{Table, Value};

pub(crate) use explain::{Effective, Kind, effective};
use layer::{Layer, Values};
pub(crate) use variables::name_of as variable_of;

/// The name of the file.
const FILE: &str = "nowcast.toml";
/// A larger file is no configuration.
const MOST_BYTES: u64 = 1 << 20;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Variable(String),
    /// A `nowcast.toml`.
    File(PathBuf),
    /// A preset.
    Preset(String),
    /// The flag's own default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => formatter.write_str("flag"),
            Self::Variable(name) => write!(formatter, "variable {name}"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Preset(name) => write!(formatter, "preset {name}"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// The settings of one run that stand behind flags and `NOWCAST_` variables.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// The command they are for.
    command: String,
    /// What variables of old scripts ask for.
    old: Vec<variables::Old>,
    file: Option<(PathBuf, Layer)>,
    preset: Option<(String, Layer)>,
}

impl Configuration {
    /// Finds what applies to this command line; nothing, where it only asks for help.
    ///
    /// # Errors
    /// A file that cannot be read or says what no flag takes, an unknown preset, a variable with a wrong value.
    pub(crate) fn find(program: &Command, arguments: &[OsString]) -> Result<Self> {
        let lenient = with_variables(program.clone()).ignore_errors(true);
        let Ok(first) = lenient.try_get_matches_from(arguments) else { return Ok(Self::default()) };
        let Some((command, matches)) = first.subcommand() else { return Ok(Self::default()) };
        let mut found = Self { command: command.to_string(), ..Self::default() };
        let taken = program.find_subcommand(command).map_or_else(Vec::new, flags);
        // A command that has none of these flags does not mind what the variables say.
        if taken.iter().any(|argument| argument.get_long() == Some("mode")) {
            found.old = variables::old(|name| std::env::var(name).ok())?;
        }
        let mut presets = parse(Path::new("presets.toml"), include_str!("presets.toml"))?;
        let mut chosen = text(matches, "preset");
        if let Some(path) = place(matches)? {
            let mut table = parse(&path, &read(&path)?)?;
            chosen = chosen.or(take_preset(&mut table, &mut presets).map_err(|reason| wrong(&path, &reason))?);
            let layer = Layer::read(&table, program).map_err(|reason| wrong(&path, &reason))?;
            found.file = Some((path, layer));
        }
        if let Some(name) = chosen {
            let Some(Value::Table(settings)) = presets.get(&name) else {
                let names: Vec<&str> = presets.keys().map(String::as_str).collect();
                return Err(Error::Setting(format!("--preset {name}: choose {}", names.join(", "))));
            };
            let layer = Layer::read(settings, program).map_err(|reason| wrong(Path::new(&name), &reason))?;
            found.preset = Some((name, layer));
        }
        Ok(found)
    }

    /// The program whose flags default to these settings and listen to their variables.
    pub(crate) fn apply(&self, program: Command) -> Command {
        let program = with_variables(program);
        if self.command.is_empty() {
            return program;
        }
        let default = |argument: Arg| match self.get(argument.get_long().unwrap_or_default()) {
            Some((values, _)) => argument.required(false).default_values(values),
            None => argument,
        };
        program.mut_args(default).mut_subcommand(&self.command, |command| each_argument(command, &default))
    }

    /// The values of a flag and where they come from.
    fn get(&self, flag: &str) -> Option<(Values, Origin)> {
        if let Some(old) = self.old.iter().find(|old| old.flag == flag) {
            return Some((vec![old.value.clone()], Origin::Variable(old.variable.to_string())));
        }
        let from = |layer: &Layer, origin: Origin| Some((layer.get(&self.command, flag)?.clone(), origin));
        let file = self.file.as_ref().and_then(|(path, layer)| from(layer, Origin::File(path.clone())));
        file.or_else(|| self.preset.as_ref().and_then(|(name, layer)| from(layer, Origin::Preset(name.clone()))))
    }

    /// The file that was read.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }
}

/// The flags of a command that a file may set.
fn own_flags(command: &Command) -> impl Iterator<Item = Arg> {
    command.get_arguments().filter(|argument| settable(argument)).cloned()
}

/// The flags of a command and of those beneath it that a file may set.
fn flags(command: &Command) -> Vec<Arg> {
    own_flags(command).chain(command.get_subcommands().flat_map(flags)).collect()
}

/// Help, and what says where settings are, is for the command line and its variables.
fn settable(argument: &Arg) -> bool {
    argument.get_long().is_some_and(|name| !["help", "version", "config", "no-config", "preset"].contains(&name))
}

/// Lets every flag listen to its variable.
fn with_variables(program: Command) -> Command {
    each_argument(program, &|argument| {
        let Some(name) = argument.get_long().filter(|name| !["help", "version"].contains(name)) else {
            return argument;
        };
        let variable = variables::name_of(name);
        let argument = argument.env(variable).hide_env(true);
        let switch = matches!(argument.get_action(), clap::ArgAction::SetTrue);
        if switch { argument.value_parser(BoolishValueParser::new()) } else { argument }
    })
}

fn each_argument(command: Command, change: &impl Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|command| each_argument(command, change))
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.try_get_one::<String>(name).ok().flatten().cloned()
}

/// The file that was named, else the nearest `nowcast.toml` from here upwards, else the user's own.
fn place(matches: &ArgMatches) -> Result<Option<PathBuf>> {
    if matches.try_get_one::<bool>("no_config").ok().flatten() == Some(&true) {
        return Ok(None);
    }
    if let Some(path) = matches.try_get_one::<PathBuf>("config").ok().flatten() {
        return Ok(Some(path.clone()));
    }
    let here = std::env::current_dir().map_err(|error| Error::file(".", error))?;
    let nearest = here.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file());
    let home = || {
        let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
        Some(folder.join("nowcast").join(FILE)).filter(|path| path.is_file())
    };
    Ok(nearest.or_else(home))
}

fn read(path: &Path) -> Result<String> {
    let length = std::fs::metadata(path).map_err(|error| Error::file(path, error))?.len();
    if length > MOST_BYTES {
        return Err(wrong(path, "is too large for a configuration"));
    }
    std::fs::read_to_string(path).map_err(|error| Error::file(path, error))
}

fn parse(path: &Path, text: &str) -> Result<Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        wrong(path, &format!("line {line}: {}", error.message()))
    })
}

/// Takes `preset = "name"` and the `[presets.name]` tables out of a file; the latter go over those that are built in.
fn take_preset(table: &mut Table, presets: &mut Table) -> std::result::Result<Option<String>, String> {
    match table.remove("presets") {
        None => {}
        Some(Value::Table(own)) => {
            for (name, settings) in own {
                let Value::Table(settings) = settings else {
                    return Err(format!("presets.{name} is no table: write [presets.{name}]"));
                };
                match presets.entry(name).or_insert_with(|| Value::Table(Table::new())) {
                    Value::Table(known) => known.extend(settings),
                    other => *other = Value::Table(settings),
                }
            }
        }
        Some(_) => return Err("presets is made of tables: write [presets.NAME]".into()),
    }
    match table.remove("preset") {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err("preset is a name, such as \"production\"; settings of your own go under [presets.NAME]".into()),
    }
}

fn wrong(path: &Path, reason: &str) -> Error {
    Error::Setting(format!("{}: {reason}", path.display()))
}
