//! NEON: eight lanes in a pair of 128-bit registers, 32 registers.

use super::Vector;
use std::arch::aarch64::*;

/// Two 128-bit registers, the lower four lanes first.
#[derive(Clone, Copy)]
pub(crate) struct Neon(pub(super) float32x4_t, pub(super) float32x4_t);

// SAFETY (of every block below): the processor has NEON, see the module above; loads and stores touch only what the
// caller vouches for.
impl Vector for Neon {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see the impl.
        let four = unsafe { vdupq_n_f32(value) };
        Self(four, four)
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vld1q_f32(source), vld1q_f32(source.add(4))) }
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: see the impl.
        unsafe {
            vst1q_f32(target, self.0);
            vst1q_f32(target.add(4), self.1);
        }
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 8];
        // SAFETY: see the impl; `count <= 8`.
        unsafe {
            std::ptr::copy_nonoverlapping(source, lanes.as_mut_ptr(), count);
            Self::load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        let mut lanes = [0.0; 8];
        // SAFETY: see the impl; `count <= 8`.
        unsafe {
            self.store(lanes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vaddq_f32(self.0, other.0), vaddq_f32(self.1, other.1)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vsubq_f32(self.0, other.0), vsubq_f32(self.1, other.1)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vmulq_f32(self.0, other.0), vmulq_f32(self.1, other.1)) }
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vdivq_f32(self.0, other.0), vdivq_f32(self.1, other.1)) }
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: see the impl; the instruction adds the product of its last two operands to the first.
        unsafe { Self(vfmaq_f32(addend.0, self.0, factor.0), vfmaq_f32(addend.1, self.1, factor.1)) }
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vmaxq_f32(self.0, bound.0), vmaxq_f32(self.1, bound.1)) }
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(vminq_f32(self.0, bound.0), vminq_f32(self.1, bound.1)) }
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let one = vdupq_n_u32(1.0f32.to_bits());
            let power = |four| vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(four)), one));
            Self(power(self.0), power(self.1))
        }
    }

    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        // SAFETY: see the impl.
        unsafe {
            let mask = vdupq_n_u32(0xffff_0000);
            let upper = |four| vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(four), mask));
            let lower = |four| vreinterpretq_f32_u32(vshlq_n_u32::<16>(vreinterpretq_u32_f32(four)));
            [Self(upper(self.0), upper(self.1)), Self(lower(self.0), lower(self.1))]
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let four = vaddq_f32(self.0, self.1);
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: see the impl.
        unsafe { vmaxvq_f32(vmaxq_f32(self.0, self.1)) }
    }

    /// The hardware prefetcher of these processors follows one stream well, and stable Rust has no hint to give it.
    #[inline(always)]
    fn prefetch(_address: *const f32) {}
}
