//! One location-scale Student-t distribution: tail probability and density at any degrees of freedom from 2 up.
//!
//! With `a = nu / 2`, `x = 1 / (1 + t^2 / nu)` and `I` the regularised incomplete beta function, the tail is
//! `P[T > |t|] = I_x(a, 1/2) / 2`. Two exact steps and one series give it with a fixed number of operations:
//!
//! 1. Sixteen times the recurrence `I_x(a, 1/2) = I_x(a + 1, 1/2) + x^a (1 - x)^(1/2) / (a B(a, 1/2))`
//!    (DLMF 8.17.20). Every term is positive, so nothing cancels.
//! 2. With `A = a + 16`, `N = A - 1/4` and `u = -ln x`, the rest is
//!    `I_x(A, 1/2) B(A, 1/2) = integral from u of exp(-N s) s^(-1/2) g(s) ds`,
//!    `g(s) = (2 sinh(s / 2) / s)^(-1/2) = sum_n p_n s^(2n)`, hence a sum of incomplete gamma functions of order
//!    `2n + 1/2`, which are `erfc(sqrt(N u))` plus elementary terms. As `|p_n| < (2 pi)^(-2n)` and `N > 16.7`,
//!    seven terms leave less than `14! / (2 pi N)^14 = 4e-18` at u = 0; where u is large, and the series in
//!    s is not good, `I_x(A, 1/2)` is smaller than the sum of step 1 by a factor of about `exp(-16 u)`.
//!
//! At u = 0 both sides are 1, which yields `B(A, 1/2) = sqrt(pi / N) sum_n p_n (1/2)_(2n) N^(-2n)` for free, and
//! with it the normalisation of the density: no gamma function is evaluated anywhere.

use super::Evaluation;

/// How often the recurrence in `a` is applied.
const SHIFT: usize = 16;
/// Number of terms of `g`.
const TERMS: usize = 7;
/// Number of coefficients of the elementary part of the incomplete gamma functions.
const GAMMA_COEFFICIENTS: usize = 2 * (TERMS - 1);

/// Taylor coefficients of `(2 sinh(s / 2) / s)^(-1/2)` in `s^2`.
const SINH_SERIES: [f64; TERMS] = [
    1.0,
    -1.0 / 48.0,
    1.0 / 2560.0,
    -61.0 / 7_741_440.0,
    1261.0 / 7_431_782_400.0,
    -79.0 / 20_761_804_800.0,
    66_643.0 / 761_775_532_277_760.0,
];

/// `(1 + 2 v) erfcx(v)` as a polynomial in `(v - 4) / (v + 4)`; relative error below 8e-16 for `v >= 0`.
const SCALED_ERFC: [f64; 23] = [
    1.2329951186255526,
    -0.1396211168405572,
    0.015379652102610473,
    0.06809705425421975,
    -0.10103906603586531,
    0.09373283501077742,
    -0.06633036582031154,
    0.03716751538635946,
    -0.016197733981455194,
    0.005031971002298884,
    -0.000757773707063825,
    -0.00019926095315041177,
    0.00015062309720018628,
    -2.438779085759055e-05,
    -1.1225101875659178e-05,
    5.689537732302816e-06,
    2.9801353803031333e-07,
    -8.020193766522085e-07,
    7.115337800585303e-08,
    9.295292277973951e-08,
    -1.6371779763566967e-08,
    -6.9926126813398e-09,
    1.5738283774192037e-09,
];

/// Beyond this standardised distance the tail is below 1e-299 for every degree of freedom; squares stay finite.
const FARTHEST: f64 = 1e150;

/// One component with everything that does not depend on the point.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub(super) weight: f64,
    pub(super) location: f64,
    pub(super) scale: f64,
    degrees_of_freedom: f64,
    /// Density of the standardised component at zero.
    peak: f64,
    /// `1 / ((a + j) B(a + j, 1/2))`, the terms of the recurrence.
    recurrence: [f64; SHIFT],
    /// Coefficients of `(N u)^m` beside `sqrt(N u) exp(-N u)`.
    gamma: [f64; GAMMA_COEFFICIENTS],
}

impl Component {
    pub(super) fn new(weight: f64, degrees_of_freedom: f64, location: f64, scale: f64) -> Self {
        let a = 0.5 * degrees_of_freedom;
        let order = a + SHIFT as f64 - 0.25;
        let mut gamma = [0.0; GAMMA_COEFFICIENTS];
        let mut sum = 0.0;
        let mut power = 1.0;
        for (n, coefficient) in SINH_SERIES.iter().enumerate() {
            let term = coefficient * power * rising_half(2 * n);
            sum += term;
            for (m, value) in gamma.iter_mut().enumerate().take(2 * n) {
                *value += term / rising_half(m + 1);
            }
            power /= order * order;
        }
        for value in &mut gamma {
            *value /= std::f64::consts::PI.sqrt() * sum;
        }
        let mut inverse_beta = order.sqrt() / (std::f64::consts::PI.sqrt() * sum);
        for j in 0..SHIFT {
            inverse_beta *= (a + j as f64) / (a + j as f64 + 0.5);
        }
        let mut recurrence = [0.0; SHIFT];
        let mut term = inverse_beta / a;
        for (j, value) in recurrence.iter_mut().enumerate() {
            *value = term;
            term *= (a + j as f64 + 0.5) / (a + j as f64 + 1.0);
        }
        let peak = inverse_beta / degrees_of_freedom.sqrt();
        Self { weight, location, scale, degrees_of_freedom, peak, recurrence, gamma }
    }

    pub(super) fn evaluate(&self, point: f64) -> Evaluation {
        let nu = self.degrees_of_freedom;
        let t = ((point - self.location) / self.scale).clamp(-FARTHEST, FARTHEST);
        let stretch = 1.0 + t * t / nu;
        let x = 1.0 / stretch;
        let u = (t * t / nu).ln_1p();
        let power = (-0.5 * nu * u).exp();
        let root = stretch.sqrt();
        let series = self.recurrence.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
        let z = ((0.5 * nu + (SHIFT as f64 - 0.25)) * u).min(1e4);
        let polynomial = self.gamma.iter().rev().fold(0.0, |sum, coefficient| sum * z + coefficient);
        let remainder = x.powi(SHIFT as i32) * root.sqrt() * (scaled_erfc(z.sqrt()) + z.sqrt() * polynomial);
        let tail = 0.5 * power * (t.abs() / (nu.sqrt() * root) * series + remainder);
        let density = self.peak * power / root / self.scale;
        let slope = -density * (nu + 1.0) * t / ((nu + t * t) * self.scale);
        let (lower, upper) = if t < 0.0 { (tail, 1.0 - tail) } else { (1.0 - tail, tail) };
        Evaluation { lower, upper, density, slope }
    }

    /// `weight E[X - centre; X <= point]`, from the integral of `t f(t)` up to `b`: `-f(b) (nu + b^2) / (nu - 1)`.
    pub(super) fn partial_expectation_about(&self, point: f64, centre: f64) -> f64 {
        let nu = self.degrees_of_freedom;
        let shift = self.location - centre;
        if point == f64::INFINITY {
            return self.weight * shift;
        }
        let t = ((point - self.location) / self.scale).clamp(-FARTHEST, FARTHEST);
        let at = self.evaluate(point);
        self.weight * (shift * at.lower - self.scale * self.scale * at.density * ((nu + t * t) / (nu - 1.0)))
    }

    pub(super) fn variance(&self) -> f64 {
        let nu = self.degrees_of_freedom;
        self.scale * self.scale * (nu / (nu - 2.0))
    }
}

/// `exp(v^2) erfc(v)` for `v >= 0`.
fn scaled_erfc(v: f64) -> f64 {
    let position = (v - 4.0) / (v + 4.0);
    SCALED_ERFC.iter().rev().fold(0.0, |sum, coefficient| sum * position + coefficient) / (1.0 + 2.0 * v)
}

/// The rising factorial `(1/2)_n`.
fn rising_half(n: usize) -> f64 {
    (0..n).map(|k| k as f64 + 0.5).product()
}
