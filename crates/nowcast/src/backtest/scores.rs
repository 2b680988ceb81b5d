//! How good forecasts were: errors, calibration, direction.

use serde::Serialize;

use super::prediction::change;
use super::{Prediction, Question};
use crate::metrics::{self, QuantileForecast};

/// The levels of WQL and CRPS: the nine deciles.
pub const DECILES: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// One window with what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Scored<'a> {
    /// The forecast.
    pub prediction: &'a Prediction,
    /// The closes that came, `[horizon]`.
    pub actual: &'a [f64],
    /// The last close known.
    pub last: f64,
    /// The unit of MASE: [`metrics::seasonal_naive_error`] of the history known.
    pub scale: Option<f64>,
}

/// The scores of one symbol; every bar of every window counts once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Windows.
    pub windows: usize,
    /// Mean absolute error of the point forecast, in the unit of the data.
    pub mae: f64,
    /// The mean absolute error in percent of the mean absolute close.
    pub mae_percent: Option<f64>,
    /// Root of the mean squared error of the point forecast.
    pub rmse: f64,
    /// Mean over the windows of [`metrics::mase`]; `None` where no history changed.
    pub mase: Option<f64>,
    /// [`metrics::wql`] at the nine deciles; `None` where all closes are 0.
    pub wql: Option<f64>,
    /// The continuous ranked probability score as nine deciles see it, in the unit of the data: twice their mean pinball
    /// loss. For a distribution without spread it is the MAE.
    pub crps: Option<f64>,
    /// Share of the closes within the central interval.
    pub coverage: f64,
    /// Share of the windows in which the last forecast close lies on the same side of the last known close as the one that
    /// came; windows without a forecast or a real change do not count, `None` without others.
    pub direction: Option<f64>,
}

impl Scores {
    /// Scores the windows of one symbol; `interval` is the share that the central interval shall hold, such as 0.8.
    pub fn of(windows: &[Scored<'_>], question: &Question, interval: f64) -> Self {
        let actual: Vec<f64> = windows.iter().flat_map(|window| window.actual).copied().collect();
        let point: Vec<f64> = windows.iter().flat_map(|window| &window.prediction.close).copied().collect();
        let quantile = |level: f64| -> Vec<f64> {
            let at = question.level(level);
            windows.iter().flat_map(|window| &window.prediction.quantiles[at]).copied().collect()
        };
        let deciles = DECILES.map(|level| (level, quantile(level)));
        let quantiles = deciles.each_ref().map(|(level, values)| QuantileForecast { level: *level, values });
        let [low, high] = [0.5 - interval / 2.0, 0.5 + interval / 2.0].map(quantile);
        let mean_level = metrics::mae(&actual, &vec![0.0; actual.len()]).filter(|level| *level > 0.0);
        let mae = metrics::mae(&actual, &point).unwrap_or(f64::NAN);
        let wql = metrics::wql(&actual, &quantiles);
        let scaled =
            windows.iter().filter_map(|window| metrics::mase(window.actual, &window.prediction.close, window.scale?));
        Self {
            windows: windows.len(),
            mae,
            mae_percent: mean_level.map(|level| 100.0 * mae / level),
            rmse: metrics::rmse(&actual, &point).unwrap_or(f64::NAN),
            mase: mean(scaled),
            wql,
            crps: wql.zip(mean_level).map(|(wql, level)| wql * level),
            coverage: metrics::coverage(&actual, &low, &high).unwrap_or(f64::NAN),
            direction: mean(windows.iter().filter_map(Scored::is_right).map(|right| f64::from(u8::from(right)))),
        }
    }
}

impl Scored<'_> {
    /// Whether the close moved to the side that was forecast; `None` where either did not move.
    fn is_right(&self) -> Option<bool> {
        let real = change(self.last, self.actual[self.actual.len() - 1]);
        let expected = self.prediction.expected_return(self.last);
        (real != 0.0 && expected != 0.0).then_some((real > 0.0) == (expected > 0.0))
    }
}

/// The mean of some numbers; `None` without any.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}
