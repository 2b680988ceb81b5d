//! A group of flags that remembers which of them the user gave.

use std::ops::{Deref, DerefMut};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The flags of `T`, and the names of those that came from the command line or a variable. What a configuration file or
/// a preset says is meant for every model, so it is no mistake where a model does not know it.
#[derive(Debug)]
pub(crate) struct Given<T> {
    flags: T,
    given: Vec<String>,
}

impl<T> Given<T> {
    /// The flags that were given, as they are written.
    pub(crate) fn given(&self) -> &[String] {
        &self.given
    }
}

impl<T> Deref for Given<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.flags
    }
}

/// What changes a flag later does not count as given.
impl<T> DerefMut for Given<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.flags
    }
}

impl<T: Args> Given<T> {
    fn found(matches: &ArgMatches) -> Vec<String> {
        let group = T::augment_args(Command::new("group"));
        let meant = |id: &str| {
            matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
                && matches.get_raw(id).is_some_and(|mut raw| raw.any(|value| value != "false"))
        };
        let given = group.get_arguments().filter(|argument| meant(argument.get_id().as_str()));
        given.filter_map(|argument| argument.get_long().map(|name| format!("--{name}"))).collect()
    }
}

impl<T: Args> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { flags: T::from_arg_matches(matches)?, given: Self::found(matches) })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let given = Self::found(matches);
        Ok(Self { flags: T::from_arg_matches_mut(matches)?, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for Given<T> {
    fn group_id() -> Option<clap::Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}
