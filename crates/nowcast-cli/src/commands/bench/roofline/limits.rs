//! What the processor can do at most.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use nowcast::device::roofline::{self, Buffer};
use nowcast::device::{CpuDevice, Dtype, ProfileEntry};
use nowcast::forecaster::memory;
use nowcast::{Error, Result};

/// How long each limit is measured.
const PATIENCE: Duration = Duration::from_millis(250);

/// Memory is read in a buffer this many times the last-level cache, where its size is known.
const BEYOND_CACHES: usize = 4;

/// The least buffer, and the buffer where no size is known.
const LEAST_BUFFER: usize = 256 << 20;

/// The largest.
const MOST_BUFFER: usize = 1 << 30;

/// What the processor reached a moment ago, with the threads of the forecast.
pub(super) struct Limits {
    pub(super) device: String,
    /// Bytes per second read from memory.
    pub(super) memory: f64,
    /// Bytes read for it.
    pub(super) buffer: usize,
    /// The last-level cache, if the system tells.
    pub(super) cache_bytes: Option<usize>,
    pub(super) weight_bytes: usize,
    /// Bytes per second of a buffer as large as the weights, read again and again as a forecast reads them.
    pub(super) weights: f64,
    /// Operations per second in f32, and in each dtype for which the processor has instructions of its own.
    pub(super) peaks: Vec<(Dtype, f64)>,
}

impl Limits {
    /// Measures for about a second.
    pub(super) fn measure(device: &CpuDevice, weight_bytes: usize) -> Result<Self> {
        let pool = device.pool();
        let read = |bytes| roofline::read_bandwidth(pool, bytes, PATIENCE).map_err(|error| unmeasured(&error));
        let cache_bytes = last_level_cache();
        let beyond = cache_bytes.map_or(0, |bytes| bytes.saturating_mul(BEYOND_CACHES));
        let room = memory::available().map_or(MOST_BUFFER, |bytes| bytes / 4);
        let buffer = beyond.clamp(LEAST_BUFFER, MOST_BUFFER).min(room);
        let peak = |dtype| roofline::peak(pool, dtype, PATIENCE).map(|peak| (dtype, peak));
        Ok(Self {
            device: nowcast::device::Device::describe(device),
            memory: read(buffer)?,
            buffer,
            cache_bytes,
            weight_bytes,
            weights: read(weight_bytes)?,
            peaks: Dtype::ALL.into_iter().filter_map(peak).collect(),
        })
    }

    /// Bytes per second that bound the forecast: what caches keep of the weights from one to the next counts.
    pub(super) fn bandwidth(&self) -> f64 {
        self.weights.max(self.memory)
    }

    /// Whether the last-level cache could hold all weights, if its size is known.
    pub(super) fn weights_fit(&self) -> Option<bool> {
        self.cache_bytes.map(|cache| self.weight_bytes <= cache)
    }

    /// The least seconds that operations could take.
    pub(super) fn seconds(&self, entry: &ProfileEntry) -> f64 {
        // Whatever is narrower can be widened and multiplied as f32; some processors are slower at its own instructions.
        let may = |dtype: Dtype| dtype == entry.dtype || dtype == Dtype::F32;
        let peak =
            self.peaks.iter().filter(|(dtype, _)| may(*dtype)).fold(0.0, |most, (_, peak)| f64::max(most, *peak));
        (entry.bytes as f64 / self.bandwidth()).max(entry.flops as f64 / peak)
    }
}

/// Milliseconds of each of some passes over a buffer as large as the weights.
pub(super) fn read_weights(device: &CpuDevice, bytes: usize, passes: usize) -> Result<Vec<f64>> {
    let buffer = Buffer::new(bytes).map_err(|error| unmeasured(&error))?;
    // The first pass finds cold page tables.
    buffer.read(device.pool());
    Ok((0..passes).map(|_| buffer.read(device.pool()).as_secs_f64() * 1e3).collect())
}

fn unmeasured(error: &dyn Display) -> Error {
    Error::Memory(format!("{error}: the bandwidth cannot be measured"))
}

/// Bytes of the last-level cache of the first core.
fn last_level_cache() -> Option<usize> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches.flatten().filter_map(|cache| cache_size(&cache.path())).max()
}

fn cache_size(folder: &Path) -> Option<usize> {
    kibibytes(&std::fs::read_to_string(folder.join("size")).ok()?)
}

/// `266240K`, as the kernel writes it.
fn kibibytes(text: &str) -> Option<usize> {
    text.trim().strip_suffix('K')?.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(weights: f64) -> Limits {
        Limits {
            device: String::new(),
            memory: 100.0,
            buffer: 1,
            cache_bytes: None,
            weight_bytes: 1,
            weights,
            peaks: vec![(Dtype::F32, 1000.0), (Dtype::Bf16, 500.0), (Dtype::Int8, 4000.0)],
        }
    }

    fn entry(dtype: Dtype, bytes: u64, flops: u64) -> ProfileEntry {
        ProfileEntry { operation: "linear", shape: String::new(), dtype, calls: 1, time: Duration::ZERO, bytes, flops }
    }

    #[test]
    fn the_slower_of_both_limits_counts() {
        assert_eq!(limits(90.0).seconds(&entry(Dtype::F32, 300, 2000)), 3.0);
        assert_eq!(limits(90.0).seconds(&entry(Dtype::F32, 100, 2000)), 2.0);
        assert_eq!(limits(400.0).seconds(&entry(Dtype::F32, 400, 500)), 1.0);
        // Instructions for int8 are faster here, those for bf16 slower than f32's.
        assert_eq!(limits(90.0).seconds(&entry(Dtype::Int8, 0, 8000)), 2.0);
        assert_eq!(limits(90.0).seconds(&entry(Dtype::Bf16, 0, 8000)), 8.0);
    }

    #[test]
    fn cache_sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(kibibytes("2048K\n"), Some(2 << 20));
        assert_eq!(kibibytes("2M"), None);
    }
}
