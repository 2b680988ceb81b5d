//! AVX-512: sixteen lanes, 32 registers.

use super::{Pairs, Vector};
use std::arch::x86_64::*;

/// One 512-bit register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(pub(super) __m512);

/// The lanes below `count`.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

// SAFETY (of every block below): the processor has AVX-512, see the module above; loads and stores touch only what
// the caller vouches for.
impl Vector for Avx512 {
    const LANES: usize = 16;
    const TILE_ROWS: usize = 8;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_loadu_ps(source) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see the impl.
        unsafe { _mm512_storeu_ps(target, self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        // SAFETY: see the impl; lanes that are masked out are not read.
        Self(unsafe { _mm512_maskz_loadu_ps(first(count), source) })
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        // SAFETY: see the impl; lanes that are masked out are not written.
        unsafe { _mm512_mask_storeu_ps(target, first(count), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        // SAFETY: see the impl; the instruction returns its second operand unless the first is larger.
        Self(unsafe { _mm512_max_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // SAFETY: see the impl; the instruction returns its second operand unless the first is smaller.
        Self(unsafe { _mm512_min_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(1.0f32.to_bits() as i32)))
        })
    }

    #[inline(always)]
    fn times_power_of_two(self, exponent: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm512_scalef_ps(self.0, exponent.0) })
    }

    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        // SAFETY: see the impl.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let upper = _mm512_and_si512(bits, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            [upper, _mm512_slli_epi32::<16>(bits)].map(|half| Self(_mm512_castsi512_ps(half)))
        }
    }

    #[inline(always)]
    fn to_half_floats(self, words: &mut [f32]) {
        assert!(words.len() >= Self::LANES / 2);
        // SAFETY: see the impl; the length was just checked.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    #[inline(always)]
    fn transpose(rows: [&[f32; 8]; 8], columns: &mut [u32; 64]) {
        // SAFETY: see the impl; AVX-512 includes AVX2.
        unsafe { super::avx2::transpose(rows, columns) }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            super::avx2::sum(eight)
        }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: see the impl.
        unsafe { _mm512_reduce_max_ps(self.0) }
    }

    #[inline(always)]
    fn prefetch(address: *const f32) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
}

impl Pairs for Avx512 {
    #[inline(always)]
    fn add_pairs(self, left: Self, right: Self) -> Self {
        // SAFETY: the processor has the instruction, see the trait; a register of pairs is any 512 bits.
        unsafe {
            let [left, right] = [left, right].map(|pairs| std::mem::transmute::<__m512, __m512bh>(pairs.0));
            Self(_mm512_dpbf16_ps(self.0, left, right))
        }
    }
}
