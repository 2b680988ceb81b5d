//! Parity with the public reference, stage by stage.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use nowcast::golden::{self, Case, Report};
use nowcast::{ModelFamily, Result};

use super::super::{print, print_json};
use super::verdict;
use crate::arguments::{FamilyName, ModeName, VerifyArguments};
use crate::device::{self, Care};
use crate::progress::Progress;

pub(super) fn run(arguments: &VerifyArguments, folder: &Path) -> Result<ExitCode> {
    let family = arguments.family.map(|family| match family {
        FamilyName::Toto => ModelFamily::Toto,
        FamilyName::Kronos => ModelFamily::Kronos,
    });
    let run = &arguments.run;
    let place = if super::was_given(run, "--device") { &run.device } else { "cpu" };
    let mode = run.mode.unwrap_or(ModeName::Default);
    // Memory is poisoned, so that reading what nobody wrote shows.
    let care = Care { poison: true, sync: run.sync };
    let (device, _) = device::open(place, run.threads, Some(mode), care)?;
    let mut progress = Progress::new("verifying");
    let report = golden::verify_on(device, folder, family, mode == ModeName::Eager, &mut |done, total| {
        progress.update(done, total);
    })?;
    drop(progress);
    if arguments.json {
        print_json(&report)?;
    } else {
        print(table(&report).as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(report.failed > 0)))
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        append(&mut text, case);
    }
    if !report.skipped.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "not verified by this version: {}", report.skipped.join(", "));
    }
    let _ = writeln!(text, "{} passed, {} failed", report.passed, report.failed);
    text
}

fn append(text: &mut String, case: &Case) {
    let _ = writeln!(text, "{} {}", verdict(case.pass), case.case);
    if let Some(failure) = &case.failure {
        let _ = writeln!(text, "  {failure}");
    }
    let width = case.checks.iter().map(|check| check.tensor.len()).max().unwrap_or(0);
    if !case.checks.is_empty() {
        let _ = writeln!(text, "  {:width$}  {:>9}  {:>9}  {:>9}", "tensor", "error", "reference", "limit");
    }
    for check in &case.checks {
        let reference = check.reference_error.map_or_else(|| "-".into(), |error| format!("{error:.2e}"));
        let _ = writeln!(
            text,
            "  {:width$}  {:>9}  {reference:>9}  {:>9}  {}",
            check.tensor,
            format!("{:.2e}", check.error),
            format!("{:.2e}", check.limit),
            verdict(check.pass)
        );
    }
    text.push('\n');
}
