//! `nowcast bench --roofline`: what the processor can do at most, and each operation's share of it.
//!
//! A forecast is limited by the bandwidth at which weights are read or by the arithmetic of its products. Both limits
//! are measured in the same process, on the same threads, just before the forecast. A buffer as large as the weights is
//! read as often just after it: what its times vary by is the machine's.

mod limits;
mod table;

use std::sync::Arc;
use std::time::Duration;

use nowcast::device::{CpuDevice, Profile};
use nowcast::{Error, Result};

use super::workload::Workload;
use super::{print, print_json, time};
use crate::arguments::{BenchArguments, ModeName};
use crate::{device, model};
use limits::Limits;
use table::Table;

pub(super) fn run(arguments: &BenchArguments) -> Result<()> {
    let run = &arguments.model.run;
    let located = model::locate(&arguments.model.model, run)?;
    if device::meant(&run.device)? != "cpu" {
        return Err(Error::Setting(format!(
            "--roofline measures the CPU, and --device {} is a GPU: give --device cpu",
            run.device
        )));
    }
    let mode = run.mode.unwrap_or(ModeName::Default);
    let profile = Arc::new(Profile::default());
    let device = Arc::new(CpuDevice::new(run.threads).with_profile(Arc::clone(&profile)));
    let mut workload = Workload::new(&located, arguments, Arc::clone(&device) as _, mode)?;
    let limits = Limits::measure(&device, workload.weight_bytes())?;

    // The first forecast writes the plan.
    workload.forecast(0)?;
    profile.clear();
    // All of them count, the first one, too: limits were measured just before.
    let times = time(arguments.runs - 1, Duration::ZERO, &mut workload)?;
    let times_ms: Vec<f64> = std::iter::once(times.first_ms).chain(times.runs_ms).collect();
    let control_ms = limits::read_weights(&device, workload.weight_bytes(), times_ms.len())?;
    let table = Table::new(&limits, profile.entries(), &times_ms, &control_ms);
    if arguments.json {
        print_json(&table.json(workload.settings(arguments, mode)))
    } else {
        print(table.text(&workload.input(arguments), arguments.horizon, workload.samples()).as_bytes())
    }
}
