//! Samples from Student-t heads.
//!
//! Each draw owns one Philox call, named by series, sample, step and position. Of its 128 bits, 31 choose the
//! component by the inverse distribution function of the weights, 64 give U and 32 give V, and
//! `sqrt(nu (U^(-2 / nu) - 1)) cos(2 pi V)` is exactly Student-t with nu degrees of freedom (Bailey, "Polar
//! generation of random variates with the t-distribution", Mathematics of Computation 62, 1994). Nothing is
//! rejected, so nothing branches, and U reaches down to 2^-65.

use super::activation::{degrees_of_freedom_from, scale_from, unnormalised_weights};
use super::{BLOCK, HeadOutput, Output, ShapeError, covers, replace_extreme};
use crate::elementary::{cos_turns, exp_minus_one, ln};
use crate::multiversion::multiversion;
use crate::random::{Stream, uniform_from_32, uniform_from_64};
use std::ops::Range;

/// Component choice works on integers below this.
const CHOICES: f64 = 2_147_483_648.0;
/// Adding this to a number of 0 to 2^32 leaves the nearest integer in the low bits: casts are not vector code.
const ROUND: f64 = 4_503_599_627_370_496.0;

/// Who draws: rows are `[series, samples]`, the streams' names follow from the row.
#[derive(Debug, Clone, Copy)]
pub struct Draws<'a> {
    /// What the user chose.
    pub seed: u64,
    /// Index of the decode step.
    pub step: u32,
    /// [`crate::random::series_key`] of each series.
    pub series_keys: &'a [u32],
    /// Number of samples of each series in this call.
    pub samples: usize,
    /// Index of the first of them within the whole forecast.
    pub first_sample: u32,
    /// Whether all samples of a series share one row of the head's output (and of its affine map), as in the
    /// first step of a forecast; otherwise each sample has its own.
    pub shared: bool,
}

impl Draws<'_> {
    /// Row of the head's output for a row of samples.
    fn head_row(&self, row: usize) -> usize {
        if self.shared { row / self.samples } else { row }
    }

    fn stream(&self, row: usize) -> Stream {
        Stream {
            seed: self.seed,
            series: self.series_keys[row / self.samples],
            sample: self.first_sample.wrapping_add((row % self.samples) as u32),
            step: self.step,
        }
    }
}

/// One sample in real units for every row of `rows` (numbered `series * samples + sample`) and every position.
///
/// As in the reference, a value in real units that is NaN, infinite or at least half the largest `f32` becomes 0.
/// Digits depend on the stream and on the parameters of the same place only.
///
/// # Errors
/// [`ShapeError`] when a slice is too short or output rows overlap.
pub fn sample(
    input: &HeadOutput<'_>,
    draws: &Draws<'_>,
    rows: Range<usize>,
    output: &mut Output<'_>,
) -> Result<(), ShapeError> {
    if rows.is_empty() || input.positions == 0 {
        return Ok(());
    }
    covers("the series keys times samples", draws.series_keys.len().saturating_mul(draws.samples), rows.end)?;
    input.check(draws.head_row(rows.end - 1) + 1)?;
    output.check(&rows, input.positions)?;
    let mut block = Block::new(input.head.components());
    sample_rows(input, draws, rows, &mut block, output);
    Ok(())
}

/// What the draws of up to [`BLOCK`] neighbouring positions share.
struct Block {
    /// Weights before normalisation, `[components, BLOCK]`.
    weights: Vec<f32>,
    /// `[components - 1, BLOCK]`; component k is chosen by integers from threshold k - 1 up to below threshold k.
    thresholds: Vec<u32>,
    /// Zero, or NaN where the weights have no finite sum.
    defect: [f64; BLOCK],
}

impl Block {
    fn new(components: usize) -> Self {
        Self {
            weights: vec![0.0; components * BLOCK],
            thresholds: vec![0; (components - 1) * BLOCK],
            defect: [0.0; BLOCK],
        }
    }

    #[inline(always)]
    fn prepare<const FUSED: bool>(&mut self, input: &HeadOutput<'_>, raw: &[f32], first: usize, count: usize) {
        unnormalised_weights::<FUSED>(input.head, raw, first, count, &mut self.weights);
        let mut total = [0.0f64; BLOCK];
        for weights in self.weights.chunks_exact(BLOCK) {
            for (total, &weight) in total[..count].iter_mut().zip(weights) {
                *total += f64::from(weight);
            }
        }
        let mut factor = [0.0; BLOCK];
        for place in 0..count {
            factor[place] = CHOICES / total[place];
            self.defect[place] = 0.0 * total[place];
        }
        let mut cumulative = [0.0f64; BLOCK];
        for (thresholds, weights) in self.thresholds.chunks_exact_mut(BLOCK).zip(self.weights.chunks_exact(BLOCK)) {
            for place in 0..count {
                cumulative[place] += f64::from(weights[place]);
                thresholds[place] = (cumulative[place] * factor[place] + ROUND).to_bits() as u32;
            }
        }
    }

    #[inline(always)]
    fn choose(&self, bits: &[u32]) -> [u32; BLOCK] {
        let mut component = [0; BLOCK];
        for thresholds in self.thresholds.chunks_exact(BLOCK) {
            for ((component, &bits), &threshold) in component.iter_mut().zip(bits).zip(thresholds) {
                *component += u32::from(bits >> 1 >= threshold);
            }
        }
        component
    }
}

multiversion! {
    fn sample_rows(
        input: &HeadOutput<'_>,
        draws: &Draws<'_>,
        rows: Range<usize>,
        block: &mut Block,
        output: &mut Output<'_>,
    ) = sample_rows_body;
}

#[inline(always)]
fn sample_rows_body<const FUSED: bool>(
    input: &HeadOutput<'_>,
    draws: &Draws<'_>,
    rows: Range<usize>,
    block: &mut Block,
    output: &mut Output<'_>,
) {
    let first_row = rows.start;
    let mut row = rows.start;
    while row < rows.end {
        let head_row = draws.head_row(row);
        let sharing = if draws.shared { ((head_row + 1) * draws.samples).min(rows.end) } else { row + 1 };
        let raw = input.row(head_row);
        for first in (0..input.positions).step_by(BLOCK) {
            let count = (input.positions - first).min(BLOCK);
            block.prepare::<FUSED>(input, raw, first, count);
            for row in row..sharing {
                let target = &mut output.row(row - first_row, input.positions)[first..][..count];
                draw::<FUSED>(input, raw, block, draws.stream(row), first, target);
                for (place, value) in target.iter_mut().enumerate() {
                    let (affine_location, affine_scale) = input.affine_at(head_row, first + place);
                    *value = replace_extreme(affine_scale * *value + affine_location);
                }
            }
        }
        row = sharing;
    }
}

/// Samples of the positions from `first` on, in the units of the head.
#[inline(always)]
fn draw<const FUSED: bool>(
    input: &HeadOutput<'_>,
    raw: &[f32],
    block: &Block,
    stream: Stream,
    first: usize,
    target: &mut [f64],
) {
    let count = target.len().min(BLOCK);
    let (mut choice, mut high, mut low, mut angle) = ([0; BLOCK], [0; BLOCK], [0; BLOCK], [0; BLOCK]);
    for place in 0..count {
        [choice[place], high[place], low[place], angle[place]] = stream.words((first + place) as u32);
    }
    let component = block.choose(&choice[..count]);
    let components = input.head.components();
    let mut degrees_of_freedom = [0.0f32; BLOCK];
    let mut location = [0.0f32; BLOCK];
    let mut scale = [0.0f32; BLOCK];
    for place in 0..count {
        let chosen = (first + place) * input.head.values() + component[place] as usize;
        degrees_of_freedom[place] = raw[chosen];
        location[place] = raw[chosen + components];
        scale[place] = raw[chosen + 2 * components];
    }
    for place in 0..count {
        let nu = f64::from(degrees_of_freedom_from::<FUSED>(degrees_of_freedom[place]));
        let sigma = f64::from(scale_from::<FUSED>(scale[place]));
        let u = uniform_from_64(high[place], low[place]);
        let t = student_t::<FUSED>(nu, u, uniform_from_32(angle[place]));
        target[place] = f64::from(location[place]) + sigma * t + block.defect[place];
    }
}

/// Bailey's transform of two uniform numbers.
///
/// The error is below 2e-14 of the radius: that of the logarithm, two units in the last place, is magnified by
/// `exp` by at most its argument 45 (nu = 2, U = 2^-65) and halved by the root; the rest are single units.
#[inline(always)]
fn student_t<const FUSED: bool>(nu: f64, u: f64, v: f64) -> f64 {
    let radius = nu * exp_minus_one::<FUSED>(-2.0 * ln::<FUSED>(u) / nu);
    radius.sqrt() * cos_turns::<FUSED>(v)
}

/// [`sample`] without its checks, as the baseline of a processor without fused multiply-add compiles it.
#[cfg(test)]
pub(super) fn portable_rows(input: &HeadOutput<'_>, draws: &Draws<'_>, rows: Range<usize>, output: &mut Output<'_>) {
    sample_rows_body::<false>(input, draws, rows, &mut Block::new(input.head.components()), output);
}

/// [`sample`] without its checks and with fused multiply-add, in hardware or not.
#[cfg(test)]
pub(super) fn fused_rows(input: &HeadOutput<'_>, draws: &Draws<'_>, rows: Range<usize>, output: &mut Output<'_>) {
    sample_rows_body::<true>(input, draws, rows, &mut Block::new(input.head.components()), output);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_agrees_with_its_formula_down_to_the_ends() {
        let u = (0..2000)
            .map(|i| (-65.0 * (f64::from(i) + 0.5) / 2000.0).exp2())
            .chain([2f64.powi(-65), 1.0 - 2f64.powi(-53)]);
        for u in u {
            for nu in [2.0, 2.0001, 3.0, 30.0, 1e5, 1e12, 3e38] {
                let radius = (nu * (-2.0 * u.ln() / nu).exp_m1()).sqrt();
                for v in [2f64.powi(-33), 0.1, 0.25, 0.4, 0.77, 1.0 - 2f64.powi(-33)] {
                    let twin = radius * (std::f64::consts::TAU * v).cos();
                    // Half of it for the twin, whose logarithm is rounded as well.
                    for ours in [student_t::<false>(nu, u, v), student_t::<true>(nu, u, v)] {
                        assert!((ours - twin).abs() <= 2e-14 * radius, "{nu} {u:e} {v}: {ours} {twin}");
                    }
                }
            }
        }
    }
}
