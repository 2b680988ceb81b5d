//! Which settings suit a symbol: a search on windows of its past, judged on later ones.
//!
//! [`Spans`] cuts the windows: those of the test are the latest, those of the validation end before the first test window
//! begins. [`Space::trials`] lists the settings to try, the defaults first, as a pure function of the seed. [`Parameters`] is
//! the file that keeps, for every symbol, the settings that were best on the validation and what they reach on the test.

mod choice;
mod parameters;
mod space;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use choice::Choice;
pub use parameters::{Parameters, Tuned};
pub use space::Space;

use crate::backtest::{Backtest, BacktestOptions, Scores, Symbol, Windows};
use crate::{Error, Result};

/// The score that a search improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Mean absolute scaled error of the point forecast.
    Mase,
    /// Root of the mean squared error of the point forecast.
    Rmse,
    /// Weighted quantile loss of the distribution.
    Wql,
    /// Directional accuracy: the larger, the better.
    Direction,
}

impl Goal {
    /// The score.
    pub fn of(self, scores: &Scores) -> Option<f64> {
        match self {
            Self::Mase => scores.mase,
            Self::Rmse => Some(scores.rmse),
            Self::Wql => scores.wql,
            Self::Direction => scores.direction,
        }
    }

    /// Whether a score is better than another; what cannot be measured is worse than anything.
    pub fn is_better(self, score: Option<f64>, than: Option<f64>) -> bool {
        match (score, than) {
            (Some(score), Some(than)) if self == Self::Direction => score > than,
            (Some(score), Some(than)) => score < than,
            (score, _) => score.is_some() && than.is_none(),
        }
    }

    /// The trial with the best score; of several the first, hence the defaults where nothing is better.
    pub fn best(self, scores: &[Option<f64>]) -> usize {
        (0..scores.len()).fold(0, |best, trial| if self.is_better(scores[trial], scores[best]) { trial } else { best })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Mase => "mase",
            Self::Rmse => "rmse",
            Self::Wql => "wql",
            Self::Direction => "direction",
        })
    }
}

impl FromStr for Goal {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Mase, Self::Rmse, Self::Wql, Self::Direction]
            .into_iter()
            .find(|goal| goal.to_string() == name)
            .ok_or_else(|| Error::Setting(format!("unknown goal {name:?}; the names are mase, rmse, wql, direction")))
    }
}

/// The windows that choose, and the later ones that judge.
#[derive(Debug, Clone)]
pub struct Spans {
    /// Windows of the validation; its symbols end where the first test window begins.
    pub validation: Backtest,
    /// Windows of the test.
    pub test: Backtest,
    /// Bars that every first window of the validation has behind it.
    pub longest_context: usize,
}

/// Fewer bars behind the first window are no history.
const SHORTEST_CONTEXT: usize = 32;

impl Spans {
    /// Cuts the windows of every symbol; no bar of a test window is in the validation.
    ///
    /// # Errors
    /// Options out of range, or a symbol too short for both.
    pub fn new(symbols: &[Symbol], horizon: usize, stride: usize, counts: [usize; 2]) -> Result<Self> {
        let [validation_count, test_count] = counts;
        let options = |count| {
            let mut options = BacktestOptions::new(Windows { stride, count: Some(count), ..Windows::new(horizon) });
            options.strategies.clear();
            options
        };
        let backtest = |symbols: Vec<Symbol>, count| {
            let contexts = vec![SHORTEST_CONTEXT; symbols.len()];
            Backtest::new(symbols, contexts, options(count))
        };
        let whole = |symbol: &Symbol, found: usize, wanted: usize, what: &str| match found == wanted {
            true => Ok(()),
            false => Err(Error::Data(format!(
                "{}: {} bars are too few for {validation_count} windows of validation and {test_count} of test with a horizon of \
                 {horizon} every {stride} bars behind a context of {SHORTEST_CONTEXT}: {found} of the {what} fit; give a longer \
                 history or fewer windows",
                symbol.name(),
                symbol.len()
            ))),
        };
        let test = backtest(symbols.to_vec(), test_count)?;
        let earlier = symbols.iter().enumerate().map(|(place, symbol)| {
            whole(symbol, test.origins(place).len(), test_count, "test")?;
            Ok(symbol.until(test.origins(place)[0]))
        });
        let validation = backtest(earlier.collect::<Result<_>>()?, validation_count)?;
        for (place, symbol) in symbols.iter().enumerate() {
            whole(symbol, validation.origins(place).len(), validation_count, "validation")?;
        }
        let longest_context = (0..symbols.len()).map(|place| validation.origins(place)[0]).min().unwrap_or(0);
        Ok(Self { validation, test, longest_context })
    }
}

#[cfg(test)]
mod tests;
