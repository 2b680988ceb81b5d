//! `nowcast backtest`.

use std::path::PathBuf;

use clap::Args;
use nowcast::backtest::Strategy;
use nowcast::forecast::Aggregation;

use super::{CalendarName, CandleArguments, Given, OutputName, RunArguments};

/// Forecast the past, window by window, and score and trade the forecasts
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast backtest btc.csv --horizon 8
  nowcast backtest btc.csv aapl.csv vix.csv --horizon 8 --windows 200 --fee-bps 10 --report report.html
  nowcast backtest kline.csv --model nano --model kronos-nano --horizon 12 --strategy sign,bracket,guard_0.6
  nowcast backtest load.csv --columns HUFL,OT --horizon 24 --stride 24 --from 2018-01-01 --output json
  nowcast backtest btc.csv --horizon 1 --windows 500 --forecasts forecasts.csv --trades trades.parquet")]
pub(crate) struct BacktestArguments {
    /// Files to read: a file with open, high, low and close is one symbol, of other files every column is one
    #[arg(required = true, value_name = "DATA")]
    pub(crate) files: Vec<PathBuf>,
    /// Model to backtest; give it again for models side by side: `nano`, `kronos-nano`, a directory, or a Hugging Face id
    #[arg(long = "model", default_value = "nano", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Bars that every window forecasts
    #[arg(long, value_name = "N")]
    pub(crate) horizon: usize,
    /// Past bars that every window sees [default: 512; for Kronos what its window has room for]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Bars from one window to the next [default: the horizon]
    #[arg(long, value_name = "N")]
    pub(crate) stride: Option<usize>,
    /// Windows of every symbol, the latest; without it the latest 100, or with --from all that fit
    #[arg(long, value_name = "N")]
    pub(crate) windows: Option<usize>,
    /// No window before this time: its last known bar, by the clock of the file
    #[arg(long, value_name = "TIME", value_parser = parse_from)]
    pub(crate) from: Option<jiff::civil::DateTime>,
    /// No window after this time; a day counts whole
    #[arg(long, value_name = "TIME", value_parser = parse_to)]
    pub(crate) to: Option<jiff::civil::DateTime>,
    /// Columns to read, by name [default: the candle, found by name, else every numeric column]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) columns: Vec<String>,
    /// The time column [default: found by name or content]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Sample paths [default: exact quantiles within one patch and 256 paths beyond; 30 paths for Kronos]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// Seed of the random numbers: the same seed gives the same digits
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub(crate) seed: u64,
    /// The point forecast: mean, median, quantile_0.4, trimmed_mean_0.1 and others [default: median; mean for Kronos]
    #[arg(long, value_name = "RULE")]
    pub(crate) point: Option<Aggregation>,
    /// Settings that nowcast tune found for these symbols; flags win over them
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// Share that the central interval shall hold
    #[arg(long, default_value_t = 0.8, value_name = "SHARE")]
    pub(crate) interval: f64,
    /// Bars of a season, for MASE and the seasonal naive forecast [default: a day of intraday bars, a week of daily ones]
    #[arg(long, value_name = "N")]
    pub(crate) season: Option<usize>,
    /// Strategies to trade: sign, agree, bracket, shutdown, guard_0.6
    #[arg(long, value_delimiter = ',', default_value = "sign", value_name = "NAME,NAME")]
    pub(crate) strategy: Vec<Strategy>,
    /// Fee of every fill, in basis points (hundredths of a percent)
    #[arg(long, default_value_t = 0.0, value_name = "BPS")]
    pub(crate) fee_bps: f64,
    /// How much worse than the price market orders fill, in basis points
    #[arg(long, default_value_t = 0.0, value_name = "BPS")]
    pub(crate) slippage_bps: f64,
    /// Sell nothing short
    #[arg(long)]
    pub(crate) long_only: bool,
    /// Days of a year; auto is 365 where there are bars on weekends, else 252
    #[arg(long, value_enum, default_value_t = CalendarName::Auto)]
    pub(crate) calendar: CalendarName,
    /// Format of the results
    #[arg(long, value_enum, default_value_t = OutputName::Table)]
    pub(crate) output: OutputName,
    /// File for the results [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write a report with charts, one file that any browser opens
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write bars and forecasts, one row for each bar, symbol and forecaster
    #[arg(long, value_name = "FILE.csv|parquet")]
    pub(crate) forecasts: Option<PathBuf>,
    /// Write every trade
    #[arg(long, value_name = "FILE.csv|parquet")]
    pub(crate) trades: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
    #[command(flatten)]
    pub(crate) candles: Given<CandleArguments>,
}

fn parse_from(text: &str) -> Result<jiff::civil::DateTime, String> {
    parse_time(text, jiff::civil::Time::midnight())
}

fn parse_to(text: &str) -> Result<jiff::civil::DateTime, String> {
    parse_time(text, jiff::civil::Time::MAX)
}

/// `2024-01-31` or `2024-01-31 09:30`.
fn parse_time(text: &str, of_a_day: jiff::civil::Time) -> Result<jiff::civil::DateTime, String> {
    match text.parse::<jiff::civil::Date>() {
        Ok(date) if text.len() == 10 => Ok(date.to_datetime(of_a_day)),
        _ => text.parse().map_err(|_| "write a day such as 2024-01-31, or a time such as 2024-01-31T09:30".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_and_times_are_exact() {
        assert_eq!(parse_from("2024-01-31").unwrap().to_string(), "2024-01-31T00:00:00");
        assert_eq!(parse_to("2024-01-31").unwrap().date().to_string(), "2024-01-31");
        assert_eq!(parse_to("2024-01-31").unwrap().time(), jiff::civil::Time::MAX);
        assert_eq!(parse_to("2024-01-31 09:30").unwrap().to_string(), "2024-01-31T09:30:00");
        assert!(parse_from("yesterday").unwrap_err().contains("2024-01-31"));
        assert!(parse_from("2024-02-30").is_err());
    }
}
