//! Every mode, dtype and device against eager f32.

use std::fmt::Write;
use std::process::ExitCode;

use nowcast::equivalence::{Report, Scope, Way, verify_candles, verify_series};
use nowcast::family::Located;
use nowcast::{Result, Series};
use serde_json::json;

use super::super::{input, print, print_json, synthetic::Synthetic, ways};
use super::verdict;
use crate::arguments::{ModeName, RunArguments, VerifyArguments, spelled};
use crate::device::{self, Care};
use crate::model;
use crate::progress::Progress;

/// What is compared where no file is given: as much as the longest context and the largest batch need.
const SYNTHETIC: Synthetic = Synthetic { context: 4096, variates: 1, horizon: 8 };
/// Items of it.
const SYNTHETIC_ITEMS: usize = 4;

pub(super) fn run(arguments: &VerifyArguments, name: &str) -> Result<ExitCode> {
    let run = &arguments.run;
    let tables = input::tables(&arguments.data, &arguments.columns)?;
    let located = model::locate(name, run)?;
    let ways = compared(arguments)?;
    let (baseline, _) = device::open("cpu", run.threads, Some(ModeName::Eager), care(run))?;
    let scope = if arguments.quick { Scope::quick() } else { Scope::whole() };
    let mut progress = Progress::new("verifying");
    let mut tell = |done, total| progress.update(done, total);
    let devices = (baseline, &ways[..]);
    let report = match located {
        Located::Toto(source) => {
            let series: Vec<Series> = match tables.is_empty() {
                true => (0..SYNTHETIC_ITEMS).map(|item| SYNTHETIC.series(item)).collect::<Result<_>>()?,
                false => input::series(&tables, &arguments.columns)?,
            };
            verify_series(&source, &series, devices, &scope, &mut tell)?
        }
        Located::Kronos(source) => {
            let markets = match tables.is_empty() {
                true => (0..SYNTHETIC_ITEMS).map(|item| SYNTHETIC.candles(item)).collect::<Result<_>>()?,
                false => input::markets(&tables, &arguments.columns, SYNTHETIC.horizon)?,
            };
            verify_candles(&source, &markets, devices, &scope, &mut tell)?
        }
    };
    drop(progress);
    if arguments.json {
        let devices: Vec<_> =
            ways.iter().map(|way| json!({"way": way.name, "device": way.device.describe()})).collect();
        print_json(&json!({
            "model": name, "version": env!("CARGO_PKG_VERSION"), "quick": arguments.quick, "ways": devices,
            "passed": report.passed, "failed": report.failed, "notes": report.notes, "checks": report.checks,
        }))?;
    } else {
        print(table(&report).as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(report.failed > 0)))
}

/// Memory is poisoned, so that reading what nobody wrote shows.
fn care(run: &RunArguments) -> Care {
    Care { poison: true, sync: run.sync }
}

/// What is compared with the eager mode of the CPU: all that is present but itself.
fn compared(arguments: &VerifyArguments) -> Result<Vec<Way>> {
    let run = &arguments.run;
    let mut ways: Vec<Way> = Vec::new();
    let mut leader = None;
    for choice in ways::present(run)? {
        let eager = choice.mode == ModeName::Eager;
        let on_cpu = choice.device == "cpu";
        if eager && on_cpu && run.mode.is_none() {
            continue;
        }
        let (device, _) = device::open(&choice.device, run.threads, Some(choice.mode), care(run))?;
        let one_thread = match on_cpu {
            true => Some(device::open(&choice.device, Some(1), Some(choice.mode), care(run))?.0),
            false => None,
        };
        // Modes beyond the default one choose among kernels of equal digits.
        let place = (choice.device.clone(), choice.dtype);
        let same_digits = !eager && leader.as_ref() == Some(&place);
        leader = (!eager).then_some(place);
        let name = format!("{} {} {}", spelled(&choice.mode), spelled(&choice.dtype), choice.device);
        ways.push(Way { name, device, one_thread, eager, dtype: choice.dtype.into(), same_digits });
    }
    Ok(ways)
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    let width = |of: fn(&nowcast::equivalence::Check) -> &str| {
        report.checks.iter().map(|check| of(check).len()).max().unwrap_or(0)
    };
    let (ways, settings, whats) =
        (width(|check| &check.way), width(|check| &check.setting), width(|check| &check.what));
    for check in &report.checks {
        let worst = check.worst.as_ref().map_or_else(String::new, |worst| format!("  ({worst})"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}  {:ways$}  {:settings$}  {:whats$}  {:>9}  limit {:>7}{worst}",
            verdict(check.pass),
            check.way,
            check.setting,
            check.what,
            number(check.measured),
            number(check.limit),
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "{} passed, {} failed", report.passed, report.failed);
    text
}

/// Counts as they are, shares and errors with two digits.
fn number(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 && value.abs() < 1e6 => format!("{value}"),
        value if value.abs() >= 0.01 => format!("{value:.3}"),
        value => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_counts_whole() {
        assert_eq!([0.0, 17.0, -0.4314, 3.21e-6].map(number), ["0", "17", "-0.431", "3.2e-6"]);
        assert_eq!(number(f64::NAN), "NaN");
    }
}
