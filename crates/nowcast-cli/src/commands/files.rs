//! What must hold of the files of a run before it begins.

use std::path::Path;

use nowcast::{Error, Result};
use nowcast_cli::output::{Format, check_target, same_file};

use crate::arguments::OutputName;

/// Nothing is computed that could not be written, and no input is lost to an output.
pub(super) fn check<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let mut files: Vec<&Path> = Vec::new();
    for input in inputs {
        if files.iter().any(|other| same_file(other, input)) {
            return Err(Error::Setting(format!("{} is given twice: once is enough", input.display())));
        }
        files.push(input);
    }
    for output in outputs {
        check_target(output)?;
        if files.iter().any(|other| same_file(other, output)) {
            return Err(Error::Setting(format!(
                "{} would be overwritten, but it is also another file of this run: name a new one",
                output.display()
            )));
        }
        files.push(output);
    }
    Ok(())
}

/// The file for the answer; `-` is the standard output.
pub(super) fn out(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| *path != Path::new("-"))
}

/// The format of an answer that goes to a file or to the standard output.
pub(super) fn format(name: OutputName, out: Option<&Path>) -> Result<Format> {
    let format = match name {
        OutputName::Table => Format::Table,
        OutputName::Csv => Format::Csv,
        OutputName::Json => Format::Json,
        #[cfg(feature = "parquet")]
        OutputName::Parquet => Format::Parquet,
    };
    if !format.is_text() && out.is_none() {
        return Err(Error::Setting("Parquet is not for the screen: name a file with --out FILE".into()));
    }
    Ok(format)
}
