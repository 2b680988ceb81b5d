//! From the model flags to a forecaster.

use nowcast::checkpoint::{HubOptions, resolve_with_progress};
use nowcast::toto::LoadOptions;
use nowcast::{Error, Forecaster, Result};

use crate::arguments::{DtypeName, ModeName, RunArguments};
use crate::device;
use crate::progress::Progress;

/// Loads the model and says which mode it runs in.
pub(crate) fn load(model: &str, run: &RunArguments) -> Result<(Forecaster, ModeName)> {
    let DtypeName::F32 = run.dtype;
    let mode = mode(run.mode, |name| std::env::var(name).ok())?;
    let (device, mode) = device::open(&run.device, run.threads, mode, false)?;
    let mut hub = HubOptions::from_environment();
    hub.offline |= run.offline;
    hub.revision = run.revision.clone().or(hub.revision);
    let mut progress = Progress::new("downloading");
    let source = resolve_with_progress(model, &hub, &mut |file| {
        progress.update(file.done as usize, file.total.unwrap_or(file.done) as usize);
    })?;
    drop(progress);
    let options = LoadOptions { eager: mode == ModeName::Eager, variate_labels: run.variate_labels };
    let forecaster = Forecaster::load_with(&source, device, options)?;
    Ok((forecaster, mode))
}

/// The flag, else the variables of the old scripts, else what the device prefers.
fn mode(flag: Option<ModeName>, variable: impl Fn(&str) -> Option<String>) -> Result<Option<ModeName>> {
    if flag.is_some() {
        return Ok(flag);
    }
    if switch("TOTO_DISABLE_COMPILE", &variable)? == Some(true) || switch("TOTO_COMPILE", &variable)? == Some(false) {
        return Ok(Some(ModeName::Eager));
    }
    match variable("TOTO_COMPILE_MODE").as_deref() {
        None | Some("") => Ok(None),
        Some("default") => Ok(Some(ModeName::Default)),
        Some("eager") => Ok(Some(ModeName::Eager)),
        Some("reduce-overhead") => Ok(Some(ModeName::ReduceOverhead)),
        Some("max-autotune" | "max-autotune-no-cudagraphs") => Ok(Some(ModeName::MaxAutotune)),
        Some(other) => Err(Error::Setting(format!(
            "TOTO_COMPILE_MODE is {other:?}: choose eager, default, reduce-overhead or max-autotune"
        ))),
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

    fn with(variables: &[(&str, &str)], flag: Option<ModeName>) -> Result<Option<ModeName>> {
        mode(flag, |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn the_variables_of_old_scripts_choose_the_mode_and_flags_win() {
        assert_eq!(with(&[], None).unwrap(), None);
        assert_eq!(with(&[("TOTO_COMPILE", "0")], None).unwrap(), Some(ModeName::Eager));
        assert_eq!(with(&[("TOTO_COMPILE", "1")], None).unwrap(), None);
        assert_eq!(with(&[("TOTO_DISABLE_COMPILE", "1")], None).unwrap(), Some(ModeName::Eager));
        assert_eq!(with(&[("TOTO_COMPILE_MODE", "max-autotune")], None).unwrap(), Some(ModeName::MaxAutotune));
        let disabled = [("TOTO_DISABLE_COMPILE", "1")];
        assert_eq!(with(&disabled, Some(ModeName::ReduceOverhead)).unwrap(), Some(ModeName::ReduceOverhead));
        assert!(with(&[("TOTO_COMPILE_MODE", "fastest")], None).is_err());
        assert!(with(&[("TOTO_COMPILE", "off")], None).is_err());
    }
}
