//! What the `nowcast` program does with an answer: text, files and charts.
#![warn(missing_docs)]

pub mod interrupt;
pub mod output;
pub mod plot;
pub mod report;
