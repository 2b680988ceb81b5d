//! The last windows of each symbol, held out, forecast and scored.

mod model;
mod symbol;

use nowcast::forecast::VariateForecast;
use nowcast::metrics::{QuantileForecast, coverage, mae, wql};
use nowcast::{Error, Result};

pub(super) use model::{Model, Paths};
pub(super) use symbol::{Inputs, Symbol, symbols};

/// Levels of the weighted quantile loss, as usual.
const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// What is held out, and how it is forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Study {
    /// Past steps of every window.
    pub(super) context: usize,
    /// Steps of every window that are held out.
    pub(super) horizon: usize,
    /// Windows of every symbol, one behind the other, the last at its end.
    pub(super) windows: usize,
}

/// How good the forecasts of a symbol were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scores {
    /// Mean absolute error of the median, in the units of the symbol.
    pub(super) mae: f64,
    /// The same in percent of the mean actual value.
    pub(super) mae_percent: f64,
    /// Mean weighted quantile loss over the nine deciles.
    pub(super) wql: f64,
    /// Share of actual values between the quantiles 0.1 and 0.9, 0 to 1.
    pub(super) coverage: f64,
}

impl Scores {
    /// Scores one forecast for each window, in order.
    pub(super) fn of(name: &str, actual: &[f64], forecasts: &[VariateForecast]) -> Result<Self> {
        let mut levels = vec![Vec::with_capacity(actual.len()); LEVELS.len()];
        for forecast in forecasts {
            for (level, values) in levels.iter_mut().zip(forecast.quantiles(&LEVELS)?) {
                level.extend(values);
            }
        }
        let of_level = |(&level, values): (&f64, &Vec<f64>)| (level, values.clone());
        let named: Vec<(f64, Vec<f64>)> = LEVELS.iter().zip(&levels).map(of_level).collect();
        let quantiles: Vec<QuantileForecast<'_>> =
            named.iter().map(|(level, values)| QuantileForecast { level: *level, values }).collect();
        let [low, .., high] = &levels[..] else { unreachable!("there are nine levels") };
        let present: Vec<f64> = actual.iter().copied().filter(|value| !value.is_nan()).collect();
        let mean = present.iter().sum::<f64>() / present.len() as f64;
        let measured = || {
            let mae = mae(actual, &levels[LEVELS.len() / 2])?;
            let (wql, coverage) = (wql(actual, &quantiles)?, coverage(actual, low, high)?);
            Some(Self { mae, mae_percent: 100.0 * mae / mean.abs(), wql, coverage })
        };
        measured().filter(|scores| scores.mae_percent.is_finite()).ok_or_else(|| {
            Error::Data(format!(
                "{name}: what is held out has no values to score by; choose another column or --windows"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use nowcast::forecast::Distribution;

    use super::*;

    #[test]
    fn scores_of_two_windows_by_hand() {
        // Three paths: the median is the middle one, the outer deciles lie 0.2 of a step inside the outer paths.
        let forecast = |values: &[f32]| {
            let values = values.to_vec();
            VariateForecast::new("a", Distribution::Paths { samples: 3, values: values.into() }).unwrap()
        };
        let forecasts = [forecast(&[9.0, 10.0, 11.0]), forecast(&[19.0, 20.0, 21.0])];
        let scores = Scores::of("a", &[10.5, 23.0], &forecasts).unwrap();
        assert!((scores.mae - 1.75).abs() < 1e-12);
        assert!((scores.mae_percent - 175.0 / 16.75).abs() < 1e-9);
        assert!((scores.coverage - 0.5).abs() < 1e-12);
        assert!(scores.wql > 0.0);
        assert!(Scores::of("a", &[f64::NAN, f64::NAN], &forecasts).is_err());
    }
}
