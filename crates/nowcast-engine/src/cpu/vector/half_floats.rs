//! Multiply-adds of f16, two to a word.
//!
//! Every word holds two numbers, the first below; each has a sum of its own.

use super::{Portable, Vector};
use half::f16;

#[cfg(target_arch = "x86_64")]
use super::Avx512;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A register of 8 or 16 words of two f16.
pub(crate) trait HalfFloats: Copy {
    /// Floats of the same instruction set, as many in a register as there are words.
    type Floats: Vector;

    /// Zero in every lane.
    fn zero() -> Self;

    /// The same word in every lane.
    fn splat(word: u32) -> Self;

    /// Reads a word for every lane.
    ///
    /// # Safety
    /// They must be readable; no alignment is needed.
    unsafe fn load(source: *const u32) -> Self;

    /// `self * factor + addend` of each f16, with one rounding; subnormals count.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `self + other` of each f16.
    fn add(self, other: Self) -> Self;

    /// The numbers in order: those of the first half of the words, then those of the second.
    fn widened(self) -> [Self::Floats; 2];

    /// The sums of lanes next to each other: those of the first vector, then those of the second.
    fn add_neighbours(parts: [Self::Floats; 2]) -> Self::Floats;
}

/// Plain Rust, as the twin of the others.
#[derive(Clone, Copy)]
pub(crate) struct PortableHalfFloats([u32; 8]);

impl PortableHalfFloats {
    /// A word of two ones.
    const ONES: u32 = 0x3c00_3c00;

    /// The numbers of a word.
    fn numbers(word: u32) -> [f32; 2] {
        [word as u16, (word >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
    }
}

/// The nearest f16, ties to even.
fn nearest_f16(value: f64) -> f16 {
    const LEAST_EXPONENT: i32 = -14;
    const MANTISSA_BITS: i32 = 10;
    let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let place = 2f64.powi(exponent.max(LEAST_EXPONENT) - MANTISSA_BITS);
    // Now exact in f32, or beyond what f16 can hold.
    f16::from_f32(((value / place).round_ties_even() * place) as f32)
}

impl HalfFloats for PortableHalfFloats {
    type Floats = Portable;

    #[inline(always)]
    fn zero() -> Self {
        Self([0; 8])
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self([word; 8])
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: the caller vouches for eight readable words.
        Self(unsafe { source.cast::<[u32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            let [a, b, c] = [self, factor, addend].map(|operand| Self::numbers(operand.0[lane]).map(f64::from));
            // A product is exact in f64. The sum is, too, unless the product is below 2^-31 of it: then no tie is near.
            let sum = |half: usize| u32::from(nearest_f16(a[half] * b[half] + c[half]).to_bits());
            sum(0) | sum(1) << 16
        }))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.mul_add(Self::splat(Self::ONES), other)
    }

    #[inline(always)]
    fn widened(self) -> [Portable; 2] {
        let numbers = self.0.map(Self::numbers);
        let numbers = numbers.as_flattened();
        [Portable::from_slice(numbers), Portable::from_slice(&numbers[8..])]
    }

    #[inline(always)]
    fn add_neighbours(parts: [Portable; 2]) -> Portable {
        let mut lanes = [0.0; 16];
        parts[0].to_slice(&mut lanes);
        parts[1].to_slice(&mut lanes[8..]);
        Portable::from_slice(&std::array::from_fn::<f32, 8, _>(|lane| lanes[2 * lane] + lanes[2 * lane + 1]))
    }
}

/// One 512-bit register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512HalfFloats(__m512h);

// SAFETY (of every block below): the processor has AVX512-FP16, see the module above; loads touch only what the caller
// vouches for.
#[cfg(target_arch = "x86_64")]
impl HalfFloats for Avx512HalfFloats {
    type Floats = Avx512;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_setzero_ph() })
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_castsi512_ph(_mm512_set1_epi32(word as i32)) })
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_castsi512_ph(_mm512_loadu_si512(source.cast())) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_fmadd_ph(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_add_ph(self.0, other.0) })
    }

    #[inline(always)]
    fn widened(self) -> [Avx512; 2] {
        // SAFETY: see the impl.
        unsafe {
            let bits = _mm512_castph_si512(self.0);
            let [first, second] = [_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64::<1>(bits)];
            let [first, second] = [_mm256_castsi256_ph(first), _mm256_castsi256_ph(second)];
            [Avx512(_mm512_cvtxph_ps(first)), Avx512(_mm512_cvtxph_ps(second))]
        }
    }

    #[inline(always)]
    fn add_neighbours(parts: [Avx512; 2]) -> Avx512 {
        // SAFETY: see the impl.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            let even = _mm512_permutex2var_ps(parts[0].0, even, parts[1].0);
            Avx512(_mm512_add_ps(even, _mm512_permutex2var_ps(parts[0].0, odd, parts[1].0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::detect::{HalfKernel, InstructionSet, Kernel};
    use crate::random::philox;

    #[test]
    fn rounding_from_f64_is_nearest_and_ties_to_even() {
        let finite = 0..0x7bffu16;
        for bits in finite {
            let [below, above] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f64());
            let middle = (below + above) / 2.0;
            // So near the tie that f32 does not tell them apart.
            for (value, expected) in [
                (below, bits),
                (middle.next_down(), bits),
                (middle, bits + bits % 2),
                (middle.next_up(), bits + 1),
                (above, bits + 1),
            ] {
                assert_eq!(nearest_f16(value).to_bits(), expected, "{value:e}");
                assert_eq!(nearest_f16(-value).to_bits(), expected | 0x8000, "-{value:e}");
            }
        }
        assert_eq!(nearest_f16(65_519.999), f16::MAX);
        assert_eq!(nearest_f16(65_520.0), f16::INFINITY);
        assert!(nearest_f16(f64::NAN).is_nan());
    }

    /// Any words there are, those of subnormals, infinities and NaN too.
    fn words(place: u32) -> [u32; 16] {
        std::array::from_fn(|lane| philox([place, lane as u32, 0, 0], [0, 0])[0])
    }

    #[inline(always)]
    fn values<V: Vector>(parts: [V; 2]) -> [f32; 32] {
        let mut values = [0.0; 32];
        parts[0].to_slice(&mut values);
        parts[1].to_slice(&mut values[V::LANES..]);
        values
    }

    struct Twin;

    impl HalfKernel for Twin {
        #[inline(always)]
        fn run<H: HalfFloats>(self) {
            for place in 0..4096 {
                let operands = [0, 1, 2].map(|operand| words(3 * place + operand));
                // SAFETY: there are as many words as the largest vector has.
                let [a, b, c] = operands.each_ref().map(|words| unsafe { H::load(words.as_ptr()) });
                let found = values(a.mul_add(b, c).add(b).widened());
                let sums = values([H::add_neighbours(c.widened()); 2]);
                for first in (0..H::Floats::LANES).step_by(8) {
                    // SAFETY: as above; a plain vector has eight.
                    let [a, b, c] =
                        operands.each_ref().map(|words| unsafe { PortableHalfFloats::load(words[first..].as_ptr()) });
                    let plain = values(a.mul_add(b, c).add(b).widened());
                    let plain_sums = values([PortableHalfFloats::add_neighbours(c.widened()); 2]);
                    let same = |found: &[f32], plain: &[f32]| {
                        found.iter().zip(plain).all(|(found, plain)| {
                            found.to_bits() == plain.to_bits() || found.is_nan() && plain.is_nan()
                        })
                    };
                    assert!(same(&found[2 * first..], &plain[..16]), "{operands:x?}");
                    assert!(same(&sums[first..], &plain_sums[..8]), "{operands:x?}");
                }
            }
        }
    }

    #[test]
    fn the_instructions_are_their_plain_twin() {
        InstructionSet::PORTABLE.dispatch_half_floats(Twin);
        let sets = InstructionSet::supported().filter(|set| set.multiplies_half_floats());
        sets.for_each(|set| set.dispatch_half_floats(Twin));
    }

    struct Rounding;

    impl Kernel for Rounding {
        #[inline(always)]
        fn run<V: Vector>(self) {
            for place in 0..4096 {
                // Exponents around those of f16, and any.
                let near = words(place).map(|word| word & 0x8fff_ffff | 0x3000_0000);
                for bits in [words(place), near] {
                    let values = bits.map(f32::from_bits);
                    let mut found = [0.0f32; 8];
                    V::from_slice(&values).to_half_floats(&mut found);
                    let found = found.map(|word| [word.to_bits() as u16, (word.to_bits() >> 16) as u16]);
                    for (bits, value) in found[..V::LANES / 2].as_flattened().iter().zip(values) {
                        let (found, expected) = (f16::from_bits(*bits), nearest_f16(f64::from(value)));
                        assert!(found.to_bits() == expected.to_bits() || value.is_nan() && found.is_nan(), "{value:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_set_rounds_to_f16_alike() {
        InstructionSet::supported().for_each(|set| set.dispatch(Rounding));
    }
}
