//! From the model flags to a forecaster.

use nowcast::checkpoint::{HubOptions, ModelSource};
use nowcast::family::{self, Located};
use nowcast::kronos::{self, KronosSource};
use nowcast::{CandleForecaster, Error, Forecaster, Result, toto};

use crate::arguments::{CandleArguments, ModeName, RunArguments};
use crate::device;
use crate::progress::Progress;

/// Finds the model's files, and downloads them where they are not there yet.
pub(crate) fn locate(model: &str, run: &RunArguments) -> Result<Located> {
    device::check(&run.device, run.threads)?;
    let mut hub = HubOptions::from_environment();
    hub.offline |= run.offline;
    hub.revision = run.revision.clone().or(hub.revision);
    let mut progress = Progress::new("downloading");
    family::locate(model, run.tokenizer.as_deref(), &hub, &mut |file| {
        progress.update(file.done as usize, file.total.unwrap_or(file.done) as usize);
    })
}

/// Loads a Toto model.
pub(crate) fn load_series(source: &ModelSource, run: &RunArguments) -> Result<(Forecaster, ModeName)> {
    let (device, mode) = device::open(&run.device, run.threads, chosen_mode(run)?, false)?;
    let (eager, variate_labels, dtype) = (mode == ModeName::Eager, run.variate_labels, run.dtype.into());
    let options = toto::LoadOptions { eager, variate_labels, dtype };
    Ok((Forecaster::load_with(source, device, options)?, mode))
}

/// Loads a Kronos model.
pub(crate) fn load_candles(source: &KronosSource, run: &RunArguments) -> Result<(CandleForecaster, ModeName)> {
    let (device, mode) = device::open(&run.device, run.threads, chosen_mode(run)?, false)?;
    let options = kronos::LoadOptions { eager: mode == ModeName::Eager, dtype: run.dtype.into() };
    Ok((CandleForecaster::load_with(source, device, options)?, mode))
}

/// Refuses what only Kronos knows, for a Toto model.
pub(crate) fn refuse_candle_flags(model: &str, candles: &CandleArguments, repair: bool) -> Result<()> {
    let mut given = candles.given();
    given.extend(repair.then_some("--repair"));
    refuse(&given, model, "Toto", "Kronos")
}

/// Refuses what only Toto knows, for a Kronos model; `given` are the flags of the command.
pub(crate) fn refuse_series_flags(model: &str, mut given: Vec<&'static str>, run: &RunArguments) -> Result<()> {
    given.extend(run.variate_labels.then_some("--variate-labels"));
    refuse(&given, model, "Kronos", "Toto")
}

fn refuse(given: &[&str], model: &str, family: &str, other: &str) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let (flags, it) = (given.join(", "), if given.len() == 1 { "it" } else { "them" });
    Err(Error::Setting(format!(
        "{flags}: only {other} models know {it}, and {model} is a {family} model; leave {it} out or choose another --model"
    )))
}

fn chosen_mode(run: &RunArguments) -> Result<Option<ModeName>> {
    mode(run.mode, |name| std::env::var(name).ok())
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

    #[test]
    fn flags_of_the_other_family_are_refused_by_name() {
        assert!(refuse(&[], "nano", "Toto", "Kronos").is_ok());
        assert_eq!(
            refuse(&["--top-k", "--repair"], "nano", "Toto", "Kronos").unwrap_err().to_string(),
            "--top-k, --repair: only Kronos models know them, and nano is a Toto model; leave them out or choose another --model"
        );
    }
}
