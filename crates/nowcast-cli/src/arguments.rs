//! The command line: every flag with its help and, where old scripts set one, its environment variable.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use nowcast::forecast::Aggregation;

/// Forecasts from time-series foundation models: fast, exact and without PyTorch.
#[derive(Debug, Parser)]
#[command(
    name = "nowcast",
    version,
    arg_required_else_help = true,
    after_help = "Example:
  nowcast forecast prices.csv --horizon 24"
)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Program {
    /// Reads the command line. `-4` after a flag is its value, so that the message names the flag it does not suit.
    ///
    /// # Errors
    /// A mistake, or a question for help or version.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let negative = |argument: clap::Arg| {
            let takes_none = argument.is_positional() || !argument.get_action().takes_values();
            if takes_none { argument } else { argument.allow_negative_numbers(true) }
        };
        let command = Self::command().mut_subcommands(|command| command.mut_args(negative));
        Self::from_arg_matches(&command.try_get_matches_from(arguments)?)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Forecast(ForecastArguments),
    Verify(VerifyArguments),
    Inspect(InspectArguments),
    Bench(BenchArguments),
    Completions(CompletionArguments),
}

/// Forecast the columns of CSV or Parquet files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast forecast vix_daily.csv --horizon 8
  nowcast forecast btc.csv --columns Close --horizon 24 --samples 256 --plot btc.svg
  nowcast forecast load.parquet --multivariate --horizon 96 --output json --out load.json
  nowcast forecast prices.csv --horizon 8 --model Datadog/Toto-Open-Base-1.0 --point trimmed_mean_0.1")]
pub(crate) struct ForecastArguments {
    /// Files to read; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Steps to forecast
    #[arg(long, value_name = "N")]
    pub(crate) horizon: usize,
    /// Past steps to look at [default: 512 for nano, 4096 for published models]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Columns to forecast, by name [default: every numeric column]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) columns: Vec<String>,
    /// The time column [default: found by name or content]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Insert missing rows where the time stamps leave gaps
    #[arg(long)]
    pub(crate) fill_gaps: bool,
    /// Let the columns of a file attend to each other (otherwise each is a series of its own)
    #[arg(long)]
    pub(crate) multivariate: bool,
    /// What is fed back from patch to patch
    #[arg(long, value_enum, default_value_t = DecodeName::Sample)]
    pub(crate) decode: DecodeName,
    /// Sample paths [default: exact quantiles within one patch, 256 paths beyond]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// Put the sample paths into the JSON output
    #[arg(long)]
    pub(crate) paths: bool,
    /// Seed of the random numbers: the same seed gives the same digits
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub(crate) seed: u64,
    /// Quantile levels
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.5,0.9", value_name = "Q,Q")]
    pub(crate) quantiles: Vec<f64>,
    /// The point forecast: mean, median, quantile_0.4, trimmed_mean_0.1, mean_minus_std_0.5 and others
    #[arg(long, default_value = "median", value_name = "RULE")]
    pub(crate) point: Aggregation,
    /// Where xPos is anchored: as the reference with its KV cache, or as in training
    #[arg(long, value_enum, default_value_t = XposName::Cached)]
    pub(crate) xpos: XposName,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = OutputName::Table)]
    pub(crate) output: OutputName,
    /// File for the answer [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Draw history, median and the 50, 80 and 95% bands
    #[arg(long, value_name = "FILE.svg|png")]
    pub(crate) plot: Option<PathBuf>,
    /// Print counters and times to the standard error
    #[arg(long)]
    pub(crate) stats: bool,
}

/// Which model, and how it runs
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// `nano`, a directory, or a Hugging Face id such as Datadog/Toto-Open-Base-1.0
    #[arg(long, default_value = "nano", value_name = "MODEL")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// How a model runs
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Branch, tag or commit of a Hugging Face model
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<String>,
    /// Use the Hugging Face cache only
    #[arg(long)]
    pub(crate) offline: bool,
    /// Prepend the checkpoint's learned labels of target and exogenous variates
    #[arg(long)]
    pub(crate) variate_labels: bool,
    /// Where to run
    #[arg(long, default_value = "auto", value_name = "auto|cpu|cuda[:N]")]
    pub(crate) device: String,
    /// How to run; eager is unfused and unfolded [default: default; TOTO_COMPILE, TOTO_COMPILE_MODE and
    /// TOTO_DISABLE_COMPILE are heeded]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// Number format of weights and products
    #[arg(long, value_enum, default_value_t = DtypeName::F32)]
    pub(crate) dtype: DtypeName,
    /// Threads [default: every core the process may use]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Most memory for weights, plan and paths, such as 2GiB: larger forecasts run in pieces, with the same digits
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory_limit: Option<usize>,
}

/// Compare with the public reference, stage by stage
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast verify --goldens goldens
  nowcast verify --goldens goldens --mode eager --json

Exit status: 0 all passed, 1 a check failed, 2 nothing could be checked.")]
pub(crate) struct VerifyArguments {
    /// Folder of cases, or one case
    #[arg(long, value_name = "DIR")]
    pub(crate) goldens: PathBuf,
    /// Only cases of these models
    #[arg(long, value_enum)]
    pub(crate) family: Option<FamilyName>,
    /// Where to run
    #[arg(long, default_value = "cpu", value_name = "auto|cpu|cuda[:N]")]
    pub(crate) device: String,
    /// Verify this mode
    #[arg(long, value_enum, default_value_t = ModeName::Default)]
    pub(crate) mode: ModeName,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a model and the memory of a forecast before it runs
#[derive(Debug, Args)]
#[command(after_help = "Example:
  nowcast inspect Datadog/Toto-Open-Base-1.0 --context 512 --horizon 64 --samples 256")]
pub(crate) struct InspectArguments {
    /// `nano`, a directory, or a Hugging Face id
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// Past steps
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) context: usize,
    /// Steps to forecast
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub(crate) horizon: usize,
    /// Sample paths [default: as forecast]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// Variates of one series
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) variates: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// Time forecasts of synthetic series
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast bench
  nowcast bench --model DIR --context 512 --horizon 8 --samples 256 --runs 50 --json")]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Past steps
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) context: usize,
    /// Steps to forecast
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) horizon: usize,
    /// Sample paths; 0 answers exactly where the horizon fits one patch
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) samples: usize,
    /// Independent series in one call
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) batch: usize,
    /// Variates of each series
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) variates: usize,
    /// Timed forecasts after the first
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) runs: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a shell's completion script
#[derive(Debug, Args)]
#[command(after_help = "Example:
  nowcast completions bash > ~/.local/share/bash-completion/completions/nowcast")]
pub(crate) struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecodeName {
    /// Samples, or the exact mixture within one patch
    Sample,
    /// The mean path
    Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum XposName {
    /// As the reference's default, with its KV cache
    Cached,
    /// As in training, without a KV cache
    Uncached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Operation by operation, unfused and unfolded: the accuracy baseline
    Eager,
    /// Folded weights, fused kernels, shared context, static plan
    Default,
    /// As default; on a GPU one graph launch per forecast
    ReduceOverhead,
    /// As reduce-overhead, with measured choices
    MaxAutotune,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DtypeName {
    /// 32-bit floats
    F32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyName {
    /// Toto 1.0
    Toto,
    /// Kronos
    Kronos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputName {
    /// Aligned columns for people
    Table,
    /// One row per series and step
    Csv,
    /// One object, numbers exact
    Json,
    /// The columns of the CSV
    #[cfg(feature = "parquet")]
    Parquet,
}

/// A choice as the command line spells it.
pub(crate) fn spelled(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

/// `2GiB`, `512MB`, `1.5g`, or plain bytes.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "kb" => 1e3,
        "m" | "mib" => 1024.0 * 1024.0,
        "mb" => 1e6,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "gb" => 1e9,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "tb" => 1e12,
        _ => return Err(format!("{unit:?} is no unit of memory: write bytes, MiB or GiB, such as 2GiB")),
    };
    let bytes = number.parse::<f64>().map_err(|_| "write a number and a unit, such as 2GiB".to_string())? * factor;
    if bytes >= 1.0 && bytes < usize::MAX as f64 {
        Ok(bytes as usize)
    } else {
        Err("write a size above zero, such as 2GiB".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn choices_print_as_they_parse() {
        assert_eq!(spelled(&ModeName::ReduceOverhead), "reduce-overhead");
        assert_eq!(spelled(&DtypeName::F32), "f32");
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("512 MB"), Ok(512_000_000));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("77"), Ok(77));
        for wrong in ["", "GiB", "0", "-1", "3 parsecs", "1e400", "nan"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
