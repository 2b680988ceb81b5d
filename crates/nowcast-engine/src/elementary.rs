//! Elementary functions without branches, tables or calls, so that loops over them become vector code.
//!
//! Polynomials are Taylor series: their remainders are written down and need no fitting. The vector type `V` only
//! says for which instruction set the surrounding loop is compiled, and so whether multiply-add is one instruction.

use crate::cpu::vector::Vector;

/// Adding and subtracting this rounds to the nearest integer; the low bits of the sum hold that integer.
const ROUND_F64: f64 = 6_755_399_441_055_744.0;

/// ln 2 in two parts; the first has 21 zero bits at its end, so that products with exponents are exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

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

/// `a * b + c`, in one rounding if the instruction set offers that.
#[inline(always)]
pub(crate) fn multiply_add<V: Vector>(a: f64, b: f64, c: f64) -> f64 {
    if V::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial by Horner's rule, highest coefficient first.
#[inline(always)]
pub(crate) fn polynomial<V: Vector, const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = multiply_add::<V>(sum, x, coefficient);
    }
    sum
}

/// `(2^n, exp(r) - 1)` with `x = n ln 2 + r` and |r| at most ln(2)/2 but for rounding.
#[inline(always)]
fn exponential_parts<V: Vector>(x: f64) -> (f64, f64) {
    let shifted = multiply_add::<V>(x, std::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = multiply_add::<V>(-n, LN_2_LOW, multiply_add::<V>(-n, LN_2_HIGH, x));
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    (scale, multiply_add::<V>(r * r, polynomial::<V, 12>(&EXPONENTIAL, r), r))
}

/// exp(x) within 2 units in the last place; saturates at the ends of -708 to 709, keeps NaN.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: f64) -> f64 {
    let x = if x < -708.0 { -708.0 } else { x };
    let x = if x > 709.0 { 709.0 } else { x };
    let (scale, rest) = exponential_parts::<V>(x);
    multiply_add::<V>(scale, rest, scale)
}

/// exp(x) - 1 within 4 units in the last place, for |x| up to 700.
#[inline(always)]
pub(crate) fn exp_minus_one<V: Vector>(x: f64) -> f64 {
    let (scale, rest) = exponential_parts::<V>(x);
    multiply_add::<V>(scale, rest, scale - 1.0)
}

/// The natural logarithm of a positive, normal, finite number, within 2 units in the last place.
#[inline(always)]
pub(crate) fn ln<V: Vector>(x: f64) -> f64 {
    // x = 2^e m with m from sqrt(1/2) to sqrt(2); the offset makes the exponent field carry at sqrt(1/2).
    let offset = 1.0f64.to_bits() - std::f64::consts::FRAC_1_SQRT_2.to_bits();
    let field = x.to_bits().wrapping_add(offset) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(field.wrapping_sub(1023) << 52));
    let e = f64::from_bits(ROUND_F64.to_bits().wrapping_add(field)) - (ROUND_F64 + 1023.0);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let series = z * polynomial::<V, 10>(&LOGARITHM, z);
    // 2 atanh(s) = f - s (f - series) exactly; written with f^2/2 the leading term f carries no rounding.
    let half_square = 0.5 * f * f;
    let correction = multiply_add::<V>(s, half_square + series, e * LN_2_LOW);
    multiply_add::<V>(e, LN_2_HIGH, f - (half_square - correction))
}

/// cos(2 pi turns) for `turns` from 0 to 1, with an absolute error below 5e-16.
#[inline(always)]
pub(crate) fn cos_turns<V: Vector>(turns: f64) -> f64 {
    // cos(2 pi v) = sin(2 pi (|v - 1/2| - 1/4)), exact in this argument for multiples of 2^-33.
    let angle = std::f64::consts::TAU * ((turns - 0.5).abs() - 0.25);
    let square = angle * angle;
    multiply_add::<V>(angle * square, polynomial::<V, 10>(&SINE, square), angle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::detect::{InstructionSet, Kernel};

    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        ExpMinusOne,
        Ln,
        CosTurns,
    }

    struct Map<'a> {
        function: Function,
        values: &'a mut [f64],
    }

    impl Kernel for Map<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            for value in self.values {
                *value = match self.function {
                    Function::Exp => exp::<V>(*value),
                    Function::ExpMinusOne => exp_minus_one::<V>(*value),
                    Function::Ln => ln::<V>(*value),
                    Function::CosTurns => cos_turns::<V>(*value),
                };
            }
        }
    }

    fn map(set: InstructionSet, function: Function, points: &[f64]) -> Vec<f64> {
        let mut values = points.to_vec();
        set.dispatch(Map { function, values: &mut values });
        values
    }

    fn spread(count: u32, low: f64, high: f64) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| low + (high - low) * (f64::from(i) + 0.37) / f64::from(count))
    }

    /// Checks a function against its twin in the standard library on every instruction set.
    fn check(
        function: Function,
        twin: fn(f64) -> f64,
        points: impl Iterator<Item = f64>,
        relative: f64,
        absolute: f64,
    ) {
        let points: Vec<f64> = points.collect();
        for set in InstructionSet::supported() {
            for (x, ours) in points.iter().zip(map(set, function, &points)) {
                let exact = twin(*x);
                assert!((ours - exact).abs() <= relative * exact.abs() + absolute, "{} {x:e}: {ours:e}", set.name());
            }
        }
    }

    // Units: one for the twin, the documented two or four for ours.

    #[test]
    fn exp_agrees_with_std() {
        check(Function::Exp, f64::exp, spread(40_000, -700.0, 700.0), 3.0 * f64::EPSILON, 0.0);
    }

    #[test]
    fn exp_minus_one_agrees_with_std() {
        let points = spread(20_000, -40.0, 5.0).map(f64::exp2);
        check(Function::ExpMinusOne, f64::exp_m1, points, 5.0 * f64::EPSILON, 0.0);
    }

    #[test]
    fn ln_agrees_with_std() {
        let points = spread(40_000, -1000.0, 1000.0).map(f64::exp2).chain(spread(20_000, 0.5, 2.0));
        check(Function::Ln, f64::ln, points, 3.0 * f64::EPSILON, 0.0);
    }

    #[test]
    fn cos_turns_agrees_with_std() {
        // The twin's angle is rounded: up to 2 pi times half a unit.
        let twin = |turns: f64| (std::f64::consts::TAU * turns).cos();
        check(Function::CosTurns, twin, spread(20_000, 0.0, 1.0), 0.0, 1.2e-15);
    }

    #[test]
    fn special_values() {
        for set in InstructionSet::supported() {
            let one = |function, x| map(set, function, &[x])[0];
            assert_eq!(one(Function::Exp, 0.0), 1.0);
            assert!(one(Function::Exp, f64::NAN).is_nan());
            assert!(one(Function::Exp, f64::NEG_INFINITY) < 1e-307 && one(Function::Exp, f64::INFINITY) > 1e307);
            assert_eq!(one(Function::ExpMinusOne, 0.0), 0.0);
            assert_eq!(one(Function::ExpMinusOne, 1e-300), 1e-300);
            assert_eq!(one(Function::Ln, 1.0), 0.0);
            assert_eq!(map(set, Function::CosTurns, &[0.25, 0.75]), [0.0, 0.0]);
            assert!((one(Function::CosTurns, 0.5) + 1.0).abs() <= f64::EPSILON);
        }
    }

    #[test]
    fn fused_sets_agree_to_the_bit() {
        let points: Vec<f64> = spread(5000, 1e-6, 1.0).collect();
        for function in [Function::Exp, Function::ExpMinusOne, Function::Ln, Function::CosTurns] {
            let fused: Vec<_> = InstructionSet::supported().filter(|set| set.is_fused()).collect();
            for pair in fused.windows(2) {
                assert_eq!(map(pair[0], function, &points), map(pair[1], function, &points));
            }
        }
    }
}
