//! From `--device` to a device.

use std::sync::Arc;

use nowcast::device::{CpuDevice, CudaDevice, Device};
use nowcast::{Error, Result};

use crate::arguments::ModeName;

/// Most threads that make sense on any machine of today.
const MOST_THREADS: usize = 1024;

/// What a user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Auto,
    Cpu,
    Cuda(usize),
}

/// How closely a device looks at what it does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Care {
    /// Memory is filled with NaN before it is used.
    pub(crate) poison: bool,
    /// Every operation is waited for, and what it makes is looked at.
    pub(crate) sync: bool,
}

/// Opens a device and completes the mode: on a GPU a forecast is one graph unless the user says otherwise.
pub(crate) fn open(
    name: &str,
    threads: Option<usize>,
    mode: Option<ModeName>,
    care: Care,
) -> Result<(Arc<dyn Device>, ModeName)> {
    check(name, threads)?;
    let gpu = |ordinal: usize| -> Result<(Arc<dyn Device>, ModeName)> {
        let missing = |error| Error::Setting(format!("--device {name}: {error}; or use --device cpu"));
        let device = CudaDevice::new(ordinal).map_err(missing)?;
        let mode = mode.unwrap_or(if care.sync { ModeName::Default } else { ModeName::ReduceOverhead });
        let device = device.with_checked_operations(care.sync);
        let device = device.with_measured_choices(mode == ModeName::MaxAutotune);
        let device = device.with_graphs(matches!(mode, ModeName::ReduceOverhead | ModeName::MaxAutotune));
        // The accuracy baseline, with the digits of the CPU.
        let device = device.with_exact_sums(mode == ModeName::Eager);
        Ok((Arc::new(if care.poison { device.with_poisoned_memory() } else { device }), mode))
    };
    match choice(name)? {
        Choice::Cuda(ordinal) => return gpu(ordinal),
        Choice::Auto if CudaDevice::count() > 0 => match gpu(0) {
            Ok(device) => return Ok(device),
            Err(error) => crate::message::say("note", &format!("the CPU is used: {error}")),
        },
        Choice::Auto | Choice::Cpu => {}
    }
    let device = CpuDevice::new(threads).with_checked_operations(care.sync);
    let device = if care.poison { device.with_poisoned_memory() } else { device };
    Ok((Arc::new(device), mode.unwrap_or(ModeName::Default)))
}

/// What a name means on this machine: `cpu` or `cuda:N`.
pub(crate) fn meant(name: &str) -> Result<String> {
    Ok(match choice(name)? {
        Choice::Cuda(ordinal) => format!("cuda:{ordinal}"),
        Choice::Auto if CudaDevice::count() > 0 => "cuda:0".into(),
        Choice::Auto | Choice::Cpu => "cpu".into(),
    })
}

/// Refuses what no machine can mean, before anything is downloaded.
pub(crate) fn check(name: &str, threads: Option<usize>) -> Result<()> {
    if let Some(threads) = threads.filter(|&threads| threads == 0 || threads > MOST_THREADS) {
        return Err(Error::Setting(format!("{threads} threads: choose 1 to {MOST_THREADS}")));
    }
    choice(name).map(|_| ())
}

fn choice(name: &str) -> Result<Choice> {
    let unknown = || Error::Setting(format!("--device {name}: choose auto, cpu or cuda[:N]"));
    match name {
        "auto" => Ok(Choice::Auto),
        "cpu" => Ok(Choice::Cpu),
        "cuda" => Ok(Choice::Cuda(0)),
        _ => name.strip_prefix("cuda:").and_then(|number| number.parse().ok()).map(Choice::Cuda).ok_or_else(unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!(choice("auto").unwrap(), Choice::Auto);
        assert_eq!(choice("cuda").unwrap(), Choice::Cuda(0));
        assert_eq!(choice("cuda:12").unwrap(), Choice::Cuda(12));
        for unknown in ["tpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            assert!(choice(unknown).unwrap_err().to_string().contains("choose"), "{unknown}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error_that_says_why() {
        let Err(error) = open("cuda:99", None, None, Care::default()) else { panic!("a hundred GPUs") };
        let message = error.to_string();
        assert!(message.contains("cuda:99") && (message.contains("driver") || message.contains("has")), "{message}");
        assert!(open("cpu", Some(0), None, Care::default()).is_err());
    }

    #[test]
    fn without_a_gpu_auto_is_the_cpu_in_its_default_mode() {
        if CudaDevice::count() == 0 {
            let (device, mode) = open("auto", Some(1), None, Care::default()).unwrap();
            assert!(device.describe().starts_with("cpu"));
            assert_eq!(mode, ModeName::Default);
        }
    }
}
