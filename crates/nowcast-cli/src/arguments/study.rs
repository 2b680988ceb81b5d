//! The flags of the commands that hold windows out: `stability` and `baseline`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ColumnArguments, Given, ModelArguments, RunArguments};

/// What is held out
#[derive(Debug, Args)]
pub(crate) struct StudyArguments {
    /// Steps of every window
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) horizon: usize,
    /// Past steps of every window [default: 512, or as many as the window of a Kronos model leaves]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Windows of every symbol, one behind the other, the last at its end
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub(crate) windows: usize,
    /// Sample paths [default: 256; 30 for Kronos]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
}

/// How far results move from run to run and from seed to seed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast stability btc.csv vix.csv
  nowcast stability prices.csv --model Datadog/Toto-Open-Base-1.0 --horizon 24 --seeds 10
  nowcast stability kline.csv --model kronos-nano --windows 16 --mode default --json

Every mode, dtype and device that is there is studied; --mode, --dtype and --device choose one.
Exit status: 0 all is stable, 1 something is not, 2 nothing could be studied.")]
pub(crate) struct StabilityArguments {
    /// Files to forecast the last windows of
    #[arg(required = true, value_name = "DATA")]
    pub(crate) files: Vec<PathBuf>,
    /// Seeds
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) seeds: usize,
    /// Runs of the first seed
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) repeats: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) study: StudyArguments,
    #[command(flatten)]
    pub(crate) columns: ColumnArguments,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
}

/// Save how good forecasts are, and see later whether that has moved
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast baseline save prices.json btc.csv vix.csv --model nano --model kronos-nano
  nowcast baseline check prices.json btc.csv vix.csv

Exit status: 0 done, or nothing moved; 1 something moved; 2 there is nothing to compare with.")]
pub(crate) struct BaselineArguments {
    #[command(subcommand)]
    pub(crate) action: BaselineAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineAction {
    Save(SaveArguments),
    Check(CheckArguments),
}

/// Score the last windows of each symbol and write the scores down
#[derive(Debug, Args)]
#[command(after_help = "Example:
  nowcast baseline save prices.json btc.csv vix.csv --model nano --model kronos-nano")]
pub(crate) struct SaveArguments {
    /// The baseline to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Files to forecast the last windows of
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Models, one flag for each
    #[arg(long = "model", default_value = "nano", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub(crate) seed: u64,
    /// How much a score may move before `check` fails, such as 0.1%
    #[arg(long, default_value = "0.1%", value_name = "SHARE", value_parser = parse_share)]
    pub(crate) tolerance: f64,
    #[command(flatten)]
    pub(crate) study: StudyArguments,
    #[command(flatten)]
    pub(crate) columns: ColumnArguments,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
}

/// Score them again, with the settings of the baseline, and say what moved
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast baseline check prices.json btc.csv vix.csv
  nowcast baseline check prices.json btc.csv vix.csv --tolerance 1% --json")]
pub(crate) struct CheckArguments {
    /// The baseline to compare with
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The files it was made of
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// How much a score may move [default: as saved]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) tolerance: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
}

/// `0.1%` or `0.001`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>().map(|number| number / unit) {
        Ok(share) if (0.0..=10.0).contains(&share) => Ok(share),
        _ => Err("write a share, such as 0.1%".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_with_and_without_percent() {
        assert_eq!((parse_share("0.1%"), parse_share("0.02")), (Ok(0.001), Ok(0.02)));
        for wrong in ["", "%", "-1%", "nan", "much"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
