//! Samples from Student-t heads.
//!
//! Each draw owns one Philox call, named by series, sample, step and position. Of its 128 bits, 32 choose the
//! component by the inverse distribution function of the weights, 64 give U and 32 give V, and
//! `sqrt(nu (U^(-2 / nu) - 1)) cos(2 pi V)` is exactly Student-t with nu degrees of freedom (Bailey, "Polar
//! generation of random variates with the t-distribution", Mathematics of Computation 62, 1994). Nothing is
//! rejected, so nothing branches, and U reaches down to 2^-65.

use super::activation::{degrees_of_freedom_from, scale_from, unnormalised_weights};
use super::{BLOCK, HeadOutput, Output, ShapeError, covers, replace_extreme};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::vector::Vector;
use crate::elementary::{cos_turns, exp_minus_one, ln};
use crate::random::{Stream, uniform_from_32, uniform_from_64};
use std::cell::Cell;
use std::ops::Range;

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
    InstructionSet::detected().dispatch(SampleRows { input, draws, rows, output });
    Ok(())
}

thread_local! {
    static SCRATCH: Cell<Block> =
        const { Cell::new(Block { weights: Vec::new(), cumulative: Vec::new(), activated: Vec::new() }) };
}

/// What the draws of up to [`BLOCK`] neighbouring positions share; repeated for rows that are drawn together.
#[derive(Default)]
struct Block {
    /// Weights before normalisation, `[components, BLOCK]`.
    weights: Vec<f32>,
    /// Sums of the weights up to and including each component, `[components, BLOCK]`.
    cumulative: Vec<f64>,
    /// The head's values with degrees of freedom and scales activated, `[positions, values]`; none where so few rows share
    /// them that it does not pay.
    activated: Vec<f32>,
}

impl Block {
    /// This thread's block, large enough for `components`; hand it back so that the next call allocates nothing.
    fn lent(components: usize) -> Self {
        let mut block = SCRATCH.take();
        block.weights.resize(components * BLOCK, 0.0);
        block.cumulative.resize(components * BLOCK, 0.0);
        block
    }

    fn hand_back(self) {
        SCRATCH.set(self);
    }

    #[inline(always)]
    fn prepare<V: Vector>(&mut self, input: &HeadOutput<'_>, raw: &[f32], first: usize, count: usize) {
        unnormalised_weights::<V>(input.head, raw, first, count, &mut self.weights);
        let mut sums = [0.0f64; BLOCK];
        for (cumulative, weights) in self.cumulative.chunks_exact_mut(BLOCK).zip(self.weights.chunks_exact(BLOCK)) {
            for ((cumulative, sum), &weight) in cumulative[..count].iter_mut().zip(&mut sums).zip(weights) {
                *sum += f64::from(weight);
                *cumulative = *sum;
            }
        }
    }

    /// Activates the parameters of all components of the `count` positions from `first` on.
    #[inline(always)]
    fn activate<V: Vector>(&mut self, input: &HeadOutput<'_>, raw: &[f32], first: usize, count: usize) {
        let (values, components) = (input.head.values(), input.head.components());
        self.activated.clear();
        self.activated.extend_from_slice(&raw[first * values..][..count * values]);
        for values in self.activated.chunks_exact_mut(values) {
            for value in &mut values[..components] {
                *value = degrees_of_freedom_from::<V>(*value);
            }
            for value in &mut values[2 * components..3 * components] {
                *value = scale_from::<V>(*value);
            }
        }
    }

    /// Repeats what is known of the first `count` lanes for as many rows.
    fn repeat(&mut self, count: usize, rows: usize) {
        for cumulative in self.cumulative.chunks_exact_mut(BLOCK) {
            for row in 1..rows {
                cumulative.copy_within(..count, row * count);
            }
        }
    }

    /// Sums of all weights; not finite where the weights are not.
    fn totals(&self) -> &[f64] {
        &self.cumulative[self.cumulative.len() - BLOCK..]
    }

    /// The first component whose cumulative weight lies above that share of the total which the bits name.
    #[inline(always)]
    fn choose(&self, bits: &[u32]) -> [u32; BLOCK] {
        let mut shares = [0.0; BLOCK];
        for ((share, &bits), &total) in shares.iter_mut().zip(bits).zip(self.totals()) {
            *share = uniform_from_32(bits) * total;
        }
        let mut component = [0; BLOCK];
        let all_but_last = self.cumulative.len() - BLOCK;
        for cumulative in self.cumulative[..all_but_last].chunks_exact(BLOCK) {
            for ((component, &share), &cumulative) in component[..bits.len()].iter_mut().zip(&shares).zip(cumulative) {
                *component += u32::from(share >= cumulative);
            }
        }
        component
    }
}

/// [`sample`] without its checks.
pub(super) struct SampleRows<'a, 'b> {
    pub(super) input: &'a HeadOutput<'a>,
    pub(super) draws: &'a Draws<'a>,
    pub(super) rows: Range<usize>,
    pub(super) output: &'a mut Output<'b>,
}

impl Kernel for SampleRows<'_, '_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        sample_rows::<V>(self.input, self.draws, self.rows, self.output);
    }
}

#[inline(always)]
fn sample_rows<V: Vector>(input: &HeadOutput<'_>, draws: &Draws<'_>, rows: Range<usize>, output: &mut Output<'_>) {
    let mut block = Block::lent(input.head.components());
    let first_row = rows.start;
    let mut row = rows.start;
    while row < rows.end {
        let head_row = draws.head_row(row);
        let sharing = if draws.shared { ((head_row + 1) * draws.samples).min(rows.end) } else { row + 1 };
        let raw = input.row(head_row);
        for first in (0..input.positions).step_by(BLOCK) {
            let count = (input.positions - first).min(BLOCK);
            block.prepare::<V>(input, raw, first, count);
            if sharing - row > input.head.components() {
                block.activate::<V>(input, raw, first, count);
            } else {
                block.activated.clear();
            }
            // Few positions fill no block of lanes: rows that share their parameters do.
            let together = (BLOCK / count).min(sharing - row);
            block.repeat(count, together);
            for row in (row..sharing).step_by(together) {
                let lanes = Lanes { stream: draws.stream(row), rows: together.min(sharing - row), first, count };
                let values = draw::<V>(input, raw, &block, &lanes);
                for (index, values) in values.chunks_exact(count).take(lanes.rows).enumerate() {
                    let target = &mut output.row(row + index - first_row, input.positions)[first..][..count];
                    for (place, (target, value)) in target.iter_mut().zip(values).enumerate() {
                        let (affine_location, affine_scale) = input.affine_at(head_row, first + place);
                        *target = replace_extreme(affine_scale * value + affine_location);
                    }
                }
            }
        }
        row = sharing;
    }
    block.hand_back();
}

/// Draws that are made together, at most [`BLOCK`]: `[rows, count]`.
struct Lanes {
    /// Of the first row; the others are the next samples of its series.
    stream: Stream,
    rows: usize,
    /// First position.
    first: usize,
    /// Positions of each row.
    count: usize,
}

/// Samples in the units of the head.
#[inline(always)]
fn draw<V: Vector>(input: &HeadOutput<'_>, raw: &[f32], block: &Block, lanes: &Lanes) -> [f64; BLOCK] {
    let Lanes { stream, rows, first, count } = *lanes;
    let length = (rows * count).min(BLOCK);
    let (mut sample, mut position) = ([0; BLOCK], [0; BLOCK]);
    for (row, (sample, position)) in sample.chunks_mut(count).zip(position.chunks_mut(count)).take(rows).enumerate() {
        sample.fill(stream.sample.wrapping_add(row as u32));
        for (place, position) in position.iter_mut().enumerate() {
            *position = (first + place) as u32;
        }
    }
    let (mut choice, mut high, mut low, mut angle) = ([0; BLOCK], [0; BLOCK], [0; BLOCK], [0; BLOCK]);
    for lane in 0..length {
        let stream = Stream { sample: sample[lane], ..stream };
        [choice[lane], high[lane], low[lane], angle[lane]] = stream.words(position[lane]);
    }
    let component = block.choose(&choice[..length]);
    let components = input.head.components();
    let mut degrees_of_freedom = [0.0f32; BLOCK];
    let mut location = [0.0f32; BLOCK];
    let mut scale = [0.0f32; BLOCK];
    let activated = !block.activated.is_empty();
    let parameters = if activated { &block.activated } else { &raw[first * input.head.values()..] };
    for lane in 0..length {
        let chosen = (position[lane] as usize - first) * input.head.values() + component[lane] as usize;
        degrees_of_freedom[lane] = parameters[chosen];
        location[lane] = parameters[chosen + components];
        scale[lane] = parameters[chosen + 2 * components];
    }
    if !activated {
        for (degrees_of_freedom, scale) in degrees_of_freedom[..length].iter_mut().zip(&mut scale) {
            *degrees_of_freedom = degrees_of_freedom_from::<V>(*degrees_of_freedom);
            *scale = scale_from::<V>(*scale);
        }
    }
    let totals = block.totals();
    let mut values = [0.0; BLOCK];
    for lane in 0..length {
        let u = uniform_from_64(high[lane], low[lane]);
        let t = student_t::<V>(f64::from(degrees_of_freedom[lane]), u, uniform_from_32(angle[lane]));
        // Weights that are not finite make the value NaN.
        values[lane] = f64::from(location[lane]) + f64::from(scale[lane]) * t + 0.0 * totals[lane];
    }
    values
}

/// Bailey's transform of two uniform numbers.
///
/// The error is below 2e-14 of the radius: that of the logarithm, two units in the last place, is magnified by
/// `exp` by at most its argument 45 (nu = 2, U = 2^-65) and halved by the root; the rest are single units.
#[inline(always)]
fn student_t<V: Vector>(nu: f64, u: f64, v: f64) -> f64 {
    let radius = nu * exp_minus_one::<V>(-2.0 * ln::<V>(u) / nu);
    radius.sqrt() * cos_turns::<V>(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Transform<'a> {
        draws: &'a [(f64, f64, f64)],
        results: &'a mut Vec<f64>,
    }

    impl Kernel for Transform<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            self.results.extend(self.draws.iter().map(|&(nu, u, v)| student_t::<V>(nu, u, v)));
        }
    }

    #[test]
    fn the_transform_agrees_with_its_formula_down_to_the_ends() {
        let (least, most) = (2f64.powi(-65), 1.0 - 2f64.powi(-53));
        let u = (0..2000).map(|i| (-65.0 * (f64::from(i) + 0.5) / 2000.0).exp2()).chain([least, most]);
        let draws: Vec<_> = u
            .flat_map(|u| [2.0, 2.0001, 3.0, 30.0, 1e5, 1e12, 3e38].map(|nu| (nu, u)))
            .flat_map(|(nu, u)| [2f64.powi(-33), 0.1, 0.25, 0.4, 0.77, 1.0 - 2f64.powi(-33)].map(|v| (nu, u, v)))
            .collect();
        for set in InstructionSet::supported() {
            let mut results = Vec::new();
            set.dispatch(Transform { draws: &draws, results: &mut results });
            for (&(nu, u, v), ours) in draws.iter().zip(results) {
                let radius = (nu * (-2.0 * u.ln() / nu).exp_m1()).sqrt();
                let twin = radius * (std::f64::consts::TAU * v).cos();
                assert!((ours - twin).abs() <= 2e-14 * radius, "{nu} {u:e} {v}: {ours} {twin}");
            }
        }
    }
}
