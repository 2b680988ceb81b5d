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

impl Output<'_> {
    /// Finishes one row and panel and writes what lies within the columns, the addend added.
    #[inline(always)]
    pub(super) fn write<V: Vector>(&self, row: usize, panel: usize, finish: &Finish<'_>) {
        let (wanted, column) = self.wanted(panel);
        let start = row * self.stride + column;
        // SAFETY: no other task has this row and panel.
        let output = unsafe { self.values.part(start, wanted.len()) };
        if wanted.len() < self.layout.panel_outputs() {
            return self.write_partly::<V>(row, column, wanted, finish, output);
        }
        for first in wanted.step_by(V::LANES) {
            let result: V = finish.results(first);
            let output = &mut output[first..];
            let result = match self.addend {
                Addend::Nothing => result,
                Addend::Output => V::from_slice(output).add(result),
                Addend::Rows { values, stride } => V::from_slice(&values[row * stride + column + first..]).add(result),
            };
            result.to_slice(output);
        }
    }

    /// As [`Output::write`], where a panel reaches beyond the columns.
    #[inline(always)]
    fn write_partly<V: Vector>(
        &self,
        row: usize,
        column: usize,
        wanted: Range<usize>,
        finish: &Finish<'_>,
        output: &mut [f32],
    ) {
        let mut results = [0.0; PANEL];
        for first in (0..self.layout.panel_outputs()).step_by(V::LANES) {
            finish.results::<V>(first).to_slice(&mut results[first..]);
        }
        for (index, (output, result)) in output.iter_mut().zip(&results[wanted]).enumerate() {
            *output = match self.addend {
                Addend::Nothing => *result,
                Addend::Output => *output + result,
                Addend::Rows { values, stride } => values[row * stride + column + index] + result,
            };
        }
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
