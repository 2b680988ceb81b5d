//! Kernels of Student-t heads against plain `f64` twins and against the exact distributions.

use super::*;
use crate::random::{philox, series_key};

mod distribution;
mod invariance;
mod parameters;

/// Reproducible numbers in [-1, 1), from a key that no draw under test uses.
fn noise(count: usize, salt: u32) -> Vec<f32> {
    (0..count).map(|i| philox([i as u32, salt, 0, 0], [99, 98])[0] as f32 / 2_147_483_648.0 - 1.0).collect()
}

/// A head output whose affine map is the identity, rows without gaps.
fn plain(head: Head, raw: &[f32], positions: usize) -> HeadOutput<'_> {
    let affine = Affine { location: &[0.0], scale: &[1.0], row_stride: 0, position_stride: 0 };
    HeadOutput { head, raw, row_stride: positions * head.values(), positions, affine }
}

fn sampled(input: &HeadOutput<'_>, draws: &Draws<'_>, rows: Range<usize>) -> Vec<f32> {
    let mut values = vec![f32::NAN; rows.len() * input.positions];
    sample(input, draws, rows, &mut Output { values: &mut values, row_stride: input.positions }).unwrap();
    values
}

/// The raw number whose activation is about `value`.
fn raw_for(value: f64) -> f32 {
    if value > 20.0 { value as f32 } else { value.exp_m1().ln() as f32 }
}
