//! Quantiles of a mixture: roots of its distribution function.
//!
//! Each root is solved for the nearer tail's probability (below one half the lower, above it the upper), by
//! Halley steps from the point where the previous level was found. Until the root is bracketed a step may at most
//! double the last one; inside a bracket, a step that leaves it or shrinks too slowly is replaced by bisection.

use super::component::Components;
use super::{Evaluation, Mixture, evaluate};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::vector::Vector;

/// A root is accepted when the tail probability is within this relative distance of its level.
const TOLERANCE: f64 = 1e-14;
/// More steps than any bracket of finite numbers can need; reached only where rounding hides the root.
const STEP_LIMIT: usize = 2200;

/// Quantiles for `levels`, in their order.
pub(super) fn solve(mixture: &Mixture, levels: &[f64]) -> Vec<f64> {
    let mut quantiles = levels.to_vec();
    InstructionSet::detected().dispatch(Solve {
        blocks: mixture.blocks(),
        start: mixture.mean(),
        reach: mixture.spread(),
        values: &mut quantiles,
    });
    quantiles
}

struct Solve<'a> {
    blocks: &'a [Components],
    /// Where the search begins.
    start: f64,
    /// The longest first step.
    reach: f64,
    /// Levels, replaced by their quantiles.
    values: &'a mut [f64],
}

impl Kernel for Solve<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        solve_in_place::<V>(self);
    }
}

#[inline(always)]
fn solve_in_place<V: Vector>(job: Solve<'_>) {
    let Solve { blocks, start, reach, values } = job;
    let mut x = start;
    let mut at = evaluate::<V>(blocks, x);
    for value in values {
        *value = match *value {
            0.0 => f64::NEG_INFINITY,
            1.0 => f64::INFINITY,
            level if level > 0.0 && level < 1.0 => {
                let mut search = Search::new(level, reach);
                // The last point evaluated is where the next level starts.
                loop {
                    match search.step(x, &at) {
                        Step::Found(root) => break root,
                        Step::Try(next) => x = next,
                    }
                    at = evaluate::<V>(blocks, x);
                }
            }
            _ => f64::NAN,
        };
    }
}

enum Step {
    Try(f64),
    Found(f64),
}

/// The search for one level.
struct Search {
    level: f64,
    /// Probability of the nearer tail.
    tail: f64,
    low: f64,
    high: f64,
    /// Longest step allowed while the root is not bracketed.
    reach: f64,
    /// Lengths of the last two steps.
    last: [f64; 2],
    steps_left: usize,
}

impl Search {
    fn new(level: f64, reach: f64) -> Self {
        Self {
            level,
            tail: level.min(1.0 - level),
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            reach,
            last: [f64::INFINITY; 2],
            steps_left: STEP_LIMIT,
        }
    }

    /// What to do after having evaluated the mixture at `x`.
    fn step(&mut self, x: f64, at: &Evaluation) -> Step {
        let excess = if self.level < 0.5 { at.lower - self.level } else { (1.0 - self.level) - at.upper };
        self.steps_left -= 1;
        if excess.abs() <= TOLERANCE * self.tail || self.steps_left == 0 {
            return Step::Found(x);
        }
        if excess > 0.0 {
            self.high = x;
        } else {
            self.low = x;
        }
        let newton = -excess / at.density;
        let halley = newton / (1.0 + 0.5 * newton * at.slope / at.density).clamp(0.5, 2.0);
        let mut next = x + halley;
        if self.low.is_finite() && self.high.is_finite() {
            let inside = self.low < next && next < self.high;
            if !inside || halley.abs() > 0.5 * self.last[0] {
                next = 0.5 * self.low + 0.5 * self.high;
                if next <= self.low || next >= self.high {
                    return Step::Found(next);
                }
            }
        } else {
            let allowed = halley.abs() <= self.reach;
            if !allowed {
                next = x - self.reach * excess.signum();
            }
            self.reach *= 2.0;
        }
        // Levels beyond the range of tails saturate instead of running away.
        next = next.clamp(f64::MIN, f64::MAX);
        let length = (next - x).abs();
        // A Halley step leaves an error of third order in its length.
        let turn = length * at.rate;
        if turn < 0.1 && next == x + halley && turn * turn * length * at.density <= TOLERANCE * self.tail {
            return Step::Found(next);
        }
        self.last = [self.last[1], length];
        Step::Try(next)
    }
}

/// How often [`solve`] evaluates the mixture.
#[cfg(test)]
pub(super) fn evaluations(mixture: &Mixture, levels: &[f64]) -> usize {
    let mut x = mixture.mean();
    let mut count = 1;
    for &level in levels {
        let mut search = Search::new(level, mixture.spread());
        while let Step::Try(next) = search.step(x, &mixture.evaluate(x, InstructionSet::detected())) {
            x = next;
            count += 1;
        }
    }
    count
}
