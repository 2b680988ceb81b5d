//! What a point rule may ask of the distribution of one step.

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
