//! One loop, compiled for several instruction sets and chosen at run time by what the processor offers.

/// Defines a function whose body is compiled once per instruction set (AVX-512, AVX2 with FMA, the baseline of
/// the target) and chosen at run time.
///
/// The body is an `#[inline(always)]` function with a constant parameter `FUSED`: whether `a * b + c` is one
/// instruction with one rounding. It is for both x86-64 versions and for aarch64, whose digits are therefore the
/// same; the x86-64 baseline rounds twice and may differ from them in the last place. One machine always takes the
/// same version, so its digits never change between runs.
macro_rules! multiversion {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)?
     = $body:path;) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $kind),*) $(-> $result)? {
            use $body as body;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                fn avx512($($argument: $kind),*) $(-> $result)? {
                    body::<true>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $kind),*) $(-> $result)? {
                    body::<true>($($argument),*)
                }
                let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                if fused
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the processor has every feature that `avx512` enables.
                    return unsafe { avx512($($argument),*) };
                }
                if fused {
                    // SAFETY: the processor has every feature that `avx2` enables.
                    return unsafe { avx2($($argument),*) };
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($argument),*)
        }
    };
}

pub(crate) use multiversion;
