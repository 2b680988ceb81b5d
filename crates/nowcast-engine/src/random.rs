//! Random numbers as a pure function of where they are used.
//!
//! Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11) maps a
//! 128-bit counter and a 64-bit key to 128 random bits. The counter names the draw, so neither batch, chunk,
//! thread nor order of evaluation can change a digit, and any draw can be repeated alone.

/// Multipliers of the two halves of a Philox round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Weyl increments of the key: the golden ratio and the square root of three, less one.
const KEY_INCREMENTS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The 128 random bits of Philox 4x32-10 for a counter and a key, as four words.
#[inline(always)]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        let first = u64::from(c0) * u64::from(MULTIPLIERS[0]);
        let second = u64::from(c2) * u64::from(MULTIPLIERS[1]);
        (c0, c1, c2, c3) =
            ((second >> 32) as u32 ^ c1 ^ k0, second as u32, (first >> 32) as u32 ^ c3 ^ k1, first as u32);
        k0 = k0.wrapping_add(KEY_INCREMENTS[0]);
        k1 = k1.wrapping_add(KEY_INCREMENTS[1]);
    }
    [c0, c1, c2, c3]
}

/// Everything that names a sequence of draws, except the position inside it.
///
/// The Philox counter is `[position, step, sample, series]` and the key is the seed, low word first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// What the user chose.
    pub seed: u64,
    /// [`series_key`] of the series' name.
    pub series: u32,
    /// Index of the sample path.
    pub sample: u32,
    /// Index of the decode step.
    pub step: u32,
}

impl Stream {
    /// The 128 random bits at a position (for example a point inside the decoded patch).
    #[inline(always)]
    pub fn words(&self, position: u32) -> [u32; 4] {
        philox([position, self.step, self.sample, self.series], [self.seed as u32, (self.seed >> 32) as u32])
    }
}

/// A uniform number from 64 random bits, `(bits + 1/2) 2^-64` rounded to `f64`, inside the open interval (0, 1).
///
/// Small values keep all their digits down to 2^-65, which is where heavy tails come from.
#[inline(always)]
pub fn uniform_from_64(high: u32, low: u32) -> f64 {
    // Both summands are exact, so there is one rounding; only it could reach one.
    let value = (f64::from(high) * 4_294_967_296.0 + (f64::from(low) + 0.5)) * TWO_POW_MINUS_64;
    if value < LARGEST_BELOW_ONE { value } else { LARGEST_BELOW_ONE }
}

/// A uniform number from 32 random bits, exactly `(bits + 1/2) 2^-32`, inside the open interval (0, 1).
#[inline(always)]
pub fn uniform_from_32(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) * TWO_POW_MINUS_32
}

const TWO_POW_MINUS_32: f64 = 1.0 / 4_294_967_296.0;
const TWO_POW_MINUS_64: f64 = TWO_POW_MINUS_32 * TWO_POW_MINUS_32;
const LARGEST_BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

/// A 32-bit key for a series, from its name (FNV-1a over the UTF-8 bytes).
///
/// The name, not the place in a batch, decides the random numbers: a series forecast alone and inside a batch
/// gets the same digits. This hash never changes; forecasts of earlier versions depend on it.
pub fn series_key(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_known_answers() {
        // kat_vectors of Random123, philox4x32 with 10 rounds.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        assert_eq!(
            philox([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xA409_3822, 0x299F_31D0]),
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]
        );
    }

    #[test]
    fn a_stream_is_the_documented_counter_and_key() {
        let stream = Stream { seed: 0x0123_4567_89AB_CDEF, series: 4, sample: 3, step: 2 };
        assert_eq!(stream.words(1), philox([1, 2, 3, 4], [0x89AB_CDEF, 0x0123_4567]));
    }

    #[test]
    fn uniform_numbers_stay_inside_the_open_interval() {
        assert_eq!(uniform_from_64(0, 0), 2f64.powi(-65));
        assert_eq!(uniform_from_64(0, 1), 1.5 * 2f64.powi(-64));
        assert_eq!(uniform_from_64(u32::MAX, u32::MAX), 1.0 - 2f64.powi(-53));
        assert_eq!(uniform_from_64(1 << 31, 0), 0.5);
        assert_eq!(uniform_from_32(0), 2f64.powi(-33));
        assert_eq!(uniform_from_32(u32::MAX), 1.0 - 2f64.powi(-33));
    }

    #[test]
    fn series_keys_are_fixed_for_ever() {
        // The offset basis and the published FNV-1a test vectors.
        assert_eq!(series_key(""), 0x811C_9DC5);
        assert_eq!(series_key("a"), 0xE40C_292C);
        assert_eq!(series_key("b"), 0xE70C_2DE5);
        assert_eq!(series_key("foobar"), 0xBF9C_F968);
    }
}
