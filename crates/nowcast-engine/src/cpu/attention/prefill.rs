//! Causal attention of the context over itself.

use super::softmax::{exponentials, finish};
use super::{Prefix, Scratch, TASK_ROWS, TILE_ROWS, check, check_rows, elements, scores_stride};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::pool::ThreadPool;
use crate::cpu::tile::{Accumulate, Product, multiply};
use crate::cpu::vector::Vector;
use std::ops::Range;

/// Attention of the last `queries` tokens of each series over its prefix up to the token itself.
pub struct Prefill<'a> {
    /// Heads.
    pub heads: usize,
    /// Components of a head.
    pub head_dim: usize,
    /// Series.
    pub series: usize,
    /// Queries per series, at most the live tokens.
    pub queries: usize,
    /// Rows `[series, queries]` of `[heads, head_dim]`.
    pub query: &'a [f32],
    /// From one query row to the next.
    pub query_stride: usize,
    /// Keys and values, those of the queries' own tokens included.
    pub prefix: Prefix<'a>,
    /// Rows laid out like the queries.
    pub output: &'a mut [f32],
    /// From one output row to the next.
    pub output_stride: usize,
}

impl Prefill<'_> {
    /// Computes the outputs on the threads of the pool.
    ///
    /// `scratch` needs [`super::scratch_len`] values for the pool's threads and the live tokens; its contents on entry
    /// do not matter.
    ///
    /// # Panics
    /// If a slice is too short for its shape, or there are more queries than live tokens than capacity.
    pub fn run(self, scratch: &mut [f32], pool: &ThreadPool) {
        self.run_with(InstructionSet::detected(), scratch, pool);
    }

    /// [`Prefill::run`] with the instruction set of your choice.
    ///
    /// # Panics
    /// As [`Prefill::run`].
    pub fn run_with(self, set: InstructionSet, scratch: &mut [f32], pool: &ThreadPool) {
        let Self { heads, head_dim, series, queries, query, query_stride, prefix, output, output_stride } = self;
        assert!(queries <= prefix.live && prefix.live <= prefix.capacity, "more queries than tokens than capacity");
        assert!(prefix.first == 0, "the context sees all of itself");
        check("prefix keys", prefix.keys.len(), &[series, heads, head_dim, prefix.capacity]);
        check("prefix values", prefix.values.len(), &[series, heads, head_dim, prefix.capacity]);
        let (rows, width) = (elements(&[series, queries]), elements(&[heads, head_dim]));
        check_rows("query", query.len(), rows, query_stride, width);
        check_rows("output", output.len(), rows, output_stride, width);
        let scratch = Scratch::new(scratch, pool.threads(), prefix.live, head_dim);
        let output = Disjoint::new(output);
        let blocks = queries.div_ceil(TASK_ROWS);
        pool.for_each_task(elements(&[series, heads, blocks]), |slot, task| {
            // The longest rows first, so that no thread is left with them at the end.
            let (pair, block) = (task / blocks, blocks - 1 - task % blocks);
            let rows = block * TASK_ROWS..queries.min((block + 1) * TASK_ROWS);
            let first = pair / heads * queries;
            let offset = pair % heads * head_dim;
            let size = head_dim * prefix.capacity;
            set.dispatch(Block {
                head_dim,
                capacity: prefix.capacity,
                before: prefix.live - queries,
                rows,
                keys: &prefix.keys[pair * size..][..size],
                values: &prefix.values[pair * size..][..size],
                query: &query[first * query_stride + offset..],
                query_stride,
                output,
                output_start: first * output_stride + offset,
                output_stride,
                scratch,
                slot,
            });
        });
    }
}

/// Some queries of one series and head.
struct Block<'a> {
    head_dim: usize,
    capacity: usize,
    /// Tokens before the first query.
    before: usize,
    rows: Range<usize>,
    keys: &'a [f32],
    values: &'a [f32],
    query: &'a [f32],
    query_stride: usize,
    output: Disjoint<'a>,
    output_start: usize,
    output_stride: usize,
    scratch: Scratch<'a>,
    slot: usize,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // SAFETY: the pool gives no two running tasks the same slot.
        let tile = unsafe { self.scratch.slot(self.slot) };
        let head_dim = self.head_dim;
        for first in self.rows.clone().step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(self.rows.end - first);
            // Keys that every query of the tile sees; each further query sees one more.
            let common = self.before + first + 1;
            let scores = Product {
                left: self.query[first * self.query_stride..].as_ptr(),
                left_stride: self.query_stride,
                right: self.keys.as_ptr(),
                right_stride: self.capacity,
                target: tile.scores.as_mut_ptr(),
                target_stride: tile.stride,
                rows,
                columns: common + rows - 1,
                depth: head_dim,
                accumulate: Accumulate::Replace,
                prefetch: std::ptr::null(),
                prefetch_lines: 0,
            };
            // SAFETY: `run_with` checked queries and keys; the scratch has room for a tile of live scores.
            unsafe { multiply::<V>(&scores) };
            let mut sums = [0.0; TILE_ROWS];
            for (row, sum) in sums[..rows].iter_mut().enumerate() {
                let scores = &mut tile.scores[row * tile.stride..][..scores_stride(common + row)];
                *sum = exponentials::<V>(scores, common + row);
            }
            let shared = Product {
                left: tile.scores.as_ptr(),
                left_stride: tile.stride,
                right: self.values.as_ptr(),
                right_stride: head_dim,
                target: tile.outputs.as_mut_ptr(),
                target_stride: head_dim,
                rows,
                columns: head_dim,
                depth: common,
                ..scores
            };
            // SAFETY: as above; the scratch has room for a tile of outputs.
            unsafe { multiply::<V>(&shared) };
            for (row, sum) in sums[..rows].iter().enumerate() {
                let p = &tile.scores[row * tile.stride + common..][..row];
                let start = self.output_start + (first + row) * self.output_stride;
                // SAFETY: no other task has this row and head.
                let output = unsafe { self.output.part(start, head_dim) };
                finish::<V>(&tile.outputs[row * head_dim..], p, &self.values[common * head_dim..], *sum, output);
            }
        }
    }
}
