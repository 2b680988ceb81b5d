//! Quantiles of a mixture: roots of its distribution function.
//!
//! Each root is solved for the nearer tail's probability (below one half the lower, above it the upper), by
//! Halley steps inside a bracket, with bisection whenever a step leaves the bracket.

use super::{Evaluation, Mixture};

/// A root is accepted when the step to it changes the tail probability by less than this relative amount.
const TOLERANCE: f64 = 1e-13;
/// More steps than any bracket of finite numbers can need; reached only where rounding hides the root.
const STEP_LIMIT: usize = 2200;

/// Quantiles for `levels`, in their order; each search starts from its predecessor.
pub(super) fn solve(mixture: &Mixture, levels: &[f64]) -> Vec<f64> {
    let mut start = mixture.mean();
    levels
        .iter()
        .map(|&level| match level {
            0.0 => f64::NEG_INFINITY,
            1.0 => f64::INFINITY,
            _ if level > 0.0 && level < 1.0 => {
                start = root(mixture, level, start);
                start
            }
            _ => f64::NAN,
        })
        .collect()
}

/// The excess of the distribution function over `level`, relative to the nearer tail's probability.
fn excess(at: &Evaluation, level: f64) -> f64 {
    if level < 0.5 { (at.lower - level) / level } else { ((1.0 - level) - at.upper) / (1.0 - level) }
}

fn root(mixture: &Mixture, level: f64, start: f64) -> f64 {
    let tail = level.min(1.0 - level);
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut x = start;
    let mut reach = 0.0;
    for _ in 0..STEP_LIMIT {
        let at = mixture.evaluate(x);
        let difference = excess(&at, level);
        if difference == 0.0 || x.is_nan() {
            return x;
        }
        if difference > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let newton = -difference * tail / at.density;
        let halley = newton / (1.0 + 0.5 * newton * at.slope / at.density).clamp(0.5, 2.0);
        let mut next = x + halley;
        let width = high - low;
        if width.is_finite() {
            if !(low < next && next < high) {
                next = 0.5 * low + 0.5 * high;
            }
        } else {
            // Not bracketed yet: walk away from the known side, at most doubling each time.
            reach = if reach == 0.0 { 2.0 * mixture.spread() } else { 2.0 * reach };
            if !halley.is_finite() || halley.abs() > reach {
                next = x - reach * difference.signum();
            }
        }
        let step = (next - x).abs();
        if next == x || step * at.density <= TOLERANCE * tail || next == low || next == high {
            return next;
        }
        x = next;
    }
    x
}
