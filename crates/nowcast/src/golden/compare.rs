//! How one tensor is compared.

use super::Check;

/// Least limit, in units of the tensor's largest value.
const LEAST_RELATIVE_LIMIT: f64 = 1e-6;

/// Our limit in units of the reference's own error.
const REFERENCE_FACTOR: f64 = 2.0;

/// Rounding errors of one tensor lie closer together than this; a larger gap is a changed digit.
const SPREAD: f64 = 10.0;

/// Monte Carlo standard errors within which sampled quantities must agree, but for a share of [`MOST_BEYOND`].
const MOST_STANDARD_ERRORS: f64 = 4.0;

/// Sixteen times the share that chance puts beyond 4 standard errors: neighbouring steps and levels move together.
const MOST_BEYOND: f64 = 1e-3;

/// A stored output in both precisions.
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    pub(super) single: &'a [f64],
    pub(super) double: &'a [f64],
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "compared tensors have one shape");
    // Not `f64::max`, which would lose a NaN.
    a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| {
        let difference = (a - b).abs();
        if difference.is_nan() || difference > worst { difference } else { worst }
    })
}

pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// The reference's own largest error. A single value far off all others is a changed digit, not an error, and must not
/// widen its own limit: it counts as [`SPREAD`] times the next one.
fn reference_error(stored: &Stored<'_>) -> f64 {
    let (mut largest, mut next) = (0.0f64, 0.0f64);
    for (single, double) in stored.single.iter().zip(stored.double) {
        let error = (single - double).abs();
        (largest, next) = if error > largest { (error, largest) } else { (largest, next.max(error)) };
    }
    if stored.double.len() > 1 { largest.min(SPREAD * next) } else { largest }
}

/// Against f64, limited by the reference's own f32 error; and against f32, where both may be off.
pub(super) fn against_double(stored: &Stored<'_>, ours: &[f64]) -> Check {
    let error = largest_difference(ours, stored.double);
    let reference = reference_error(stored);
    let limit = (REFERENCE_FACTOR * reference).max(LEAST_RELATIVE_LIMIT * largest(stored.double));
    let mut check = Check::new(stored.name, error, Some(reference), limit);
    check.largest = Some(largest(stored.double));
    check.pass &= largest_difference(ours, stored.single) <= limit + reference;
    check
}

/// Against f32 where no f64 values are stored: both sides may be off. `bound` is what a tensor further down the same
/// computation may be off by.
pub(super) fn against_single(name: &str, ours: &[f64], single: &[f64], bound: f64) -> Check {
    let error = largest_difference(ours, single);
    Check::new(format!("{name} (f32)"), error, None, bound.max(LEAST_RELATIVE_LIMIT * largest(single)))
}

/// How far two f32 computations of a tensor may be apart.
pub(super) fn mutual_bound(check: &Check) -> f64 {
    check.limit + check.reference_error.unwrap_or(0.0)
}

/// Quantiles of samples against the reference's, by rank: the share of our samples below its quantile must be the
/// level, within the binomial noise of both sides. The error is in standard errors.
pub(super) struct SampledQuantile<'a> {
    pub(super) level: f64,
    pub(super) reference: f64,
    pub(super) reference_samples: usize,
    /// Ascending.
    pub(super) samples: &'a [f32],
}

impl SampledQuantile<'_> {
    pub(super) fn standard_errors(&self) -> f64 {
        let count = self.samples.len();
        let below = self.samples.partition_point(|&sample| f64::from(sample) <= self.reference);
        let share = below as f64 / count as f64;
        let variance = self.level * (1.0 - self.level) * (1.0 / count as f64 + 1.0 / self.reference_samples as f64);
        (share - self.level).abs() / variance.sqrt()
    }
}

/// Two checks of many sampled quantities: few lie beyond [`MOST_STANDARD_ERRORS`], and none beyond what chance explains.
///
/// Thousands of honest comparisons exceed 4 standard errors somewhere, so the largest is held to the bound that all of
/// them together keep with the probability with which one keeps 4.
pub(super) fn sampled(name: &str, standard_errors: &[f64]) -> [Check; 2] {
    // Not `f64::max`, which would lose a NaN.
    let larger = |worst: f64, &error: &f64| if error.is_nan() || error > worst { error } else { worst };
    let worst = standard_errors.iter().fold(0.0, larger);
    let beyond = standard_errors.iter().filter(|error| **error > MOST_STANDARD_ERRORS).count();
    let share = beyond as f64 / standard_errors.len().max(1) as f64;
    [
        Check::new(format!("{name} (share beyond {MOST_STANDARD_ERRORS} standard errors)"), share, None, MOST_BEYOND),
        Check::new(format!("{name} (standard errors)"), worst, None, family_bound(standard_errors.len())),
    ]
}

/// The bound that `count` standard normal numbers keep together as surely as one of them keeps 4.
fn family_bound(count: usize) -> f64 {
    // Two-sided tail, the asymptotic series: off by less than half a percent from 4 on.
    let tail = |z: f64| (2.0 / std::f64::consts::PI).sqrt() / z * (1.0 - 1.0 / (z * z)) * (-z * z / 2.0).exp();
    let (mut low, mut high) = (MOST_STANDARD_ERRORS, 10.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if count as f64 * tail(middle) > tail(MOST_STANDARD_ERRORS) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_above_twice_the_reference_fails() {
        let stored = Stored { name: "x", single: &[1.0001, 2.0001], double: &[1.0, 2.0] };
        assert!(against_double(&stored, &[1.0, 2.00019]).pass);
        assert!(!against_double(&stored, &[1.0, 2.00021]).pass);
    }

    #[test]
    fn a_wrong_stored_value_does_not_excuse_itself() {
        let stored = Stored { name: "x", single: &[1.0001, 2.0001, 3.0], double: &[1.0, 2.0, 3.3] };
        let check = against_double(&stored, &[1.0, 2.0, 3.0]);
        assert!(!check.pass && (check.error - 0.3).abs() < 1e-12 && (check.limit - 2e-3).abs() < 1e-9);
    }

    #[test]
    fn nan_never_passes() {
        let stored = Stored { name: "x", single: &[1.0, 2.0], double: &[1.0, 2.0] };
        assert!(!against_double(&stored, &[f64::NAN, 2.0]).pass);
        let zeros = Stored { name: "x", single: &[0.0, 0.0], double: &[0.0, 0.0] };
        assert!(against_double(&zeros, &[0.0, 0.0]).pass && !against_double(&zeros, &[0.0, 1e-30]).pass);
        assert!(!sampled("q", &[1.0, f64::NAN, 2.0])[1].pass);
    }

    #[test]
    fn one_comparison_is_held_to_four_standard_errors_and_thousands_to_little_more() {
        assert!((family_bound(1) - 4.0).abs() < 1e-9);
        // 1 - (1 - 6.334e-5)^(1/4160) leaves 1.5226e-8 on both sides.
        assert!((family_bound(4160) - 5.66).abs() < 0.01, "{}", family_bound(4160));
        let mut errors = vec![1.0; 4160];
        errors[7] = 4.2;
        assert!(sampled("q", &errors).iter().all(|check| check.pass));
        errors[8] = 5.8;
        assert!(!sampled("q", &errors)[1].pass);
        assert!(!sampled("q", &[4.1; 10])[0].pass);
    }

    #[test]
    fn a_shifted_quantile_is_many_standard_errors_away() {
        let samples: Vec<f32> = (0..10_000).map(|i| i as f32).collect();
        let at = |reference| SampledQuantile { level: 0.5, reference, reference_samples: 10_000, samples: &samples };
        assert!(at(5_000.0).standard_errors() < 0.1);
        assert!(at(5_500.0).standard_errors() > 4.0);
    }
}
