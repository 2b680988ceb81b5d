//! The mean of a mixture head.

use super::activation::unnormalised_weights;
use super::{HeadOutput, LANES, Output, ShapeError};
use crate::multiversion::multiversion;
use std::ops::Range;

/// Means of rows `rows` in real units: `affine scale * sum_k weight_k location_k + affine location`.
///
/// The sum is taken in `f64` in the order of the components and rounded to `f32` once.
///
/// # Errors
/// [`ShapeError`] when a slice is too short or output rows overlap.
pub fn mean(input: &HeadOutput<'_>, rows: Range<usize>, output: &mut Output<'_>) -> Result<(), ShapeError> {
    input.check(rows.end)?;
    output.check(&rows, input.positions)?;
    let mut weights = vec![[0.0; LANES]; input.head.components()];
    mean_rows(input, rows, &mut weights, output);
    Ok(())
}

multiversion! {
    fn mean_rows(
        input: &HeadOutput<'_>,
        rows: Range<usize>,
        weights: &mut [[f32; LANES]],
        output: &mut Output<'_>,
    ) = mean_rows_body;
}

#[inline(always)]
fn mean_rows_body<const FUSED: bool>(
    input: &HeadOutput<'_>,
    rows: Range<usize>,
    weights: &mut [[f32; LANES]],
    output: &mut Output<'_>,
) {
    let (components, values) = (input.head.components(), input.head.values());
    let first_row = rows.start;
    for row in rows {
        let raw = input.row(row);
        let target = output.row(row - first_row, input.positions);
        for first in (0..input.positions).step_by(LANES) {
            unnormalised_weights::<FUSED>(input.head, raw, first, weights);
            for (lane, mean) in target[first..].iter_mut().take(LANES).enumerate() {
                let position = first + lane;
                let locations = &raw[position * values + components..][..components];
                let (mut total, mut sum) = (0.0, 0.0);
                for (weight, &location) in weights.iter().zip(locations) {
                    total += f64::from(weight[lane]);
                    sum += f64::from(weight[lane]) * f64::from(location);
                }
                let (affine_location, affine_scale) = input.affine_at(row, position);
                *mean = affine_scale * (sum / total) as f32 + affine_location;
            }
        }
    }
}
