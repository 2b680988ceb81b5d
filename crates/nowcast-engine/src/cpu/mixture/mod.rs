//! Student-t heads: from a head's raw outputs to means, exact mixtures and samples.
//!
//! A position's raw values are `[df K | location K | scale K | logits K]` for K components, or `[df, location,
//! scale]` for a single Student-t. As in the reference, `df = 2 + max(softplus(raw), epsilon)`,
//! `scale = max(softplus(raw), epsilon)`, `weights = softmax(logits)`, with torch's softplus (the identity above 20)
//! and the epsilon of `f32`; a value `x` in the units of the head becomes `affine scale * x + affine location`.
//!
//! Every kernel works on a range of rows, so that a caller may split rows over threads; no split changes a digit.

mod activation;
mod mean;
mod sample;

pub use activation::{Activated, ExactError, activate, exact};
pub use mean::mean;
pub use sample::{Draws, sample};

use crate::head::Head;
use std::ops::Range;

/// Largest number of positions that are handled together. Loops over them have a length known at run time only,
/// which makes compilers turn exactly these loops, and not the ones around them, into vector code.
const BLOCK: usize = 64;

/// The map from the units of a head to real units, `scale * x + location`, for every row and position.
#[derive(Debug, Clone, Copy)]
pub struct Affine<'a> {
    /// Offsets, at `row * row_stride + position * position_stride`.
    pub location: &'a [f64],
    /// Factors, at the same places.
    pub scale: &'a [f64],
    /// Distance between rows; 0 if all rows share their values.
    pub row_stride: usize,
    /// Distance between positions; 0 if all positions of a row share one value.
    pub position_stride: usize,
}

/// The raw outputs of a head for several rows, with the units of each.
#[derive(Debug, Clone, Copy)]
pub struct HeadOutput<'a> {
    /// What the head predicts.
    pub head: Head,
    /// Raw values, `[rows, positions, values]` with rows `row_stride` apart.
    pub raw: &'a [f32],
    /// Distance between rows of `raw`.
    pub row_stride: usize,
    /// How many positions of each row to use, from the first.
    pub positions: usize,
    /// Real units.
    pub affine: Affine<'a>,
}

/// Why a kernel refuses its buffers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A slice ends before the last element that the shape asks for.
    #[error("{buffer} holds {length} values, the shape needs {needed}: check rows, strides and positions")]
    TooShort {
        /// Which slice.
        buffer: &'static str,
        /// Its length.
        length: usize,
        /// The least length that the shape allows (saturated if it overflows).
        needed: usize,
    },
    /// Rows of the output would overlap.
    #[error("output rows are {stride} apart but {positions} positions long: use a stride of at least the positions")]
    Overlap {
        /// Distance between output rows.
        stride: usize,
        /// Length of an output row.
        positions: usize,
    },
    /// A mixture head without components.
    #[error("a mixture head needs at least one component: check the model's configuration")]
    NoComponents,
}

/// Where a kernel writes: row `rows.start` of the head goes to the start of `values`, the others `row_stride` apart.
#[derive(Debug)]
pub struct Output<'a> {
    /// Values in real units.
    pub values: &'a mut [f64],
    /// Distance between rows of `values`.
    pub row_stride: usize,
}

impl HeadOutput<'_> {
    /// Raw values of a row, all positions.
    fn row(&self, row: usize) -> &[f32] {
        &self.raw[row * self.row_stride..][..self.positions * self.head.values()]
    }

    /// Affine location and scale at a place.
    #[inline(always)]
    fn affine_at(&self, row: usize, position: usize) -> (f64, f64) {
        let index = row * self.affine.row_stride + position * self.affine.position_stride;
        (self.affine.location[index], self.affine.scale[index])
    }

    /// Checks that every slice covers `rows` rows of the head.
    fn check(&self, rows: usize) -> Result<(), ShapeError> {
        if self.head.components() == 0 {
            return Err(ShapeError::NoComponents);
        }
        let raw = extent(rows, self.row_stride, self.positions.saturating_mul(self.head.values()));
        let last = self.positions.saturating_sub(1).saturating_mul(self.affine.position_stride);
        let affine = extent(rows, self.affine.row_stride, last.saturating_add(1));
        covers("the head's raw output", self.raw.len(), raw)?;
        covers("the affine location", self.affine.location.len(), affine)?;
        covers("the affine scale", self.affine.scale.len(), affine)
    }
}

impl Output<'_> {
    fn check(&self, rows: &Range<usize>, positions: usize) -> Result<(), ShapeError> {
        if rows.len() > 1 && self.row_stride < positions {
            return Err(ShapeError::Overlap { stride: self.row_stride, positions });
        }
        covers("the output", self.values.len(), extent(rows.len(), self.row_stride, positions))
    }

    #[inline(always)]
    fn row(&mut self, index: usize, positions: usize) -> &mut [f64] {
        &mut self.values[index * self.row_stride..][..positions]
    }
}

/// As the reference does before it feeds a value back: what is infinite or at least half the largest `f32` is 0. Unlike
/// there NaN stays, which only a model that has failed makes: its forecast is refused, not zeros.
#[inline(always)]
fn replace_extreme(value: f64) -> f64 {
    if (value as f32).abs() >= 0.5 * f32::MAX { 0.0 } else { value }
}

/// Elements from the start of the first row to the end of the last.
fn extent(rows: usize, stride: usize, row: usize) -> usize {
    match rows {
        0 => 0,
        _ => (rows - 1).saturating_mul(stride).saturating_add(row),
    }
}

fn covers(buffer: &'static str, length: usize, needed: usize) -> Result<(), ShapeError> {
    if length < needed { Err(ShapeError::TooShort { buffer, length, needed }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
