//! Products, and rows on their way.

use std::ops::Range;

use crate::extent::Rows;
use crate::plan::Tensor;
use crate::weights::{LinearId, VectorId};

/// See [`PrependLabel`](super::Operation::PrependLabel).
#[derive(Debug, Clone)]
pub struct PrependLabel {
    /// `[series, context, width]`.
    pub input: Tensor,
    /// `[series, 1 + context, width]`.
    pub output: Tensor,
    /// Label of ordinary variates.
    pub target: VectorId,
    /// Label of exogenous variates.
    pub exogenous: VectorId,
    /// Variates of one item.
    pub variates: usize,
    /// How many of the last variates are exogenous.
    pub exogenous_variates: usize,
    /// Number of series.
    pub series: Rows,
}

/// See [`Linear`](super::Operation::Linear).
#[derive(Debug, Clone)]
pub struct Linear {
    /// The matrix.
    pub weight: LinearId,
    /// `[rows, inputs]`.
    pub input: Tensor,
    /// Outputs computed; the output tensor is as wide as this range.
    pub columns: Range<usize>,
    /// `[rows, columns]`.
    pub output: Tensor,
    /// Divides each input row by its root mean square, with this epsilon.
    pub norm_epsilon: Option<f32>,
    /// `[rows, columns]`, added to the product.
    pub residual: Option<Tensor>,
}

/// See [`Norm`](super::Operation::Norm).
#[derive(Debug, Clone)]
pub struct Norm {
    /// `[rows, width]`.
    pub input: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
    /// Scale of each column.
    pub scale: VectorId,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// See [`SwiGlu`](super::Operation::SwiGlu).
#[derive(Debug, Clone)]
pub struct SwiGlu {
    /// `[rows, 2 hidden]`: gates, then values.
    pub input: Tensor,
    /// `[rows, hidden]`.
    pub output: Tensor,
}

/// See [`Add`](super::Operation::Add).
#[derive(Debug, Clone)]
pub struct Add {
    /// `[rows, width]`.
    pub left: Tensor,
    /// `[rows, width]`.
    pub right: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
}

/// See [`LastRow`](super::Operation::LastRow).
#[derive(Debug, Clone)]
pub struct LastRow {
    /// `[series, tokens, width]`.
    pub input: Tensor,
    /// `[series, width]`.
    pub output: Tensor,
    /// Number of series.
    pub series: Rows,
}

/// See [`RepeatRows`](super::Operation::RepeatRows).
#[derive(Debug, Clone)]
pub struct RepeatRows {
    /// `[series, width]`.
    pub input: Tensor,
    /// `[series, samples, width]`.
    pub output: Tensor,
}

/// See [`OverwriteExogenous`](super::Operation::OverwriteExogenous).
#[derive(Debug, Clone)]
pub struct OverwriteExogenous {
    /// `[batch, variates, samples, horizon]`.
    pub paths: Tensor,
    /// `[batch, exogenous, horizon]`.
    pub future: Tensor,
    /// Columns to replace.
    pub columns: Range<usize>,
    /// Variates of one item.
    pub variates: usize,
    /// How many of the last variates are exogenous.
    pub exogenous: usize,
}

/// See [`Round`](super::Operation::Round).
#[derive(Debug, Clone)]
pub struct Round {
    /// `[rows, width]` in f64.
    pub input: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
}

/// See [`SortSamples`](super::Operation::SortSamples).
///
/// Values become the nearest f32, and the order is that of [`f32::total_cmp`].
#[derive(Debug, Clone)]
pub struct SortSamples {
    /// `[series, samples, horizon]` in f64.
    pub paths: Tensor,
    /// `[series, horizon, samples]`, as a tensor of width 1.
    pub sorted: Tensor,
    /// Number of series.
    pub series: Rows,
}

impl SortSamples {
    /// Most samples that every device sorts: those of a step fit the memory that the threads of a GPU share.
    pub const MOST_SAMPLES: usize = 1 << 14;
}
