//! Attention over a shared prefix, over a sample's own suffix, and between variates.
//!
//! For one query and head: a score per key, `p = exp(score - largest)`, the sum of `p`, and the sum of `p * value`
//! times the inverse of that sum. Queries come scaled by `1 / sqrt(head_dim)` and rotated. Orders are fixed by the keys
//! of the query alone, so its digits do not depend on other rows, samples, series, capacities or threads:
//!
//! - score against a prefix key: one chain of multiply-adds over the head dimension;
//! - score against a suffix key or another variate: 16 such chains, every 16th component each, summed in halves;
//! - sum of `p`: 16 partial sums, every 16th key each, summed in halves;
//! - sum of `p * value`: one chain over the keys in order, prefix before suffix.

mod decode;
mod grouped;
mod prefill;
mod softmax;

pub use decode::Decode;
pub use grouped::Grouped;
pub use prefill::Prefill;

use super::disjoint::Disjoint;
use softmax::LANES;

/// Query rows that share one pass over the keys.
const TILE_ROWS: usize = 8;

/// Query rows of one task.
const TASK_ROWS: usize = 64;

/// Keys and values that all samples of a series share.
#[derive(Clone, Copy)]
pub struct Prefix<'a> {
    /// `[series, heads, head_dim, capacity]`: transposed, so that neighbouring tokens are neighbours in memory.
    pub keys: &'a [f32],
    /// `[series, heads, capacity, head_dim]`
    pub values: &'a [f32],
    /// Tokens there is room for.
    pub capacity: usize,
    /// First token that is seen.
    pub first: usize,
    /// Tokens that are seen, the same for all series; no others have any influence.
    pub live: usize,
}

/// Keys and values of each sample's own.
#[derive(Clone, Copy)]
pub struct Suffix<'a> {
    /// `[rows, heads, capacity, head_dim]`
    pub keys: &'a [f32],
    /// `[rows, heads, capacity, head_dim]`
    pub values: &'a [f32],
    /// Tokens there is room for.
    pub capacity: usize,
    /// First token that is seen.
    pub first: usize,
    /// Tokens before the end of what a path's first query sees, its own included; each further query sees one more.
    pub seen: usize,
}

/// The scratch memory of an attention kernel in values, for `threads` threads and at most `keys` keys per query.
///
/// Saturates for absurd sizes, so that the allocation fails and not the arithmetic.
pub fn scratch_len(threads: usize, keys: usize, head_dim: usize) -> usize {
    slot_len(keys, head_dim).saturating_mul(threads)
}

/// The scratch memory of one thread.
fn slot_len(keys: usize, head_dim: usize) -> usize {
    scores_stride(keys).saturating_add(head_dim).saturating_mul(TILE_ROWS)
}

/// From the scores of one query to those of the next.
fn scores_stride(keys: usize) -> usize {
    keys.checked_next_multiple_of(LANES).unwrap_or(usize::MAX)
}

/// Scratch memory cut into one part per slot of the pool.
#[derive(Clone, Copy)]
struct Scratch<'a> {
    memory: Disjoint<'a>,
    stride: usize,
    slot_len: usize,
}

impl<'a> Scratch<'a> {
    fn new(memory: &'a mut [f32], threads: usize, keys: usize, head_dim: usize) -> Self {
        let needed = scratch_len(threads, keys, head_dim);
        assert!(memory.len() >= needed, "attention needs {needed} values of scratch, not {}", memory.len());
        Self { memory: Disjoint::new(memory), stride: scores_stride(keys), slot_len: slot_len(keys, head_dim) }
    }

    /// The scores and the outputs of a tile of queries.
    ///
    /// # Safety
    /// No two tasks that run at the same time may use the same slot.
    #[inline(always)]
    unsafe fn slot(&self, slot: usize) -> Tile<'a> {
        // SAFETY: slots do not overlap, and the caller has this one for itself.
        let memory = unsafe { self.memory.part(slot * self.slot_len, self.slot_len) };
        let (scores, outputs) = memory.split_at_mut(self.stride * TILE_ROWS);
        Tile { scores, outputs, stride: self.stride }
    }
}

/// Scratch for [`TILE_ROWS`] queries of one head.
struct Tile<'a> {
    /// `[TILE_ROWS, stride]`
    scores: &'a mut [f32],
    /// `[TILE_ROWS, head_dim]`
    outputs: &'a mut [f32],
    /// From the scores of one query to those of the next.
    stride: usize,
}

/// The elements of a shape; panics if no address space could hold them.
fn elements(shape: &[usize]) -> usize {
    let product = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    product.unwrap_or_else(|| panic!("a shape of {shape:?} is larger than any memory"))
}

/// Panics unless a slice has the elements that its shape asks for.
fn check(name: &str, length: usize, shape: &[usize]) {
    assert!(elements(shape) <= length, "{name}: a slice of {length} is too short for {shape:?}");
}

/// Panics unless `rows` rows of `width` values fit a slice.
fn check_rows(name: &str, length: usize, rows: usize, stride: usize, width: usize) {
    let needed = rows.saturating_sub(1).checked_mul(stride).and_then(|offset| offset.checked_add(width));
    assert!(
        rows == 0 || stride >= width && needed.is_some_and(|needed| needed <= length),
        "{name}: {rows} rows of {width} values with stride {stride} do not fit a slice of {length}"
    );
}
