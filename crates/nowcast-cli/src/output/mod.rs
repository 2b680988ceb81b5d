//! An answer as text or bytes: pure functions from data to output, and the one place that writes files.

mod answer;
mod backtest;
mod candle_table;
mod csv;
mod decimals;
mod file;
mod grid;
mod json;
mod long;
mod market;
#[cfg(feature = "parquet")]
mod parquet;
mod sheet;
mod table;
mod tuned;

pub use answer::{Answer, Question, SeriesAnswer, Timeline};
pub use backtest::{BacktestAnswer, forecasts, render_backtest, results, trades};
pub(crate) use backtest::{Figure, OVERALL, PERFORMANCE, SCORES, column};
pub use file::{check_target, same_file, write_file};
pub use market::{Market, MarketForecast};
pub use sheet::{Cells, Sheet, SheetFormat};
pub use tuned::tuned_table;

use nowcast::{Error, Result};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// Comma-separated values: one row per series and future step.
    Csv,
    /// One JSON object; every number reads back exactly.
    Json,
    /// A Parquet table with the columns of the CSV.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    /// Whether a terminal can show it.
    pub fn is_text(self) -> bool {
        match self {
            Self::Table | Self::Csv | Self::Json => true,
            #[cfg(feature = "parquet")]
            Self::Parquet => false,
        }
    }
}

/// Renders an answer; `width` is the number of columns of the terminal, if there is one.
///
/// # Errors
/// A failure of the encoder, which no answer is known to provoke.
pub fn render(answer: &Answer, format: Format, width: Option<usize>) -> Result<Vec<u8>> {
    match format {
        Format::Table => Ok(table::render(answer, width).into_bytes()),
        Format::Csv => csv::render(answer).map_err(|error| Error::Data(format!("cannot write CSV: {error}"))),
        Format::Json => json::render(answer).map_err(|error| Error::Data(format!("cannot write JSON: {error}"))),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::render(answer),
    }
}

#[cfg(test)]
pub(crate) mod example;
