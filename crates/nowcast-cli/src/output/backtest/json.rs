//! A backtest as one JSON object.

use nowcast::backtest::{Backtest, Evaluation, Trading};
use serde_json::{Map, Value, json};

use super::super::json::to_bytes;
use super::BacktestAnswer;

/// One JSON object: settings, symbols, and what came of every forecaster, equity curves included.
pub(super) fn render(answer: &BacktestAnswer) -> serde_json::Result<Vec<u8>> {
    let backtest = &answer.backtest;
    let settings: Map<String, Value> = answer.settings.iter().cloned().collect();
    let forecasters: Vec<Value> = answer
        .evaluations
        .iter()
        .enumerate()
        .map(|(place, evaluation)| forecaster(backtest, evaluation, place < answer.models))
        .collect();
    let symbols: Vec<Value> = (0..backtest.symbols().len()).map(|place| symbol(backtest, place)).collect();
    to_bytes(&json!({
        "settings": settings,
        "symbols": symbols,
        "forecasters": forecasters,
        "notes": answer.notes,
    }))
}

fn symbol(backtest: &Backtest, place: usize) -> Value {
    let symbol = &backtest.symbols()[place];
    let origins = backtest.origins(place);
    let (first, last) = (origins[0] - 1, origins[origins.len() - 1] - 1);
    let end = last + backtest.options().windows.hold();
    json!({
        "name": symbol.name(),
        "bars": symbol.len(),
        "windows": origins.len(),
        "first_origin": symbol.stamp_text(first),
        "last_origin": symbol.stamp_text(last),
        "bars_per_year": backtest.rhythm(place).bars_per_year(),
        "season": backtest.season(place),
        // The times of the equity curves.
        "timestamps": (first..=end).map(|bar| symbol.stamp_text(bar)).collect::<Vec<_>>(),
    })
}

fn forecaster(backtest: &Backtest, evaluation: &Evaluation, model: bool) -> Value {
    let scores = backtest.symbols().iter().zip(&evaluation.scores);
    json!({
        "name": evaluation.name,
        "kind": if model { "model" } else { "reference" },
        "overall": evaluation.overall,
        "symbols": scores.map(|(symbol, scores)| json!({"name": symbol.name(), "scores": scores})).collect::<Vec<_>>(),
        "trading": evaluation.trading.iter().map(|trading| traded(backtest, trading)).collect::<Vec<_>>(),
    })
}

fn traded(backtest: &Backtest, trading: &Trading) -> Value {
    let symbols: Vec<Value> = backtest
        .symbols()
        .iter()
        .zip(trading.ledgers.iter().zip(&trading.performance))
        .map(|(symbol, (ledger, performance))| {
            let equity = ledger.as_ref().map(|ledger| &ledger.equity);
            json!({"name": symbol.name(), "performance": performance, "equity": equity})
        })
        .collect();
    json!({
        "strategy": trading.strategy.to_string(),
        "portfolio": trading.portfolio.as_ref().map(|(_, figures)| figures),
        "symbols": symbols,
    })
}
