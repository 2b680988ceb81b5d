//! The mean of a mixture head.

use super::activation::unnormalised_weights;
use super::{BLOCK, HeadOutput, Output, ShapeError, replace_extreme};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::vector::Vector;
use std::cell::Cell;
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
    InstructionSet::detected().dispatch(MeanRows { input, rows, output });
    Ok(())
}

thread_local! {
    /// Handed back after each call, so that the next one allocates nothing.
    static WEIGHTS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

struct MeanRows<'a, 'b> {
    input: &'a HeadOutput<'a>,
    rows: Range<usize>,
    output: &'a mut Output<'b>,
}

impl Kernel for MeanRows<'_, '_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        mean_rows::<V>(self.input, self.rows, self.output);
    }
}

#[inline(always)]
fn mean_rows<V: Vector>(input: &HeadOutput<'_>, rows: Range<usize>, output: &mut Output<'_>) {
    let mut weights = WEIGHTS.take();
    weights.resize(input.head.components() * BLOCK, 0.0);
    let (components, values) = (input.head.components(), input.head.values());
    let first_row = rows.start;
    for row in rows {
        let raw = input.row(row);
        let target = output.row(row - first_row, input.positions);
        for first in (0..input.positions).step_by(BLOCK) {
            let count = (input.positions - first).min(BLOCK);
            unnormalised_weights::<V>(input.head, raw, first, count, &mut weights);
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
    WEIGHTS.set(weights);
}
