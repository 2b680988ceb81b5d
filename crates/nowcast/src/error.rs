//! The one error type: every message is a single line that names the culprit and the cure.

use std::path::PathBuf;

/// What went wrong, in one line that a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input data cannot be used; the message names file, row, column and cure.
    #[error("{0}")]
    Data(String),
    /// The checkpoint cannot be used; the message names what is missing, extra or misshapen.
    #[error("{0}")]
    Checkpoint(String),
    /// A setting is out of its range or contradicts another.
    #[error("{0}")]
    Setting(String),
    /// The forecast does not fit the memory limit even in its smallest chunk.
    #[error("{0}")]
    Memory(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file in question.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An I/O error together with the file it befell.
    pub fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::File { path: path.into(), source }
    }
}
