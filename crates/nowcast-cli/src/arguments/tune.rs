//! `nowcast tune`.

use std::path::PathBuf;

use clap::Args;
use nowcast::tuning::Goal;

use super::ModelArguments;

/// Search the settings that suit each symbol, on windows of its past
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast tune btc.csv --horizon 8
  nowcast tune btc.csv aapl.csv --horizon 8 --trials 60 --minutes 10 --goal wql --out tuned.json
  nowcast tune kline.csv --model kronos-nano --horizon 12 --windows 30 --test-windows 30
  nowcast forecast btc.csv --columns Close --horizon 8 --params tuned.json

The search goes on where it stopped: finished trials are kept in a journal beside the output.")]
pub(crate) struct TuneArguments {
    /// Files to read: a file with open, high, low and close is one symbol, of other files every column is one
    #[arg(required = true, value_name = "DATA")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Bars that every window forecasts
    #[arg(long, value_name = "N")]
    pub(crate) horizon: usize,
    /// Bars from one window to the next [default: the horizon]
    #[arg(long, value_name = "N")]
    pub(crate) stride: Option<usize>,
    /// Windows of every symbol that choose the settings
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) windows: usize,
    /// Later windows of every symbol that judge them
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) test_windows: usize,
    /// Settings to try, the defaults among them
    #[arg(long, default_value_t = 24, value_name = "N")]
    pub(crate) trials: usize,
    /// Begin no further trial after so many minutes
    #[arg(long, value_name = "MINUTES")]
    pub(crate) minutes: Option<f64>,
    /// What is improved: mase, rmse, wql or direction
    #[arg(long, default_value_t = Goal::Mase, value_name = "SCORE")]
    pub(crate) goal: Goal,
    /// Seed of the search and of the forecasts
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub(crate) seed: u64,
    /// Columns to read, by name [default: the candle, found by name, else every numeric column]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) columns: Vec<String>,
    /// The time column [default: found by name or content]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// File for the settings found, which --params of other commands reads
    #[arg(long, default_value = "tuned.json", value_name = "FILE")]
    pub(crate) out: PathBuf,
}
