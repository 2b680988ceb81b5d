//! Numbers to test with, and their digits.

/// A number between -1 and 1 that shows no pattern.
pub(crate) fn scattered(index: usize, salt: usize) -> f32 {
    let mut bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (salt as u64 + 1).wrapping_mul(0xD1B5_4A32);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^= bits >> 32;
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// All digits, to compare them.
pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
