//! Everything a user can get wrong ends in exit status 2 and one clear line, with nothing printed and nothing written.

mod backtest;
mod candles;
mod checkpoints;
mod goldens;
mod outputs;
mod place;
#[path = "../program/mod.rs"]
mod program;
mod settings;
mod studies;
mod tables;
mod tune;
