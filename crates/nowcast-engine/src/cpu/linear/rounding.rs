//! How values become bf16, f16 or int8; what a weight and what a row lose is decided here and nowhere else.

use half::f16;

/// The largest quantised value; the range is symmetric, so that a sign costs nothing.
pub(super) const MOST: f32 = 127.0;
/// Added to a quantised row value, which makes it a byte without sign.
pub(super) const OFFSET: i32 = 128;
/// Inputs of a product whose sum of bytes times weights still fits an `i32`.
pub const MOST_INT8_INPUTS: usize = i32::MAX as usize / (255 * 127);

/// Multiply-adds of a chain of f16.
///
/// Its partial sums grow as the root of their number, and each is rounded to 2^-12.3 of itself in the mean square: 56 of
/// them are off by 2^-9.9 of their sum, where rounding both operands to bf16 costs 2^-8.8.
pub(super) const F16_CHAIN: usize = 56;
/// Chains that are added in f16, one after the other, which costs two hundredths more.
pub(super) const F16_CHAINS: usize = 4;
/// Rows become f16 below 2 to this power, and weights below 2 to the other: sums then stay below 2^15, half of what f16 can
/// hold.
pub(super) const F16_ROW_EXPONENT: u32 = 4;
pub(super) const F16_WEIGHT_EXPONENT: u32 = 3;
const _: () = assert!((F16_CHAINS * F16_CHAIN) << (F16_ROW_EXPONENT + F16_WEIGHT_EXPONENT) <= 1 << 15);

/// The nearest bf16, ties to even, as the bits of an f32; zero for what is subnormal, as the instruction for pairs has it.
#[inline(always)]
pub(super) fn bf16_bits(value: f32) -> u32 {
    const EXPONENT: u32 = 0x7f80_0000;
    const SIGN: u32 = 0x8000_0000;
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    let rounded = if rounded & EXPONENT == 0 { rounded & SIGN } else { rounded };
    // Rounding could carry a NaN over into infinity or zero.
    if value.is_nan() { bits & 0xffff_0000 | 0x0040_0000 } else { rounded }
}

/// A word of two bf16, the first above: the instruction for pairs adds that one's product first.
#[inline(always)]
pub(super) fn bf16_pair([first, second]: [f32; 2]) -> u32 {
    bf16_bits(first) | bf16_bits(second) >> 16
}

/// A word of two f16, the first below.
#[inline(always)]
pub(super) fn f16_pair([first, second]: [f16; 2]) -> u32 {
    u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16
}

/// The unit, a power of two, in which values of at most this magnitude are below 2 to the exponent, and its inverse.
///
/// The magnitude may be infinite or NaN: such values stay what they are.
#[inline(always)]
pub(super) fn f16_scales(magnitude: f32, exponent: u32) -> (f32, f32) {
    const BIAS: u32 = 127;
    // A number with this exponent is below 2^(exponent + 1).
    let of_magnitude = (magnitude.to_bits() >> 23) + 1;
    // Both powers are normal numbers; values near the smallest ones stay further below.
    let inverse = (2 * BIAS + exponent - of_magnitude).min(2 * BIAS - 1);
    (f32::from_bits((2 * BIAS - inverse) << 23), f32::from_bits(inverse << 23))
}

/// Scale and inverse scale of values of at most this magnitude.
///
/// The magnitude may be infinite or NaN: then the scale is, and so is every result.
#[inline(always)]
pub(super) fn int8_scales(magnitude: f32) -> (f32, f32) {
    (magnitude / MOST, if magnitude > 0.0 { MOST / magnitude } else { 0.0 })
}

/// The nearest integer of a scaled value, ties to even.
#[inline(always)]
pub(super) fn quantised(value: f32, inverse: f32) -> i32 {
    /// 1.5 * 2^23: the sum's last place is 1, and its lowest byte the integer in two's complement.
    const SHIFT: f32 = 12_582_912.0;
    let scaled = value * inverse;
    // The inverse of a magnitude below 2^-121 is infinite.
    let scaled = if scaled > MOST { MOST } else { scaled };
    let scaled = if scaled < -MOST { -MOST } else { scaled };
    i32::from((scaled + SHIFT).to_bits() as i8)
}

/// The largest magnitude; a NaN is larger than all.
#[inline(always)]
pub(super) fn magnitude(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |largest, value| largest.max(value.to_bits() & 0x7fff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_as_the_half_crate_does_but_for_subnormals() {
        let bits = (0..=u32::MAX / 65_521).map(|index| index * 65_521);
        for value in bits.map(f32::from_bits).chain([1.0, 1.003_906_3, 1.011_718_8, f32::MAX, f32::INFINITY, -0.0]) {
            let expected = half::bf16::from_f32(value).to_f32();
            let expected = if expected.is_subnormal() { 0f32.copysign(expected) } else { expected };
            let result = f32::from_bits(bf16_bits(value));
            assert!(result.to_bits() == expected.to_bits() || value.is_nan() && result.is_nan(), "{value}");
        }
    }

    #[test]
    fn powers_of_two_bring_values_just_below_their_bound() {
        for bits in (0..0x7f80_0000).step_by(65_521) {
            let value = f32::from_bits(bits);
            let (unit, inverse) = f16_scales(value, F16_ROW_EXPONENT);
            assert!(unit.is_normal() && inverse.is_normal() && unit * inverse == 1.0, "{value:e}");
            let scaled = value * inverse;
            assert!(scaled < 16.0 && (scaled >= 8.0 || value < 2f32.powi(-120)), "{value:e}: {scaled}");
        }
        for none in [f32::INFINITY, f32::NAN] {
            assert!(!(none * f16_scales(none, F16_WEIGHT_EXPONENT).1).is_finite());
        }
    }

    #[test]
    fn integers_are_nearest_ties_to_even_and_within_the_range() {
        for (value, expected) in [(0.5, 0), (1.5, 2), (-2.5, -2), (126.6, 127), (-127.0, -127), (0.0, 0), (-0.4, 0)] {
            assert_eq!(quantised(value, 1.0), expected, "{value}");
        }
        let smallest = f32::from_bits(1);
        let (scale, inverse) = int8_scales(smallest);
        assert!(scale >= 0.0 && quantised(smallest, inverse).abs() <= 127);
        assert_eq!(int8_scales(0.0), (0.0, 0.0));
        assert!(int8_scales(f32::NAN).0.is_nan() && int8_scales(f32::INFINITY).0.is_infinite());
    }

    #[test]
    fn a_nan_is_the_largest_magnitude() {
        assert_eq!(magnitude(&[1.0, -3.0, 2.0]), 3.0);
        assert!(magnitude(&[f32::INFINITY, f32::NAN, 2.0]).is_nan());
        assert_eq!(magnitude(&[]), 0.0);
    }
}
