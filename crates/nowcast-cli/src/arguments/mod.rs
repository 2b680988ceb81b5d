//! The command line: every flag with its help and, where old scripts set one, its environment variable.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use nowcast::CandleOptions;
use nowcast::forecast::Aggregation;
use nowcast::kronos::{Filter, Window};

use crate::configuration::Configuration;

mod backtest;
mod choices;
mod given;
mod study;
mod tune;
mod verify;

pub(crate) use backtest::BacktestArguments;
pub(crate) use choices::{
    CalendarName, DecodeName, DtypeName, FamilyName, FilterName, LogName, ModeName, OutputName, WindowName, XposName,
    spelled,
};
pub(crate) use given::Given;
pub(crate) use study::{
    BaselineAction, BaselineArguments, CheckArguments, SaveArguments, StabilityArguments, StudyArguments,
};
pub(crate) use tune::TuneArguments;
pub(crate) use verify::VerifyArguments;

/// Forecasts from time-series foundation models: fast, exact and without PyTorch.
#[derive(Debug, Parser)]
#[command(
    name = "nowcast",
    version,
    arg_required_else_help = true,
    after_help = "Example:
  nowcast forecast prices.csv --horizon 24

Every flag can also be set by a variable (NOWCAST_HORIZON=24) or in nowcast.toml; see nowcast config --help."
)]
pub(crate) struct Program {
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where settings are, and what is told about a run
#[derive(Debug, Args)]
pub(crate) struct Places {
    /// Settings to start from, weaker than all others: production, development, validation, or one of nowcast.toml
    #[arg(long, global = true, value_name = "NAME", help_heading = "Settings")]
    pub(crate) preset: Option<String>,
    /// File with settings [default: nowcast.toml here or in a folder above, then the user's own]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    pub(crate) config: Option<PathBuf>,
    /// Read no file with settings
    #[arg(long, global = true, help_heading = "Settings")]
    pub(crate) no_config: bool,
    /// Tell on the standard error what happens to plans, graphs and memory, as it happens
    #[arg(long, global = true, value_enum, value_delimiter = ',', value_name = "WHAT", help_heading = "Watching")]
    pub(crate) log: Vec<LogName>,
    /// Print counters, times and the peak of memory to the standard error when all is done
    #[arg(long, global = true, help_heading = "Watching")]
    pub(crate) stats: bool,
}

impl Places {
    /// These flags as they are written.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let preset = self.preset.iter().flat_map(|name| ["--preset".into(), name.into()]);
        let config = self.config.iter().flat_map(|path| ["--config".into(), path.into()]);
        preset.chain(config).chain(self.no_config.then(|| "--no-config".into())).collect()
    }
}

/// Why the program does not run a command.
#[derive(Debug)]
pub(crate) enum Unread {
    /// A mistake on the command line, or a question for help or version.
    Usage(clap::Error),
    /// A mistake in a file or a variable.
    Setting(nowcast::Error),
}

impl Program {
    /// The program's flags. `-4` after a flag is its value, so that the message names the flag it does not suit.
    pub(crate) fn command_line() -> clap::Command {
        let negative = |argument: clap::Arg| {
            let takes_none = argument.is_positional() || !argument.get_action().takes_values();
            if takes_none { argument } else { argument.allow_negative_numbers(true) }
        };
        Self::command().mut_subcommands(|command| command.mut_args(negative))
    }

    /// Reads the command line, and what variables and files say beside it.
    ///
    /// # Errors
    /// What cannot be read, or a question for help or version.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Unread> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let program = Self::command_line();
        let configuration = Configuration::find(&program, &arguments).map_err(Unread::Setting)?;
        let matches = configuration.apply(program).try_get_matches_from(&arguments).map_err(Unread::Usage)?;
        Self::from_arg_matches(&matches).map_err(Unread::Usage)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Forecast(Box<ForecastArguments>),
    Verify(Box<VerifyArguments>),
    Stability(Box<StabilityArguments>),
    Baseline(Box<BaselineArguments>),
    Inspect(InspectArguments),
    Bench(BenchArguments),
    Doctor(DoctorArguments),
    Backtest(Box<BacktestArguments>),
    Tune(Box<TuneArguments>),
    Config(ConfigArguments),
    Completions(CompletionArguments),
}

/// Forecast the columns of CSV or Parquet files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast forecast vix_daily.csv --horizon 8
  nowcast forecast btc.csv --columns Close --horizon 24 --samples 256 --plot btc.svg
  nowcast forecast load.parquet --multivariate --horizon 96 --output json --out load.json
  nowcast forecast prices.csv --horizon 8 --model Datadog/Toto-Open-Base-1.0 --point trimmed_mean_0.1

Examples for candles:
  nowcast forecast kline.csv --model kronos-nano --horizon 24 --samples 30 --plot kline.svg
  nowcast forecast a.csv b.csv --model NeoQuasar/Kronos-small --horizon 24 --temperature 0.6 --repair
  nowcast forecast k.csv --model kronos-nano --horizon 8 --columns 'Adj Open,Adj High,Adj Low,Adj Close,Volume'")]
pub(crate) struct ForecastArguments {
    /// Files to read; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Steps to forecast
    #[arg(long, value_name = "N")]
    pub(crate) horizon: usize,
    /// Past steps to look at [default: 512 for nano, 4096 for published Toto models, the window for Kronos]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Columns to forecast, by name; for Kronos open, high, low, close and perhaps volume and amount [default: every
    /// numeric column; for Kronos the candle, found by name]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) columns: Vec<String>,
    /// The time column [default: found by name or content]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// File with the times of the steps to come: holidays and short days that no rhythm shows [default: the rhythm and
    /// the sessions of the file go on]
    #[arg(long, value_name = "FILE")]
    pub(crate) future_times: Option<PathBuf>,
    /// Sample paths [default: exact quantiles within one patch and 256 paths beyond; 30 paths for Kronos]
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
    /// The point forecast: mean, median, quantile_0.4, trimmed_mean_0.1, mean_minus_std_0.5 and others [default:
    /// median; mean for Kronos]
    #[arg(long, value_name = "RULE")]
    pub(crate) point: Option<Aggregation>,
    /// Settings that nowcast tune found for this symbol; flags win over them
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = OutputName::Table)]
    pub(crate) output: OutputName,
    /// File for the answer [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Draw history, forecast and the 50, 80 and 95% bands; candles for Kronos
    #[arg(long, value_name = "FILE.svg|png")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) series: Given<SeriesArguments>,
    #[command(flatten)]
    pub(crate) candles: Given<CandleArguments>,
    #[command(flatten)]
    pub(crate) mending: Given<MendingArguments>,
}

/// What becomes of forecast bars
#[derive(Debug, Args)]
pub(crate) struct MendingArguments {
    /// Mend bars that contradict themselves: high and low made to enclose open and close, no negative volume
    #[arg(long, help_heading = "Kronos only")]
    pub(crate) repair: bool,
}

/// What only Toto knows
#[derive(Debug, Args)]
pub(crate) struct SeriesArguments {
    /// Insert missing rows where the time stamps leave gaps
    #[arg(long, help_heading = "Toto only")]
    pub(crate) fill_gaps: bool,
    /// Let the columns of a file attend to each other (otherwise each is a series of its own)
    #[arg(long, help_heading = "Toto only")]
    pub(crate) multivariate: bool,
    /// What is fed back from patch to patch [default: sample]
    #[arg(long, value_enum, help_heading = "Toto only")]
    pub(crate) decode: Option<DecodeName>,
    /// Where xPos is anchored: as the reference with its KV cache, or as in training [default: cached]
    #[arg(long, value_enum, help_heading = "Toto only")]
    pub(crate) xpos: Option<XposName>,
}

/// What only Kronos knows
#[derive(Debug, Args)]
pub(crate) struct CandleArguments {
    /// Divides the logits: below 1 the likely tokens gain, above 1 the others [default: 1]
    #[arg(long, value_name = "T", help_heading = "Kronos only")]
    pub(crate) temperature: Option<f64>,
    /// Draw from the K likeliest tokens; 0 keeps all, 1 always takes the likeliest [default: 0]
    #[arg(long, value_name = "K", help_heading = "Kronos only")]
    pub(crate) top_k: Option<usize>,
    /// Draw from the likeliest tokens up to this cumulative probability; 1 keeps all [default: 0.9]
    #[arg(long, value_name = "P", help_heading = "Kronos only")]
    pub(crate) top_p: Option<f64>,
    /// Where top-k and top-p are both on [default: reference]
    #[arg(long, value_enum, help_heading = "Kronos only")]
    pub(crate) filter: Option<FilterName>,
    /// Normalised prices and volumes beyond this are clipped [default: 5]
    #[arg(long, value_name = "X", help_heading = "Kronos only")]
    pub(crate) clip: Option<f64>,
    /// What becomes of tokens older than the model's window [default: exact]
    #[arg(long, value_enum, help_heading = "Kronos only")]
    pub(crate) window: Option<WindowName>,
    /// Tokens in the model's window [default: 2048 for Kronos-mini, 512 for the others]
    #[arg(long, value_name = "N", help_heading = "Kronos only")]
    pub(crate) max_context: Option<usize>,
}

impl CandleArguments {
    /// The defaults of the model, changed as these flags say.
    pub(crate) fn options(&self, horizon: usize) -> CandleOptions {
        let mut options = CandleOptions::new(horizon);
        options.max_context = self.max_context;
        options.temperature = self.temperature.unwrap_or(options.temperature);
        options.top_k = self.top_k.unwrap_or(options.top_k);
        options.top_p = self.top_p.unwrap_or(options.top_p);
        options.clip = self.clip.unwrap_or(options.clip);
        options.filter = match self.filter {
            Some(FilterName::Both) => Filter::Both,
            Some(FilterName::Reference) | None => Filter::Reference,
        };
        options.window = match self.window {
            Some(WindowName::Streaming) => Window::Streaming,
            Some(WindowName::Exact) | None => Window::Exact,
        };
        options
    }
}

/// Which model, and how it runs
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// `nano`, `kronos-nano`, a directory, or a Hugging Face id such as Datadog/Toto-Open-Base-1.0 or
    /// NeoQuasar/Kronos-small
    #[arg(long, default_value = "nano", value_name = "MODEL")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
}

/// Which columns of the files
#[derive(Debug, Args)]
pub(crate) struct ColumnArguments {
    /// Columns, by name [default: the close of a file with candles, else every numeric column]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) columns: Vec<String>,
    /// The time column [default: found by name or content]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
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
    #[arg(long, help_heading = "Toto only")]
    pub(crate) variate_labels: bool,
    /// The tokenizer: a directory or a Hugging Face id [default: the model's own]
    #[arg(long, value_name = "TOKENIZER", help_heading = "Kronos only")]
    pub(crate) tokenizer: Option<String>,
    /// Where to run
    #[arg(long, default_value = "auto", value_name = "auto|cpu|cuda[:N]")]
    pub(crate) device: String,
    /// How to run; eager is unfused and unfolded [default: default, on a GPU reduce-overhead]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// Number format of weights and products
    #[arg(long, value_enum, default_value_t = DtypeName::F32)]
    pub(crate) dtype: DtypeName,
    /// Threads [default: every core the process may use]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Wait for every operation and look at what it makes: the one that fails, or first makes NaN or an infinity, is
    /// named (slow; CUDA_LAUNCH_BLOCKING=1 asks for it too)
    #[arg(long)]
    pub(crate) sync: bool,
    /// Most memory for weights, plan and paths, such as 2GiB: larger forecasts run in pieces, with the same digits
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory_limit: Option<usize>,
}

/// Show a model and the memory of a forecast before it runs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast inspect Datadog/Toto-Open-Base-1.0 --context 512 --horizon 64 --samples 256
  nowcast inspect NeoQuasar/Kronos-small --context 400 --horizon 24 --samples 30")]
pub(crate) struct InspectArguments {
    /// `nano`, `kronos-nano`, a directory, or a Hugging Face id
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
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Toto only")]
    pub(crate) variates: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
    #[command(flatten)]
    pub(crate) candles: Given<CandleArguments>,
}

/// Time forecasts: one mode on synthetic input, or every mode and dtype on files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast bench
  nowcast bench btc.csv vix.csv --horizon 24
  nowcast bench --compare --model kronos-nano --context 400
  nowcast bench --model DIR --context 512 --horizon 8 --samples 256 --runs 50 --json
  nowcast bench --model kronos-nano --context 400 --horizon 24 --samples 1 --temperature 0.6
  nowcast bench --model DIR --roofline

With files or --compare every mode, dtype and device that is there is timed; --mode, --dtype and --device choose one.")]
pub(crate) struct BenchArguments {
    /// Files whose symbols are forecast [default: synthetic input]
    #[arg(value_name = "DATA")]
    pub(crate) files: Vec<PathBuf>,
    /// Time every mode and dtype, beside the eager one, without files too
    #[arg(long)]
    pub(crate) compare: bool,
    #[command(flatten)]
    pub(crate) columns: ColumnArguments,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Past steps
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub(crate) context: usize,
    /// Steps to forecast
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) horizon: usize,
    /// Sample paths; 0 lets Toto answer exactly where the horizon fits one patch [default: 256; 30 for Kronos]
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// Independent series or markets in one call
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) batch: usize,
    /// Variates of each series
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Toto only")]
    pub(crate) variates: usize,
    /// Timed forecasts after the first
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) runs: usize,
    /// Milliseconds of forecasts that do not count, between the first and those that are timed: until a machine keeps its pace
    #[arg(long, default_value_t = 200, value_name = "MS", conflicts_with = "roofline",
          value_parser = clap::value_parser!(u64).range(..=600_000))]
    pub(crate) warm_up: u64,
    /// Measure what the processor can do at most, and each operation's share of it (CPU)
    #[arg(long, conflicts_with_all = ["files", "compare"])]
    pub(crate) roofline: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) candles: Given<CandleArguments>,
}

impl BenchArguments {
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up)
    }
}

/// Say what is there to run on, and check that it computes what it should
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast doctor
  nowcast doctor --device cuda:1 --sync
  nowcast doctor --model Datadog/Toto-Open-Base-1.0 --model NeoQuasar/Kronos-small --json

Exit status: 0 healthy, 1 a check failed, 2 nothing could be checked.")]
pub(crate) struct DoctorArguments {
    /// Models to examine alone and together; may be given several times [default: nano and kronos-nano]
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Use the Hugging Face cache only
    #[arg(long)]
    pub(crate) offline: bool,
    /// Where to run
    #[arg(long, default_value = "auto", value_name = "auto|cpu|cuda[:N]")]
    pub(crate) device: String,
    /// How to run [default: default, on a GPU reduce-overhead]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// Threads [default: every core the process may use]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Wait for every operation and look at what it makes: the one that fails, or first makes NaN or an infinity, is
    /// named (slow; CUDA_LAUNCH_BLOCKING=1 asks for it too)
    #[arg(long)]
    pub(crate) sync: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the settings of a command line, and where each comes from
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast config --explain
  nowcast config --explain bench --model kronos-nano --preset production
  nowcast config forecast --horizon 24 --mode eager > nowcast.toml

Strongest first: flags, variables (NOWCAST_MODE=eager; TOTO_COMPILE=0, TOTO_COMPILE_MODE, TOTO_DISABLE_COMPILE and
CUDA_LAUNCH_BLOCKING of old scripts), nowcast.toml, the preset, defaults. nowcast.toml holds flags without their dashes:

  preset = \"production\"
  model = \"kronos-nano\"
  [forecast]
  horizon = 24
  quantiles = [0.05, 0.5, 0.95]
  [presets.nightly]
  threads = 1")]
pub(crate) struct ConfigArguments {
    /// Say where each value comes from
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A command and its flags [default: forecast]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) line: Vec<OsString>,
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
