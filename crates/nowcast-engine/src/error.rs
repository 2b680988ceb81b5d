//! What can go wrong in the engine.

/// An error of a device or of a plan, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan's sizes do not fit the machine's address space.
    #[error("the plan needs more memory than the machine can address")]
    Overflow,
    /// The device is missing or failed.
    #[error("{0}")]
    Device(String),
    /// An operation failed.
    #[error("{operation}: {reason}")]
    Operation {
        /// Which one: layer, kind and place in the plan.
        operation: String,
        /// What is wrong.
        reason: String,
    },
    /// The device could not reserve memory.
    #[error("cannot reserve {bytes} bytes for {what}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What they are for.
        what: &'static str,
    },
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
