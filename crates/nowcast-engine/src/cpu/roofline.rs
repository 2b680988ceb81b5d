//! What this processor can do at most, measured on the spot: how fast memory is read, how fast numbers are multiplied.
//!
//! The loops are the simplest that reach the limit; a forecast's share of it says what its kernels leave on the table.

mod dot;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::detect::{InstructionSet, Kernel};
use super::memory::Pages;
use super::pool::ThreadPool;
use super::vector::Vector;
use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// Sums that are kept apart, so that no addition waits for the one before it: enough for two additions of five cycles
/// at a time, and few enough for sixteen registers.
const CHAINS: usize = 12;

/// Steps of a chain between two looks at the clock: some tens of microseconds.
const STEPS: usize = 16 * 1024;

/// Values that a thread reads at a time: a whole number of rounds for every instruction set, and of pages.
const STRIPE: usize = 48 * 1024;

/// Values in the smallest page.
const PAGE: usize = 1024;

/// Values in a cache line.
const CACHE_LINE: usize = 16;

/// How far ahead values are fetched, as the products do.
const PREFETCH_DISTANCE: usize = 8 * 1024;

/// A buffer that all threads together read, as they read weights.
pub struct Buffer {
    pages: Pages,
    stripes: usize,
}

impl Buffer {
    /// At least this many bytes.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn new(bytes: usize) -> Result<Self> {
        let stripes = bytes.div_ceil(STRIPE * size_of::<f32>()).max(1);
        let bytes = stripes * STRIPE * size_of::<f32>();
        // Asked for first without ending the process where it cannot be had.
        drop(Pages::zeroed(bytes).map_err(|_| Error::Memory { bytes, what: "the measurement" })?);
        let mut pages = Pages::of_words(stripes * STRIPE);
        // What nobody has written is one and the same page of zeros.
        pages.values_mut().iter_mut().step_by(PAGE).for_each(|value| *value = 1.0);
        Ok(Self { pages, stripes })
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> usize {
        self.stripes * STRIPE * size_of::<f32>()
    }

    /// How long one pass over all of it takes.
    pub fn read(&self, pool: &ThreadPool) -> Duration {
        let values = &self.pages.values()[..self.stripes * STRIPE];
        let begun = Instant::now();
        pool.for_each_chunk(self.stripes, 1, |range| {
            InstructionSet::detected().dispatch(Read { values: &values[range.start * STRIPE..range.end * STRIPE] });
        });
        begun.elapsed()
    }
}

/// Bytes per second at which all threads together read this many bytes again and again, the best pass within
/// `patience`. With more bytes than the caches hold, that is the bandwidth of memory.
///
/// # Errors
/// Not enough memory.
pub fn read_bandwidth(pool: &ThreadPool, bytes: usize, patience: Duration) -> Result<f64> {
    let buffer = Buffer::new(bytes)?;
    let started = Instant::now();
    // At least two passes: the first finds cold page tables.
    let mut best = buffer.read(pool).min(buffer.read(pool));
    while started.elapsed() < patience {
        best = best.min(buffer.read(pool));
    }
    Ok(buffer.bytes() as f64 / best.as_secs_f64())
}

/// Operations per second of all threads together in these numbers, the best of many short runs within `patience`; none
/// where the processor has no instruction for them, and products are f32's. For bf16 that is the instruction that its
/// products run on: f16's, where the set has it. A multiplication and an addition count as two.
pub fn peak(pool: &ThreadPool, dtype: Dtype, patience: Duration) -> Option<f64> {
    peak_with(InstructionSet::detected(), pool, dtype, patience)
}

/// [`peak`] with the instruction set of your choice.
pub(super) fn peak_with(set: InstructionSet, pool: &ThreadPool, dtype: Dtype, patience: Duration) -> Option<f64> {
    if dtype == Dtype::F32 {
        return Some(best(pool, patience, |flops| set.dispatch(MultiplyAdd { flops })));
    }
    let products = dot::loop_of(dtype, set)?;
    Some(best(pool, patience, |flops| _ = flops.fetch_add(products(), Ordering::Relaxed)))
}

/// The most operations per second that all threads together reach in a run.
fn best(pool: &ThreadPool, patience: Duration, run: impl Fn(&AtomicU64) + Sync) -> f64 {
    let started = Instant::now();
    let mut best = 0.0f64;
    while best == 0.0 || started.elapsed() < patience {
        let flops = AtomicU64::new(0);
        let begun = Instant::now();
        pool.run(|_| run(&flops));
        best = best.max(flops.into_inner() as f64 / begun.elapsed().as_secs_f64());
    }
    best
}

/// Sums values that are read once.
struct Read<'a> {
    values: &'a [f32],
}

impl Kernel for Read<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let round = V::LANES * CHAINS;
        let mut sums = [V::splat(0.0); CHAINS];
        for block in self.values.chunks_exact(round) {
            let start = block.as_ptr();
            let mut line = 0;
            while line < round {
                V::prefetch(start.wrapping_add(PREFETCH_DISTANCE + line));
                line += CACHE_LINE;
            }
            // Counted by hand, so that the sums stay in registers.
            let mut chain = 0;
            while chain < CHAINS {
                // SAFETY: the block holds a whole round.
                sums[chain] = sums[chain].add(unsafe { V::load(start.add(chain * V::LANES)) });
                chain += 1;
            }
        }
        finish(sums);
    }
}

/// Makes the compiler believe that the sums are needed.
#[inline(always)]
fn finish<V: Vector>(sums: [V; CHAINS]) {
    let mut total = sums[0];
    for sum in &sums[1..] {
        total = total.add(*sum);
    }
    black_box(total.sum());
}

/// Multiplies and adds numbers that stay in registers.
struct MultiplyAdd<'a> {
    flops: &'a AtomicU64,
}

impl Kernel for MultiplyAdd<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let (factor, addend) = (V::splat(black_box(0.5)), V::splat(black_box(1.0)));
        let mut sums = [addend; CHAINS];
        for _ in 0..STEPS {
            let mut chain = 0;
            while chain < CHAINS {
                sums[chain] = sums[chain].mul_add(factor, addend);
                chain += 1;
            }
        }
        finish(sums);
        self.flops.fetch_add((2 * STEPS * CHAINS * V::LANES) as u64, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn limits_are_finite_and_f32_always_has_one() {
        let pool = ThreadPool::new(2);
        let bandwidth = read_bandwidth(&pool, 1 << 20, Duration::from_millis(5)).unwrap();
        assert!(bandwidth.is_finite() && bandwidth > 0.0, "{bandwidth}");
        for dtype in Dtype::ALL {
            let peak = peak(&pool, dtype, Duration::from_millis(5));
            assert!(dtype != Dtype::F32 || peak.is_some());
            assert!(peak.is_none_or(|peak| peak.is_finite() && peak > 0.0), "{dtype} {peak:?}");
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let pool = ThreadPool::new(1);
        assert!(read_bandwidth(&pool, usize::MAX / 4, Duration::ZERO).is_err());
    }
}
