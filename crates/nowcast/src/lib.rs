//! Forecasts from time-series foundation models: fast, exact and without PyTorch.
//!
//! Data walks one way: file -> [`data`] -> [`Series`] -> [`Forecaster`] -> [`Forecast`].
//!
//! | room | what it owns |
//! |---|---|
//! | [`data`] | tables as people have them: CSV, Parquet, dates, gaps |
//! | [`series`] | what is forecast: one item, one or several variates |
//! | [`forecaster`] | preparing, batching, planning, running |
//! | [`forecast`] | the answer: quantiles, means, paths |
//! | [`checkpoint`] | weights: the hub, safetensors, validation |
//! | [`device`] | where it runs |
//! | [`toto`] | Toto 1.0 |
//! | [`golden`] | parity with the public references |

pub mod checkpoint;
pub mod data;
pub mod device;
pub mod error;
pub mod forecast;
pub mod forecaster;
pub mod golden;
pub mod series;
pub mod toto;

pub use error::{Error, Result};
pub use forecast::{Aggregation, Forecast};
pub use forecaster::{Decode, ForecastOptions, Forecaster, Xpos};
pub use series::Series;
