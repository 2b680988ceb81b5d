//! Every parameter of a run by name: what its output needs to be repeated.

use nowcast::backtest::Backtest;
use serde_json::{Value, json};

use super::forecasters::Models;
use crate::arguments::{BacktestArguments, FilterName, WindowName, spelled};

pub(super) fn list(
    arguments: &BacktestArguments,
    backtest: &Backtest,
    models: &Models,
    look_back: usize,
) -> Vec<(String, Value)> {
    let options = backtest.options();
    let windows = &options.windows;
    let text = |value: &dyn std::fmt::Display| json!(value.to_string());
    let mut settings = vec![
        ("data", json!(arguments.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())),
        ("models", json!(arguments.models)),
        ("columns", json!(arguments.columns)),
        ("horizon", json!(windows.horizon)),
        ("context", json!(look_back)),
        ("stride", json!(windows.stride)),
        ("windows", json!(windows.count)),
        ("from", json!(windows.from.map(|time| time.to_string()))),
        ("to", json!(windows.to.map(|time| time.to_string()))),
        ("samples", json!(arguments.samples)),
        ("seed", json!(arguments.seed)),
        ("point", arguments.point.map_or(Value::Null, |rule| text(&rule))),
        ("params", json!(arguments.params.as_ref().map(|path| path.display().to_string()))),
        ("interval", json!(options.interval)),
        ("season", json!(arguments.season)),
        ("strategies", json!(options.strategies.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("fee_bps", json!(arguments.fee_bps)),
        ("slippage_bps", json!(arguments.slippage_bps)),
        ("long_only", json!(options.long_only)),
        ("calendar", json!(spelled(&arguments.calendar))),
        ("mode", json!(spelled(&models.mode))),
        ("dtype", json!(spelled(&arguments.run.dtype))),
        ("device", json!(arguments.run.device)),
        ("memory_limit", json!(arguments.run.memory_limit)),
    ];
    if models.any_candles {
        let candles = arguments.candles.options(arguments.horizon);
        settings.extend([
            ("temperature", json!(candles.temperature)),
            ("top_k", json!(candles.top_k)),
            ("top_p", json!(candles.top_p)),
            ("filter", json!(spelled(&arguments.candles.filter.unwrap_or(FilterName::Reference)))),
            ("clip", json!(candles.clip)),
            ("window", json!(spelled(&arguments.candles.window.unwrap_or(WindowName::Exact)))),
            ("max_context", json!(candles.max_context)),
            ("tokenizer", json!(arguments.run.tokenizer)),
        ]);
    }
    settings.push(("version", json!(env!("CARGO_PKG_VERSION"))));
    settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
