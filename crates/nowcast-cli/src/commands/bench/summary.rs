//! What a list of times says.

/// Median, 99% quantile and standard deviation of the timed runs.
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) sigma: f64,
}

impl Summary {
    pub(super) fn of(runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |level: f64| sorted[((sorted.len() - 1) as f64 * level).round() as usize];
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / runs.len() as f64;
        Self { median: at(0.5), p99: at(0.99), sigma: variance.sqrt() }
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        format!("median {:.3} ms, 99% {:.3} ms, sigma {:.3} ms", self.median, self.p99, self.sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_known_times() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!((summary.median, summary.p99), (3.0, 5.0));
        assert!((summary.sigma - 2f64.sqrt()).abs() < 1e-12);
    }
}
