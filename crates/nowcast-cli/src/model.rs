//! From the model flags to a forecaster.

use std::sync::Arc;

use nowcast::checkpoint::{HubOptions, resolve_with_progress};
use nowcast::device::CpuDevice;
use nowcast::toto::LoadOptions;
use nowcast::{Error, Forecaster, Result};

use crate::arguments::{DtypeName, ModeName, RunArguments};
use crate::progress::Progress;

/// Most threads that make sense on any machine of today.
const MOST_THREADS: usize = 1024;

/// Loads the model and says which mode it runs in.
pub(crate) fn load(model: &str, run: &RunArguments) -> Result<(Forecaster, ModeName)> {
    check_device(&run.device)?;
    let DtypeName::F32 = run.dtype;
    if let Some(threads) = run.threads.filter(|&threads| threads == 0 || threads > MOST_THREADS) {
        return Err(Error::Setting(format!("{threads} threads: choose 1 to {MOST_THREADS}")));
    }
    let mode = mode(run.mode, |name| std::env::var(name).ok())?;
    let mut hub = HubOptions::from_environment();
    hub.offline |= run.offline;
    hub.revision = run.revision.clone().or(hub.revision);
    let mut progress = Progress::new("downloading");
    let source = resolve_with_progress(model, &hub, &mut |file| {
        progress.update(file.done as usize, file.total.unwrap_or(file.done) as usize);
    })?;
    drop(progress);
    let options = LoadOptions { eager: mode == ModeName::Eager, variate_labels: run.variate_labels };
    let forecaster = Forecaster::load_with(&source, Arc::new(CpuDevice::new(run.threads)), options)?;
    Ok((forecaster, mode))
}

fn check_device(device: &str) -> Result<()> {
    match device {
        "auto" | "cpu" => Ok(()),
        _ if device == "cuda" || device.starts_with("cuda:") => {
            Err(Error::Setting(format!("--device {device}: this version has no CUDA device yet; use --device cpu")))
        }
        _ => Err(Error::Setting(format!("--device {device}: choose auto, cpu or cuda[:N]"))),
    }
}

/// The flag, else the variables of the old scripts, else `default`.
fn mode(flag: Option<ModeName>, variable: impl Fn(&str) -> Option<String>) -> Result<ModeName> {
    if let Some(mode) = flag {
        return Ok(mode);
    }
    if switch("TOTO_DISABLE_COMPILE", &variable)? == Some(true) || switch("TOTO_COMPILE", &variable)? == Some(false) {
        return Ok(ModeName::Eager);
    }
    match variable("TOTO_COMPILE_MODE").as_deref() {
        None | Some("" | "default") => Ok(ModeName::Default),
        Some("eager") => Ok(ModeName::Eager),
        Some("reduce-overhead") => Ok(ModeName::ReduceOverhead),
        Some("max-autotune" | "max-autotune-no-cudagraphs") => Ok(ModeName::MaxAutotune),
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

    fn with(variables: &[(&str, &str)], flag: Option<ModeName>) -> Result<ModeName> {
        mode(flag, |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn the_variables_of_old_scripts_choose_the_mode_and_flags_win() {
        assert_eq!(with(&[], None).unwrap(), ModeName::Default);
        assert_eq!(with(&[("TOTO_COMPILE", "0")], None).unwrap(), ModeName::Eager);
        assert_eq!(with(&[("TOTO_COMPILE", "1")], None).unwrap(), ModeName::Default);
        assert_eq!(with(&[("TOTO_DISABLE_COMPILE", "1")], None).unwrap(), ModeName::Eager);
        assert_eq!(with(&[("TOTO_COMPILE_MODE", "max-autotune")], None).unwrap(), ModeName::MaxAutotune);
        let disabled = [("TOTO_DISABLE_COMPILE", "1")];
        assert_eq!(with(&disabled, Some(ModeName::ReduceOverhead)).unwrap(), ModeName::ReduceOverhead);
        assert!(with(&[("TOTO_COMPILE_MODE", "fastest")], None).is_err());
        assert!(with(&[("TOTO_COMPILE", "off")], None).is_err());
    }

    #[test]
    fn devices_that_are_not_there_are_named() {
        assert!(check_device("cpu").is_ok());
        assert!(check_device("cuda:1").unwrap_err().to_string().contains("CUDA"));
        assert!(check_device("tpu").unwrap_err().to_string().contains("choose"));
    }
}
