//! Scalers and mixtures.

use crate::extent::Rows;
use crate::head::Head;
use crate::plan::Tensor;
use crate::scaler::Scaler;

/// See [`ScaleContext`](super::Operation::ScaleContext). Shapes: `values`, `mask`, `scaled`, `location`, `scale` are
/// `[series, context, patch]`; `state` is `[series, 6]` in f64.
#[derive(Debug, Clone)]
pub struct ScaleContext {
    /// Which statistics.
    pub scaler: Scaler,
    /// Values in real units, an input; masked ones still carry a value.
    pub values: Tensor,
    /// 1 where a point is valid, 0 where it is masked; an input.
    pub mask: Tensor,
    /// `(value - location) / scale`.
    pub scaled: Tensor,
    /// Location of every point.
    pub location: Tensor,
    /// Scale of every point.
    pub scale: Tensor,
    /// Location and scale of the last patch, `[series, patch]` each in f64.
    pub last: [Tensor; 2],
    /// Running statistics after the context.
    pub state: Tensor,
    /// Number of series.
    pub series: Rows,
}

/// See [`ScaleStep`](super::Operation::ScaleStep). The newest patch is read from `paths[.., column..column + patch]`.
#[derive(Debug, Clone)]
pub struct ScaleStep {
    /// Which statistics.
    pub scaler: Scaler,
    /// Predicted values in real units, `[paths, horizon]`.
    pub paths: Tensor,
    /// First column of the newest patch.
    pub column: usize,
    /// Statistics after the context, `[series, 6]`; `None` continues `state` itself.
    pub context_state: Option<Tensor>,
    /// Statistics of every path, `[paths, 6]`.
    pub state: Tensor,
    /// `[paths, patch]`.
    pub scaled: Tensor,
    /// `[paths, patch]`.
    pub location: Tensor,
    /// `[paths, patch]`.
    pub scale: Tensor,
}

/// See [`ActivateMixture`](super::Operation::ActivateMixture). All outputs are `[rows, positions, components]`.
#[derive(Debug, Clone)]
pub struct ActivateMixture {
    /// Raw head outputs, `[rows, positions, 4 components]` (3 without mixture weights).
    pub parameters: Tensor,
    /// What the head predicts.
    pub head: Head,
    /// Positions of the patch.
    pub positions: usize,
    /// Degrees of freedom, above 2.
    pub degrees_of_freedom: Tensor,
    /// Locations in scaled units.
    pub location: Tensor,
    /// Scales in scaled units.
    pub scale: Tensor,
    /// Mixture logits.
    pub logits: Tensor,
}

/// See [`MixtureQuantiles`](super::Operation::MixtureQuantiles). Each level is solved by itself, as by
/// [`Mixture::quantile`]; where parameters are no mixture, its quantiles are NaN.
///
/// [`Mixture::quantile`]: crate::student_t::Mixture::quantile
#[derive(Debug, Clone)]
pub struct MixtureQuantiles {
    /// What the head predicts.
    pub head: Head,
    /// Positions of the patch.
    pub positions: usize,
    /// Degrees of freedom, locations, scales and logits, `[rows, positions, components]` each, as
    /// [`ActivateMixture`](super::Operation::ActivateMixture) leaves them.
    pub parameters: [Tensor; 4],
    /// Affine location and scale of each point, `[rows, at least positions]` in f64.
    pub affine: [Tensor; 2],
    /// `[1, levels]` in f64, each in (0, 1).
    pub levels: Tensor,
    /// `[rows, levels, positions]` in f64, in real units.
    pub quantiles: Tensor,
}

impl MixtureQuantiles {
    /// Most components that every device takes: those of a step lie in the memory that the threads of a GPU share.
    pub const MOST_COMPONENTS: usize = 256;
}

/// See [`MeanMixture`](super::Operation::MeanMixture) and [`SampleMixture`](super::Operation::SampleMixture).
#[derive(Debug, Clone)]
pub struct DrawMixture {
    /// Raw head outputs, one row per series or per path.
    pub parameters: Tensor,
    /// Affine location of each point, rows as `parameters`.
    pub location: Tensor,
    /// Affine scale of each point, rows as `parameters`.
    pub scale: Tensor,
    /// Whether rows are per series, shared by its samples.
    pub shared: bool,
    /// What the head predicts.
    pub head: Head,
    /// Positions to draw.
    pub positions: usize,
    /// Random stream of each series, `[series]` in i32.
    pub streams: Tensor,
    /// `[paths, horizon]`.
    pub paths: Tensor,
    /// First column to write.
    pub column: usize,
    /// Decode step, counted from 0; part of the random key.
    pub step: usize,
    /// Number of series.
    pub series: Rows,
}
