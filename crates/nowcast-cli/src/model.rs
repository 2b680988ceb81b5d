//! From the model flags to a forecaster.

use std::sync::Arc;

use nowcast::checkpoint::{HubOptions, ModelSource};
use nowcast::device::Device;
use nowcast::family::{self, Located};
use nowcast::kronos::{self, KronosSource};
use nowcast::{CandleForecaster, Error, Forecaster, Result, toto};

use crate::arguments::{Given, ModeName, RunArguments};
use crate::device::{self, Care};
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

fn open(run: &RunArguments) -> Result<(Arc<dyn Device>, ModeName)> {
    device::open(&run.device, run.threads, run.mode, Care { poison: false, sync: run.sync })
}

/// Loads a Toto model.
pub(crate) fn load_series(source: &ModelSource, run: &RunArguments) -> Result<(Forecaster, ModeName)> {
    let (device, mode) = open(run)?;
    Ok((load_series_on(source, run, device, mode)?, mode))
}

/// Loads a Toto model onto an open device.
pub(crate) fn load_series_on(
    source: &ModelSource,
    run: &RunArguments,
    device: Arc<dyn Device>,
    mode: ModeName,
) -> Result<Forecaster> {
    let (eager, variate_labels, dtype) = (mode == ModeName::Eager, run.variate_labels, run.dtype.into());
    let options = toto::LoadOptions { eager, variate_labels, dtype };
    Forecaster::load_with(source, device, options)
}

/// Loads a Kronos model.
pub(crate) fn load_candles(source: &KronosSource, run: &RunArguments) -> Result<(CandleForecaster, ModeName)> {
    let (device, mode) = open(run)?;
    Ok((load_candles_on(source, run, device, mode)?, mode))
}

/// Loads a Kronos model onto an open device.
pub(crate) fn load_candles_on(
    source: &KronosSource,
    run: &RunArguments,
    device: Arc<dyn Device>,
    mode: ModeName,
) -> Result<CandleForecaster> {
    let options = kronos::LoadOptions { eager: mode == ModeName::Eager, dtype: run.dtype.into() };
    CandleForecaster::load_with(source, device, options)
}

/// Refuses flags that only Kronos knows, for a Toto model.
pub(crate) fn refuse_candle_flags(model: &str, given: &[&[String]]) -> Result<()> {
    refuse(&given.concat(), model, "Toto", "Kronos")
}

/// Refuses flags that only Toto knows, for a Kronos model; `given` are those of the command, `run` has one more.
pub(crate) fn refuse_series_flags(model: &str, given: &[String], run: &Given<RunArguments>) -> Result<()> {
    let labels = run.given().iter().filter(|flag| *flag == "--variate-labels");
    let given: Vec<String> = given.iter().chain(labels).cloned().collect();
    refuse(&given, model, "Kronos", "Toto")
}

fn refuse(given: &[String], model: &str, family: &str, other: &str) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let (flags, it) = (given.join(", "), if given.len() == 1 { "it" } else { "them" });
    Err(Error::Setting(format!(
        "{flags}: only {other} models know {it}, and {model} is a {family} model; leave {it} out or choose another --model"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_other_family_are_refused_by_name() {
        assert!(refuse(&[], "nano", "Toto", "Kronos").is_ok());
        assert_eq!(
            refuse(&["--top-k".into(), "--repair".into()], "nano", "Toto", "Kronos").unwrap_err().to_string(),
            "--top-k, --repair: only Kronos models know them, and nano is a Toto model; leave them out or choose another --model"
        );
    }
}
