//! What a forecaster says about one window, and what a backtest asks of it.

use super::{History, Symbol};
use crate::Result;

/// What is kept of the forecast of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The point forecast of the close, `[horizon]`.
    pub close: Vec<f64>,
    /// Quantiles of the close, `[levels, horizon]`, at the levels of the question.
    pub quantiles: Vec<Vec<f64>>,
    /// The point forecasts of open, high and low, each `[horizon]`, where they are known.
    pub open: Option<Vec<f64>>,
    /// As [`open`](Self::open).
    pub high: Option<Vec<f64>>,
    /// As [`open`](Self::open).
    pub low: Option<Vec<f64>>,
}

impl Prediction {
    /// The return from a price to the last forecast close; 0 from a price of 0.
    pub fn expected_return(&self, price: f64) -> f64 {
        change(price, self.close[self.close.len() - 1])
    }
}

/// The relative change between two values. It has the sign of the difference also below zero, and is 0 from 0.
pub(super) fn change(from: f64, to: f64) -> f64 {
    if from == 0.0 { 0.0 } else { (to - from) / from.abs() }
}

/// What every window is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Bars to forecast.
    pub horizon: usize,
    /// Levels of the quantiles, ascending.
    pub levels: Vec<f64>,
    /// Whether high and low are needed beside the close.
    pub high_and_low: bool,
}

impl Question {
    /// Where a level is among the levels; rounding does not matter.
    ///
    /// # Panics
    /// A level that was not asked for.
    pub fn level(&self, level: f64) -> usize {
        let near = self.levels.iter().position(|other| (other - level).abs() < 1e-9);
        near.unwrap_or_else(|| panic!("the level {level} is not among {:?}", self.levels))
    }
}

/// Whatever forecasts windows: a model, or a reference to compare it with.
pub trait Predictor {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// Bars of history that a window of this symbol needs.
    fn context(&self, symbol: &Symbol, horizon: usize) -> usize;

    /// Forecasts every window; `progress` hears how much is done, as `(done, total)`.
    ///
    /// # Errors
    /// What the forecaster refuses.
    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>>;
}
