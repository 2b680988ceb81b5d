//! Walk-forward backtests: what forecasts would have been worth, had they been made in time.
//!
//! A [`Symbol`] is walked through in [`Windows`]. Every window is forecast from the [`History`] that ends at its origin, by
//! models and by [`Reference`]s without one, all of a forecaster's windows in a few calls. Forecasts are scored
//! ([`Scores`], [`RankIc`]) and traded ([`Strategy`], [`Rules`]), and the account is summed up ([`Performance`]).
//!
//! Nothing can look ahead: forecasters and strategies get a [`History`], which holds no bar behind its origin.
//!
//! ```
//! use nowcast::backtest::{Backtest, BacktestOptions, Predictor, Reference, ReferencePredictor, Symbol, Windows};
//! use nowcast::data::{ReadOptions, Table};
//!
//! # let rows: String = (1..=28).map(|day| format!("2024-02-{day:02},{}\n", 100 + day * day % 17)).collect();
//! # let file = format!("date,close\n{rows}");
//! let table = Table::from_reader("prices", file.as_bytes(), &ReadOptions::default())?;
//! let (symbols, _notes) = Symbol::from_table(&table)?;
//! let mut naive = ReferencePredictor::new(Reference::Naive, 512, None, 0);
//! let options = BacktestOptions::new(Windows::new(4));
//! let backtest = Backtest::new(symbols, vec![8], options)?;
//! let evaluation = backtest.evaluate(&mut naive, &mut |_, _| ())?;
//! assert_eq!(evaluation.scores[0].windows, 5);
//! assert_eq!(evaluation.scores[0].direction, None, "the naive forecast never moves");
//! # Ok::<(), nowcast::Error>(())
//! ```
//!
//! | file | what it owns |
//! |---|---|
//! | `symbol` | bars with their times, and the view that ends at an origin |
//! | `windows` | where windows begin |
//! | `prediction` | what a forecaster says, and what it is asked |
//! | `models`, `references` | who forecasts |
//! | `scores`, `rank` | how good the forecasts were |
//! | `strategy`, `simulation`, `account` | orders, fills, money |
//! | `calendar`, `performance` | years, returns, risk |
//! | `run` | all of it together |

mod account;
mod calendar;
mod models;
mod performance;
mod prediction;
mod rank;
mod references;
mod run;
mod scores;
mod simulation;
mod strategy;
mod symbol;
mod windows;

pub use account::{Costs, Reason, Trade};
pub use calendar::{Calendar, Rhythm};
pub use models::{Ask, Asks, CandlePredictor, DEFAULT_CONTEXT, SeriesPredictor};
pub use performance::{Performance, Portfolio, drawdowns, returns};
pub use prediction::{Prediction, Predictor, Question};
pub use rank::{RankIc, Ranked, spearman};
pub use references::{Reference, ReferencePredictor};
pub use run::{Backtest, BacktestOptions, Evaluation, Overall, Trading};
pub use scores::{DECILES, Scored, Scores};
pub use simulation::{Ledger, Rules};
pub use strategy::{Order, Past, Side, Strategy};
pub use symbol::{History, Price, Symbol};
pub use windows::Windows;

#[cfg(test)]
mod tests;
