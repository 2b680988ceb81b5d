//! Toto 1.0: Datadog's decoder-only forecaster of many variates, <https://arxiv.org/abs/2505.14766>.

pub mod config;
