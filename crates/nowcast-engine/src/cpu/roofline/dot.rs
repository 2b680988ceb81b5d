//! The instructions that multiply f16, pairs of bf16 or fours of int8 and add them up, where the processor has them.

use crate::cpu::detect::InstructionSet;
use crate::dtype::Dtype;

/// Operations of one call of a loop of such instructions.
pub(super) type Loop = fn() -> u64;

/// The loop of a dtype, if the processor has the instruction that the set multiplies it with.
pub(super) fn loop_of(dtype: Dtype, set: InstructionSet) -> Option<Loop> {
    #[cfg(target_arch = "x86_64")]
    return match dtype {
        Dtype::F32 | Dtype::Tf32 => None,
        Dtype::Bf16 if set.multiplies_half_floats() => Some(|| {
            // SAFETY: a set that multiplies f16 exists only if the processor has the features.
            unsafe { x86::f16() }
        }),
        Dtype::Bf16 => (x86::has_wide_registers() && is_x86_feature_detected!("avx512bf16")).then_some(|| {
            // SAFETY: the features were just found.
            unsafe { x86::bf16() }
        }),
        Dtype::Int8 => (x86::has_wide_registers() && is_x86_feature_detected!("avx512vnni")).then_some(|| {
            // SAFETY: the features were just found.
            unsafe { x86::int8() }
        }),
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (dtype, set);
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::super::{CHAINS, STEPS};

    /// Lanes of a register.
    const LANES: usize = 16;

    pub(super) fn has_wide_registers() -> bool {
        is_x86_feature_detected!("avx512f")
    }

    #[target_feature(enable = "avx512f,avx512fp16")]
    pub(super) fn f16() -> u64 {
        let ones = _mm512_castsi512_ph(_mm512_set1_epi16(black_box(0x3c00)));
        let mut sums = [_mm512_setzero_ph(); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ph(ones, ones, *sum);
            }
        }
        black_box(sums);
        (2 * 2 * LANES * CHAINS * STEPS) as u64
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn bf16() -> u64 {
        let ones = _mm512_set1_ps(black_box(1.0));
        let pairs = _mm512_cvtne2ps_pbh(ones, ones);
        let mut sums = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, pairs, pairs);
            }
        }
        black_box(sums);
        (2 * 2 * LANES * CHAINS * STEPS) as u64
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn int8() -> u64 {
        let bytes = _mm512_set1_epi8(black_box(1));
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, bytes, bytes);
            }
        }
        black_box(sums);
        (2 * 4 * LANES * CHAINS * STEPS) as u64
    }
}
