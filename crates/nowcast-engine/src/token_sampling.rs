//! Which tokens may be drawn, and with what weight: temperature, top-k and top-p.
//!
//! The order is that of Kronos' `sample_from_logits` (model/kronos.py): divide by the temperature in f32, then top-k
//! *or* top-p, then softmax. Where top-k is on, the reference returns before it looks at top-p; [`Filter::Both`]
//! applies one after the other.

use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::vector::Vector;
use crate::elementary::exp;
use std::cell::Cell;

/// What happens where both top-k and top-p are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Filter {
    /// As the reference: top-k wins, top-p is not applied.
    #[default]
    Reference,
    /// Top-k first, then top-p among what is left.
    Both,
}

/// How a token is drawn from a row of logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenSampling {
    /// Divides the logits; positive.
    pub temperature: f32,
    /// Keeps the logits that are at least the k-th largest, ties included; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most probable tokens up to and including the first whose cumulative probability exceeds this; 1 keeps
    /// all.
    pub top_p: f64,
    /// What happens where both are on.
    pub filter: Filter,
}

impl Default for TokenSampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, filter: Filter::Reference }
    }
}

impl TokenSampling {
    /// The most probable token (or one of those tied for it).
    pub const GREEDY: Self = Self { temperature: 1.0, top_k: 1, top_p: 1.0, filter: Filter::Reference };

    /// Probability of each token, 0 where it is filtered out.
    pub fn probabilities(&self, logits: &[f32]) -> Vec<f64> {
        let mut weights = vec![0.0; logits.len()];
        self.weigh(InstructionSet::detected(), logits, &mut weights);
        let total = sum(&vec![0; weights.len()], &weights, 0);
        weights.iter().map(|weight| weight / total).collect()
    }

    /// As [`Self::probabilities`], up to a common factor; the largest weight is 1.
    pub(crate) fn weigh(&self, set: InstructionSet, logits: &[f32], weights: &mut [f64]) {
        set.dispatch(Weigh { sampling: self, logits, weights });
    }
}

struct Weigh<'a> {
    sampling: &'a TokenSampling,
    logits: &'a [f32],
    weights: &'a mut [f64],
}

thread_local! {
    /// Keys of a row of logits: found once, because a row is looked at up to 32 times for each filter.
    static KEYS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

impl Kernel for Weigh<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { sampling, logits, weights } = self;
        let scaled = |logit: f32| logit / sampling.temperature;
        let mut keys = KEYS.take();
        keys.clear();
        keys.extend(logits.iter().map(|&logit| order(scaled(logit))));
        let largest = value(keys.iter().fold(order(f32::NEG_INFINITY), |largest, &key| largest.max(key)));
        for (weight, &logit) in weights.iter_mut().zip(logits) {
            *weight = exp::<V>(f64::from(scaled(logit)) - f64::from(largest));
        }
        if sampling.top_k > 0 && sampling.top_k < logits.len() {
            let count = |least: u32| -> u32 { keys.iter().map(|&key| u32::from(key >= least)).sum() };
            let least = largest_key(|key| count(key) as usize >= sampling.top_k);
            for (weight, &key) in weights.iter_mut().zip(&keys) {
                *weight = if key >= least { *weight } else { 0.0 };
            }
        }
        let both = sampling.top_k == 0 || sampling.filter == Filter::Both;
        if sampling.top_p < 1.0 && both {
            let most = sampling.top_p * sum(&keys, weights, 0);
            // The prefix ends among the tokens of this logit.
            let last = largest_key(|key| sum(&keys, weights, key) > most);
            let mut kept = last.checked_add(1).map_or(0.0, |above| sum(&keys, weights, above));
            for (weight, &key) in weights.iter_mut().zip(&keys) {
                if key < last || key == last && kept > most {
                    *weight = 0.0;
                } else if key == last {
                    kept += *weight;
                }
            }
        }
        KEYS.set(keys);
    }
}

/// A number that orders like the float; NaN lies below all.
#[inline(always)]
fn order(value: f32) -> u32 {
    let bits = value.to_bits();
    let key = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    if value.is_nan() { 0 } else { key }
}

/// The float of a key that is not that of NaN.
#[inline(always)]
fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// The largest key for which something holds that holds for all smaller ones; 0 if for none.
#[inline(always)]
fn largest_key(holds: impl Fn(u32) -> bool) -> u32 {
    (0..u32::BITS).rev().fold(0, |key, bit| if holds(key | 1 << bit) { key | 1 << bit } else { key })
}

/// Partial sums, so that additions need not wait for each other; part of the order of summation.
const PARTS: usize = 8;
/// Weights that are chosen, or not, before they are added.
const CHOSEN: usize = 64;

/// The sum of the weights whose keys are at least `least`.
#[inline(always)]
fn sum(keys: &[u32], weights: &[f64], least: u32) -> f64 {
    let mut parts = [0.0; PARTS];
    for (keys, weights) in keys.chunks(CHOSEN).zip(weights.chunks(CHOSEN)) {
        // All choices before the first sum: so the compiler makes vectors of both.
        let mut chosen = [0.0; CHOSEN];
        for ((chosen, &key), &weight) in chosen.iter_mut().zip(keys).zip(weights) {
            *chosen = if key >= least { weight } else { 0.0 };
        }
        for chosen in chosen.as_chunks::<PARTS>().0 {
            for (part, chosen) in parts.iter_mut().zip(chosen) {
                *part += chosen;
            }
        }
    }
    parts.iter().sum()
}

/// What stands in the place of a token where there are no probabilities or bits, because a model's sums have overflowed.
/// It is embedded as values that are not numbers, so that no forecast comes of it.
pub const NO_TOKEN: i32 = -1;

/// The token at `uniform` (between 0 and 1) of the cumulative weights, in the order of the tokens; [`NO_TOKEN`] where the
/// weights have no sum.
pub(crate) fn draw(weights: &[f64], uniform: f64) -> i32 {
    let total = weights.iter().sum::<f64>();
    if total.is_nan() {
        return NO_TOKEN;
    }
    let target = uniform * total;
    let mut reached = 0.0;
    let mut last = 0;
    for (index, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            reached += weight;
            last = index as i32;
            if reached > target {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule in plain words, sorted.
    fn twin(sampling: &TokenSampling, logits: &[f32]) -> Vec<f64> {
        let scaled: Vec<f32> = logits.iter().map(|logit| logit / sampling.temperature).collect();
        let mut sorted: Vec<usize> = (0..logits.len()).collect();
        sorted.sort_by(|&a, &b| scaled[b].total_cmp(&scaled[a]));
        let mut keep = vec![true; logits.len()];
        if sampling.top_k > 0 {
            let least = scaled[sorted[sampling.top_k.min(logits.len()) - 1]];
            keep = scaled.iter().map(|&logit| logit >= least).collect();
        }
        let softmax = |keep: &[bool]| -> Vec<f64> {
            let weights: Vec<f64> =
                scaled.iter().zip(keep).map(|(&x, &keep)| if keep { f64::from(x).exp() } else { 0.0 }).collect();
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight / total).collect()
        };
        if sampling.top_p < 1.0 && (sampling.top_k == 0 || sampling.filter == Filter::Both) {
            let probabilities = softmax(&keep);
            let mut cumulative = 0.0;
            for &index in &sorted {
                keep[index] &= cumulative <= sampling.top_p;
                cumulative += probabilities[index];
            }
        }
        softmax(&keep)
    }

    proptest! {
        #[test]
        fn probabilities_follow_the_rule(
            // Few distinct values, so that ties abound.
            logits in prop::collection::vec((-40i32..40).prop_map(|value| value as f32 * 0.25), 1..90),
            temperature in 0.1f32..3.0,
            top_k in 0usize..100,
            // Away from sums of few equal probabilities, where either side of the border is right.
            top_p in prop::sample::select(vec![0.0501, 0.3217, 0.8317, 0.9013, 0.99013, 1.0]),
            both: bool,
        ) {
            let filter = if both { Filter::Both } else { Filter::Reference };
            let sampling = TokenSampling { temperature, top_k, top_p, filter };
            let expected = twin(&sampling, &logits);
            for (token, (ours, expected)) in sampling.probabilities(&logits).iter().zip(&expected).enumerate() {
                // Two units of exp on either side, and sums of 90 terms.
                prop_assert!((ours - expected).abs() <= 200.0 * f64::EPSILON, "{token}: {ours} {expected}");
            }
        }
    }

    #[test]
    fn instruction_sets_agree() {
        let logits: Vec<f32> = (0..1024).map(|token| (token as f32 * 0.37).sin() * 8.0).collect();
        let sampling = TokenSampling { temperature: 0.7, top_p: 0.9, ..TokenSampling::default() };
        let expected = sampling.probabilities(&logits);
        for set in InstructionSet::supported() {
            let mut weights = vec![0.0; logits.len()];
            sampling.weigh(set, &logits, &mut weights);
            let total: f64 = weights.iter().sum();
            for (weight, expected) in weights.iter().zip(&expected) {
                // Two units of exp on either side, sums of 1024 terms.
                assert!((weight / total - expected).abs() <= 1100.0 * f64::EPSILON * expected, "{}", set.name());
            }
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [0.0, 1.0, 0.0, 0.5, 0.5, 0.0];
        assert_eq!([0.0, 0.4999, 0.5001, 0.76, 0.9999].map(|uniform| draw(&weights, uniform)), [1, 1, 3, 4, 4]);
        assert_eq!(draw(&[0.5, f64::NAN, 1.0], 0.1), NO_TOKEN);
    }

    #[test]
    fn logits_that_are_not_finite_are_no_token() {
        let sampling = TokenSampling { top_k: 2, top_p: 0.5, filter: Filter::Both, ..TokenSampling::default() };
        for logits in [[f32::NAN; 4], [f32::INFINITY; 4], [f32::NEG_INFINITY; 4]] {
            let mut weights = [0.0; 4];
            sampling.weigh(InstructionSet::detected(), &logits, &mut weights);
            assert_eq!(draw(&weights, 0.7), NO_TOKEN);
        }
    }
}
