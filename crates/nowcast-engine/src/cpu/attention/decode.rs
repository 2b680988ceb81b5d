//! Attention of each sample's own tokens over the shared prefix and the sample's own suffix.

use super::softmax::{dot, exponentials, finish};
use super::{Prefix, Scratch, Suffix, TASK_ROWS, TILE_ROWS, check, check_rows, elements, scores_stride};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::pool::ThreadPool;
use crate::cpu::tile::{Accumulate, LINE, Product, multiply};
use crate::cpu::vector::Vector;
use std::ops::Range;

/// Attention of a few queries per sample over its series' prefix, then over its own suffix as far as each may see.
pub struct Decode<'a> {
    /// Heads.
    pub heads: usize,
    /// Components of a head.
    pub head_dim: usize,
    /// Series.
    pub series: usize,
    /// Samples per series.
    pub samples: usize,
    /// Queries per sample.
    pub tokens: usize,
    /// Rows `[series, samples, tokens]` of `[heads, head_dim]`.
    pub query: &'a [f32],
    /// From one query row to the next.
    pub query_stride: usize,
    /// Keys and values that the samples of a series share.
    pub prefix: Prefix<'a>,
    /// Keys and values of each row's own.
    pub suffix: Suffix<'a>,
    /// Rows laid out like the queries.
    pub output: &'a mut [f32],
    /// From one output row to the next.
    pub output_stride: usize,
}

impl Decode<'_> {
    /// Computes the outputs on the threads of the pool.
    ///
    /// `scratch` needs [`super::scratch_len`] values for the pool's threads and the live tokens of prefix and suffix
    /// together; its contents on entry do not matter.
    ///
    /// # Panics
    /// If a slice is too short for its shape, there are more live tokens than capacity, or none at all.
    pub fn run(self, scratch: &mut [f32], pool: &ThreadPool) {
        self.run_with(InstructionSet::detected(), scratch, pool);
    }

    /// [`Decode::run`] with the instruction set of your choice.
    ///
    /// # Panics
    /// As [`Decode::run`].
    pub fn run_with(self, set: InstructionSet, scratch: &mut [f32], pool: &ThreadPool) {
        let Self { heads, head_dim, series, samples, tokens, prefix, suffix, .. } = self;
        let (paths, width) = (elements(&[series, samples]), elements(&[heads, head_dim]));
        let rows = elements(&[paths, tokens]);
        let most_seen = (suffix.seen + tokens).saturating_sub(1);
        assert!(prefix.first + prefix.live <= prefix.capacity, "more tokens than capacity");
        assert!(most_seen <= suffix.capacity, "more tokens than capacity");
        assert!(suffix.first <= suffix.seen, "tokens that do not exist cannot be hidden");
        assert!(prefix.live + suffix.seen - suffix.first > 0, "attention needs at least one key");
        let keys = prefix.live.saturating_add(most_seen);
        check("prefix keys", prefix.keys.len(), &[series, heads, head_dim, prefix.capacity]);
        check("prefix values", prefix.values.len(), &[series, heads, head_dim, prefix.capacity]);
        check("suffix keys", suffix.keys.len(), &[paths, heads, suffix.capacity, head_dim]);
        check("suffix values", suffix.values.len(), &[paths, heads, suffix.capacity, head_dim]);
        check_rows("query", self.query.len(), rows, self.query_stride, width);
        check_rows("output", self.output.len(), rows, self.output_stride, width);
        let scratch = Scratch::new(scratch, pool.threads(), keys, head_dim);
        let call = Shared {
            heads,
            head_dim,
            query: self.query,
            query_stride: self.query_stride,
            tokens,
            prefix,
            suffix,
            output: Disjoint::new(self.output),
            output_stride: self.output_stride,
            scratch,
        };
        let queries = samples * tokens;
        let blocks = queries.div_ceil(TASK_ROWS);
        pool.for_each_task(elements(&[series, heads, blocks]), |slot, task| {
            let (pair, block) = (task / blocks, task % blocks);
            let (series, head) = (pair / heads, pair % heads);
            let first = series * queries;
            let rows = first + block * TASK_ROWS..first + queries.min((block + 1) * TASK_ROWS);
            set.dispatch(Block { call: &call, series, head, rows, slot });
        });
    }
}

/// What all tasks of a call share.
struct Shared<'a> {
    heads: usize,
    head_dim: usize,
    query: &'a [f32],
    query_stride: usize,
    tokens: usize,
    prefix: Prefix<'a>,
    suffix: Suffix<'a>,
    output: Disjoint<'a>,
    output_stride: usize,
    scratch: Scratch<'a>,
}

/// Some rows of one series, for one head.
struct Block<'a> {
    call: &'a Shared<'a>,
    series: usize,
    head: usize,
    rows: Range<usize>,
    slot: usize,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Shared { heads, head_dim, query, query_stride, tokens, prefix, suffix, output, output_stride, scratch } =
            *self.call;
        // SAFETY: the pool gives no two running tasks the same slot.
        let tile = unsafe { scratch.slot(self.slot) };
        let offset = self.head * head_dim;
        let size_of_suffix = suffix.capacity * head_dim;
        let size = head_dim * prefix.capacity;
        let start = (self.series * heads + self.head) * size;
        let prefix_keys = &prefix.keys[start..start + size];
        let prefix_values = &prefix.values[start..start + size];
        // Where the own tokens of a query's path start, and how many of them the query sees.
        let own = |row: usize| {
            let first = (row / tokens * heads + self.head) * size_of_suffix + suffix.first * head_dim;
            (first, suffix.seen - suffix.first + row % tokens)
        };
        let next_tile = TILE_ROWS.div_ceil(tokens) * heads * size_of_suffix;
        for first in self.rows.clone().step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(self.rows.end - first);
            let scores = Product {
                left: query[first * query_stride + offset..].as_ptr(),
                left_stride: query_stride,
                right: prefix_keys[prefix.first..].as_ptr(),
                right_stride: prefix.capacity,
                target: tile.scores.as_mut_ptr(),
                target_stride: tile.stride,
                rows,
                columns: prefix.live,
                depth: head_dim,
                accumulate: Accumulate::Replace,
                prefetch: std::ptr::null(),
                prefetch_lines: 0,
            };
            // SAFETY: `run_with` checked queries and keys; the scratch has room for a tile of live scores.
            unsafe { multiply::<V>(&scores) };
            let mut sums = [0.0; TILE_ROWS];
            for (index, sum) in sums[..rows].iter_mut().enumerate() {
                let row = first + index;
                let (own, seen) = own(row);
                if row % tokens == 0 {
                    fetch::<V>(&suffix.keys[own..], next_tile, (seen + tokens - 1) * head_dim);
                }
                fetch::<V>(&query[row * query_stride + offset..], TILE_ROWS * query_stride, head_dim);
                let query = &query[row * query_stride + offset..][..head_dim];
                let keys = prefix.live + seen;
                let scores = &mut tile.scores[index * tile.stride..][..scores_stride(keys)];
                for token in 0..seen {
                    let key = &suffix.keys[own + token * head_dim..][..head_dim];
                    scores[prefix.live + token] = dot::<V>(query, key);
                }
                *sum = exponentials::<V>(scores, keys);
            }
            let shared = Product {
                left: tile.scores.as_ptr(),
                left_stride: tile.stride,
                right: prefix_values[prefix.first * head_dim..].as_ptr(),
                right_stride: head_dim,
                target: tile.outputs.as_mut_ptr(),
                target_stride: head_dim,
                rows,
                columns: head_dim,
                depth: prefix.live,
                ..scores
            };
            // SAFETY: as above; the scratch has room for a tile of outputs.
            unsafe { multiply::<V>(&shared) };
            for (index, sum) in sums[..rows].iter().enumerate() {
                let row = first + index;
                let (own, seen) = own(row);
                if row % tokens == 0 {
                    fetch::<V>(&suffix.values[own..], next_tile, (seen + tokens - 1) * head_dim);
                }
                // SAFETY: no other task has this row and head.
                let output = unsafe { output.part(row * output_stride + offset, head_dim) };
                let p = &tile.scores[index * tile.stride + prefix.live..][..seen];
                finish::<V>(&tile.outputs[index * head_dim..], p, &suffix.values[own..], *sum, output);
            }
        }
    }
}

/// Asks for `len` values at a distance: those of the next tile, which no hardware prefetcher foresees.
#[inline(always)]
fn fetch<V: Vector>(values: &[f32], distance: usize, len: usize) {
    for line in 0..len.div_ceil(LINE) {
        V::prefetch(values.as_ptr().wrapping_add(distance + line * LINE));
    }
}
