//! How values become bf16 or int8; what a weight and what a row lose is decided here and nowhere else.

/// The largest quantised value; the range is symmetric, so that a sign costs nothing.
pub(super) const MOST: f32 = 127.0;
/// Added to a quantised row value, which makes it a byte without sign.
pub(super) const OFFSET: i32 = 128;
/// Inputs of a product whose sum of bytes times weights still fits an `i32`.
pub const MOST_INT8_INPUTS: usize = i32::MAX as usize / (255 * 127);

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
