//! `nowcast doctor`: what is there to run on, and whether it computes what it should.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use nowcast::Result;
use nowcast::checkpoint::HubOptions;
use nowcast::device::{CudaDevice, Device};
use nowcast::doctor::facts::{Facts, Library};
use nowcast::doctor::{Check, Diagnosis, Patient, examine};
use nowcast::family::{self, Located};
use nowcast::forecaster::memory::in_words;
use serde::Serialize;

use super::{print, print_json};
use crate::arguments::DoctorArguments;
use crate::device::{self, Care};
use crate::progress::Progress;

/// Of the files that a library was looked for under, people see this many.
const NAMES_SHOWN: usize = 4;

/// Everything that is told.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    facts: Facts,
    #[serde(flatten)]
    diagnosis: Diagnosis,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode> {
    device::check(&arguments.device, arguments.threads)?;
    let mut hub = HubOptions::from_environment();
    hub.offline |= arguments.offline;
    let models = locate(&arguments.models, &hub)?;
    let facts = Facts::gather(&hub);
    let mut progress = Progress::new("examining");
    let mut diagnose = |name: &str| {
        let open = |sync| -> Result<Arc<dyn Device>> {
            let care = Care { poison: true, sync };
            device::open(name, arguments.threads, arguments.mode, care).map(|(device, _)| device)
        };
        let patient = Patient { open: &open, sync: arguments.sync, models: &models };
        examine(&patient, &mut |done, total| progress.update(done, total))
    };
    // A GPU that is there and cannot be used is a failure; a machine without one is as healthy as any.
    let name = if arguments.device == "auto" && CudaDevice::count() > 0 { "cuda" } else { &arguments.device };
    let diagnosis = match diagnose(name) {
        failed if failed.device.is_none() && arguments.device == "auto" => {
            let mut diagnosis = Diagnosis::default();
            failed.checks.into_iter().for_each(|check| diagnosis.push(check));
            let on_cpu = diagnose("cpu");
            diagnosis.device = on_cpu.device;
            on_cpu.checks.into_iter().for_each(|check| diagnosis.push(check));
            diagnosis
        }
        diagnosis => diagnosis,
    };
    drop(progress);
    let report = Report { facts, diagnosis };
    if arguments.json {
        print_json(&report)?;
    } else {
        print(report.text().as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(report.diagnosis.failed > 0)))
}

/// The models that were named, or those that are built in.
fn locate(names: &[String], hub: &HubOptions) -> Result<Vec<(String, Located)>> {
    let mut progress = Progress::new("downloading");
    let mut find = |name: &str| {
        let found = family::locate(name, None, hub, &mut |file| {
            progress.update(file.done as usize, file.total.unwrap_or(file.done) as usize);
        });
        found.map(|found| (name.to_string(), found))
    };
    if names.is_empty() {
        // A build without them has none.
        return Ok(["nano", "kronos-nano"].into_iter().filter_map(|name| find(name).ok()).collect());
    }
    names.iter().map(|name| find(name)).collect()
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.lines() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<13} {value}");
        }
        text.push('\n');
        for Check { check, pass, failure } in &self.diagnosis.checks {
            let _ = writeln!(text, "{}  {check}", if *pass { "PASS" } else { "FAIL" });
            if let Some(failure) = failure {
                let _ = writeln!(text, "      {failure}");
            }
        }
        let Diagnosis { passed, failed, first_failure, .. } = &self.diagnosis;
        let _ = writeln!(text, "\n{passed} passed, {failed} failed");
        if let Some(first) = first_failure {
            let _ = writeln!(text, "first failure: {first}");
        }
        text
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Facts { version, platform, cpu, memory, gpus, kernel_cache, checkpoints, .. } = &self.facts;
        let mut lines = vec![
            ("nowcast", format!("{version}, {platform}")),
            ("processor", format!("{} threads, {} of {}", cpu.threads, cpu.instruction_set, cpu.supported.join(", "))),
            ("memory", {
                let limit = memory.limit_bytes.map_or_else(String::new, |limit| {
                    format!(", limited to {} by the container or job", in_words(limit))
                });
                let available = memory.available_bytes.map_or_else(|| "unknown".into(), in_words);
                format!("{available} available{limit}")
            }),
            ("driver", library(&self.facts.driver)),
            ("compiler", library(&self.facts.compiler)),
        ];
        for gpu in gpus {
            let memory = format!("{} of {} free", in_words(gpu.free_bytes), in_words(gpu.total_bytes));
            let kernels = format!("{} of {} kernel files compiled", gpu.kernels_compiled, gpu.kernels);
            lines.push(("GPU", format!("{}, {}, {}, {memory}, {kernels}", gpu.device, gpu.name, gpu.architecture)));
        }
        if gpus.is_empty() {
            lines.push(("GPU", "none".into()));
        }
        lines.push(("kernel cache", {
            let damaged = match kernel_cache.damaged {
                0 => String::new(),
                damaged => format!(", {damaged} damaged (compiled again when needed)"),
            };
            let size = in_words(usize::try_from(kernel_cache.bytes).unwrap_or(usize::MAX));
            format!("{}, {} entries, {size}{damaged}", place(kernel_cache.folder.as_ref()), kernel_cache.entries)
        }));
        lines.push(("checkpoints", {
            let cache = place(checkpoints.cache.as_ref());
            let network = match (checkpoints.downloads, checkpoints.offline) {
                (false, _) => "this build downloads nothing".into(),
                (true, true) => "offline".into(),
                (true, false) => format!("downloads from {}", checkpoints.endpoint),
            };
            let token = if checkpoints.has_token { "with an access token" } else { "without an access token" };
            format!("{cache}, {} models, {network}, {token}", checkpoints.cached_models)
        }));
        lines.push(("runs on", self.diagnosis.device.clone().unwrap_or_else(|| "nothing".into())));
        lines
    }
}

fn place(folder: Option<&PathBuf>) -> String {
    folder.map_or_else(|| "no folder (HOME is not set)".into(), |folder| folder.display().to_string())
}

fn library(library: &Library) -> String {
    match (&library.loaded, &library.version) {
        (Some(path), Some(version)) => format!("{}, CUDA {version}", path.display()),
        (Some(path), None) => path.display().to_string(),
        (None, _) => {
            let mut names: Vec<String> = library.looked_for.iter().map(|path| path.display().to_string()).collect();
            let more = names.len().saturating_sub(NAMES_SHOWN);
            names.truncate(NAMES_SHOWN);
            let more = if more > 0 { format!(" and {more} more names (--json lists them)") } else { String::new() };
            format!("none; looked for {}{more}", names.join(", "))
        }
    }
}
