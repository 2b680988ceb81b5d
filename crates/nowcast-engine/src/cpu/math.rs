//! The exponential and what is made of it, on vectors.

use super::vector::Vector;

/// 1.5 * 2^23: added to a number below 2^22 it rounds that to an integer held in the low bits.
pub(super) const ROUNDER: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has nine significant bits, so its product with a small integer is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -0.000_212_194_44;
/// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2: the polynomial with the least largest error in e^r, 0.07 * 2^-24.
const POLYNOMIAL: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_393, 0.008_368_781, 0.001_381_446_7];
/// Below this e^x rounds to zero, the smallest subnormal number included.
const LEAST: f32 = -104.0;
/// Above this e^x is infinite.
const LARGEST: f32 = 89.0;

/// e^x to 2 units in the last place (subnormal results: of the smallest one); a NaN stays one.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    let x = x.at_least(V::splat(LEAST)).at_most(V::splat(LARGEST));
    let rounder = V::splat(ROUNDER);
    let exponent = x.mul_add(V::splat(std::f32::consts::LOG2_E), rounder).sub(rounder);
    let rest = exponent.mul_add(V::splat(-LN_2_HIGH), x);
    let rest = exponent.mul_add(V::splat(-LN_2_LOW), rest);
    let mut sum = V::splat(POLYNOMIAL[4]);
    for coefficient in [POLYNOMIAL[3], POLYNOMIAL[2], POLYNOMIAL[1], POLYNOMIAL[0]] {
        sum = sum.mul_add(rest, V::splat(coefficient));
    }
    let sum = rest.mul(rest).mul_add(sum, rest).add(V::splat(1.0));
    sum.times_power_of_two(exponent)
}

/// x / (1 + e^-x), the sigmoid linear unit.
#[inline(always)]
pub(crate) fn silu<V: Vector>(x: V) -> V {
    x.div(exp(V::splat(0.0).sub(x)).add(V::splat(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::detect::{InstructionSet, Kernel};

    struct Map<'a> {
        values: &'a mut [f32],
        silu: bool,
    }

    impl Kernel for Map<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            for lanes in self.values.chunks_exact_mut(V::LANES) {
                let x = V::from_slice(lanes);
                let y = if self.silu { silu(x) } else { exp(x) };
                y.to_slice(lanes);
            }
        }
    }

    fn map(set: InstructionSet, inputs: &[f32], silu: bool) -> Vec<f32> {
        let mut values = inputs.to_vec();
        values.resize(inputs.len().next_multiple_of(16), 0.0);
        set.dispatch(Map { values: &mut values, silu });
        values.truncate(inputs.len());
        values
    }

    /// The distance of neighbouring numbers at `value`.
    fn unit(value: f64) -> f64 {
        let exponent = value.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
        (exponent - 23.0).exp2()
    }

    fn inputs() -> Vec<f32> {
        let fine = (0..400_000).map(|index| -104.5 + index as f32 * (193.0 / 400_000.0));
        let small = (0..2000).map(|index| (index as f32 - 1000.0) * 1e-5);
        fine.chain(small).chain([0.0, -0.0, 1e-30, -1e-30, 88.72, -87.33655, -103.97]).collect()
    }

    #[test]
    fn exp_is_within_two_units() {
        let inputs = inputs();
        for set in InstructionSet::supported() {
            for (x, y) in inputs.iter().zip(map(set, &inputs, false)) {
                let exact = f64::from(*x).exp();
                if exact > f64::from(f32::MAX) {
                    assert!(y == f32::INFINITY || y == f32::MAX, "{}: exp({x}) = {y}", set.name());
                } else {
                    assert!((f64::from(y) - exact).abs() <= 2.0 * unit(exact), "{}: exp({x}) = {y:e}", set.name());
                }
            }
        }
    }

    #[test]
    fn exp_at_the_ends() {
        let inputs = [f32::NEG_INFINITY, -1e30, -104.0, f32::INFINITY, 1e30, f32::NAN];
        for set in InstructionSet::supported() {
            let values = map(set, &inputs, false);
            assert_eq!(values[..5], [0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY]);
            assert!(values[5].is_nan());
        }
    }

    #[test]
    fn silu_is_within_four_units() {
        // 2 units of the exponential, half of one each for the sum and the quotient; where e^-x overflows the true
        // value is below 1e-36 and ours is zero.
        let inputs: Vec<f32> = inputs().into_iter().filter(|x| *x > -87.0).collect();
        for set in InstructionSet::supported() {
            for (x, y) in inputs.iter().zip(map(set, &inputs, true)) {
                let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp());
                assert!((f64::from(y) - exact).abs() <= 4.0 * unit(exact), "{}: silu({x}) = {y:e}", set.name());
            }
            let ends = map(set, &[f32::NEG_INFINITY, -1e30, 1e30, f32::NAN, -100.0], true);
            assert!(ends[1] == 0.0 && ends[2] == 1e30 && ends[3].is_nan() && ends[4] == 0.0);
        }
    }

    #[test]
    fn fused_sets_agree_to_the_bit() {
        let inputs = inputs();
        for silu in [false, true] {
            let mut fused = InstructionSet::supported().filter(|set| set.is_fused());
            let Some(first) = fused.next() else { return };
            let expected: Vec<u32> = map(first, &inputs, silu).iter().map(|y| y.to_bits()).collect();
            for set in fused {
                let bits: Vec<u32> = map(set, &inputs, silu).iter().map(|y| y.to_bits()).collect();
                assert!(bits == expected, "{} differs from {}", set.name(), first.name());
            }
        }
    }
}
