//! What a point rule may ask of the distribution of one step.

use nowcast_engine::student_t::Mixture;

/// The distribution of one variate at one future step, in real units.
pub(super) trait StepDistribution {
    /// The mean.
    fn mean(&self) -> f64;
    /// The standard deviation.
    fn std(&self) -> f64;
    /// The quantile at a level in (0, 1).
    fn quantile(&self, level: f64) -> f64;
    /// The mean without the share `lower` of the smallest and the share `upper` of the largest values; `lower + upper < 1`.
    fn trimmed_mean(&self, lower: f64, upper: f64) -> f64;
}

/// The samples of one step in ascending order; never empty.
pub(super) struct SortedSamples<'a>(pub(super) &'a [f32]);

impl StepDistribution for SortedSamples<'_> {
    fn mean(&self) -> f64 {
        self.0.iter().copied().map(f64::from).sum::<f64>() / self.0.len() as f64
    }

    /// The unbiased one, with divisor `n - 1`, as `torch.std` and hence the reference's `Forecast.std`.
    fn std(&self) -> f64 {
        let mean = self.mean();
        let squares = self.0.iter().map(|&sample| (f64::from(sample) - mean).powi(2)).sum::<f64>();
        (squares / (self.0.len() as f64 - 1.0)).sqrt()
    }

    /// Interpolates linearly at position `level (n - 1)`, as `torch.quantile` and `numpy.quantile` do by default.
    fn quantile(&self, level: f64) -> f64 {
        let position = level * (self.0.len() - 1) as f64;
        let below = position.floor();
        let weight = position - below;
        let low = f64::from(self.0[below as usize]);
        let high = f64::from(self.0[(below as usize + 1).min(self.0.len() - 1)]);
        // From the nearer end, as numpy and torch: exact at both ends.
        if weight < 0.5 { low + weight * (high - low) } else { high - (1.0 - weight) * (high - low) }
    }

    fn trimmed_mean(&self, lower: f64, upper: f64) -> f64 {
        let count = self.0.len();
        let dropped = |share: f64| (share * count as f64) as usize;
        SortedSamples(&self.0[dropped(lower)..count - dropped(upper)]).mean()
    }
}

impl StepDistribution for Mixture {
    fn mean(&self) -> f64 {
        self.mean()
    }

    fn std(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Each level is solved by itself, so that its digits do not depend on the levels asked for beside it.
    fn quantile(&self, level: f64) -> f64 {
        self.quantile(level)
    }

    fn trimmed_mean(&self, lower: f64, upper: f64) -> f64 {
        self.mean_between(lower, 1.0 - upper)
    }
}

/// A step of which the mean alone is known; it stands in for every central value.
pub(super) struct PointMass(pub(super) f64);

impl StepDistribution for PointMass {
    fn mean(&self) -> f64 {
        self.0
    }

    fn std(&self) -> f64 {
        0.0
    }

    fn quantile(&self, _level: f64) -> f64 {
        self.0
    }

    fn trimmed_mean(&self, _lower: f64, _upper: f64) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_interpolate_as_numpy() {
        // numpy.quantile([1, 2, 4, 8], [0.1, 0.25, 0.5, 0.9]) = [1.3, 1.75, 3.0, 6.8]
        let samples = SortedSamples(&[1.0, 2.0, 4.0, 8.0]);
        for (level, expected) in [(0.1, 1.3), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8)] {
            assert!((samples.quantile(level) - expected).abs() <= 4.0 * f64::EPSILON * expected, "{level}");
        }
        assert_eq!(SortedSamples(&[7.0]).quantile(0.9), 7.0);
    }

    #[test]
    fn standard_deviation_is_unbiased() {
        // Squared distances from the mean 4 sum to 30; divided by 3 they give 10.
        assert_eq!(SortedSamples(&[1.0, 2.0, 5.0, 8.0]).std(), 10f64.sqrt());
    }

    #[test]
    fn trimming_drops_whole_samples_only() {
        let samples: Vec<f32> = (0..9).map(|k| (k * k) as f32).collect();
        let samples = SortedSamples(&samples);
        // floor(0.2 * 9) = 1, floor(0.3 * 9) = 2
        assert_eq!(samples.trimmed_mean(0.2, 0.2), (1..8).map(|k| (k * k) as f64).sum::<f64>() / 7.0);
        assert_eq!(samples.trimmed_mean(0.3, 0.0), (2..9).map(|k| (k * k) as f64).sum::<f64>() / 7.0);
        assert_eq!(samples.trimmed_mean(0.0, 0.3), (0..7).map(|k| (k * k) as f64).sum::<f64>() / 7.0);
        assert_eq!(samples.trimmed_mean(0.1, 0.1), samples.mean());
    }

    /// The share of values at most `value`, counted by a plain loop.
    fn share_up_to(samples: &[f32], value: f64) -> f64 {
        samples.iter().filter(|&&sample| f64::from(sample) <= value).count() as f64 / samples.len() as f64
    }

    proptest! {
        #[test]
        fn quantiles_are_monotone_and_within_the_samples(
            mut samples in prop::collection::vec(-1e30f32..1e30, 1..200),
            mut levels in prop::collection::vec(f64::EPSILON..1.0, 2..20),
        ) {
            samples.sort_by(f32::total_cmp);
            levels.sort_by(f64::total_cmp);
            let sorted = SortedSamples(&samples);
            let quantiles: Vec<f64> = levels.iter().map(|&level| sorted.quantile(level)).collect();
            prop_assert!(quantiles.is_sorted());
            prop_assert!(quantiles[0] >= f64::from(samples[0]));
            prop_assert!(quantiles[levels.len() - 1] <= f64::from(samples[samples.len() - 1]));
            for (&level, &quantile) in levels.iter().zip(&quantiles) {
                // At position level (n - 1), the samples up to and including that position lie at or below the quantile.
                let at_least = ((level * (samples.len() - 1) as f64).floor() + 1.0) / samples.len() as f64;
                prop_assert!(share_up_to(&samples, quantile) >= at_least);
            }
        }

        #[test]
        fn trimming_keeps_at_least_one_sample(count in 1usize..300, share in 0.0..1.0) {
            let samples: Vec<f32> = (0..count).map(|k| k as f32).collect();
            let largest = 1.0 - f64::EPSILON / 2.0;
            for share in [share, largest] {
                prop_assert!(SortedSamples(&samples).trimmed_mean(share, 0.0).is_finite());
                prop_assert!(SortedSamples(&samples).trimmed_mean(0.0, share).is_finite());
                prop_assert!(SortedSamples(&samples).trimmed_mean(share / 2.0, share / 2.0).is_finite());
            }
        }
    }
}
