//! What the `nowcast` program does with an answer: text, files and charts.
#![warn(missing_docs)]
// What cannot fail says why (`expect`); tests may unwrap.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod interrupt;
pub mod output;
pub mod plot;
pub mod report;
