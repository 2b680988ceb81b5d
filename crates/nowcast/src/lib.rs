//! Forecasts from time-series foundation models: fast, exact and without PyTorch.
//!
//! ```
//! use nowcast::{ForecastOptions, Forecaster, Series};
//!
//! # fn main() -> nowcast::Result<()> {
//! # let closes = (0..300).map(|day| 100.0 + (day as f32 / 7.0).sin()).collect();
//! let mut forecaster = Forecaster::load("nano")?;
//! let series = Series::new("close", closes)?;
//! let forecasts = forecaster.forecast(&[series], &ForecastOptions::new(8))?;
//! let close = &forecasts[0].variates()[0];
//! println!("median {:?}", close.median());
//! println!("90% below {:?}", close.quantile(0.9)?);
//! println!("trimmed {:?}", close.point(&"trimmed_mean_0.1".parse()?)?);
//! # assert!(close.quantile(0.9)?.iter().zip(close.median()).all(|(high, median)| *high > median));
//! # Ok(())
//! # }
//! ```
//!
//! Data walks one way: file -> [`data`] -> [`Series`] -> [`Forecaster`] -> [`Forecast`].
//!
//! | room | what it owns |
//! |---|---|
//! | [`data`] | tables as people have them: CSV, Parquet, dates, gaps |
//! | [`series`] | what is forecast: one item, one or several variates |
//! | [`candles`] | what Kronos forecasts: the bars of a market, and whether bars make sense |
//! | [`forecaster`] | preparing, batching, planning, running |
//! | [`forecast`] | the answer: quantiles, means, paths |
//! | [`metrics`] | how good it was: MAE, MASE, WQL, coverage |
//! | [`checkpoint`] | weights: the hub, safetensors, validation |
//! | [`device`] | where it runs |
//! | [`toto`], [`kronos`] | the models, each written once |
//! | [`family`] | which of them a checkpoint is |
//! | [`doctor`] | whether this machine computes what it should |
//! | [`backtest`] | what forecasts would have been worth |
//! | [`tuning`] | settings that suit a symbol |
//! | [`golden`] | parity with the public references |
//! | [`equivalence`] | whether modes, dtypes and devices compute the same |

// What cannot fail says why (`expect`); tests may unwrap.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod backtest;
pub mod candles;
pub mod checkpoint;
pub mod data;
pub mod device;
pub mod doctor;
pub mod equivalence;
pub mod error;
pub mod family;
pub mod forecast;
pub mod forecaster;
pub mod golden;
pub mod kronos;
pub mod metrics;
pub mod series;
pub mod toto;
pub mod tuning;
mod weights;

pub use candles::{CandleColumns, Candles};
pub use error::{Error, Result};
pub use family::ModelFamily;
pub use forecast::{Aggregation, Forecast};
pub use forecaster::{CandleForecaster, CandleOptions, Decode, ForecastOptions, Forecaster, MemoryBudget, Xpos};
pub use series::Series;
