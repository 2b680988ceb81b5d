//! Which instruction set the kernels use, found once at run time.
//!
//! Kernels are written once over `Vector` and compiled for every instruction set; `InstructionSet::dispatch` is the
//! one door through which they run. With fused multiply-add (AVX-512, AVX2, NEON) the digits are the same.

use super::vector::{HalfFloats, Integers, Pairs, Portable, PortableHalfFloats, PortableIntegers, Vector};
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx2Integers, Avx512, Avx512HalfFloats, Avx512Integers};
#[cfg(target_arch = "aarch64")]
use super::vector::{Neon, NeonIntegers};

/// The environment variable that forces another instruction set: `portable`, `avx2`, `avx512`, `avx512bf16`, `avx512fp16` or
/// `neon`.
pub const ENVIRONMENT_VARIABLE: &str = "NOWCAST_CPU";

/// A piece of work that is compiled once per instruction set.
///
/// Everything `run` calls must be `#[inline(always)]`, or it is compiled for the least processor; closures and iterators that
/// hand on vectors cannot be.
pub(crate) trait Kernel {
    /// Does the work with vectors of type `V`.
    fn run<V: Vector>(self);
}

/// As [`Kernel`], for sums of integers.
pub(crate) trait IntegerKernel {
    /// Does the work with vectors of type `I`.
    fn run<I: Integers>(self);
}

/// As [`Kernel`], for products of pairs of bf16 by an instruction of their own.
pub(crate) trait PairKernel {
    /// Does the work with vectors of type `P`.
    fn run<P: Pairs>(self);
}

/// As [`Kernel`], for products of f16.
pub(crate) trait HalfKernel {
    /// Does the work with vectors of type `H`.
    fn run<H: HalfFloats>(self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 that also multiplies pairs of bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// AVX-512 that also multiplies f16, twice as many at a time.
    #[cfg(target_arch = "x86_64")]
    Avx512Fp16,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// An instruction set that this processor is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstructionSet(Kind);

impl InstructionSet {
    /// Plain Rust without fused multiply-add; runs everywhere.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Every instruction set this processor has, the slowest first.
    pub fn supported() -> impl DoubleEndedIterator<Item = Self> {
        ALL.into_iter().map(Self).filter(|set| set.is_supported())
    }

    /// The fastest supported set, or the one [`ENVIRONMENT_VARIABLE`] names; read once per process.
    pub fn detected() -> Self {
        static DETECTED: OnceLock<InstructionSet> = OnceLock::new();
        *DETECTED.get_or_init(|| Self::choose(std::env::var(ENVIRONMENT_VARIABLE).ok().as_deref()))
    }

    /// The set of that name, or the fastest if none is asked for or it is not supported.
    fn choose(wanted: Option<&str>) -> Self {
        let fastest = || Self::supported().rev().find(|set| set.pays()).unwrap_or(Self::PORTABLE);
        let Some(wanted) = wanted else { return fastest() };
        Self::supported().find(|set| set.name() == wanted).unwrap_or_else(|| {
            let offered: Vec<_> = Self::supported().map(Self::name).collect();
            tracing::warn!("{ENVIRONMENT_VARIABLE}={wanted} is not supported here; use one of {offered:?}");
            fastest()
        })
    }

    /// The name [`ENVIRONMENT_VARIABLE`] knows it by.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => "avx512bf16",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Fp16 => "avx512fp16",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
        }
    }

    /// Whether a product is added with one rounding: all such sets give the same digits, but for bf16 where it is f16.
    pub fn is_fused(self) -> bool {
        self != Self::PORTABLE
    }

    fn is_supported(self) -> bool {
        match self.0 {
            Kind::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => {
                Self(Kind::Avx2).is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => {
                Self(Kind::Avx512).is_supported()
                    && is_x86_feature_detected!("avx512bf16")
                    && super::pairs::keep_digits(self)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Fp16 => Self(Kind::Avx512).is_supported() && is_x86_feature_detected!("avx512fp16"),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        }
    }

    /// Whether it is faster than the sets before it.
    fn pays(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => super::pairs::pay(self, Self(Kind::Avx512)),
            _ => true,
        }
    }

    /// Whether [`InstructionSet::dispatch_pairs`] runs anything.
    pub(crate) fn multiplies_pairs(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => true,
            _ => false,
        }
    }

    /// Whether bf16 is kept and multiplied as f16.
    pub(crate) fn multiplies_half_floats(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Fp16 => true,
            _ => false,
        }
    }

    /// Runs a kernel compiled for this instruction set.
    #[inline]
    pub(crate) fn dispatch(self, kernel: impl Kernel) {
        match self.0 {
            Kind::Portable => kernel.run::<Portable>(),
            // SAFETY: an `InstructionSet` exists only if the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Avx512Bf16 | Kind::Avx512Fp16 => unsafe { run_avx512(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { run_neon(kernel) },
        }
    }

    /// The set whose vectors sum integers where this one is asked for: rows are arranged for its register tiles.
    pub(crate) fn of_integers(self) -> Self {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Avx512Bf16 | Kind::Avx512Fp16 => match is_x86_feature_detected!("avx512vnni") {
                true => Self(Kind::Avx512),
                false => Self(Kind::Avx2),
            },
            _ => self,
        }
    }

    /// Runs a kernel of integers compiled for [`Self::of_integers`].
    #[inline]
    pub(crate) fn dispatch_integers(self, kernel: impl IntegerKernel) {
        match self.of_integers().0 {
            // SAFETY: an `InstructionSet` exists only if the processor has its features, and VNNI was just found.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Avx512Bf16 | Kind::Avx512Fp16 => unsafe { run_avx512_integers(kernel) },
            // SAFETY: as above; AVX-512 includes AVX2.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2_integers(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { run_neon_integers(kernel) },
            Kind::Portable => kernel.run::<PortableIntegers>(),
        }
    }

    /// The set whose vectors multiply f16 where this one is asked for: rows are arranged for its register tiles.
    pub(crate) fn of_half_floats(self) -> Self {
        if self.multiplies_half_floats() { self } else { Self::PORTABLE }
    }

    /// Runs a kernel of f16 compiled for [`Self::of_half_floats`].
    #[inline]
    pub(crate) fn dispatch_half_floats(self, kernel: impl HalfKernel) {
        match self.0 {
            // SAFETY: an `InstructionSet` exists only if the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Fp16 => unsafe { run_avx512_half_floats(kernel) },
            _ => kernel.run::<PortableHalfFloats>(),
        }
    }

    /// Runs a kernel of pairs; plain Rust where the set has no instruction for them.
    #[inline]
    pub(crate) fn dispatch_pairs(self, kernel: impl PairKernel) {
        match self.0 {
            // SAFETY: an `InstructionSet` exists only if the processor has its features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => unsafe { run_avx512_pairs(kernel) },
            _ => kernel.run::<Portable>(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
const ALL: [Kind; 5] = [Kind::Portable, Kind::Avx2, Kind::Avx512, Kind::Avx512Bf16, Kind::Avx512Fp16];
#[cfg(target_arch = "aarch64")]
const ALL: [Kind; 2] = [Kind::Portable, Kind::Neon];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ALL: [Kind; 1] = [Kind::Portable];

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2(kernel: impl Kernel) {
    kernel.run::<Avx2>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
fn run_avx512(kernel: impl Kernel) {
    kernel.run::<Avx512>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2_integers(kernel: impl IntegerKernel) {
    kernel.run::<Avx2Integers>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")]
fn run_avx512_integers(kernel: impl IntegerKernel) {
    kernel.run::<Avx512Integers>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")]
fn run_avx512_pairs(kernel: impl PairKernel) {
    kernel.run::<Avx512>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512fp16")]
fn run_avx512_half_floats(kernel: impl HalfKernel) {
    kernel.run::<Avx512HalfFloats>();
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn run_neon(kernel: impl Kernel) {
    kernel.run::<Neon>();
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn run_neon_integers(kernel: impl IntegerKernel) {
    kernel.run::<NeonIntegers>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portable_set_is_always_there_and_names_are_distinct() {
        let names: Vec<_> = InstructionSet::supported().map(InstructionSet::name).collect();
        assert_eq!(names[0], "portable");
        assert!((1..names.len()).all(|index| !names[..index].contains(&names[index])));
    }

    #[test]
    fn a_set_is_chosen_by_name_and_the_fastest_otherwise() {
        let fastest = InstructionSet::supported().rev().find(|set| !set.multiplies_pairs());
        for wanted in [None, Some("abacus")] {
            let chosen = InstructionSet::choose(wanted);
            // Whether pairs pay is measured.
            assert!(Some(chosen) == fastest || chosen.multiplies_pairs() && chosen.is_supported());
        }
        for set in InstructionSet::supported() {
            assert_eq!(InstructionSet::choose(Some(set.name())), set);
        }
    }

    /// Notes the rows of a register tile.
    struct TileRows<'a>(&'a mut usize);

    impl Kernel for TileRows<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            *self.0 = V::TILE_ROWS;
        }
    }

    impl IntegerKernel for TileRows<'_> {
        #[inline(always)]
        fn run<I: Integers>(self) {
            *self.0 = I::Floats::TILE_ROWS;
        }
    }

    /// Regression: on NEON rows were arranged for its tiles, and summed in those of the portable set.
    #[test]
    fn integers_are_summed_in_the_tiles_that_rows_are_arranged_for() {
        for set in InstructionSet::supported() {
            let (mut arranged, mut summed) = (0, 0);
            set.of_integers().dispatch(TileRows(&mut arranged));
            set.dispatch_integers(TileRows(&mut summed));
            assert_eq!(arranged, summed, "{}", set.name());
        }
    }
}
