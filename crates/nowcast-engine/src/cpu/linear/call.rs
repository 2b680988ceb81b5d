//! The call of a linear layer, and how it is cut into tasks.

use super::operand::{Form, Operand, Rows, block_rows, chunk_rows};
use super::output::{Addend, Output};
use super::pack::PackedLinear;
use super::{PANEL, block::Block, narrow};
use crate::cpu::detect::InstructionSet;
use crate::cpu::disjoint::Disjoint;
use crate::cpu::pool::ThreadPool;
use crate::dtype::Dtype;
use std::ops::Range;

/// Multiply-adds below which a second thread costs more than it saves.
const SERIAL_WORK: usize = 64 * 1024;
/// Tasks per thread: a thread held up by others then costs a fraction of its share.
const TASKS_PER_THREAD: usize = 4;

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
    /// `operand` is scratch: its contents before and after do not matter.
    ///
    /// # Panics
    /// If a slice is too short for the rows and strides, or the columns leave the layer's outputs.
    pub fn apply(&self, call: LinearCall<'_>, operand: &mut Operand, pool: &ThreadPool) {
        self.apply_with(InstructionSet::detected(), call, operand, pool);
    }

    /// [`PackedLinear::apply`] with the instruction set of your choice.
    ///
    /// # Panics
    /// As [`PackedLinear::apply`].
    pub fn apply_with(&self, set: InstructionSet, call: LinearCall<'_>, operand: &mut Operand, pool: &ThreadPool) {
        let LinearCall { input, input_stride, rows, columns, output, output_stride, norm_epsilon, addend } = call;
        assert!(columns.end <= self.outputs(), "columns {columns:?} of a layer with {} outputs", self.outputs());
        if rows == 0 || columns.is_empty() {
            return;
        }
        let inputs = self.inputs();
        check("input", input.len(), rows, input_stride, inputs);
        check("output", output.len(), rows, output_stride, columns.len());
        if let Addend::Rows { values, stride } = addend {
            check("addend", values.len(), rows, stride, columns.len());
        }
        let width = self.layout().panel_outputs();
        let panels = columns.start / width..columns.end.div_ceil(width);
        let values = Disjoint::new(output);
        let output = &Output { layout: self.layout(), columns, values, stride: output_stride, addend };
        let work = rows.saturating_mul(inputs).saturating_mul(panels.len() * PANEL);
        let cut = Cut { panels, threads: if work <= SERIAL_WORK { 1 } else { pool.threads() } };

        if self.dtype() == Dtype::F32 && inputs <= narrow::MOST_INPUTS {
            return cut.run(rows, block_rows(inputs), pool, |rows, panels| {
                set.dispatch(narrow::Block { linear: self, input, input_stride, norm_epsilon, output, rows, panels });
            });
        }
        let form = Form::of(self.format(), set);
        let set = match form {
            Form::Floats | Form::Rounded | Form::Pairs => set,
            Form::HalfFloats => set.of_half_floats(),
            Form::Bytes => set.of_integers(),
        };
        let chunk = chunk_rows(inputs, pool);
        for first_row in (0..rows).step_by(chunk) {
            let rows = chunk.min(rows - first_row);
            let input = &input[first_row * input_stride..];
            operand.fill(&Rows { input, stride: input_stride, inputs, rows, norm_epsilon, form }, set, pool);
            let operand = &*operand;
            cut.run(rows, block_rows(inputs), pool, |rows, panels| {
                let block = Block { linear: self, operand, output, first_row, rows, panels };
                match form {
                    Form::Floats | Form::Rounded => set.dispatch(block),
                    Form::Pairs => set.dispatch_pairs(block),
                    Form::HalfFloats => set.dispatch_half_floats(block),
                    Form::Bytes => set.dispatch_integers(block),
                }
            });
        }
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

/// Panels and threads among which a call is shared out.
struct Cut {
    panels: Range<usize>,
    threads: usize,
}

impl Cut {
    /// Runs `task(rows, panels)` for parts that cover all rows and panels.
    fn run(&self, rows: usize, block: usize, pool: &ThreadPool, task: impl Fn(Range<usize>, Range<usize>) + Sync) {
        let panels = &self.panels;
        let blocks = rows.div_ceil(block);
        let wanted = if self.threads == 1 { 1 } else { self.threads * TASKS_PER_THREAD };
        // Every thread gets as many tasks of each block of rows.
        let task_panels = panels.len().div_ceil(wanted.div_ceil(blocks).next_multiple_of(self.threads));
        let panel_blocks = panels.len().div_ceil(task_panels);
        pool.for_each_task(blocks * panel_blocks, |_, index| {
            let row = index / panel_blocks * block;
            let panel = panels.start + index % panel_blocks * task_panels;
            task(row..rows.min(row + block), panel..panels.end.min(panel + task_panels));
        });
    }
}
