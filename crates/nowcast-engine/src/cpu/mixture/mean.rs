//! The mean of a mixture head.

use super::activation::unnormalised_weights;
use super::{BLOCK, HeadOutput, Output, ShapeError, replace_extreme};
use crate::multiversion::multiversion;
use std::ops::Range;

/// Means of rows `rows` in real units: `affine scale * sum_k weight_k location_k + affine location`.
///
/// Everything after the weights is `f64`, in the order of the components.
///
/// # Errors
/// [`ShapeError`] when a slice is too short or output rows overlap.
pub fn mean(input: &HeadOutput<'_>, rows: Range<usize>, output: &mut Output<'_>) -> Result<(), ShapeError> {
    input.check(rows.end)?;
    output.check(&rows, input.positions)?;
    let mut weights = vec![0.0; input.head.components() * BLOCK];
    mean_rows(input, rows, &mut weights, output);
    Ok(())
}

multiversion! {
    fn mean_rows(
        input: &HeadOutput<'_>,
        rows: Range<usize>,
        weights: &mut [f32],
        output: &mut Output<'_>,
    ) = mean_rows_body;
}

#[inline(always)]
fn mean_rows_body<const FUSED: bool>(
    input: &HeadOutput<'_>,
    rows: Range<usize>,
    weights: &mut [f32],
    output: &mut Output<'_>,
) {
    let (components, values) = (input.head.components(), input.head.values());
    let first_row = rows.start;
    for row in rows {
        let raw = input.row(row);
        let target = output.row(row - first_row, input.positions);
        for first in (0..input.positions).step_by(BLOCK) {
            let count = (input.positions - first).min(BLOCK);
            unnormalised_weights::<FUSED>(input.head, raw, first, count, weights);
            for (place, mean) in target[first..][..count].iter_mut().enumerate() {
                let position = first + place;
                let locations = &raw[position * values + components..][..components];
                let (mut total, mut sum) = (0.0, 0.0);
                for (weights, &location) in weights.chunks_exact(BLOCK).zip(locations) {
                    total += f64::from(weights[place]);
                    sum += f64::from(weights[place]) * f64::from(location);
                }
                let (affine_location, affine_scale) = input.affine_at(row, position);
                *mean = replace_extreme(affine_scale * (sum / total) + affine_location);
            }
        }
    }
}
