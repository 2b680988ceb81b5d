//! How good a forecast was: errors, quantile loss and coverage over arrays, all in f64.
//!
//! Arrays are `[points]`: steps of one window, or of many windows one after the other. A point whose actual value is
//! missing (NaN) is left out; a forecast that is NaN makes the result NaN, never better. `None` says that nothing can
//! be measured: no point is left, or what it would be divided by is zero.
//!
//! Sources: MASE is that of Hyndman and Koehler (2006), "Another look at measures of forecast accuracy"; WQL is the mean
//! weighted quantile loss of GluonTS, which approaches the CRPS over the mean absolute level as the quantile levels
//! become dense.

/// Points whose actual value is there, each with its forecast.
///
/// # Panics
/// If the arrays differ in length.
fn present<'a>(actual: &'a [f64], forecast: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    assert_eq!(actual.len(), forecast.len(), "one forecast for each point");
    actual.iter().copied().zip(forecast.iter().copied()).filter(|(actual, _)| !actual.is_nan())
}

/// The mean of some numbers; `None` without any.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Mean absolute error of a point forecast, in the units of the series.
///
/// # Panics
/// If the arrays differ in length.
pub fn mae(actual: &[f64], forecast: &[f64]) -> Option<f64> {
    mean(present(actual, forecast).map(|(actual, forecast)| (actual - forecast).abs()))
}

/// Root of the mean squared error of a point forecast, in the units of the series.
///
/// # Panics
/// If the arrays differ in length.
pub fn rmse(actual: &[f64], forecast: &[f64]) -> Option<f64> {
    mean(present(actual, forecast).map(|(actual, forecast)| (actual - forecast).powi(2))).map(f64::sqrt)
}

/// Mean absolute error over `scale`, the [`seasonal_naive_error`] of the history: below 1 is better than repeating the
/// season was in sample.
///
/// # Panics
/// If the arrays differ in length.
pub fn mase(actual: &[f64], forecast: &[f64], scale: f64) -> Option<f64> {
    mae(actual, forecast).filter(|_| scale > 0.0).map(|error| error / scale)
}

/// Mean absolute difference between a history's values and those `season` steps before: what MASE divides by. Pairs with
/// a missing value are left out; `season` 1 is the naive forecast.
pub fn seasonal_naive_error(history: &[f64], season: usize) -> Option<f64> {
    let pairs = history.get(season..)?.iter().zip(history);
    mean(pairs.map(|(later, earlier)| (later - earlier).abs()).filter(|difference| !difference.is_nan()))
}

/// Forecasts of one quantile level, `[points]`.
#[derive(Debug, Clone, Copy)]
pub struct QuantileForecast<'a> {
    /// The level, 0 to 1.
    pub level: f64,
    /// One value for each point.
    pub values: &'a [f64],
}

/// Mean weighted quantile loss: for each level, twice the sum of pinball losses over the sum of absolute actual values;
/// then the mean over levels. 0 is perfect.
///
/// # Panics
/// If the arrays differ in length.
pub fn wql(actual: &[f64], quantiles: &[QuantileForecast<'_>]) -> Option<f64> {
    let weight: f64 = actual.iter().filter(|actual| !actual.is_nan()).map(|actual| actual.abs()).sum();
    let of_level = |quantile: &QuantileForecast<'_>| -> f64 {
        let pinball = |(actual, forecast): (f64, f64)| {
            let below = if actual < forecast { 1.0 } else { 0.0 };
            (actual - forecast) * (quantile.level - below)
        };
        2.0 * present(actual, quantile.values).map(pinball).sum::<f64>() / weight
    };
    mean(quantiles.iter().map(of_level)).filter(|_| weight > 0.0)
}

/// Share of actual values inside their interval, both ends included, 0 to 1: of the interval between the quantiles 0.1
/// and 0.9 it should be 0.8.
///
/// # Panics
/// If the arrays differ in length.
pub fn coverage(actual: &[f64], low: &[f64], high: &[f64]) -> Option<f64> {
    assert!(actual.len() == low.len() && actual.len() == high.len(), "one interval for each point");
    let points = actual.iter().zip(low.iter().zip(high)).filter(|(actual, _)| !actual.is_nan());
    let inside = |(actual, (low, high)): (&f64, (&f64, &f64))| {
        if low.is_nan() || high.is_nan() { f64::NAN } else { f64::from(low <= actual && actual <= high) }
    };
    mean(points.map(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: f64 = f64::NAN;

    fn close(measured: Option<f64>, expected: f64) {
        let measured = measured.expect("it can be measured");
        // Sums of a few short numbers: some roundings of f64.
        assert!((measured - expected).abs() <= 8.0 * f64::EPSILON * expected.abs(), "{measured} {expected}");
    }

    #[test]
    fn errors_of_three_points_by_hand() {
        let (actual, forecast) = ([1.0, 2.0, 4.0], [2.0, 2.0, 1.0]);
        close(mae(&actual, &forecast), 4.0 / 3.0);
        close(rmse(&actual, &forecast), (10.0f64 / 3.0).sqrt());
        close(mase(&actual, &forecast, 2.0), 2.0 / 3.0);
    }

    #[test]
    fn missing_points_count_for_nothing_and_missing_forecasts_for_nan() {
        close(mae(&[1.0, MISSING, 5.0], &[2.0, 100.0, 5.0]), 0.5);
        close(rmse(&[1.0, MISSING], &[4.0, 100.0]), 3.0);
        close(coverage(&[1.0, MISSING], &[0.0, 0.0], &[2.0, 0.0]), 1.0);
        assert!(mae(&[1.0, 2.0], &[1.0, MISSING]).unwrap().is_nan());
        assert!(coverage(&[1.0], &[0.0], &[MISSING]).unwrap().is_nan());
        assert!(wql(&[1.0], &[QuantileForecast { level: 0.5, values: &[MISSING] }]).unwrap().is_nan());
    }

    #[test]
    fn nothing_is_measured_of_nothing() {
        assert_eq!((mae(&[], &[]), rmse(&[MISSING], &[1.0]), coverage(&[], &[], &[])), (None, None, None));
        assert_eq!((mase(&[1.0], &[1.0], 0.0), mase(&[1.0], &[1.0], MISSING)), (None, None));
        let median = [QuantileForecast { level: 0.5, values: &[1.0] }];
        assert_eq!((wql(&[0.0], &median), wql(&[1.0], &[])), (None, None));
        assert_eq!((seasonal_naive_error(&[1.0], 1), seasonal_naive_error(&[1.0, 2.0], 3)), (None, None));
    }

    #[test]
    fn the_scale_of_mase_is_the_mean_difference_over_a_season() {
        close(seasonal_naive_error(&[1.0, 3.0, 2.0, 6.0], 1), (2.0 + 1.0 + 4.0) / 3.0);
        close(seasonal_naive_error(&[1.0, 3.0, 2.0, 6.0], 2), (1.0 + 3.0) / 2.0);
        close(seasonal_naive_error(&[1.0, MISSING, 2.0, 6.0], 1), 4.0);
    }

    #[test]
    fn quantile_losses_weigh_both_sides_by_their_level() {
        // At 0.9 a value 1 above costs 0.9 and one 2 below costs 0.2; at 0.5 both cost half.
        let actual = [5.0, 3.0];
        let high = QuantileForecast { level: 0.9, values: &[4.0, 5.0] };
        let median = QuantileForecast { level: 0.5, values: &[4.0, 5.0] };
        close(wql(&actual, &[high]), 2.0 * (0.9 + 0.2) / 8.0);
        close(wql(&actual, &[median]), 2.0 * (0.5 + 1.0) / 8.0);
        close(wql(&actual, &[high, median]), (2.2 / 8.0 + 3.0 / 8.0) / 2.0);
        // Levels below zero count by their size.
        close(wql(&[-5.0, 3.0], &[QuantileForecast { level: 0.5, values: &[-5.0, 1.0] }]), 2.0 / 8.0);
    }

    #[test]
    fn coverage_counts_both_ends() {
        close(coverage(&[1.0, 2.0, 3.0, 4.0], &[1.0; 4], &[3.0; 4]), 0.75);
    }

    #[test]
    #[should_panic(expected = "one forecast for each point")]
    fn arrays_of_unequal_length_are_a_mistake() {
        let _ = mae(&[1.0, 2.0], &[1.0]);
    }
}
