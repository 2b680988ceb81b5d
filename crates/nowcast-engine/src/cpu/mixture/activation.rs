//! From raw head values to the parameters of distributions.

use super::{BLOCK, HeadOutput, ShapeError, covers};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::math;
use crate::cpu::vector::Vector;
use crate::elementary::{exp, ln};
use crate::head::Head;
use crate::student_t::{HeadParameters, Mixture, MixtureError};

/// Where the parameters of one row go, each `[positions, components]`, in the units of the head.
#[derive(Debug)]
pub struct Activated<'a> {
    /// Degrees of freedom, above 2 but for rounding.
    pub degrees_of_freedom: &'a mut [f32],
    /// Locations.
    pub locations: &'a mut [f32],
    /// Scales, at least the epsilon of `f32`.
    pub scales: &'a mut [f32],
    /// Logarithms of the weights up to a constant; zeros for a single Student-t.
    pub logits: &'a mut [f32],
}

/// Parameters of the distributions of row `row`.
///
/// # Errors
/// [`ShapeError`] when a slice is too short.
pub fn activate(input: &HeadOutput<'_>, row: usize, target: &mut Activated<'_>) -> Result<(), ShapeError> {
    input.check(row.saturating_add(1))?;
    let needed = input.positions.saturating_mul(input.head.components());
    covers("the degrees of freedom", target.degrees_of_freedom.len(), needed)?;
    covers("the locations", target.locations.len(), needed)?;
    covers("the scales", target.scales.len(), needed)?;
    covers("the logits", target.logits.len(), needed)?;
    InstructionSet::detected().dispatch(ActivateRow { head: input.head, raw: input.row(row), target });
    Ok(())
}

struct ActivateRow<'a, 'b> {
    head: Head,
    raw: &'a [f32],
    target: &'a mut Activated<'b>,
}

impl Kernel for ActivateRow<'_, '_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        activate_row::<V>(self.head, self.raw, self.target);
    }
}

#[inline(always)]
fn activate_row<V: Vector>(head: Head, raw: &[f32], target: &mut Activated<'_>) {
    let components = head.components();
    for (position, values) in raw.chunks_exact(head.values()).enumerate() {
        let places = position * components..(position + 1) * components;
        let (degrees_of_freedom, rest) = values.split_at(components);
        let (locations, rest) = rest.split_at(components);
        let (scales, logits) = rest.split_at(components);
        for (to, &from) in target.degrees_of_freedom[places.clone()].iter_mut().zip(degrees_of_freedom) {
            *to = degrees_of_freedom_from::<V>(from);
        }
        target.locations[places.clone()].copy_from_slice(locations);
        for (to, &from) in target.scales[places.clone()].iter_mut().zip(scales) {
            *to = scale_from::<V>(from);
        }
        match head {
            Head::StudentT => target.logits[places].fill(0.0),
            Head::Mixture { .. } => target.logits[places].copy_from_slice(logits),
        }
    }
}

/// The exact distribution at a position of a row, in real units.
///
/// Parameters are those of [`activate`], in `f32` like the reference; everything after that is `f64`.
///
/// # Errors
/// [`ExactError`] when the place lies outside the head's output or its values are not a mixture.
pub fn exact(input: &HeadOutput<'_>, row: usize, position: usize) -> Result<Mixture, ExactError> {
    let place = HeadOutput { positions: position.saturating_add(1), ..*input };
    place.check(row.saturating_add(1))?;
    let components = input.head.components();
    let mut values = vec![0.0f32; 4 * components];
    let (degrees_of_freedom, rest) = values.split_at_mut(components);
    let (locations, rest) = rest.split_at_mut(components);
    let (scales, logits) = rest.split_at_mut(components);
    let raw = &place.row(row)[position * input.head.values()..];
    let target = &mut Activated { degrees_of_freedom, locations, scales, logits };
    InstructionSet::detected().dispatch(ActivateRow { head: input.head, raw, target });
    let (affine_location, affine_scale) = input.affine_at(row, position);
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
    let parameters = HeadParameters {
        degrees_of_freedom: &wide(degrees_of_freedom),
        locations: &wide(locations),
        scales: &wide(scales),
        logits: &wide(logits),
    };
    Ok(parameters.mixture(affine_location, affine_scale)?)
}

/// Why there is no exact distribution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExactError {
    /// The place lies outside the head's output.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The values there are not a mixture.
    #[error(transparent)]
    Mixture(#[from] MixtureError),
}

/// ln(1 + exp(x)), the identity above 20; keeps NaN. Above `f32::EPSILON` it is the `f64` value rounded: there
/// `1 + exp(x)` loses less than 2^-53 / 2^-23, one part in a thousand of an `f32` unit.
#[inline(always)]
fn softplus<V: Vector>(x: f32) -> f32 {
    let value = ln::<V>(1.0 + exp::<V>(f64::from(x))) as f32;
    if x <= 20.0 { value } else { x }
}

/// The activation of a raw scale.
#[inline(always)]
pub(super) fn scale_from<V: Vector>(raw: f32) -> f32 {
    let value = softplus::<V>(raw);
    if value < f32::EPSILON { f32::EPSILON } else { value }
}

/// The activation of raw degrees of freedom.
#[inline(always)]
pub(super) fn degrees_of_freedom_from<V: Vector>(raw: f32) -> f32 {
    2.0 + scale_from::<V>(raw)
}

/// Softmax weights of the positions from `first` on, before division by their sum: `count` for each component,
/// components [`BLOCK`] apart.
#[inline(always)]
pub(super) fn unnormalised_weights<V: Vector>(
    head: Head,
    raw: &[f32],
    first: usize,
    count: usize,
    weights: &mut [f32],
) {
    let Head::Mixture { components } = head else {
        return weights[..count].fill(1.0);
    };
    let logits = &raw[first * head.values() + 3 * components..];
    transpose(logits, head.values(), count, weights);
    let mut largest = [f32::NEG_INFINITY; BLOCK];
    for logits in weights.chunks_exact(BLOCK) {
        for (largest, &logit) in largest[..count].iter_mut().zip(logits) {
            *largest = if logit > *largest { logit } else { *largest };
        }
    }
    for weights in weights.chunks_exact_mut(BLOCK) {
        // Lanes past `count` hold leftovers, which nobody reads.
        for (weights, largest) in weights.chunks_exact_mut(V::LANES).zip(largest.chunks_exact(V::LANES)) {
            math::exp(V::from_slice(weights).sub(V::from_slice(largest))).to_slice(weights);
        }
    }
}

/// Copies `count` rows, `stride` apart in `source`, to columns of `target`, whose rows are [`BLOCK`] apart.
#[inline(always)]
fn transpose(source: &[f32], stride: usize, count: usize, target: &mut [f32]) {
    const TILE: usize = 8;
    let length = target.len() / BLOCK;
    let (whole_rows, whole_columns) = (count - count % TILE, length - length % TILE);
    for row in (0..whole_rows).step_by(TILE) {
        for column in (0..whole_columns).step_by(TILE) {
            let mut tile = [[0.0; TILE]; TILE];
            for (index, line) in tile.iter_mut().enumerate() {
                line.copy_from_slice(&source[(row + index) * stride + column..][..TILE]);
            }
            for index in 0..TILE {
                let line = tile.map(|line| line[index]);
                target[(column + index) * BLOCK + row..][..TILE].copy_from_slice(&line);
            }
        }
    }
    for row in 0..count {
        let first = if row < whole_rows { whole_columns } else { 0 };
        for column in first..length {
            target[column * BLOCK + row] = source[row * stride + column];
        }
    }
}
