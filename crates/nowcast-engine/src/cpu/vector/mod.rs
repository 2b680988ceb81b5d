//! The few vector operations that every kernel is built from, one file per instruction set.
//!
//! Values of the types that implement [`Vector`] are made only inside [`super::detect::InstructionSet::dispatch`],
//! which knows that the processor has the instructions; that is what makes the arithmetic below safe to call.

use super::math::ROUNDER;
use half::f16;

mod half_floats;
mod integers;
mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use half_floats::Avx512HalfFloats;
pub(crate) use half_floats::{HalfFloats, PortableHalfFloats};
#[cfg(target_arch = "aarch64")]
pub(crate) use integers::NeonIntegers;
#[cfg(target_arch = "x86_64")]
pub(crate) use integers::{Avx2Integers, Avx512Integers};
pub(crate) use integers::{Integers, PortableIntegers};
pub(crate) use portable::Portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use {avx2::Avx2, avx512::Avx512};

/// Vectors that multiply pairs of bf16; made only inside [`super::detect::InstructionSet::dispatch_pairs`].
pub(crate) trait Pairs: Vector {
    /// Adds the products of the two bf16 that share each lane, the upper ones first, each with one rounding. A subnormal
    /// counts as zero wherever it appears.
    fn add_pairs(self, left: Self, right: Self) -> Self;
}

/// A register of 8 or 16 `f32` lanes.
pub(crate) trait Vector: Copy {
    /// Lanes: 8 or 16.
    const LANES: usize;
    /// Rows of a register tile of two vectors each that leave room for operands: at most 8.
    const TILE_ROWS: usize;
    /// Whether a product is added with one rounding.
    const FUSED: bool;

    /// The same value in every lane.
    fn splat(value: f32) -> Self;

    /// Reads [`Vector::LANES`] values.
    ///
    /// # Safety
    /// They must be readable; no alignment is needed.
    unsafe fn load(source: *const f32) -> Self;

    /// Writes [`Vector::LANES`] values.
    ///
    /// # Safety
    /// They must be writable; no alignment is needed.
    unsafe fn store(self, target: *mut f32);

    /// Reads the first `count <= LANES` values and fills the other lanes with zero.
    ///
    /// # Safety
    /// The first `count` values must be readable.
    unsafe fn load_first(source: *const f32, count: usize) -> Self;

    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    /// The first `count` values must be writable.
    unsafe fn store_first(self, target: *mut f32, count: usize);

    /// `self + other`
    fn add(self, other: Self) -> Self;
    /// `self - other`
    fn sub(self, other: Self) -> Self;
    /// `self * other`
    fn mul(self, other: Self) -> Self;
    /// `self / other`
    fn div(self, other: Self) -> Self;
    /// `self * factor + addend`, with one rounding except on the portable path.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// `if bound > self { bound } else { self }`: the larger, a NaN in `self` is kept.
    fn at_least(self, bound: Self) -> Self;
    /// `if bound < self { bound } else { self }`: the smaller, a NaN in `self` is kept.
    fn at_most(self, bound: Self) -> Self;
    /// 2^n for a lane that holds 1.5 * 2^23 + n, for an integer n in -126..=127.
    fn power_of_two(self) -> Self;
    /// `self * 2^exponent` with one rounding, for numbers around 1 and integers in -252..=254.
    #[inline(always)]
    fn times_power_of_two(self, exponent: Self) -> Self {
        // In two factors, so that neither leaves the range of exponents where the result does not.
        let rounder = Self::splat(ROUNDER);
        let half = exponent.mul_add(Self::splat(0.5), rounder);
        let other = exponent.sub(half.sub(rounder)).add(rounder);
        self.mul(half.power_of_two()).mul(other.power_of_two())
    }
    /// The two bf16 that share each lane, the upper one first.
    fn halves(self) -> [Self; 2];
    /// Writes the nearest f16 of every lane, ties to even: two to a word of 32 bits, the first below.
    ///
    /// # Panics
    /// If the slice has fewer than half as many words as there are lanes.
    #[inline(always)]
    fn to_half_floats(self, words: &mut [f32]) {
        let mut values = [0.0; 16];
        self.to_slice(&mut values);
        for (word, pair) in words[..Self::LANES / 2].iter_mut().zip(values.as_chunks::<2>().0) {
            let [first, second] = pair.map(|value| u32::from(f16::from_f32(value).to_bits()));
            *word = f32::from_bits(first | second << 16);
        }
    }
    /// Writes the columns of a square one after the other, as bits.
    #[inline(always)]
    fn transpose(rows: [&[f32; 8]; 8], columns: &mut [u32; 64]) {
        for (index, value) in columns.iter_mut().enumerate() {
            *value = rows[index % 8][index / 8].to_bits();
        }
    }
    /// The sum of all lanes: the upper half is added to the lower until one lane is left.
    fn sum(self) -> f32;
    /// The largest lane; which of NaN and number wins is not defined.
    fn largest(self) -> f32;

    /// Asks for the cache line at `address`, which need not be readable.
    fn prefetch(address: *const f32);

    /// The first [`Vector::LANES`] values of a slice.
    ///
    /// # Panics
    /// If the slice is shorter.
    #[inline(always)]
    fn from_slice(source: &[f32]) -> Self {
        assert!(source.len() >= Self::LANES);
        // SAFETY: the length was just checked.
        unsafe { Self::load(source.as_ptr()) }
    }

    /// Writes the first [`Vector::LANES`] values of a slice.
    ///
    /// # Panics
    /// If the slice is shorter.
    #[inline(always)]
    fn to_slice(self, target: &mut [f32]) {
        assert!(target.len() >= Self::LANES);
        // SAFETY: the length was just checked.
        unsafe { self.store(target.as_mut_ptr()) }
    }
}
