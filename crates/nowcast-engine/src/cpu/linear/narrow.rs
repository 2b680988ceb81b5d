//! Narrow layers: everything up to the result in `f64`.
//!
//! A layer of few inputs costs little, so it can afford double precision: its results are off by one rounding, however
//! its inputs cancel. Wide layers are bound by memory or by `f32` arithmetic, and sum in blocks instead.

use super::PANEL;
use super::layout::Layout;
use super::norm::inverse_root_mean_square;
use super::output::Output;
use super::pack::PackedLinear;
use crate::cpu::detect::Kernel;
use crate::cpu::vector::Vector;
use crate::elementary::exp;
use std::ops::Range;

/// Layers of at most this many inputs are narrow.
pub(crate) const MOST_INPUTS: usize = 128;

/// Rows that share one pass over a panel.
const ROWS: usize = 4;

/// Columns that are summed at a time.
const STRIP: usize = 16;

/// Sums of a few rows with one panel.
type Sums = [[f64; PANEL]; ROWS];

/// Some rows against some panels.
pub(super) struct Block<'a> {
    pub(super) linear: &'a PackedLinear,
    /// Row `r` is `input[r * input_stride..][..inputs]`.
    pub(super) input: &'a [f32],
    pub(super) input_stride: usize,
    pub(super) norm_epsilon: Option<f32>,
    pub(super) output: &'a Output<'a>,
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { linear, input, input_stride, norm_epsilon, output, rows, panels } = self;
        let inputs = linear.inputs();
        for first in rows.clone().step_by(ROWS) {
            let height = ROWS.min(rows.end - first);
            let input = &input[first * input_stride..];
            let norm = |row: usize| {
                let row = &input[row * input_stride..][..inputs];
                norm_epsilon.map_or(1.0, |epsilon| inverse_root_mean_square(row, epsilon))
            };
            let scales: [f64; ROWS] = std::array::from_fn(|row| if row < height { norm(row) } else { 1.0 });
            for panel in panels.clone() {
                let mut sums = sum(input, input_stride, inputs, height, linear.panels(panel..panel + 1));
                for (row, sums) in sums[..height].iter_mut().enumerate() {
                    finish::<V>(sums, scales[row], linear.panel_bias(panel), linear.layout());
                    output.write_narrow(first + row, panel, sums);
                }
            }
        }
    }
}

/// Sums over all inputs in order: `rows` rows of `inputs` values, `stride` apart.
#[inline(always)]
fn sum(input: &[f32], stride: usize, inputs: usize, rows: usize, panel: &[u32]) -> Sums {
    let mut sums = [[0.0; PANEL]; ROWS];
    let row = |row: usize| &input[row * stride..][..inputs];
    for column in (0..PANEL).step_by(STRIP) {
        if rows == ROWS {
            let strips = strip(std::array::from_fn::<_, ROWS, _>(row), panel, column);
            for (sums, strip) in sums.iter_mut().zip(strips) {
                sums[column..column + STRIP].copy_from_slice(&strip);
            }
        } else {
            for (index, sums) in sums[..rows].iter_mut().enumerate() {
                let [strip] = strip([row(index)], panel, column);
                sums[column..column + STRIP].copy_from_slice(&strip);
            }
        }
    }
    sums
}

/// Sums of a few rows with some columns of a panel: few enough to stay in registers.
///
/// Products of two `f32` are exact in `f64`, so fused or not makes no difference.
#[inline(always)]
fn strip<const ROWS: usize>(rows: [&[f32]; ROWS], panel: &[u32], column: usize) -> [[f64; STRIP]; ROWS] {
    let mut sums = [[0.0; STRIP]; ROWS];
    for (index, weights) in panel.chunks_exact(PANEL).enumerate() {
        let weights: [u32; STRIP] = *weights[column..].first_chunk().expect("a strip lies within a panel");
        let weights = weights.map(|weight| f64::from(f32::from_bits(weight)));
        for (sums, row) in sums.iter_mut().zip(rows) {
            let value = f64::from(row[index]);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += value * weight;
            }
        }
    }
    sums
}

/// Scales the sums of one row by the norm, adds the bias and applies the gate; the results come first in `sums`.
#[inline(always)]
fn finish<V: Vector>(sums: &mut [f64; PANEL], scale: f64, bias: Option<&[f32; PANEL]>, layout: Layout) {
    for (column, sum) in sums.iter_mut().enumerate() {
        *sum = *sum * scale + bias.map_or(0.0, |bias| f64::from(bias[column]));
    }
    if let Layout::Gated(_) = layout {
        let (gates, values) = sums.split_at_mut(PANEL / 2);
        for (gate, value) in gates.iter_mut().zip(values) {
            *gate = *gate / (1.0 + exp::<V>(-*gate)) * *value;
        }
    }
}
