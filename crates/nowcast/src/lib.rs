//! Forecasts from time-series foundation models: fast, exact and without PyTorch.
#![warn(missing_docs)]

pub mod checkpoint;
pub mod data;
pub mod error;
pub mod forecast;
pub mod series;
pub mod toto;

pub use error::{Error, Result};
