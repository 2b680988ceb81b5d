//! Roots of the distribution function.

use super::*;

const LEVELS: [f64; 15] =
    [1e-6, 1e-4, 0.01, 0.05, 0.1, 0.25, 0.4999, 0.5, 0.5001, 0.75, 0.9, 0.95, 0.99, 1.0 - 1e-4, 1.0 - 1e-6];

/// Mixtures that defeat plain Newton steps.
fn hard() -> Vec<Mixture> {
    let new = |weights: &[f64], nu: &[f64], locations: &[f64], scales: &[f64]| {
        Mixture::new(weights.to_vec(), nu.to_vec(), locations.to_vec(), scales.to_vec()).unwrap()
    };
    vec![
        single(2.0, 0.0, 1.0),
        single(2.0 + 1e-7, 5.0, 1e-3),
        single(1e6, -1e6, 1e-4),
        single(1e38, 0.0, 1e-30),
        // Far apart: the distribution function is flat between.
        new(&[0.502, 0.498], &[1e6, 1e6], &[-1e6, 1e6], &[1.0, 1.0]),
        new(&[0.3, 0.7], &[3.0, 3.0], &[-1e3, 1e3], &[1e-3, 1e-3]),
        // A step inside a wide distribution.
        new(&[0.5, 0.5], &[2.5, 3.0], &[0.0, 10.0], &[1e-6, 1e6]),
        new(&[0.1, 0.2, 0.7], &[1e6, 1e6, 2.0], &[1.0, 1.0 + 1e-7, -3.0], &[1e-9, 1e-8, 1e3]),
        // A rare component rules one tail.
        new(&[1.0, 1e-5], &[1e6, 2.0], &[0.0, 50.0], &[1.0, 100.0]),
        // Unequal tails, and one component without weight.
        new(&[0.9, 0.0, 0.1], &[2.0, 2.0, 1e5], &[0.0, 1e9, 3.0], &[0.01, 1e-9, 10.0]),
    ]
}

/// Plain bisection.
fn bisection(mixture: &Mixture, level: f64) -> f64 {
    let above = |x: f64| if level < 0.5 { mixture.cdf(x) > level } else { mixture.survival(x) < 1.0 - level };
    let (mut low, mut high) = (-1e15, 1e15);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if above(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
}

fn check(mixture: &Mixture) {
    let quantiles = mixture.quantiles(&LEVELS);
    for (&level, &x) in LEVELS.iter().zip(&quantiles) {
        let tail = level.min(1.0 - level);
        let reached = if level < 0.5 { mixture.cdf(x) } else { mixture.survival(x) };
        let spacing = x.next_up() - x.next_down();
        // The requirement is 1e-12 of the local scale, tail / density; numbers have their own spacing.
        let limit = 1e-12 * tail + mixture.density(x) * spacing;
        assert!((reached - tail).abs() <= limit, "{level}: {x} {reached} {}", mixture.mean());
        let twin = bisection(mixture, level);
        let density = mixture.density(x).min(mixture.density(twin));
        assert!((x - twin).abs() * density <= limit, "{level}: {x} {twin} {}", mixture.mean());
    }
    assert!(quantiles.is_sorted());
}

#[test]
fn ordinary_mixtures() {
    for index in 0..300 {
        check(&random(index));
    }
}

#[test]
fn hard_mixtures() {
    for mixture in hard() {
        check(&mixture);
    }
}

#[test]
fn a_level_on_a_plateau_is_anywhere_on_it() {
    let mixture = Mixture::new(vec![1.0; 2], vec![1e6; 2], vec![-1e6, 1e6], vec![1.0; 2]).unwrap();
    for levels in [&[0.5][..], &[0.1, 0.5], &[0.9, 0.5]] {
        let x = *mixture.quantiles(levels).last().unwrap();
        assert!((mixture.cdf(x) - 0.5).abs() <= 1e-14 && x.abs() < 1e6, "{x}");
    }
}

#[test]
fn closed_forms() {
    for level in [1e-6f64, 0.2, 0.5, 0.9, 1.0 - 1e-6] {
        // With two degrees of freedom t = (2 p - 1) / sqrt(2 p (1 - p)).
        let exact = (2.0 * level - 1.0) / (2.0 * level * (1.0 - level)).sqrt();
        let ours = single(2.0, 3.0, 0.5).quantile(level);
        assert!((ours - (3.0 + 0.5 * exact)).abs() <= 1e-12 * exact.abs().max(1.0), "{level}: {ours}");
    }
}

#[test]
fn any_order_and_any_level() {
    let mixture = random(11);
    let levels = [0.9, f64::NAN, 0.1, 1.0, 0.5, 0.5, 0.0, -0.1, 1.1];
    let quantiles = mixture.quantiles(&levels);
    let ordered = mixture.quantiles(&[0.1, 0.5, 0.9]);
    let close = |x: f64, y: f64| (x - y).abs() * mixture.density(y) <= 1e-13;
    assert!(close(quantiles[0], ordered[2]) && close(quantiles[2], ordered[0]) && close(quantiles[4], ordered[1]));
    assert!(close(quantiles[5], quantiles[4]));
    assert_eq!([quantiles[3], quantiles[6]], [f64::INFINITY, f64::NEG_INFINITY]);
    assert!(quantiles[1].is_nan() && quantiles[7].is_nan() && quantiles[8].is_nan());
    assert!(mixture.quantiles(&[]).is_empty());
    // The smallest levels a number can name stay finite.
    assert!(mixture.quantile(f64::MIN_POSITIVE).is_finite() && mixture.quantile(1.0 - f64::EPSILON).is_finite());
}

#[test]
fn few_evaluations_are_needed() {
    let usual = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
    let steps: usize = (0..200).map(|index| quantile::evaluations(&random(index), &usual)).sum();
    let average = steps as f64 / (200.0 * usual.len() as f64);
    assert!(average < 5.0, "{average} evaluations for each quantile");
    for mixture in hard() {
        let steps = quantile::evaluations(&mixture, &LEVELS);
        assert!(steps < 60 * LEVELS.len(), "{steps}");
    }
}
