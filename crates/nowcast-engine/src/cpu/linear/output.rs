//! Where results go, and what is added to them on the way.

use super::PANEL;
use super::epilogue::Finish;
use super::layout::Layout;
use crate::cpu::disjoint::Disjoint;
use crate::cpu::vector::Vector;
use std::ops::Range;

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

/// The output of a call, shared by its tasks: each has rows and panels of its own.
#[derive(Clone)]
pub(super) struct Output<'a> {
    pub(super) layout: Layout,
    /// The outputs wanted.
    pub(super) columns: Range<usize>,
    pub(super) values: Disjoint<'a>,
    pub(super) stride: usize,
    pub(super) addend: Addend<'a>,
}

/// The columns of an output that a panel's results go to.
pub(super) struct PanelOutput<'a> {
    output: &'a Output<'a>,
    bias: Option<&'a [f32; PANEL]>,
    /// Columns of the panel.
    wanted: Range<usize>,
    /// Column of the output that the first of them goes to.
    column: usize,
}

impl PanelOutput<'_> {
    /// Finishes the sums of one row and writes what lies within the columns, the addend added.
    #[inline(always)]
    pub(super) fn write<V: Vector>(&self, row: usize, sums: &[f32; PANEL], scale: f32) {
        let layout = self.output.layout;
        let finish = Finish { sums, scale, bias: self.bias, layout };
        if self.wanted.len() < layout.panel_outputs() {
            return self.write_partly::<V>(row, &finish);
        }
        match layout {
            Layout::Plain => self.write_whole::<V, PANEL>(row, &finish),
            Layout::Gated(_) => self.write_whole::<V, { PANEL / 2 }>(row, &finish),
        }
    }

    /// Writes all outputs of the panel: so many that the compiler knows how many.
    #[inline(always)]
    fn write_whole<V: Vector, const WIDTH: usize>(&self, row: usize, finish: &Finish<'_>) {
        let Self { output: &Output { ref values, stride, addend, .. }, column, .. } = *self;
        // SAFETY: no other task has this row and panel.
        let output = unsafe { values.part(row * stride + column, WIDTH) };
        let addend_of_row = match addend {
            Addend::Rows { values, stride } => &values[row * stride + column..][..WIDTH],
            Addend::Nothing | Addend::Output => &[],
        };
        for first in (0..WIDTH).step_by(V::LANES) {
            let result: V = finish.results(first);
            let output = &mut output[first..];
            let result = match addend {
                Addend::Nothing => result,
                Addend::Output => V::from_slice(output).add(result),
                Addend::Rows { .. } => V::from_slice(&addend_of_row[first..]).add(result),
            };
            result.to_slice(output);
        }
    }

    /// As [`PanelOutput::write_whole`], where the panel reaches beyond the columns.
    #[inline(always)]
    fn write_partly<V: Vector>(&self, row: usize, finish: &Finish<'_>) {
        let Self { output, column, ref wanted, .. } = *self;
        let mut results = [0.0; PANEL];
        for first in (0..finish.layout.panel_outputs()).step_by(V::LANES) {
            finish.results::<V>(first).to_slice(&mut results[first..]);
        }
        // SAFETY: no other task has this row and panel.
        let target = unsafe { output.values.part(row * output.stride + column, wanted.len()) };
        for (index, (target, result)) in target.iter_mut().zip(&results[wanted.clone()]).enumerate() {
            *target = match output.addend {
                Addend::Nothing => *result,
                Addend::Output => *target + result,
                Addend::Rows { values, stride } => values[row * stride + column + index] + result,
            };
        }
    }
}

impl<'a> Output<'a> {
    /// Where a panel's results go; `bias` is that of its columns.
    pub(super) fn panel(&'a self, panel: usize, bias: Option<&'a [f32; PANEL]>) -> PanelOutput<'a> {
        let (wanted, column) = self.wanted(panel);
        PanelOutput { output: self, bias, wanted, column }
    }

    /// The columns of a panel that are wanted, and the first column of the output they go to.
    #[inline(always)]
    fn wanted(&self, panel: usize) -> (Range<usize>, usize) {
        let width = self.layout.panel_outputs();
        let first = self.columns.start.max(panel * width);
        let last = self.columns.end.min((panel + 1) * width);
        (first - panel * width..last - panel * width, first - self.columns.start)
    }

    /// Adds the addend to the results of one row and panel, rounds once, and writes those within the columns.
    #[inline(always)]
    pub(super) fn write_narrow(&self, row: usize, panel: usize, results: &[f64; PANEL]) {
        let (wanted, column) = self.wanted(panel);
        let results = &results[wanted];
        // SAFETY: no other task has this row and panel.
        let output = unsafe { self.values.part(row * self.stride + column, results.len()) };
        for (index, (output, &result)) in output.iter_mut().zip(results).enumerate() {
            *output = match self.addend {
                Addend::Nothing => result as f32,
                Addend::Output => (f64::from(*output) + result) as f32,
                Addend::Rows { values, stride } => (f64::from(values[row * stride + column + index]) + result) as f32,
            };
        }
    }
}
