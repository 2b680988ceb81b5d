//! Means, variances and what lies between two quantiles.

use super::*;

/// The integral of `f` from minus infinity to `end`, by the double exponential rule; exact to about 1e-13 for
/// integrands that are smooth over lengths of one and decay like a power.
fn integral(f: impl Fn(f64) -> f64, end: f64) -> f64 {
    let step = 1.0 / 256.0;
    let term = |index: i32| {
        let s = f64::from(index) * step;
        let distance = (std::f64::consts::FRAC_PI_2 * s.sinh()).exp();
        f(end - distance) * distance * std::f64::consts::FRAC_PI_2 * s.cosh()
    };
    (-1100..=1100).map(term).sum::<f64>() * step
}

fn mixture() -> Mixture {
    Mixture::new(vec![0.3, 0.5, 0.2], vec![4.5, 9.0, 100.0], vec![-2.0, 0.5, 3.0], vec![0.7, 1.0, 1.5]).unwrap()
}

#[test]
fn mean_and_variance_are_integrals() {
    let mixture = mixture();
    assert!((mixture.mean() - 0.25).abs() < 1e-15);
    let second = |x: f64| (x - 0.25).powi(2);
    let both = |x: f64| second(x) * mixture.density(x);
    let numeric = integral(both, 0.0) + integral(|x| both(-x), 0.0);
    // Truncation: beyond exp(60) nothing of a tail of order x^-3.5 is left.
    assert!((mixture.variance() / numeric - 1.0).abs() < 1e-12, "{} {numeric}", mixture.variance());
}

#[test]
fn the_variance_of_two_degrees_of_freedom_is_infinite() {
    assert_eq!(single(2.0, 0.0, 1.0).variance(), f64::INFINITY);
    assert!((single(2.5, 7.0, 2.0).variance() - 20.0).abs() < 1e-12);
    let weightless = Mixture::new(vec![1.0, 0.0], vec![4.0, 2.0], vec![0.0, 9.0], vec![1.0, 1.0]).unwrap();
    assert_eq!(weightless.variance(), 2.0);
}

#[test]
fn partial_expectations_are_integrals() {
    let mixture = mixture();
    for x in [-20.0, -3.0, 0.0, 0.4, 2.0, 15.0] {
        let numeric = integral(|u| u * mixture.density(u), x);
        assert!((mixture.partial_expectation(x) - numeric).abs() < 1e-12, "{x} {numeric}");
    }
    assert_eq!(mixture.partial_expectation(f64::NEG_INFINITY), 0.0);
    assert_eq!(mixture.partial_expectation(f64::INFINITY), mixture.mean());
}

#[test]
fn means_between_quantiles_are_means_of_quantiles() {
    let mixture = mixture();
    for (low, high) in [(0.1, 0.9), (0.25, 0.75), (0.05, 0.3), (0.6, 0.61)] {
        // The midpoint rule; its error is (high - low)^2 / (24 n^2) times the second derivative of the quantile,
        // which is below 400 between 0.05 and 0.95 here.
        let count = 4000;
        let levels: Vec<f64> =
            (0..count).map(|i| low + (high - low) * (f64::from(i) + 0.5) / f64::from(count)).collect();
        let numeric = mixture.quantiles(&levels).iter().sum::<f64>() / f64::from(count);
        let limit = 400.0 * (high - low).powi(2) / (24.0 * f64::from(count).powi(2));
        let ours = mixture.mean_between(low, high);
        assert!((ours - numeric).abs() < limit + 1e-14, "{low} {high}: {ours} {numeric}");
    }
}

#[test]
fn means_between_the_ends() {
    let mixture = mixture();
    assert_eq!(mixture.mean_between(0.0, 1.0), mixture.mean());
    // The two halves make the whole.
    let halves = 0.5 * (mixture.mean_between(0.0, 0.5) + mixture.mean_between(0.5, 1.0));
    assert!((halves - mixture.mean()).abs() < 1e-14);
    for (low, high) in [(0.5, 0.5), (0.9, 0.1), (-0.1, 0.5), (0.5, 1.1), (f64::NAN, 0.5)] {
        assert!(mixture.mean_between(low, high).is_nan());
    }
}

#[test]
fn symmetric_trimming_of_one_component_is_its_location_even_far_from_zero() {
    for offset in [0.0, 1e5, -1e9] {
        for nu in [2.0, 3.0, 1e5] {
            let trimmed = single(nu, offset, 0.1).mean_between(0.1, 0.9);
            // Quantiles are rounded to the spacing of numbers at the offset.
            assert!((trimmed - offset).abs() <= 1e-14 + 2.0 * offset.abs() * f64::EPSILON, "{offset} {nu} {trimmed}");
        }
    }
}
