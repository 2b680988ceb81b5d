//! Sums of products of bytes, in vectors of 32-bit integers.
//!
//! Every lane is a column. A word holds four bytes: those of a row without a sign, those of the weights with one. All
//! sums are exact, so every instruction set gives the same ones.

use super::{Portable, Vector};

#[cfg(target_arch = "aarch64")]
use super::Neon;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A register of 8 or 16 integers.
pub(crate) trait Integers: Copy {
    /// Floats of the same instruction set, as many in a register.
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

    /// Adds the products of four bytes without a sign and four with one.
    fn add_products(self, bytes: Self, weights: Self) -> Self;

    /// `self - other`
    fn sub(self, other: Self) -> Self;

    /// The nearest floats.
    fn to_floats(self) -> Self::Floats;

    /// All lanes from the start of a slice.
    ///
    /// # Panics
    /// If the slice is shorter.
    #[inline(always)]
    fn from_slice(source: &[i32]) -> Self {
        assert!(source.len() >= Self::Floats::LANES);
        // SAFETY: the length was just checked.
        unsafe { Self::load(source.as_ptr().cast()) }
    }

    /// Writes all lanes to the start of a slice.
    ///
    /// # Panics
    /// If the slice is shorter.
    fn to_slice(self, target: &mut [i32]);
}

/// Plain Rust, and the twin of the others.
#[derive(Clone, Copy)]
pub(crate) struct PortableIntegers([i32; 8]);

impl Integers for PortableIntegers {
    type Floats = Portable;

    #[inline(always)]
    fn zero() -> Self {
        Self([0; 8])
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self([word as i32; 8])
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: the caller vouches for eight readable words.
        Self(unsafe { source.cast::<[i32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    fn add_products(self, bytes: Self, weights: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            let products = bytes.0[lane].to_le_bytes().into_iter().zip(weights.0[lane].to_le_bytes());
            products.fold(self.0[lane], |sum, (byte, weight)| sum + i32::from(byte) * i32::from(weight as i8))
        }))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] - other.0[lane]))
    }

    #[inline(always)]
    fn to_floats(self) -> Portable {
        Portable::from_slice(&self.0.map(|lane| lane as f32))
    }

    #[inline(always)]
    fn to_slice(self, target: &mut [i32]) {
        target[..8].copy_from_slice(&self.0);
    }
}

/// AVX2: bytes are widened to 16 bits, whose products are added in pairs without loss.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2Integers(__m256i);

// SAFETY (of every block below): values are made only where the processor has AVX2, see the module above; loads and
// stores touch only what the caller vouches for.
#[cfg(target_arch = "x86_64")]
impl Integers for Avx2Integers {
    type Floats = Avx2;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_set1_epi32(word as i32) })
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_loadu_si256(source.cast()) })
    }

    #[inline(always)]
    fn add_products(self, bytes: Self, weights: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let even = (
                _mm256_and_si256(bytes.0, _mm256_set1_epi16(0xff)),
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(weights.0)),
            );
            let odd = (_mm256_srli_epi16::<8>(bytes.0), _mm256_srai_epi16::<8>(weights.0));
            let products = _mm256_add_epi32(_mm256_madd_epi16(even.0, even.1), _mm256_madd_epi16(odd.0, odd.1));
            Self(_mm256_add_epi32(self.0, products))
        }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn to_floats(self) -> Avx2 {
        // SAFETY: see the impl.
        Avx2(unsafe { _mm256_cvtepi32_ps(self.0) })
    }

    #[inline(always)]
    fn to_slice(self, target: &mut [i32]) {
        assert!(target.len() >= 8);
        // SAFETY: see the impl; the length was just checked.
        unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), self.0) }
    }
}

/// AVX-512 with VNNI: one instruction for four products and their sum.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512Integers(__m512i);

// SAFETY (of every block below): values are made only where the processor has AVX-512 and VNNI, see the module above;
// loads and stores touch only what the caller vouches for.
#[cfg(target_arch = "x86_64")]
impl Integers for Avx512Integers {
    type Floats = Avx512;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_set1_epi32(word as i32) })
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_loadu_si512(source.cast()) })
    }

    #[inline(always)]
    fn add_products(self, bytes: Self, weights: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_dpbusd_epi32(self.0, bytes.0, weights.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn to_floats(self) -> Avx512 {
        // SAFETY: see the impl.
        Avx512(unsafe { _mm512_cvtepi32_ps(self.0) })
    }

    #[inline(always)]
    fn to_slice(self, target: &mut [i32]) {
        assert!(target.len() >= 16);
        // SAFETY: see the impl; the length was just checked.
        unsafe { _mm512_storeu_si512(target.as_mut_ptr().cast(), self.0) }
    }
}

/// NEON: bytes are widened to 16 bits, whose products are added in pairs without loss.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy)]
pub(crate) struct NeonIntegers(int32x4_t, int32x4_t);

#[cfg(target_arch = "aarch64")]
impl NeonIntegers {
    #[inline(always)]
    fn add_four(sums: int32x4_t, bytes: int32x4_t, weights: int32x4_t) -> int32x4_t {
        // SAFETY: see the impl below.
        unsafe {
            let (bytes, weights) = (vreinterpretq_u16_s32(bytes), vreinterpretq_s16_s32(weights));
            let even = vreinterpretq_s16_u16(vandq_u16(bytes, vdupq_n_u16(0xff)));
            let odd = vreinterpretq_s16_u16(vshrq_n_u16::<8>(bytes));
            let (even_weights, odd_weights) = (vshrq_n_s16::<8>(vshlq_n_s16::<8>(weights)), vshrq_n_s16::<8>(weights));
            let lower = vmull_s16(vget_low_s16(even), vget_low_s16(even_weights));
            let lower = vmlal_s16(lower, vget_low_s16(odd), vget_low_s16(odd_weights));
            let upper = vmlal_high_s16(vmull_high_s16(even, even_weights), odd, odd_weights);
            vaddq_s32(sums, vpaddq_s32(lower, upper))
        }
    }
}

// SAFETY (of every block below): values are made only where the processor has NEON, see the module above; loads and
// stores touch only what the caller vouches for.
#[cfg(target_arch = "aarch64")]
impl Integers for NeonIntegers {
    type Floats = Neon;

    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0)
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see the impl.
        let four = unsafe { vdupq_n_s32(word as i32) };
        Self(four, four)
    }

    #[inline(always)]
    unsafe fn load(source: *const u32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vld1q_s32(source.cast()), vld1q_s32(source.add(4).cast())) }
    }

    #[inline(always)]
    fn add_products(self, bytes: Self, weights: Self) -> Self {
        Self(Self::add_four(self.0, bytes.0, weights.0), Self::add_four(self.1, bytes.1, weights.1))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vsubq_s32(self.0, other.0), vsubq_s32(self.1, other.1)) }
    }

    #[inline(always)]
    fn to_floats(self) -> Neon {
        // SAFETY: see the impl.
        unsafe { Neon(vcvtq_f32_s32(self.0), vcvtq_f32_s32(self.1)) }
    }

    #[inline(always)]
    fn to_slice(self, target: &mut [i32]) {
        assert!(target.len() >= 8);
        // SAFETY: see the impl; the length was just checked.
        unsafe {
            vst1q_s32(target.as_mut_ptr(), self.0);
            vst1q_s32(target.as_mut_ptr().add(4), self.1);
        }
    }
}
