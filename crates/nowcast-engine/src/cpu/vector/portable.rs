//! Plain Rust, for processors without fused multiply-add and as the twin of the others.

use super::{Pairs, Vector};

/// Eight lanes in an array; the compiler finds whatever vectors the target has.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 8]);

impl Portable {
    #[inline(always)]
    fn combine(self, other: Self, operation: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }
}

impl Vector for Portable {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 2;
    const FUSED: bool = false;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    #[inline(always)]
    unsafe fn load(source: *const f32) -> Self {
        // SAFETY: the caller vouches for eight readable values.
        Self(unsafe { source.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut f32) {
        // SAFETY: the caller vouches for eight writable values.
        unsafe { target.cast::<[f32; 8]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn load_first(source: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 8];
        // SAFETY: the caller vouches for `count` readable values, and `count <= 8`.
        unsafe { std::ptr::copy_nonoverlapping(source, lanes.as_mut_ptr(), count) };
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn store_first(self, target: *mut f32, count: usize) {
        // SAFETY: the caller vouches for `count` writable values, and `count <= 8`.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), target, count) };
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.combine(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.combine(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.combine(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.combine(other, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self.mul(factor).add(addend)
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        self.combine(bound, |value, bound| if bound > value { bound } else { value })
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        self.combine(bound, |value, bound| if bound < value { bound } else { value })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(self.0.map(|lane| f32::from_bits((lane.to_bits() << 23).wrapping_add(1.0f32.to_bits()))))
    }

    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        let upper = self.0.map(|lane| f32::from_bits(lane.to_bits() & 0xffff_0000));
        [Self(upper), Self(self.0.map(|lane| f32::from_bits(lane.to_bits() << 16)))]
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.0;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    #[inline(always)]
    fn prefetch(_address: *const f32) {}
}

impl Pairs for Portable {
    #[inline(always)]
    fn add_pairs(self, left: Self, right: Self) -> Self {
        let ([a, b], [c, d]) = (left.halves(), right.halves());
        let add = |sum: [f32; 8], left: Self, right: Self| {
            let [sum, left, right] = [sum, left.0, right.0].map(|lanes| lanes.map(without_subnormals));
            std::array::from_fn(|lane| without_subnormals(left[lane].mul_add(right[lane], sum[lane])))
        };
        Self(add(add(self.0, a, c), b, d))
    }
}

#[inline(always)]
fn without_subnormals(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}
