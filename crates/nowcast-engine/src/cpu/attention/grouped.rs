//! Attention between the variates of one time step, within groups.

use super::softmax::{dot, exponentials, finish};
use super::{Scratch, check, check_rows, elements, scores_stride};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::pool::ThreadPool;
use crate::cpu::tile::{Accumulate, Product, multiply};
use crate::cpu::vector::Vector;

/// Attention, for every batch entry and inner index, of each variate over the variates of its group.
///
/// Rows are `[batch, variates, inner]`, where `inner` counts patches or samples.
pub struct Grouped<'a> {
    /// Heads.
    pub heads: usize,
    /// Components of a head.
    pub head_dim: usize,
    /// Batch entries.
    pub batch: usize,
    /// Variates per batch entry.
    pub variates: usize,
    /// Rows per variate, each attending on its own.
    pub inner: usize,
    /// Rows that hold query, key and value, each `[heads, head_dim]`.
    pub input: &'a [f32],
    /// From one input row to the next.
    pub input_stride: usize,
    /// Where query, key and value begin in a row.
    pub offsets: [usize; 3],
    /// `[batch, variates]`: a variate sees those with the same number, itself included.
    pub groups: &'a [i32],
    /// Rows of `[heads, head_dim]`.
    pub output: &'a mut [f32],
    /// From one output row to the next.
    pub output_stride: usize,
}

impl Grouped<'_> {
    /// Computes the outputs on the threads of the pool.
    ///
    /// `scratch` needs [`super::scratch_len`] values for the pool's threads and the variates; its contents on entry do
    /// not matter.
    ///
    /// # Panics
    /// If a slice is too short for its shape.
    pub fn run(self, scratch: &mut [f32], pool: &ThreadPool) {
        self.run_with(InstructionSet::detected(), scratch, pool);
    }

    /// [`Grouped::run`] with the instruction set of your choice.
    ///
    /// # Panics
    /// As [`Grouped::run`].
    pub fn run_with(self, set: InstructionSet, scratch: &mut [f32], pool: &ThreadPool) {
        let Self { heads, head_dim, batch, variates, inner, input, input_stride, offsets, groups, .. } = self;
        let (rows, width) = (elements(&[batch, variates, inner]), elements(&[heads, head_dim]));
        let end = offsets.into_iter().max().unwrap_or(0).saturating_add(width);
        check_rows("input", input.len(), rows, input_stride, end);
        check_rows("output", self.output.len(), rows, self.output_stride, width);
        check("groups", groups.len(), &[batch, variates]);
        let scratch = Scratch::new(scratch, pool.threads(), variates, head_dim);
        let output = Disjoint::new(self.output);
        pool.for_each_task(elements(&[batch, inner]), |slot, task| {
            let (entry, index) = (task / inner, task % inner);
            set.dispatch(Step {
                heads,
                head_dim,
                groups: &groups[entry * variates..][..variates],
                first: entry * variates * inner + index,
                inner,
                input,
                input_stride,
                offsets,
                output,
                output_stride: self.output_stride,
                scratch,
                slot,
            });
        });
    }
}

/// The variates of one batch entry and inner index.
struct Step<'a> {
    heads: usize,
    head_dim: usize,
    groups: &'a [i32],
    /// Row of the first variate.
    first: usize,
    /// Rows from one variate to the next.
    inner: usize,
    input: &'a [f32],
    input_stride: usize,
    offsets: [usize; 3],
    output: Disjoint<'a>,
    output_stride: usize,
    scratch: Scratch<'a>,
    slot: usize,
}

impl Step<'_> {
    /// Where the query (0), key (1) or value (2) of a variate and head begins.
    #[inline(always)]
    fn start(&self, part: usize, variate: usize, head: usize) -> usize {
        (self.first + variate * self.inner) * self.input_stride + self.offsets[part] + head * self.head_dim
    }
}

impl Kernel for Step<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // SAFETY: the pool gives no two running tasks the same slot.
        let tile = unsafe { self.scratch.slot(self.slot) };
        let (head_dim, variates) = (self.head_dim, self.groups.len());
        let outputs = &mut tile.outputs[..head_dim];
        for variate in 0..variates {
            let own = self.groups[variate];
            for head in 0..self.heads {
                let query = &self.input[self.start(0, variate, head)..][..head_dim];
                let mut keys = 0;
                for other in 0..variates {
                    if self.groups[other] == own {
                        let key = &self.input[self.start(1, other, head)..][..head_dim];
                        tile.scores[keys] = dot::<V>(query, key);
                        keys += 1;
                    }
                }
                let sum = exponentials::<V>(&mut tile.scores[..scores_stride(keys)], keys);
                outputs.fill(0.0);
                let (mut other, mut used) = (0, 0);
                while other < variates {
                    // A run of neighbours in the group, at a constant distance in memory.
                    let mut run = 0;
                    while other + run < variates && self.groups[other + run] == own {
                        run += 1;
                    }
                    if run > 0 {
                        let product = Product {
                            left: tile.scores[used..].as_ptr(),
                            left_stride: 0,
                            right: self.input[self.start(2, other, head)..].as_ptr(),
                            right_stride: self.inner * self.input_stride,
                            target: outputs.as_mut_ptr(),
                            target_stride: 0,
                            rows: 1,
                            columns: head_dim,
                            depth: run,
                            accumulate: Accumulate::Continue,
                            prefetch: std::ptr::null(),
                            prefetch_lines: 0,
                        };
                        // SAFETY: `run_with` checked the input; the run has `run` values of `head_dim` components.
                        unsafe { multiply::<V>(&product) };
                    }
                    used += run;
                    other += run.max(1);
                }
                let start = (self.first + variate * self.inner) * self.output_stride + head * head_dim;
                // SAFETY: no other task has this row.
                let output = unsafe { self.output.part(start, head_dim) };
                finish::<V>(outputs, &[], &[], sum, output);
            }
        }
    }
}
