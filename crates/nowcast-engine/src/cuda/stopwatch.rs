//! Times launches on the memory of a plan that has not run yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::machine::{KernelLaunch, Machine};
use super::staging::live_extents;
use crate::device::Launch;
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::token_sampling::TokenSampling;

/// The least of so many rounds counts: what disturbs a round only makes it longer.
const ROUNDS: usize = 3;
/// Launches in a round, at least, so that waiting for it is a small part.
const LAUNCHES: usize = 16;

/// See the [module documentation](self).
pub(super) struct Stopwatch {
    machine: Arc<dyn Machine>,
}

impl Stopwatch {
    /// For a plan whose live extents lie at this address; everything is timed at full capacity.
    ///
    /// # Safety
    /// The memory of the plan is allocated, and nothing that uses it is queued.
    pub(super) unsafe fn new(machine: &Arc<dyn Machine>, live: u64, capacity: Live) -> Result<Self> {
        let launch = Launch { live: capacity, seed: 0, first_sample: 0, token_sampling: TokenSampling::default() };
        let bytes: Vec<u8> = live_extents(&launch).words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: the caller owns the memory, and its layout has room for the live extents.
        unsafe { machine.upload(live, &bytes)? };
        Ok(Self { machine: Arc::clone(machine) })
    }

    /// How long launches take one after the other, as one recording.
    ///
    /// # Safety
    /// As `Queue::launch`; the memory stays until this returns.
    pub(super) unsafe fn time(&self, launches: &[KernelLaunch]) -> Result<Duration> {
        // Recordings stay as long as their queue: every timing has its own, so that the device keeps one at a time.
        let mut queue = Arc::clone(&self.machine).queue()?;
        queue.begin_recording()?;
        let launched = launches.iter().try_for_each(|launch| {
            // SAFETY: as the caller promised.
            let launched = unsafe { queue.launch(launch) };
            launched.map_err(|error| Error::Operation {
                operation: format!("timing {}, kernel {}", launch.operation, launch.kernel.name()),
                reason: error.to_string(),
            })
        });
        let recording = queue.end_recording(launched.is_ok());
        launched?;
        let recording = recording?.expect("a recording that is kept has a number");
        let mut round = |repetitions: usize| -> Result<Duration> {
            let start = Instant::now();
            for _ in 0..repetitions {
                // SAFETY: as the caller promised.
                unsafe { queue.replay(recording)? };
            }
            queue.wait()?;
            Ok(start.elapsed() / repetitions as u32)
        };
        // The first run loads the code.
        round(1)?;
        let repetitions = LAUNCHES.div_ceil(launches.len().max(1));
        (0..ROUNDS).try_fold(Duration::MAX, |least, _| Ok(least.min(round(repetitions)?)))
    }
}
