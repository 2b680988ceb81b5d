//! Whether bf16 is multiplied by the processor's instruction for pairs: it must keep the digits, and be faster.
//!
//! Some processors run it at twice the rate of f32's multiply-add, others at half of it, so both are timed, once per
//! process. What is chosen changes no digit but those of subnormals, which the instruction takes for zero.

use super::detect::{InstructionSet, PairKernel};
use super::pool::ThreadPool;
use super::roofline;
use super::vector::{Pairs, Vector};
use crate::dtype::Dtype;
use std::time::Duration;

/// How long each is timed.
const PATIENCE: Duration = Duration::from_micros(500);
/// How many times f32's rate it must reach: rows are paired on the way.
const LEAST_GAIN: f64 = 1.25;
/// Vectors of products that are compared.
const COMPARED: u32 = 64;
/// Values in the largest vector.
const MOST_LANES: usize = 16;

/// Whether a set that multiplies pairs is faster than another one at widened products.
pub(super) fn pay(pairs: InstructionSet, widened: InstructionSet) -> bool {
    let pool = ThreadPool::new(1);
    let rate = |set, dtype| roofline::peak_with(set, &pool, dtype, PATIENCE);
    let rates = rate(pairs, Dtype::Bf16).zip(rate(widened, Dtype::F32));
    rates.is_some_and(|(pairs, floats)| pairs >= LEAST_GAIN * floats)
}

/// Whether products in pairs are those of two multiply-adds, the upper halves first, on some numbers.
pub(super) fn keep_digits(pairs: InstructionSet) -> bool {
    let mut same = true;
    pairs.dispatch_pairs(Compare { same: &mut same });
    same
}

struct Compare<'a> {
    same: &'a mut bool,
}

impl PairKernel for Compare<'_> {
    #[inline(always)]
    fn run<P: Pairs>(self) {
        for vector in 0..COMPARED {
            let [sum, left, right] = [0, 1, 2].map(|operand| vector_of::<P>(3 * vector + operand));
            let ([a, b], [c, d]) = (left.halves(), right.halves());
            let [result, expected] = [sum.add_pairs(left, right), b.mul_add(d, a.mul_add(c, sum))].map(bits);
            *self.same &= result == expected;
        }
    }
}

/// Numbers below 1 of either sign, as f32 and as each of two bf16.
#[inline(always)]
fn vector_of<V: Vector>(place: u32) -> V {
    let word = |lane: usize| {
        // A multiplicative hash.
        let hash = (place * MOST_LANES as u32 + lane as u32).wrapping_mul(0x9e37_79b9);
        let hash = (hash ^ hash >> 15).wrapping_mul(0x85eb_ca6b);
        // Sign, the lowest four bits of the exponent and the mantissa are free.
        f32::from_bits(hash & 0x87ff_87ff | 0x3800_3800)
    };
    V::from_slice(&std::array::from_fn::<f32, MOST_LANES, _>(word))
}

#[inline(always)]
fn bits<V: Vector>(vector: V) -> [u32; MOST_LANES] {
    let mut values = [0.0; MOST_LANES];
    vector.to_slice(&mut values);
    values.map(f32::to_bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::vector::Portable;

    #[test]
    fn the_numbers_tell_apart_in_which_order_halves_are_added() {
        let different = (0..COMPARED).filter(|vector| {
            let [sum, left, right] = [0, 1, 2].map(|operand| vector_of::<Portable>(3 * vector + operand));
            let ([a, b], [c, d]) = (left.halves(), right.halves());
            let [upper, lower] = [a.mul(c), b.mul(d)];
            bits(sum.add(upper).add(lower)) != bits(sum.add(lower).add(upper))
        });
        let count = different.count();
        assert!(count > COMPARED as usize / 4, "{count} of {COMPARED}");
    }

    struct Twin;

    impl PairKernel for Twin {
        #[inline(always)]
        fn run<P: Pairs>(self) {
            // Small ones are subnormal as bf16, and so are their products.
            for small in [0, 0x3800_3800] {
                for vector in 0..COMPARED {
                    let operands = [0, 1, 2].map(|operand| {
                        let words = bits(vector_of::<P>(3 * vector + operand));
                        words.map(|word| {
                            f32::from_bits(word & if operand == 0 || vector % 3 == operand { !small } else { !0 })
                        })
                    });
                    let [sum, left, right] = operands.each_ref().map(|values| P::from_slice(values));
                    let found = bits(sum.add_pairs(left, right));
                    for (lanes, found) in found[..P::LANES].chunks(8).enumerate() {
                        let [sum, left, right] =
                            operands.each_ref().map(|values| Portable::from_slice(&values[8 * lanes..]));
                        assert_eq!(bits(sum.add_pairs(left, right))[..8], *found, "vector {vector}, small {small}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_instruction_for_pairs_is_its_plain_twin() {
        InstructionSet::PORTABLE.dispatch_pairs(Twin);
        InstructionSet::supported().filter(|set| set.multiplies_pairs()).for_each(|set| set.dispatch_pairs(Twin));
    }
}
