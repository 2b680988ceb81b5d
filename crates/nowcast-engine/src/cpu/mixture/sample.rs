//! Samples from Student-t heads.
//!
//! Each draw owns one Philox call, named by series, sample, step and position. Of its 128 bits, 31 choose the
//! component by the inverse distribution function of the weights, 64 give U and 32 give V, and
//! `sqrt(nu (U^(-2 / nu) - 1)) cos(2 pi V)` is exactly Student-t with nu degrees of freedom (Bailey, "Polar
//! generation of random variates with the t-distribution", Mathematics of Computation 62, 1994). Nothing is
//! rejected, so nothing branches, and U reaches down to 2^-65.

use super::activation::{degrees_of_freedom_from, scale_from, unnormalised_weights};
use super::{HeadOutput, LANES, Output, ShapeError, covers};
use crate::elementary::{cos_turns, exp_minus_one, ln};
use crate::multiversion::multiversion;
use crate::random::{Stream, uniform_from_32, uniform_from_64};
use std::ops::Range;

/// Component choice works on integers below this, which are exact in `i32` and comparable on every processor.
const CHOICES: f64 = 2_147_483_648.0;

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
/// As in the reference, a value in the head's units that is NaN, infinite or at least half the largest `f32`
/// becomes 0 before the affine map. Digits depend on the stream and on the parameters of the same place only.
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

/// What the draws of up to [`LANES`] neighbouring positions share.
struct Block {
    weights: Vec<[f32; LANES]>,
    /// Component k is chosen by integers from `thresholds[k - 1]` up to below `thresholds[k]`.
    thresholds: Vec<[i32; LANES]>,
    /// Zero, or NaN where the weights have no finite sum.
    defect: [f64; LANES],
}

impl Block {
    fn new(components: usize) -> Self {
        Self {
            weights: vec![[0.0; LANES]; components],
            thresholds: vec![[0; LANES]; components - 1],
            defect: [0.0; LANES],
        }
    }

    #[inline(always)]
    fn prepare<const FUSED: bool>(&mut self, input: &HeadOutput<'_>, raw: &[f32], first: usize) {
        unnormalised_weights::<FUSED>(input.head, raw, first, &mut self.weights);
        let mut total = [0.0f64; LANES];
        for weight in &self.weights {
            for lane in 0..LANES {
                total[lane] += f64::from(weight[lane]);
            }
        }
        let mut factor = [0.0; LANES];
        for lane in 0..LANES {
            factor[lane] = CHOICES / total[lane];
            self.defect[lane] = total[lane] - total[lane];
        }
        let mut cumulative = [0.0f64; LANES];
        for (threshold, weight) in self.thresholds.iter_mut().zip(&self.weights) {
            for lane in 0..LANES {
                cumulative[lane] += f64::from(weight[lane]);
                // The cast takes NaN to 0 and 2^31 to 2^31 - 1.
                threshold[lane] = (cumulative[lane] * factor[lane]) as i32;
            }
        }
    }

    #[inline(always)]
    fn choose(&self, bits: &[u32; LANES]) -> [i32; LANES] {
        let mut component = [0; LANES];
        for threshold in &self.thresholds {
            for lane in 0..LANES {
                component[lane] += i32::from((bits[lane] >> 1) as i32 >= threshold[lane]);
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
        for first in (0..input.positions).step_by(LANES) {
            block.prepare::<FUSED>(input, raw, first);
            for row in row..sharing {
                let values = draw::<FUSED>(input, raw, block, draws.stream(row), first);
                let target = output.row(row - first_row, input.positions);
                for (lane, value) in target[first..].iter_mut().take(LANES).enumerate() {
                    let (affine_location, affine_scale) = input.affine_at(head_row, first + lane);
                    *value = affine_scale * values[lane] + affine_location;
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
) -> [f32; LANES] {
    let mut words = [[0; LANES]; 4];
    for lane in 0..LANES {
        let [w0, w1, w2, w3] = stream.words((first + lane) as u32);
        words[0][lane] = w0;
        words[1][lane] = w1;
        words[2][lane] = w2;
        words[3][lane] = w3;
    }
    let component = block.choose(&words[0]);
    let components = input.head.components();
    let mut degrees_of_freedom = [0.0f32; LANES];
    let mut location = [0.0f32; LANES];
    let mut scale = [0.0f32; LANES];
    for lane in 0..LANES {
        let position = (first + lane).min(input.positions - 1);
        let place = position * input.head.values() + component[lane] as usize;
        degrees_of_freedom[lane] = raw[place];
        location[lane] = raw[place + components];
        scale[lane] = raw[place + 2 * components];
    }
    let mut values = [0.0; LANES];
    for lane in 0..LANES {
        let nu = f64::from(degrees_of_freedom_from::<FUSED>(degrees_of_freedom[lane]));
        let sigma = f64::from(scale_from::<FUSED>(scale[lane]));
        let t =
            student_t::<FUSED>(nu, uniform_from_64(words[1][lane], words[2][lane]), uniform_from_32(words[3][lane]));
        let x = (f64::from(location[lane]) + sigma * t + block.defect[lane]) as f32;
        values[lane] = if x.abs() < 0.5 * f32::MAX { x } else { 0.0 };
    }
    values
}

/// Bailey's transform of two uniform numbers.
///
/// Relative error below 1e-14 where the cosine is not small: `ln` and `exp_minus_one` contribute a few units
/// in the last place each, and `exp` magnifies that of its argument by at most 45 (nu = 2, U = 2^-65).
#[inline(always)]
fn student_t<const FUSED: bool>(nu: f64, u: f64, v: f64) -> f64 {
    let radius = nu * exp_minus_one::<FUSED>(-2.0 * ln::<FUSED>(u) / nu);
    radius.sqrt() * cos_turns::<FUSED>(v)
}
