//! The flags of `nowcast verify`.

use std::path::PathBuf;

use clap::Args;

use super::{ColumnArguments, FamilyName, Given, RunArguments};

/// Compare every way to run a model with its eager f32 mode, or with stored values of the public reference
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nowcast verify nano --quick
  nowcast verify NeoQuasar/Kronos-small btc.csv eth.csv --json
  nowcast verify nano prices.csv --columns Close --mode default --threads 4
  nowcast verify --goldens goldens
  nowcast verify --goldens goldens --mode eager --json

Every mode, dtype and device that is there is compared; --mode, --dtype and --device choose one.
Exit status: 0 all passed, 1 a check failed, 2 nothing could be checked.")]
pub(crate) struct VerifyArguments {
    /// `nano`, `kronos-nano`, a directory, or a Hugging Face id
    #[arg(value_name = "MODEL", required_unless_present = "goldens", conflicts_with = "goldens")]
    pub(crate) model: Option<String>,
    /// Files to compare on [default: synthetic walks]
    #[arg(value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Only the shortest and the usual context, and small batches
    #[arg(long, conflicts_with = "goldens")]
    pub(crate) quick: bool,
    /// Compare with the stored values of a folder of cases, or of one case, instead
    #[arg(long, value_name = "DIR")]
    pub(crate) goldens: Option<PathBuf>,
    /// Only cases of these models, with --goldens
    #[arg(long, value_enum)]
    pub(crate) family: Option<FamilyName>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) columns: ColumnArguments,
    #[command(flatten)]
    pub(crate) run: Given<RunArguments>,
}
