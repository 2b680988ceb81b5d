//! Variables of the environment: `NOWCAST_` and the flag's name, and those that the old scripts set.

use nowcast::{Error, Result};

/// What every variable of this program begins with.
const PREFIX: &str = "NOWCAST_";

/// The variable of a flag.
pub(crate) fn name_of(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}

/// A flag that a variable of old scripts sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Old {
    /// The flag's name.
    pub(super) flag: &'static str,
    pub(super) value: String,
    pub(super) variable: &'static str,
}

/// What the variables of old scripts ask for.
///
/// # Errors
/// A value that none of them takes.
pub(super) fn old(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Old>> {
    let mode = old_mode(&variable)?.map(|(value, variable)| Old { flag: "mode", value, variable });
    let name = "CUDA_LAUNCH_BLOCKING";
    let sync = switch(name, &variable)?.filter(|on| *on);
    let sync = sync.map(|on| Old { flag: "sync", value: on.to_string(), variable: name });
    Ok(mode.into_iter().chain(sync).collect())
}

/// The mode that `TOTO_COMPILE`, `TOTO_COMPILE_MODE` or `TOTO_DISABLE_COMPILE` asks for, and which of them did.
///
/// # Errors
/// A value that none of them takes.
fn old_mode(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<(String, &'static str)>> {
    for (name, eager_if) in [("TOTO_DISABLE_COMPILE", true), ("TOTO_COMPILE", false)] {
        if switch(name, variable)? == Some(eager_if) {
            return Ok(Some(("eager".into(), name)));
        }
    }
    let name = "TOTO_COMPILE_MODE";
    match variable(name).as_deref() {
        None | Some("") => Ok(None),
        Some(mode @ ("default" | "eager" | "reduce-overhead" | "max-autotune")) => Ok(Some((mode.into(), name))),
        Some("max-autotune-no-cudagraphs") => Ok(Some(("max-autotune".into(), name))),
        Some(other) => {
            Err(Error::Setting(format!("{name} is {other:?}: choose eager, default, reduce-overhead or max-autotune")))
        }
    }
}

/// A variable that is 0, 1 or not set.
fn switch(name: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<Option<bool>> {
    match variable(name).as_deref() {
        None | Some("") => Ok(None),
        Some("0") => Ok(Some(false)),
        Some("1") => Ok(Some(true)),
        Some(other) => Err(Error::Setting(format!("{name} is {other:?}: set 0 or 1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Option<(String, &'static str)>> {
        old_mode(&|name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn flags_have_variables() {
        assert_eq!(name_of("max-context"), "NOWCAST_MAX_CONTEXT");
    }

    #[test]
    fn a_blocking_launch_is_a_synchronous_run() {
        let with = |value: &'static str| {
            old(move |name| (name == "CUDA_LAUNCH_BLOCKING").then(|| value.to_string()))
                .map(|found| found.into_iter().map(|old| (old.flag, old.value)).collect::<Vec<_>>())
        };
        assert_eq!(with("1").unwrap(), [("sync", "true".to_string())]);
        assert!(with("0").unwrap().is_empty() && with("").unwrap().is_empty());
        assert!(with("yes").is_err());
    }

    #[test]
    fn the_variables_of_old_scripts_choose_the_mode() {
        let eager = |name| Some(("eager".to_string(), name));
        assert_eq!(with(&[]).unwrap(), None);
        assert_eq!(with(&[("TOTO_COMPILE", "0")]).unwrap(), eager("TOTO_COMPILE"));
        assert_eq!(with(&[("TOTO_COMPILE", "1")]).unwrap(), None);
        assert_eq!(with(&[("TOTO_DISABLE_COMPILE", "1")]).unwrap(), eager("TOTO_DISABLE_COMPILE"));
        let chosen = with(&[("TOTO_COMPILE", "1"), ("TOTO_COMPILE_MODE", "max-autotune-no-cudagraphs")]).unwrap();
        assert_eq!(chosen, Some(("max-autotune".into(), "TOTO_COMPILE_MODE")));
        assert!(with(&[("TOTO_COMPILE_MODE", "fastest")]).is_err());
        assert!(with(&[("TOTO_COMPILE", "off")]).is_err());
    }
}
