//! The one error type: every message is a single line that names the culprit and the cure.

use std::io::{self, ErrorKind};
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
    /// The device is missing or failed; the message names the operation where there is one.
    #[error("{0}")]
    Device(String),
    /// A file could not be read or written.
    #[error("{}: {}", path.display(), reason(source))]
    File {
        /// The file in question.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What the operating system said, with the cure where there is one.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file: check the name and the folder".into(),
        ErrorKind::IsADirectory => "this is a folder: name a file in it".into(),
        ErrorKind::PermissionDenied => "the permission is missing: check who owns it".into(),
        ErrorKind::StorageFull => "the disk is full: make room or choose another".into(),
        _ => error.to_string(),
    }
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What a device answers: for want of memory, or another failure.
    pub(crate) fn of_device(error: nowcast_engine::Error) -> Self {
        let text = error.to_string();
        match error {
            nowcast_engine::Error::Memory { .. } | nowcast_engine::Error::Overflow => Error::Memory(text),
            _ => Error::Device(text),
        }
    }

    /// An I/O error together with the file it befell.
    pub fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::File { path: path.into(), source }
    }
}
