//! From candles to the model's units and back, as `KronosPredictor.predict` does it.

/// Added to the standard deviation.
const EPSILON: f32 = 1e-5;

/// The affine map of one series, field by field: `value = normalised · (deviation + 1e-5) + location`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Units {
    /// Mean over the context.
    pub(crate) location: [f32; 6],
    /// Standard deviation over the context, of the population.
    pub(crate) deviation: [f32; 6],
}

impl Units {
    /// Statistics of a context, which must not be empty: f64 sums over f32 values, rounded to f32 (the reference sums
    /// pairwise in f32, about one unit in the last place away).
    pub(crate) fn of(candles: &[[f32; 6]]) -> Self {
        let count = candles.len() as f64;
        let location = sums(candles, |candle, field| f64::from(candle[field])).map(|sum| (sum / count) as f32);
        let square = |candle: &[f32; 6], field: usize| (f64::from(candle[field]) - f64::from(location[field])).powi(2);
        let deviation = sums(candles, square).map(|sum| (sum / count).sqrt() as f32);
        Self { location, deviation }
    }

    fn scale(&self, field: usize) -> f32 {
        self.deviation[field] + EPSILON
    }

    /// Candles in the model's units, clipped, in f32 as the reference computes them.
    pub(crate) fn normalise(&self, candles: &[[f32; 6]], clip: f32) -> Vec<[f32; 6]> {
        let field = |candle: &[f32; 6], field: usize| {
            ((candle[field] - self.location[field]) / self.scale(field)).clamp(-clip, clip)
        };
        candles.iter().map(|candle| std::array::from_fn(|index| field(candle, index))).collect()
    }

    /// A normalised value in real units.
    pub(crate) fn restore(&self, field: usize, value: f64) -> f64 {
        value * f64::from(self.scale(field)) + f64::from(self.location[field])
    }
}

/// The sums of something over all candles, for all fields at once.
fn sums(candles: &[[f32; 6]], of: impl Fn(&[f32; 6], usize) -> f64) -> [f64; 6] {
    let add = |sums: [f64; 6], candle| std::array::from_fn(|field| sums[field] + of(candle, field));
    // The sum of nothing, as the standard library has it: zeros keep their sign.
    candles.iter().fold([-0.0; 6], add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_field_becomes_zero_and_comes_back() {
        let candles = [[5.0, 5.0, 5.0, 5.0, 0.0, 0.0]; 9];
        let units = Units::of(&candles);
        assert_eq!(units.normalise(&candles, 5.0), [[0.0; 6]; 9]);
        assert_eq!((units.restore(0, 0.0), units.deviation[0]), (5.0, 0.0));
    }

    #[test]
    fn values_far_out_are_clipped() {
        let mut candles = vec![[0.0; 6]; 99];
        candles.push([1000.0; 6]);
        let units = Units::of(&candles);
        // The mean is 10, the deviation √(10⁶/100 − 100) = 99.5.
        assert!((units.deviation[3] - 99.49875).abs() < 1e-3);
        assert_eq!(units.normalise(&candles, 5.0)[99], [5.0; 6]);
        let free = f64::from(units.normalise(&candles, 50.0)[99][0]);
        assert!((units.restore(0, free) - 1000.0).abs() < 1e-3);
    }

    #[test]
    fn huge_volumes_have_finite_units() {
        let candles = [[1.0, 1.0, 1.0, 1.0, 3e38, 3e38], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]];
        let units = Units::of(&candles);
        assert!(units.deviation.iter().all(|deviation| deviation.is_finite()));
        assert!(units.normalise(&candles, 5.0).iter().flatten().all(|value| value.is_finite()));
    }
}
