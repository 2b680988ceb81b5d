//! The command line contract that other people's scripts rely on, checked on the real program.

mod answer;
mod backtest;
mod candles;
mod commands;
mod configuration;
mod docs;
mod doctor;
mod forecasts;
mod formats;
#[path = "../program/mod.rs"]
mod program;
mod roofline;
mod runs;
mod studies;
mod tune;
mod watching;
