//! The pieces of attention that sum over lanes, in an order that no instruction set changes.

use super::scores_stride;
use crate::cpu::math::exp;
use crate::cpu::vector::Vector;

/// Partial sums: the lanes of the widest vector.
pub(super) const LANES: usize = 16;

/// One for each key, then zero: from `LANES - keys` on the factors of a last block of so many keys.
const SEEN: [f32; 2 * LANES] = {
    let mut seen = [0.0; 2 * LANES];
    let mut key = 0;
    while key < LANES {
        seen[key] = 1.0;
        key += 1;
    }
    seen
};

/// The sum of partial sums held in one vector of 16 lanes or two of 8.
#[inline(always)]
fn total<V: Vector>(parts: [V; 2]) -> f32 {
    if V::LANES == LANES { parts[0].sum() } else { parts[0].add(parts[1]).sum() }
}

/// The scalar product in 16 chains.
#[inline(always)]
pub(super) fn dot<V: Vector>(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    let mut parts = [V::splat(0.0); 2];
    let mut start = 0;
    while start < left.len() {
        let mut part = 0;
        while part * V::LANES < LANES && start < left.len() {
            let count = (left.len() - start).min(V::LANES);
            // SAFETY: `count` values are left in both slices.
            let (a, b) =
                unsafe { (load::<V>(left.as_ptr().add(start), count), load::<V>(right.as_ptr().add(start), count)) };
            parts[part] = a.mul_add(b, parts[part]);
            start += count;
            part += 1;
        }
    }
    total(parts)
}

/// Replaces the first `keys` scores by `exp(score - largest)` and the rest by zero; returns the sum.
///
/// There must be at least one key, and as many scores as keys, rounded up to a multiple of [`LANES`].
#[inline(always)]
pub(super) fn exponentials<V: Vector>(scores: &mut [f32], keys: usize) -> f32 {
    assert_eq!(scores.len(), scores_stride(keys));
    // Any score does where none is: the exponential of none, which underflows, would take a hundred times as long.
    let any = scores[0];
    scores[keys..].fill(any);
    let mut largest = V::splat(f32::NEG_INFINITY);
    let mut start = 0;
    while start < scores.len() {
        largest = V::from_slice(&scores[start..]).at_least(largest);
        start += V::LANES;
    }
    let largest = V::splat(largest.largest());
    let mut parts = [V::splat(0.0); 2];
    let last = scores.len() - LANES;
    let mut start = 0;
    while start < scores.len() {
        for part in parts.iter_mut().take(LANES / V::LANES) {
            let seen = if start < last { V::splat(1.0) } else { V::from_slice(&SEEN[LANES + start - keys..]) };
            let scores = &mut scores[start..];
            let exponential = exp(V::from_slice(scores).sub(largest)).mul(seen);
            exponential.to_slice(scores);
            *part = part.add(exponential);
            start += V::LANES;
        }
    }
    total(parts)
}

/// Continues the sums of `p * value` over further keys, and writes them divided by the sum of all `p`.
///
/// `values` holds one row of `output.len()` components for each further `p`.
#[inline(always)]
pub(super) fn finish<V: Vector>(sums: &[f32], p: &[f32], values: &[f32], sum: f32, output: &mut [f32]) {
    let width = output.len();
    assert!(sums.len() >= width && values.len() >= p.len() * width);
    let inverse = V::splat(1.0 / sum);
    let mut start = 0;
    while start < width {
        let count = (width - start).min(V::LANES);
        // SAFETY: `count` values are left in the sums, in each row of values, and in the output.
        unsafe {
            let mut total = load::<V>(sums.as_ptr().add(start), count);
            for (row, p) in p.iter().enumerate() {
                let value = load::<V>(values.as_ptr().add(row * width + start), count);
                total = V::splat(*p).mul_add(value, total);
            }
            let result = total.mul(inverse);
            if count == V::LANES {
                result.store(output.as_mut_ptr().add(start));
            } else {
                result.store_first(output.as_mut_ptr().add(start), count);
            }
        }
        start += count;
    }
}

/// Reads `count <= LANES` values; the other lanes are zero.
///
/// # Safety
/// They must be readable.
#[inline(always)]
unsafe fn load<V: Vector>(source: *const f32, count: usize) -> V {
    // SAFETY: the caller vouches for the values.
    unsafe { if count == V::LANES { V::load(source) } else { V::load_first(source, count) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::detect::{InstructionSet, Kernel};

    struct Dot<'a>(&'a [f32], &'a [f32], &'a mut f32);

    impl Kernel for Dot<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            *self.2 = dot::<V>(self.0, self.1);
        }
    }

    struct Exponentials<'a>(&'a mut [f32], usize, &'a mut f32);

    impl Kernel for Exponentials<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            *self.2 = exponentials::<V>(self.0, self.1);
        }
    }

    #[test]
    fn dot_follows_the_stated_order() {
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 20, 24, 40, 64, 128] {
            let left: Vec<f32> = (0..length).map(|index| (index as f32 * 1.3).sin()).collect();
            let right: Vec<f32> = (0..length).map(|index| (index as f32 * 0.7).cos()).collect();
            for set in InstructionSet::supported() {
                let mut parts = [0.0f32; 16];
                for (index, (a, b)) in left.iter().zip(&right).enumerate() {
                    let part = &mut parts[index % 16];
                    *part = if set.is_fused() { a.mul_add(*b, *part) } else { a * b + *part };
                }
                for half in [8, 4, 2, 1] {
                    for part in 0..half {
                        parts[part] += parts[part + half];
                    }
                }
                let mut result = f32::NAN;
                set.dispatch(Dot(&left, &right, &mut result));
                assert_eq!(result.to_bits(), parts[0].to_bits(), "{} length {length}", set.name());
            }
        }
    }

    #[test]
    fn exponentials_ignore_what_lies_behind_the_keys() {
        for keys in [1usize, 5, 15, 16, 17, 31, 32, 33, 100] {
            let scores: Vec<f32> = (0..keys).map(|index| 40.0 * (index as f32 * 0.37).sin()).collect();
            let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let exact: Vec<f64> = scores.iter().map(|score| f64::from(score - largest).exp()).collect();
            let sum: f64 = exact.iter().sum();
            for set in InstructionSet::supported() {
                let mut padded = scores.clone();
                padded.resize(keys.next_multiple_of(16), f32::NAN);
                let mut result = f32::NAN;
                set.dispatch(Exponentials(&mut padded, keys, &mut result));
                for (value, exact) in padded.iter().zip(&exact) {
                    assert!((f64::from(*value) - exact).abs() <= exact * 2.5e-7 + 2e-45, "{}", set.name());
                }
                assert!(padded[keys..].iter().all(|value| *value == 0.0));
                // Two units per exponential (2^-22), and a rounding (2^-24) per addition in a part and of its halves.
                let bound = sum * (0.5f64.powi(22) + (keys as f64 / 16.0 + 5.0) * 0.5f64.powi(24));
                assert!((f64::from(result) - sum).abs() <= bound, "{} {keys} keys", set.name());
            }
        }
    }
}
