//! Elementary functions without branches, tables or calls, so that loops over them become vector code.
//!
//! Polynomials are Taylor series: their remainders are written down and need no fitting. `FUSED` says whether
//! multiply-add is one instruction on the target of the surrounding loop (see [`crate::multiversion`]).

/// Adding and subtracting this rounds to the nearest integer; the low bits of the sum hold that integer.
const ROUND_F64: f64 = 6_755_399_441_055_744.0;
const ROUND_F32: f32 = 12_582_912.0;

/// ln 2 in two parts; the first has 21 zero bits at its end, so that products with exponents are exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const LN_2_HIGH_F32: f32 = 0.693_359_4;
const LN_2_LOW_F32: f32 = -2.121_944_4e-4;

/// 1/n! from n = 13 down to 2; for |r| <= ln(2)/2 the next term of exp is below 5e-18.
const EXPONENTIAL: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];
/// 1/n! from n = 7 down to 2; for |r| <= ln(2)/2 the next term of exp is below 6e-9.
const EXPONENTIAL_F32: [f32; 6] = [1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
/// 2/(2n + 1) from n = 10 down to 1; for |s| <= 3 - sqrt(8) the next term of 2 atanh(s) / s is below 2e-18.
const LOGARITHM: [f64; 10] = [
    2.0 / 21.0,
    2.0 / 19.0,
    2.0 / 17.0,
    2.0 / 15.0,
    2.0 / 13.0,
    2.0 / 11.0,
    2.0 / 9.0,
    2.0 / 7.0,
    2.0 / 5.0,
    2.0 / 3.0,
];
/// (-1)^n/(2n + 1)! from n = 10 down to 1; for |angle| <= pi/2 the next term of sin is below 2e-18.
const SINE: [f64; 10] = [
    1.0 / 51_090_942_171_709_440_000.0,
    -1.0 / 121_645_100_408_832_000.0,
    1.0 / 355_687_428_096_000.0,
    -1.0 / 1_307_674_368_000.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 39_916_800.0,
    1.0 / 362_880.0,
    -1.0 / 5_040.0,
    1.0 / 120.0,
    -1.0 / 6.0,
];

/// `a * b + c`, in one rounding if `FUSED`.
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn multiply_add_f32<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial by Horner's rule, highest coefficient first.
#[inline(always)]
pub(crate) fn polynomial<const FUSED: bool, const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = multiply_add::<FUSED>(sum, x, coefficient);
    }
    sum
}

/// `(2^n, exp(r) - 1)` with `x = n ln 2 + r` and |r| at most ln(2)/2 but for rounding.
#[inline(always)]
fn exponential_parts<const FUSED: bool>(x: f64) -> (f64, f64) {
    let shifted = multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = multiply_add::<FUSED>(-n, LN_2_LOW, multiply_add::<FUSED>(-n, LN_2_HIGH, x));
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    (scale, multiply_add::<FUSED>(r * r, polynomial::<FUSED, 12>(&EXPONENTIAL, r), r))
}

/// exp(x) within 2 units in the last place; saturates at the ends of -708 to 709, keeps NaN.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f64) -> f64 {
    let x = if x < -708.0 { -708.0 } else { x };
    let x = if x > 709.0 { 709.0 } else { x };
    let (scale, rest) = exponential_parts::<FUSED>(x);
    multiply_add::<FUSED>(scale, rest, scale)
}

/// exp(x) - 1 within 4 units in the last place, for |x| up to 700.
#[inline(always)]
pub(crate) fn exp_minus_one<const FUSED: bool>(x: f64) -> f64 {
    let (scale, rest) = exponential_parts::<FUSED>(x);
    multiply_add::<FUSED>(scale, rest, scale - 1.0)
}

/// exp(x) within 2 units in the last place of `f32` for x up to 88; zero below -87, keeps NaN.
#[inline(always)]
pub(crate) fn exp_f32<const FUSED: bool>(x: f32) -> f32 {
    let clamped = if x < -87.0 { -87.0 } else { x };
    let shifted = multiply_add_f32::<FUSED>(clamped, std::f32::consts::LOG2_E, ROUND_F32);
    let n = shifted - ROUND_F32;
    let r = multiply_add_f32::<FUSED>(-n, LN_2_LOW_F32, multiply_add_f32::<FUSED>(-n, LN_2_HIGH_F32, clamped));
    let mut sum = EXPONENTIAL_F32[0];
    for &coefficient in &EXPONENTIAL_F32[1..] {
        sum = multiply_add_f32::<FUSED>(sum, r, coefficient);
    }
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let value = multiply_add_f32::<FUSED>(scale, multiply_add_f32::<FUSED>(r * r, sum, r), scale);
    if x < -87.0 { 0.0 } else { value }
}

/// The natural logarithm of a positive, normal, finite number, within 2 units in the last place.
#[inline(always)]
pub(crate) fn ln<const FUSED: bool>(x: f64) -> f64 {
    // x = 2^e m with m from sqrt(1/2) to sqrt(2); the offset makes the exponent field carry at sqrt(1/2).
    let offset = 1.0f64.to_bits() - std::f64::consts::FRAC_1_SQRT_2.to_bits();
    let field = x.to_bits().wrapping_add(offset) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(field.wrapping_sub(1023) << 52));
    let e = f64::from_bits(ROUND_F64.to_bits().wrapping_add(field)) - (ROUND_F64 + 1023.0);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let series = z * polynomial::<FUSED, 10>(&LOGARITHM, z);
    // 2 atanh(s) = f - s (f - series) exactly; written with f^2/2 the leading term f carries no rounding.
    let half_square = 0.5 * f * f;
    let correction = multiply_add::<FUSED>(s, half_square + series, e * LN_2_LOW);
    multiply_add::<FUSED>(e, LN_2_HIGH, f - (half_square - correction))
}

/// cos(2 pi turns) for `turns` from 0 to 1, with an absolute error below 5e-16.
#[inline(always)]
pub(crate) fn cos_turns<const FUSED: bool>(turns: f64) -> f64 {
    // cos(2 pi v) = sin(2 pi (|v - 1/2| - 1/4)), exact in this argument for multiples of 2^-33.
    let angle = std::f64::consts::TAU * ((turns - 0.5).abs() - 0.25);
    let square = angle * angle;
    multiply_add::<FUSED>(angle * square, polynomial::<FUSED, 10>(&SINE, square), angle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error of `ours` against `theirs` over `points`, relative to `theirs`.
    fn worst(points: impl Iterator<Item = f64>, ours: impl Fn(f64) -> f64, theirs: impl Fn(f64) -> f64) -> f64 {
        points.map(|x| ((ours(x) - theirs(x)) / theirs(x)).abs()).fold(0.0, f64::max)
    }

    fn spread(count: u32, low: f64, high: f64) -> impl Iterator<Item = f64> + Clone {
        (0..count).map(move |i| low + (high - low) * (f64::from(i) + 0.37) / f64::from(count))
    }

    fn check<const FUSED: bool>() {
        // One rounding of the twin and two of ours, in units of half an ulp relative to the value.
        let limit = 3.0 * f64::EPSILON;
        assert!(worst(spread(40_000, -700.0, 700.0), exp::<FUSED>, f64::exp) < limit);
        let small = spread(20_000, -40.0, 5.0).map(f64::exp2);
        assert!(worst(small, exp_minus_one::<FUSED>, f64::exp_m1) < 5.0 * f64::EPSILON);
        let all = spread(40_000, -1000.0, 1000.0).map(f64::exp2);
        assert!(worst(all, ln::<FUSED>, f64::ln) < limit);
        assert!(worst(spread(20_000, 0.5, 2.0), ln::<FUSED>, f64::ln) < limit);
        for v in spread(20_000, 0.0, 1.0) {
            // The twin's angle is rounded too: up to 2 pi times half an ulp.
            let twin = (std::f64::consts::TAU * v).cos();
            assert!((cos_turns::<FUSED>(v) - twin).abs() < 1.2e-15, "{v}");
        }
        let f32_error = spread(40_000, -86.9, 88.0)
            .map(|x| x as f32)
            .map(|x| (f64::from(exp_f32::<FUSED>(x)) / f64::from(x).exp() - 1.0).abs())
            .fold(0.0, f64::max);
        assert!(f32_error < 2.0 * f64::from(f32::EPSILON), "{f32_error}");
    }

    #[test]
    fn portable_functions_agree_with_std() {
        check::<false>();
    }

    #[test]
    fn fused_functions_agree_with_std() {
        check::<true>();
    }

    #[test]
    fn special_values() {
        assert_eq!(exp::<false>(0.0), 1.0);
        assert_eq!(exp_minus_one::<false>(0.0), 0.0);
        assert_eq!(exp_minus_one::<false>(1e-300), 1e-300);
        assert_eq!(ln::<false>(1.0), 0.0);
        assert_eq!(exp_f32::<false>(0.0), 1.0);
        assert_eq!(exp_f32::<false>(-2e4), 0.0);
        assert_eq!(exp_f32::<false>(f32::NEG_INFINITY), 0.0);
        assert!(exp::<false>(f64::NAN).is_nan() && exp_f32::<false>(f32::NAN).is_nan());
        assert_eq!(cos_turns::<false>(0.25), 0.0);
        assert_eq!(cos_turns::<false>(0.75), 0.0);
        assert!((cos_turns::<false>(0.5) + 1.0).abs() <= f64::EPSILON);
    }
}
