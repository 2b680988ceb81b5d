//! Times launches on the memory of a plan that has not run yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::machine::{KernelLaunch, Machine, Queue};
use super::staging::live_extents;
use crate::device::Launch;
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::token_sampling::TokenSampling;

/// The least of so many rounds counts: what disturbs a round only makes it longer.
const ROUNDS: usize = 3;
/// Repetitions in a round, so that waiting for it is a small part.
const REPETITIONS: usize = 8;

/// See the [module documentation](self).
pub(super) struct Stopwatch {
    queue: Box<dyn Queue>,
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
        Ok(Self { queue: Arc::clone(machine).queue()? })
    }

    /// How long launches take one after the other.
    ///
    /// # Safety
    /// As [`Queue::launch`]; the memory stays until this returns.
    pub(super) unsafe fn time(&mut self, launches: &[KernelLaunch]) -> Result<Duration> {
        let mut round = |repetitions: usize| -> Result<Duration> {
            let start = Instant::now();
            for launch in (0..repetitions).flat_map(|_| launches) {
                // SAFETY: as the caller promised.
                let launched = unsafe { self.queue.launch(launch) };
                launched.map_err(|error| Error::Operation {
                    operation: format!("timing {}, kernel {}", launch.operation, launch.kernel.name()),
                    reason: error.to_string(),
                })?;
            }
            self.queue.wait()?;
            Ok(start.elapsed() / repetitions as u32)
        };
        // The first run loads the code.
        round(1)?;
        (0..ROUNDS).try_fold(Duration::MAX, |least, _| Ok(least.min(round(REPETITIONS)?)))
    }
}
