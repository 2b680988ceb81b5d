//! AVX2 with FMA: eight lanes, 16 registers.

use super::Vector;
use std::arch::x86_64::*;

/// One 256-bit register.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(pub(super) __m256);

/// The sign bit set in the lanes below `count`.
#[inline(always)]
fn first(count: usize) -> __m256i {
    const SIGNS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(count <= 8);
    // SAFETY: `8 - count + 8 <= 16` values are there; the processor has AVX2, see the module above.
    unsafe { _mm256_loadu_si256(SIGNS.as_ptr().add(8 - count).cast()) }
}

/// The sum of eight lanes, halves first.
///
/// # Safety
/// The processor must have AVX.
#[inline(always)]
pub(super) unsafe fn sum(eight: __m256) -> f32 {
    // SAFETY: the caller vouches for the processor.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Writes the columns of a square one after the other.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub(super) unsafe fn transpose(rows: [&[f32; 8]; 8], columns: &mut [u32; 64]) {
    // SAFETY: rows and columns are eight words each; the caller vouches for the processor.
    unsafe {
        let row = |index: usize| _mm256_loadu_ps(rows[index].as_ptr());
        // Pairs of rows, then fours, then halves: lane by lane, row by row.
        let pair = |a, b| (_mm256_unpacklo_ps(row(a), row(b)), _mm256_unpackhi_ps(row(a), row(b)));
        let four = |a: (__m256, __m256), b: (__m256, __m256)| {
            [
                _mm256_shuffle_ps::<0x44>(a.0, b.0),
                _mm256_shuffle_ps::<0xee>(a.0, b.0),
                _mm256_shuffle_ps::<0x44>(a.1, b.1),
                _mm256_shuffle_ps::<0xee>(a.1, b.1),
            ]
        };
        let (upper, lower) = (four(pair(0, 1), pair(2, 3)), four(pair(4, 5), pair(6, 7)));
        for column in 0..4 {
            let (upper, lower) = (upper[column], lower[column]);
            let target: *mut f32 = columns.as_mut_ptr().cast();
            _mm256_storeu_ps(target.add(8 * column), _mm256_permute2f128_ps::<0x20>(upper, lower));
            _mm256_storeu_ps(target.add(8 * (column + 4)), _mm256_permute2f128_ps::<0x31>(upper, lower));
        }
    }
}

// SAFETY (of every block below): the processor has AVX2 and FMA, see the module above; loads and stores touch only
// what the caller vouches for.
impl Vector for Avx2 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_loadu_ps(source) })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see the impl.
        unsafe { _mm256_storeu_ps(target, self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        // SAFETY: see the impl; lanes that are masked out are not read.
        Self(unsafe { _mm256_maskload_ps(source, first(count)) })
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        // SAFETY: see the impl; lanes that are masked out are not written.
        unsafe { _mm256_maskstore_ps(target, first(count), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        // SAFETY: see the impl; the instruction returns its second operand unless the first is larger.
        Self(unsafe { _mm256_max_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // SAFETY: see the impl; the instruction returns its second operand unless the first is smaller.
        Self(unsafe { _mm256_min_ps(bound.0, self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: see the impl.
        Self(unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(1.0f32.to_bits() as i32)))
        })
    }

    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        // SAFETY: see the impl.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let upper = _mm256_and_si256(bits, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            [upper, _mm256_slli_epi32::<16>(bits)].map(|half| Self(_mm256_castsi256_ps(half)))
        }
    }

    #[inline(always)]
    fn transpose(rows: [&[f32; 8]; 8], columns: &mut [u32; 64]) {
        // SAFETY: see the impl.
        unsafe { transpose(rows, columns) }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the impl.
        unsafe { sum(self.0) }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn prefetch(address: *const f32) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
}
