//! The call of a linear layer: how it is cut into tasks, and what a task does.

use super::epilogue::finish;
use super::norm::inverse_root_mean_square;
use super::pack::PackedLinear;
use super::{PANEL, depth_block, narrow};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::pool::ThreadPool;
use crate::cpu::tile::{Accumulate, LINE, Product, multiply, tile_height};
use crate::cpu::vector::Vector;
use std::ops::Range;

/// The most rows a task takes through a panel at once.
const BLOCK_ROWS: usize = 128;
/// Input values that a block of rows may have, so that they stay in the second-level cache beside a panel.
const BLOCK_INPUTS: usize = 128 * 1024;
/// How far ahead weights are fetched, in values: 32 KiB, about what memory delivers during one latency and more.
const PREFETCH_DISTANCE: usize = 8 * 1024;
/// Multiply-adds below which a second thread costs more than it saves.
const SERIAL_WORK: usize = 64 * 1024;
/// Tasks per thread: a thread held up by others then costs a fraction of its share.
const TASKS_PER_THREAD: usize = 4;

/// What is added to the results.
#[derive(Clone, Copy)]
pub enum Addend<'a> {
    /// Nothing: results replace the output.
    Nothing,
    /// The output itself, as it was.
    Output,
    /// Rows of their own, laid out like the output.
    Rows {
        /// The values.
        values: &'a [f32],
        /// From one row to the next.
        stride: usize,
    },
}

/// One application of a linear layer to `rows` rows.
pub struct LinearCall<'a> {
    /// Row `r` is `input[r * input_stride..][..inputs]`.
    pub input: &'a [f32],
    /// From one input row to the next, at least the layer's inputs.
    pub input_stride: usize,
    /// Rows.
    pub rows: usize,
    /// The outputs wanted, within `0..outputs`. Others are neither computed nor touched.
    pub columns: Range<usize>,
    /// Output `c` of row `r` is `output[r * output_stride + c - columns.start]`: as wide as the range of columns.
    pub output: &'a mut [f32],
    /// From one output row to the next, at least the number of columns.
    pub output_stride: usize,
    /// Normalises each input row first, multiplying by `1 / sqrt(mean(x^2) + epsilon)`; the norm's own scale is
    /// expected in the weights.
    pub norm_epsilon: Option<f32>,
    /// What is added to the results.
    pub addend: Addend<'a>,
}

impl PackedLinear {
    /// Computes the call on the threads of the pool with the detected instruction set.
    ///
    /// # Panics
    /// If a slice is too short for the rows and strides, or the columns leave the layer's outputs.
    pub fn apply(&self, call: LinearCall<'_>, pool: &ThreadPool) {
        self.apply_with(InstructionSet::detected(), call, pool);
    }

    /// [`PackedLinear::apply`] with the instruction set of your choice.
    ///
    /// # Panics
    /// As [`PackedLinear::apply`].
    pub fn apply_with(&self, set: InstructionSet, call: LinearCall<'_>, pool: &ThreadPool) {
        let LinearCall { input, input_stride, rows, columns, output, output_stride, norm_epsilon, addend } = call;
        assert!(columns.end <= self.outputs(), "columns {columns:?} of a layer with {} outputs", self.outputs());
        if rows == 0 || columns.is_empty() {
            return;
        }
        check("input", input.len(), rows, input_stride, self.inputs());
        check("output", output.len(), rows, output_stride, columns.len());
        if let Addend::Rows { values, stride } = addend {
            check("addend", values.len(), rows, stride, columns.len());
        }
        let width = self.layout().panel_outputs();
        let panels = columns.start / width..columns.end.div_ceil(width);
        let output = Disjoint::new(output);
        let task = Task { linear: self, input, input_stride, columns, output, output_stride, norm_epsilon, addend };

        let block_rows = (BLOCK_INPUTS / self.inputs() / 8 * 8).clamp(8, BLOCK_ROWS);
        let row_blocks = rows.div_ceil(block_rows);
        let work = rows.saturating_mul(self.inputs()).saturating_mul(panels.len() * PANEL);
        let threads = if work <= SERIAL_WORK { 1 } else { pool.threads() };
        let wanted = if threads == 1 { 1 } else { threads * TASKS_PER_THREAD };
        let task_panels = panels.len().div_ceil(wanted.div_ceil(row_blocks));
        let panel_blocks = panels.len().div_ceil(task_panels);
        pool.for_each_task(row_blocks * panel_blocks, |_, index| {
            let row = index / panel_blocks * block_rows;
            let panel = panels.start + index % panel_blocks * task_panels;
            let rows = row..rows.min(row + block_rows);
            let panels = panel..panels.end.min(panel + task_panels);
            set.dispatch(Block { task: &task, rows, panels });
        });
    }
}

/// Panics unless `rows` rows of `width` values fit a slice.
fn check(name: &str, length: usize, rows: usize, stride: usize, width: usize) {
    let needed = (rows - 1).checked_mul(stride).and_then(|offset| offset.checked_add(width));
    assert!(
        stride >= width && needed.is_some_and(|needed| needed <= length),
        "{name}: {rows} rows of {width} values with stride {stride} do not fit a slice of {length}"
    );
}

/// What all tasks of a call share.
struct Task<'a> {
    linear: &'a PackedLinear,
    input: &'a [f32],
    input_stride: usize,
    columns: Range<usize>,
    output: Disjoint<'a>,
    output_stride: usize,
    norm_epsilon: Option<f32>,
    addend: Addend<'a>,
}

/// A block of at most [`BLOCK_ROWS`] rows against some panels.
struct Block<'a> {
    task: &'a Task<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
}

/// Sums of a block of rows with one panel.
#[repr(align(64))]
struct Sums([[f32; PANEL]; BLOCK_ROWS]);

impl Kernel for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { task, rows, panels } = self;
        let inputs = task.linear.inputs();
        let mut scales = [1.0f64; BLOCK_ROWS];
        if let Some(epsilon) = task.norm_epsilon {
            for (scale, row) in scales.iter_mut().zip(rows.clone()) {
                *scale = inverse_root_mean_square(&task.input[row * task.input_stride..][..inputs], epsilon);
            }
        }
        if inputs <= narrow::MOST_INPUTS {
            return narrow_block::<V>(task, rows, panels, &scales);
        }
        let depth_block = depth_block(inputs);
        let mut sums = Sums([[0.0; PANEL]; BLOCK_ROWS]);
        for panel in panels {
            let weights = task.linear.panels(panel..panel + 1);
            for input in (0..inputs).step_by(depth_block) {
                let depth = depth_block.min(inputs - input);
                let right = weights[input * PANEL..].as_ptr();
                let lines = depth * PANEL / LINE;
                let mut first = 0;
                while first < rows.len() {
                    let height = tile_height::<V>(rows.len() - first);
                    // Each tile fetches its share of the weights to come.
                    let share = lines * first / rows.len()..lines * (first + height) / rows.len();
                    let product = Product {
                        left: task.input[(rows.start + first) * task.input_stride + input..].as_ptr(),
                        left_stride: task.input_stride,
                        right,
                        right_stride: PANEL,
                        target: sums.0[first..].as_mut_ptr().cast(),
                        target_stride: PANEL,
                        rows: height,
                        columns: PANEL,
                        depth,
                        accumulate: if input == 0 { Accumulate::Replace } else { Accumulate::Add },
                        prefetch: right.wrapping_add(PREFETCH_DISTANCE + share.start * LINE),
                        prefetch_lines: share.len(),
                    };
                    // SAFETY: `apply_with` checked the input, the panel has `inputs` rows of `PANEL` values, and the
                    // sums have room for the block.
                    unsafe { multiply::<V>(&product) };
                    // Written tile by tile, the results leave while the next tile computes.
                    if input + depth == inputs {
                        let done = first..first + height;
                        for ((row, sums), scale) in done.clone().zip(&mut sums.0[done.clone()]).zip(&scales[done]) {
                            finish::<V>(sums, *scale as f32, task.linear.panel_bias(panel), task.linear.layout());
                            task.write(rows.start + row, panel, sums);
                        }
                    }
                    first += height;
                }
            }
        }
    }
}

/// [`Block::run`] for narrow layers.
#[inline(always)]
fn narrow_block<V: Vector>(task: &Task<'_>, rows: Range<usize>, panels: Range<usize>, scales: &[f64; BLOCK_ROWS]) {
    let inputs = task.linear.inputs();
    for panel in panels {
        let weights = task.linear.panels(panel..panel + 1);
        for first in rows.clone().step_by(narrow::ROWS) {
            let height = narrow::ROWS.min(rows.end - first);
            let input = &task.input[first * task.input_stride..];
            let mut sums = narrow::sum(input, task.input_stride, inputs, height, weights);
            for (row, sums) in sums[..height].iter_mut().enumerate() {
                let scale = scales[first - rows.start + row];
                narrow::finish::<V>(sums, scale, task.linear.panel_bias(panel), task.linear.layout());
                task.write_narrow(first + row, panel, sums);
            }
        }
    }
}

impl Task<'_> {
    /// The results of a panel that lie within the columns, and the first column they go to.
    #[inline(always)]
    fn wanted<'r, T>(&self, panel: usize, results: &'r [T; PANEL]) -> (&'r [T], usize) {
        let width = self.linear.layout().panel_outputs();
        let first = self.columns.start.max(panel * width);
        let last = self.columns.end.min((panel + 1) * width);
        (&results[first - panel * width..last - panel * width], first - self.columns.start)
    }

    /// As [`Task::write`], rounded once, after the addend.
    #[inline(always)]
    fn write_narrow(&self, row: usize, panel: usize, results: &[f64; PANEL]) {
        let (results, column) = self.wanted(panel, results);
        // SAFETY: no other task has this row and panel.
        let output = unsafe { self.output.part(row * self.output_stride + column, results.len()) };
        for (index, (output, &result)) in output.iter_mut().zip(results).enumerate() {
            *output = match self.addend {
                Addend::Nothing => result as f32,
                Addend::Output => (f64::from(*output) + result) as f32,
                Addend::Rows { values, stride } => (f64::from(values[row * stride + column + index]) + result) as f32,
            };
        }
    }

    /// Adds the addend to the results of one row and panel, and writes those within the columns.
    #[inline(always)]
    fn write(&self, row: usize, panel: usize, results: &[f32; PANEL]) {
        let (results, column) = self.wanted(panel, results);
        // SAFETY: no other task has this row and panel.
        let output = unsafe { self.output.part(row * self.output_stride + column, results.len()) };
        match self.addend {
            Addend::Nothing => output.copy_from_slice(results),
            Addend::Output => {
                for (output, result) in output.iter_mut().zip(results) {
                    *output += result;
                }
            }
            Addend::Rows { values, stride } => {
                let values = &values[row * stride + column..];
                for ((output, result), value) in output.iter_mut().zip(results).zip(values) {
                    *output = result + value;
                }
            }
        }
    }
}
