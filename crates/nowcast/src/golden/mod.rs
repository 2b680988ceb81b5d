//! Parity with the public references: stored inputs and outputs, compared tensor by tensor.
//!
//! A case is a folder with `case.json`, `golden.safetensors` and the model: `config.json` and `model.safetensors` for
//! Toto, the folders `model` and `tokenizer` for Kronos. An error is the largest difference from the reference's f64
//! values (where only f32 is stored of Kronos, from its formulas in f64); its limit is the larger of twice the
//! reference's own f32 error and 1e-6 of the tensor's largest value. Token ids must be equal.

mod compare;
mod kronos;
mod toto;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use serde::Serialize;

use crate::family::ModelFamily;
use crate::{Error, Result};
pub(crate) use kronos::Twin as KronosTwin;

/// All cases of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Cases in which every check passed.
    pub passed: usize,
    /// The others.
    pub failed: usize,
    /// Folders that hold cases of models this version does not know.
    pub skipped: Vec<String>,
    /// One entry for each case.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// Name of its folder.
    pub case: String,
    /// Whether every check passed.
    pub pass: bool,
    /// Why it could not run, if it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// One entry for each tensor.
    pub checks: Vec<Check>,
}

/// One tensor.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Name of the stored tensor, with what it was compared by.
    pub tensor: String,
    /// Our largest error.
    pub error: f64,
    /// The reference's own f32 error, where both precisions are stored.
    pub reference_error: Option<f64>,
    /// The tensor's largest value, where it is compared with f64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<f64>,
    /// The largest error allowed.
    pub limit: f64,
    /// Whether the error is within the limit.
    pub pass: bool,
}

impl Check {
    fn new(tensor: impl Into<String>, error: f64, reference_error: Option<f64>, limit: f64) -> Self {
        // A NaN error never passes.
        Self { tensor: tensor.into(), error, reference_error, largest: None, limit, pass: error <= limit }
    }
}

/// Where and how the cases run.
struct Setting {
    device: Arc<dyn Device>,
    eager: bool,
    dtype: Dtype,
}

/// Runs every case below `folder` on the CPU, its memory poisoned. See [`verify_on`].
///
/// # Errors
/// The folder cannot be read or holds no case.
pub fn verify(
    folder: &Path,
    family: Option<ModelFamily>,
    eager: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    verify_on(Arc::new(CpuDevice::new(None).with_poisoned_memory()), folder, family, eager, progress)
}

/// Runs every case below `folder`; `eager` compares the unfused, unfolded mode. `progress` hears `(done, total)`.
///
/// # Errors
/// The folder cannot be read or holds no case.
pub fn verify_on(
    device: Arc<dyn Device>,
    folder: &Path,
    family: Option<ModelFamily>,
    eager: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    run(&Setting { device, eager, dtype: Dtype::F32 }, folder, family, progress)
}

/// Runs every case below `folder` in a dtype. Limits are those of f32: what another dtype is off by is told by
/// [`Check::error`] beside [`Check::largest`], and [`Check::pass`] says nothing.
///
/// # Errors
/// The folder cannot be read or holds no case.
pub fn measure_dtype(
    device: Arc<dyn Device>,
    folder: &Path,
    family: Option<ModelFamily>,
    dtype: Dtype,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    run(&Setting { device, eager: false, dtype }, folder, family, progress)
}

fn run(
    setting: &Setting,
    folder: &Path,
    family: Option<ModelFamily>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    // The name of a case is that of its folder, which `.` does not tell.
    let folder = &std::fs::canonicalize(folder).map_err(|error| Error::file(folder, error))?;
    let folders = cases(folder)?;
    let mut report = Report { passed: 0, failed: 0, skipped: Vec::new(), cases: Vec::new() };
    for (done, case) in folders.iter().enumerate() {
        progress(done, folders.len());
        let name = case.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let result = match family_of(&name) {
            None if family.is_none() => {
                report.skipped.push(name);
                continue;
            }
            of_case if family.is_some() && of_case != family => continue,
            None | Some(ModelFamily::Toto) => toto::verify(case, setting),
            Some(ModelFamily::Kronos) => kronos::verify(case, setting),
        };
        let (failure, checks) = match result {
            Ok(checks) => (None, checks),
            Err(error) => (Some(error.to_string()), Vec::new()),
        };
        let pass = failure.is_none() && !checks.is_empty() && checks.iter().all(|check| check.pass);
        *if pass { &mut report.passed } else { &mut report.failed } += 1;
        report.cases.push(Case { case: name, pass, failure, checks });
    }
    progress(folders.len(), folders.len());
    if report.cases.is_empty() {
        return Err(Error::Data(format!(
            "{}: none of its {} cases is of a model to verify (toto-*, kronos-*)",
            folder.display(),
            folders.len()
        )));
    }
    Ok(report)
}

/// Told by the name of the folder.
fn family_of(case: &str) -> Option<ModelFamily> {
    let families = [("toto-", ModelFamily::Toto), ("kronos-", ModelFamily::Kronos)];
    families.into_iter().find(|(prefix, _)| case.starts_with(prefix)).map(|(_, family)| family)
}

/// Folders with a `case.json`, in order of name; `folder` itself may be one.
fn cases(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.join("case.json").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    let mut cases: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join("case.json").is_file()).collect();
    cases.sort();
    if cases.is_empty() {
        return Err(Error::Data(format!("{}: no folder in it holds a case.json", folder.display())));
    }
    Ok(cases)
}
