//! From raw head values to the parameters of distributions.

use super::{BLOCK, HeadOutput, ShapeError, covers};
use crate::elementary::{exp, exp_f32, ln};
use crate::head::Head;
use crate::multiversion::multiversion;
use crate::student_t::{Mixture, MixtureError};

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
    activate_row(input.head, input.row(row), target);
    Ok(())
}

multiversion! {
    fn activate_row(head: Head, raw: &[f32], target: &mut Activated<'_>) = activate_row_body;
}

#[inline(always)]
fn activate_row_body<const FUSED: bool>(head: Head, raw: &[f32], target: &mut Activated<'_>) {
    let components = head.components();
    for (position, values) in raw.chunks_exact(head.values()).enumerate() {
        let places = position * components..(position + 1) * components;
        let (degrees_of_freedom, rest) = values.split_at(components);
        let (locations, rest) = rest.split_at(components);
        let (scales, logits) = rest.split_at(components);
        for (to, &from) in target.degrees_of_freedom[places.clone()].iter_mut().zip(degrees_of_freedom) {
            *to = degrees_of_freedom_from::<FUSED>(from);
        }
        target.locations[places.clone()].copy_from_slice(locations);
        for (to, &from) in target.scales[places.clone()].iter_mut().zip(scales) {
            *to = scale_from::<FUSED>(from);
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
    activate_row(input.head, raw, &mut Activated { degrees_of_freedom, locations, scales, logits });
    let (affine_location, affine_scale) = input.affine_at(row, position);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
    let mixture = Mixture::new(
        logits.iter().map(|&logit| (f64::from(logit) - f64::from(largest)).exp()).collect(),
        wide(degrees_of_freedom),
        locations.iter().map(|&location| f64::from(location) * affine_scale + affine_location).collect(),
        scales.iter().map(|&scale| f64::from(scale) * affine_scale).collect(),
    )?;
    Ok(mixture)
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
fn softplus<const FUSED: bool>(x: f32) -> f32 {
    let value = ln::<FUSED>(1.0 + exp::<FUSED>(f64::from(x))) as f32;
    if x <= 20.0 { value } else { x }
}

/// The activation of a raw scale.
#[inline(always)]
pub(super) fn scale_from<const FUSED: bool>(raw: f32) -> f32 {
    let value = softplus::<FUSED>(raw);
    if value < f32::EPSILON { f32::EPSILON } else { value }
}

/// The activation of raw degrees of freedom.
#[inline(always)]
pub(super) fn degrees_of_freedom_from<const FUSED: bool>(raw: f32) -> f32 {
    2.0 + scale_from::<FUSED>(raw)
}

/// Softmax weights of the positions from `first` on, before division by their sum: `count` for each component,
/// components [`BLOCK`] apart.
#[inline(always)]
pub(super) fn unnormalised_weights<const FUSED: bool>(
    head: Head,
    raw: &[f32],
    first: usize,
    count: usize,
    weights: &mut [f32],
) {
    let Head::Mixture { components } = head else {
        return weights[..count].fill(1.0);
    };
    let raw = &raw[first * head.values()..][..count * head.values()];
    for (k, weights) in weights.chunks_exact_mut(BLOCK).enumerate() {
        for (place, weight) in weights[..count].iter_mut().enumerate() {
            *weight = raw[place * 4 * components + 3 * components + k];
        }
    }
    let mut largest = [f32::NEG_INFINITY; BLOCK];
    for logits in weights.chunks_exact(BLOCK) {
        for (largest, &logit) in largest[..count].iter_mut().zip(logits) {
            *largest = if logit > *largest { logit } else { *largest };
        }
    }
    for weights in weights.chunks_exact_mut(BLOCK) {
        for (weight, &largest) in weights[..count].iter_mut().zip(&largest) {
            *weight = exp_f32::<FUSED>(*weight - largest);
        }
    }
}
