//! Whether this machine computes what it should: every kind of operation, every model alone, all of them together.
//!
//! | file | what it owns |
//! |---|---|
//! | [`facts`] | what is there: processor, memory, GPU, folders |
//! | `models` | a model at work, compared with its unfused self on the CPU |

pub mod facts;
mod models;

use std::sync::Arc;

use nowcast_engine::check;
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::Device;
use serde::Serialize;

use crate::family::Located;
use crate::{Error, Result};
use models::{Alone, Loaded, together};

/// What is examined.
pub struct Patient<'a> {
    /// Opens the device; with `true` it looks at what every operation makes.
    pub open: &'a dyn Fn(bool) -> Result<Arc<dyn Device>>,
    /// Whether everything runs on the device that looks.
    pub sync: bool,
    /// Models and what to call them.
    pub models: &'a [(String, Located)],
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it was.
    pub check: String,
    /// Whether it went as it should.
    pub pass: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Check {
    /// A check by its outcome.
    pub fn of<T>(check: impl Into<String>, outcome: &Result<T>) -> Self {
        let failure = outcome.as_ref().err().map(ToString::to_string);
        Self { check: check.into(), pass: failure.is_none(), failure }
    }
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Diagnosis {
    /// The device in words; none where it could not be opened.
    pub device: Option<String>,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that did not.
    pub failed: usize,
    /// The first of them.
    pub first_failure: Option<String>,
    /// All of them, in order.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// Adds a check.
    pub fn push(&mut self, check: Check) {
        match check.pass {
            true => self.passed += 1,
            false => self.failed += 1,
        }
        if let Some(failure) = check.failure.as_ref().filter(|_| self.first_failure.is_none()) {
            self.first_failure = Some(format!("{}: {failure}", check.check));
        }
        self.checks.push(check);
    }
}

/// Examines a device with its models; `progress` hears `(done, total)`.
pub fn examine(patient: &Patient<'_>, progress: &mut dyn FnMut(usize, usize)) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    let device = match (patient.open)(patient.sync) {
        Ok(device) => device,
        Err(error) => {
            diagnosis.push(Check::of::<()>("the device opens", &Err(error)));
            return diagnosis;
        }
    };
    diagnosis.device = Some(device.describe());
    let operations = check::operations();
    let total = operations.len() + patient.models.len() + usize::from(patient.models.len() > 1);
    // One thread and no neighbours: the plainest way this program has to compute anything.
    let reference = CpuDevice::new(Some(1));
    for operation in operations {
        let outcome = operation.compare(device.as_ref(), &reference).map_err(Error::of_device);
        diagnosis.push(Check::of(operation.name, &outcome));
        progress(diagnosis.checks.len(), total);
    }
    let mut healthy: Vec<Alone<'_>> = Vec::new();
    for (name, source) in patient.models {
        let outcome = Alone::examine(name, source, &device);
        // NaN may be lost on the way to the answer, so that it is looked for where it is made.
        let looked = if patient.sync { Ok(()) } else { look(patient, source) };
        let outcome = match (outcome, looked) {
            (outcome, Ok(())) => outcome,
            (Ok(_), Err(found)) => Err(found),
            (Err(error), Err(found)) if error.to_string() == found.to_string() => Err(error),
            (Err(error), Err(found)) => Err(Error::Device(format!("{error}; the first operation that fails: {found}"))),
        };
        diagnosis.push(Check::of(format!("{name} alone"), &outcome));
        healthy.extend(outcome.ok());
        progress(diagnosis.checks.len(), total);
    }
    if healthy.len() > 1 {
        let names: Vec<&str> = healthy.iter().map(|alone| alone.name).collect();
        let name = format!("{} together under one memory budget", names.join(" and "));
        diagnosis.push(Check::of(name, &together(&healthy, &device)));
        progress(total, total);
    }
    diagnosis
}

/// Runs a model on the device that looks at what every operation makes.
fn look(patient: &Patient<'_>, source: &Located) -> Result<()> {
    let device = (patient.open)(true)?;
    Loaded::load(source, device, false)?.certain().map(drop)
}
