//! Location-scale Student-t distributions, eight at a time: tail probability and density at any degrees of freedom
//! from 2 up, with the same operations for all, so that they become vector code.
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

use crate::cpu::vector::Vector;
use crate::elementary::{exp, ln, multiply_add, polynomial};

/// Number of components that are evaluated together.
pub(super) const LANES: usize = 8;

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

/// `p_n (1/2)_(2n)`, highest n first: `B(A, 1/2) = sqrt(pi / N)` times this series in `1 / N^2`.
const BETA_SERIES: [f64; TERMS] = {
    let mut series = [0.0; TERMS];
    let mut n = 0;
    while n < TERMS {
        series[TERMS - 1 - n] = SINH_SERIES[n] * rising_half(2 * n);
        n += 1;
    }
    series
};
/// `p_n (1/2)_(2n) / (1/2)_(m+1)` for `2n > m`, highest n first. From `Gamma(s + 1, z) = s Gamma(s, z) + z^s exp(-z)`,
/// `Gamma(2n + 1/2, z) = (1/2)_(2n) (sqrt(pi) erfc(sqrt(z)) + sqrt(z) exp(-z) sum_(m < 2n) z^m / (1/2)_(m+1))`.
const GAMMA_SERIES: [[f64; TERMS]; GAMMA_COEFFICIENTS] = {
    let mut series = [[0.0; TERMS]; GAMMA_COEFFICIENTS];
    let mut m = 0;
    while m < GAMMA_COEFFICIENTS {
        let mut n = m / 2 + 1;
        while n < TERMS {
            series[m][TERMS - 1 - n] = BETA_SERIES[TERMS - 1 - n] / rising_half(m + 1);
            n += 1;
        }
        m += 1;
    }
    series
};

/// `(1 + 2 v) erfcx(v)`, where `erfcx(v) = exp(v^2) erfc(v)`, as a polynomial in
/// `(v - 4) / (v + 4)`, highest power first: the truncated Chebyshev series, relative error below 8e-16 for `v >= 0`.
const SCALED_ERFC: [f64; SCALED_ERFC_TERMS] = [
    1.5738283774192037e-09,
    -6.9926126813398e-09,
    -1.6371779763566967e-08,
    9.295292277973951e-08,
    7.115337800585303e-08,
    -8.020193766522085e-07,
    2.9801353803031333e-07,
    5.689537732302816e-06,
    -1.1225101875659178e-05,
    -2.438779085759055e-05,
    0.00015062309720018628,
    -0.00019926095315041177,
    -0.000757773707063825,
    0.005031971002298884,
    -0.016197733981455194,
    0.03716751538635946,
    -0.06633036582031154,
    0.09373283501077742,
    -0.10103906603586531,
    0.06809705425421975,
    0.015379652102610473,
    -0.1396211168405572,
    1.2329951186255526,
];

const SCALED_ERFC_TERMS: usize = 23;

/// Beyond this standardised distance the tail is below 1e-299 for every degree of freedom; squares stay finite.
const FARTHEST: f64 = 1e150;
/// Beyond this `N u` the exponential is zero; powers up to the eleventh stay finite.
const FARTHEST_ORDER: f64 = 1e4;

/// The rising factorial `(1/2)_n`.
const fn rising_half(n: usize) -> f64 {
    let mut product = 1.0;
    let mut k = 0;
    while k < n {
        product *= k as f64 + 0.5;
        k += 1;
    }
    product
}

/// One component of a mixture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Component {
    pub(super) weight: f64,
    pub(super) degrees_of_freedom: f64,
    pub(super) location: f64,
    pub(super) scale: f64,
}

/// Eight components with everything that does not depend on the point; unused lanes have weight 0.
#[derive(Debug, Clone)]
pub(super) struct Components {
    pub(super) weight: [f64; LANES],
    pub(super) degrees_of_freedom: [f64; LANES],
    pub(super) location: [f64; LANES],
    pub(super) scale: [f64; LANES],
    /// Density of the component at its location.
    peak: [f64; LANES],
    /// `1 / ((a + j) B(a + j, 1/2))`, the terms of the recurrence.
    recurrence: [[f64; LANES]; SHIFT],
    /// Coefficients of `(N u)^m` beside `sqrt(N u) exp(-N u)`.
    gamma: [[f64; LANES]; GAMMA_COEFFICIENTS],
}

/// What eight components are at one point, each by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values {
    /// P[X <= point].
    pub(super) lower: [f64; LANES],
    /// P[X > point], not computed as `1 - lower`.
    pub(super) upper: [f64; LANES],
    pub(super) density: [f64; LANES],
    /// Derivative of the density.
    pub(super) slope: [f64; LANES],
    /// How fast density and slope change: a bound on their relative change per unit of length.
    pub(super) rate: [f64; LANES],
}

impl Components {
    const UNUSED: Self = Self {
        weight: [0.0; LANES],
        degrees_of_freedom: [2.0; LANES],
        location: [0.0; LANES],
        scale: [1.0; LANES],
        peak: [0.0; LANES],
        recurrence: [[0.0; LANES]; SHIFT],
        gamma: [[0.0; LANES]; GAMMA_COEFFICIENTS],
    };

    /// Up to eight components, without what follows from them.
    pub(super) fn of(components: &[Component]) -> Self {
        let mut block = Self::UNUSED;
        for (lane, component) in components.iter().enumerate() {
            block.weight[lane] = component.weight;
            block.degrees_of_freedom[lane] = component.degrees_of_freedom;
            block.location[lane] = component.location;
            block.scale[lane] = component.scale;
        }
        block
    }

    /// Fills in what follows from degrees of freedom and scales.
    #[inline(always)]
    pub(super) fn prepare<V: Vector>(&mut self) {
        for lane in 0..LANES {
            let nu = self.degrees_of_freedom[lane];
            let a = 0.5 * nu;
            let order = a + (SHIFT as f64 - 0.25);
            let inverse_square = 1.0 / (order * order);
            let sum = polynomial::<V, TERMS>(&BETA_SERIES, inverse_square);
            let normalisation = 1.0 / (std::f64::consts::PI.sqrt() * sum);
            for (coefficient, series) in self.gamma.iter_mut().zip(&GAMMA_SERIES) {
                coefficient[lane] = normalisation * polynomial::<V, TERMS>(series, inverse_square);
            }
            let mut inverse_beta = order.sqrt() * normalisation;
            for j in 0..SHIFT {
                inverse_beta *= (a + j as f64) / (a + (j as f64 + 0.5));
            }
            let mut term = inverse_beta / a;
            for (j, coefficient) in self.recurrence.iter_mut().enumerate() {
                coefficient[lane] = term;
                term *= (a + (j as f64 + 0.5)) / (a + (j as f64 + 1.0));
            }
            self.peak[lane] = inverse_beta / (nu.sqrt() * self.scale[lane]);
        }
    }

    /// Values at a finite point.
    #[inline(always)]
    pub(super) fn evaluate<V: Vector>(&self, point: f64) -> Values {
        let mut values = Values::default();
        for lane in 0..LANES {
            let (nu, scale) = (self.degrees_of_freedom[lane], self.scale[lane]);
            let t = ((point - self.location[lane]) / scale).clamp(-FARTHEST, FARTHEST);
            let ratio = t * t / nu;
            let stretch = 1.0 + ratio;
            let x = 1.0 / stretch;
            let root = stretch.sqrt();
            // ln(1 + ratio): the rounding error of the sum is known and corrects the logarithm.
            let u = multiply_add::<V>(ratio - (stretch - 1.0), x, ln::<V>(stretch));
            let power = exp::<V>(-0.5 * nu * u);
            let mut series = self.recurrence[SHIFT - 1][lane];
            for j in (0..SHIFT - 1).rev() {
                series = multiply_add::<V>(series, x, self.recurrence[j][lane]);
            }
            let z = ((0.5 * nu + (SHIFT as f64 - 0.25)) * u).min(FARTHEST_ORDER);
            let v = z.sqrt();
            let mut elementary = self.gamma[GAMMA_COEFFICIENTS - 1][lane];
            for m in (0..GAMMA_COEFFICIENTS - 1).rev() {
                elementary = multiply_add::<V>(elementary, z, self.gamma[m][lane]);
            }
            let position = (v - 4.0) / (v + 4.0);
            let scaled_erfc = polynomial::<V, SCALED_ERFC_TERMS>(&SCALED_ERFC, position) / (1.0 + 2.0 * v);
            let x4 = x * x * (x * x);
            let x16 = x4 * x4 * (x4 * x4);
            let remainder = x16 * root.sqrt() * multiply_add::<V>(v, elementary, scaled_erfc);
            let sine = (ratio * x).sqrt();
            let tail = 0.5 * power * multiply_add::<V>(sine, series, remainder);
            let density = self.peak[lane] * power / root;
            let pull = (nu + 1.0) / nu * x / scale;
            let before = t < 0.0;
            values.lower[lane] = if before { tail } else { 1.0 - tail };
            values.upper[lane] = if before { 1.0 - tail } else { tail };
            values.density[lane] = density;
            values.slope[lane] = -density * (t * pull);
            values.rate[lane] = t.abs() * pull + 2.0 * root * x / scale;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_that_of_the_hyperbolic_sine() {
        // The next term is 2.05e-12 s^14.
        for (s, limit) in [(1.0f64, 2.1e-12), (0.5, 3e-16)] {
            let series = SINH_SERIES.iter().rev().fold(0.0, |sum, coefficient| sum * s * s + coefficient);
            let exact = (2.0 * (s / 2.0).sinh() / s).powf(-0.5);
            assert!((series - exact).abs() < limit, "{s}: {series} {exact}");
        }
    }
}
