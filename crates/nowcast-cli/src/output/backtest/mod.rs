//! What a backtest says, in every format.

mod figures;
mod files;
mod json;
mod table;

use nowcast::backtest::{Backtest, Evaluation};
use nowcast::{Error, Result};
use serde_json::Value;

use super::{Format, SheetFormat};
pub(crate) use figures::{Figure, OVERALL, PERFORMANCE, SCORES, column};
pub use files::{forecasts, results, trades};

/// A backtest and what came of every forecaster.
#[derive(Debug, Clone)]
pub struct BacktestAnswer {
    /// Every parameter of the run by name, in the order to print.
    pub settings: Vec<(String, Value)>,
    /// Symbols and windows.
    pub backtest: Backtest,
    /// Models first, then the references.
    pub evaluations: Vec<Evaluation>,
    /// How many of the evaluations are models.
    pub models: usize,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl BacktestAnswer {
    /// One line: symbols, windows, horizon.
    pub fn headline(&self) -> String {
        let options = self.backtest.options();
        let (symbols, windows) = (self.backtest.symbols().len(), self.backtest.windows());
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!(
            "{symbols} symbol{}, {windows} window{}, {} bar{} ahead, a window every {} bar{}",
            plural(symbols),
            plural(windows),
            options.windows.horizon,
            plural(options.windows.horizon),
            options.windows.stride,
            plural(options.windows.stride)
        )
    }
}

/// Renders the results of a backtest.
///
/// # Errors
/// A failure of the encoder.
pub fn render_backtest(answer: &BacktestAnswer, format: Format) -> Result<Vec<u8>> {
    match format {
        Format::Table => Ok(table::render(answer).into_bytes()),
        Format::Json => json::render(answer).map_err(|error| Error::Data(format!("cannot write JSON: {error}"))),
        Format::Csv => results(answer).render(SheetFormat::Csv),
        #[cfg(feature = "parquet")]
        Format::Parquet => results(answer).render(SheetFormat::Parquet),
    }
}
