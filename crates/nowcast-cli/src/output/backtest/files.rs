//! The tables that other programs read: results, bars with forecasts, trades.

use nowcast::backtest::{Evaluation, Prediction, Price, Symbol};

use super::super::{Cells, Sheet};
use super::{BacktestAnswer, Figure, PERFORMANCE, SCORES};

/// One row for each forecaster, symbol and strategy.
pub fn results(answer: &BacktestAnswer) -> Sheet {
    let rows: Vec<(&Evaluation, usize, usize)> = answer
        .evaluations
        .iter()
        .flat_map(|evaluation| {
            let strategies = evaluation.trading.len();
            let symbols = answer.backtest.symbols().len();
            (0..symbols).flat_map(move |symbol| (0..strategies).map(move |place| (evaluation, symbol, place)))
        })
        .collect();
    let text = |of: &dyn Fn(&(&Evaluation, usize, usize)) -> String| Cells::Text(rows.iter().map(of).collect());
    let mut sheet = Sheet::default();
    sheet.push("forecaster", text(&|(evaluation, ..)| evaluation.name.clone()));
    sheet.push("symbol", text(&|(_, symbol, _)| answer.backtest.symbols()[*symbol].name().to_string()));
    let windows = rows.iter().map(|(_, symbol, _)| answer.backtest.origins(*symbol).len() as f64);
    sheet.push("windows", Cells::Numbers(windows.collect()));
    for Figure { key, value, .. } in &SCORES {
        let numbers = rows.iter().map(|(evaluation, symbol, _)| value(&evaluation.scores[*symbol]).unwrap_or(f64::NAN));
        sheet.push(*key, Cells::Numbers(numbers.collect()));
    }
    sheet.push("strategy", text(&|(evaluation, _, place)| evaluation.trading[*place].strategy.to_string()));
    for Figure { key, value, .. } in &PERFORMANCE {
        let number = |(evaluation, symbol, place): &(&Evaluation, usize, usize)| {
            evaluation.trading[*place].performance[*symbol].as_ref().and_then(value).unwrap_or(f64::NAN)
        };
        sheet.push(*key, Cells::Numbers(rows.iter().map(number).collect()));
    }
    sheet
}

/// One row for each bar of each symbol from its first origin to the end of its last window, and for each forecaster.
///
/// `datetime` and `instrument` are the index qlib knows; `score` is the return forecast at that bar's close for the end of
/// the horizon and `label` the one that came. `Open` to `Volume` are those of backtesting.py (a column of values counts as
/// all four prices). `forecast_1` and so on is the point forecast of the closes to come, `q0.1` and so on the quantiles of
/// the last of them. Bars without a window have no forecast.
pub fn forecasts(answer: &BacktestAnswer) -> Sheet {
    let backtest = &answer.backtest;
    let question = backtest.question();
    let mut times = Vec::new();
    let (mut instruments, mut models) = (Vec::new(), Vec::new());
    let mut bars: [Vec<f64>; 5] = Default::default();
    let (mut score, mut label) = (Vec::new(), Vec::new());
    let mut steps = vec![Vec::new(); question.horizon];
    let mut quantiles = vec![Vec::new(); question.levels.len()];
    for evaluation in &answer.evaluations {
        for (place, symbol) in backtest.symbols().iter().enumerate() {
            let origins = backtest.origins(place);
            let mut windows = origins.iter().zip(&evaluation.predictions[place]).peekable();
            for bar in origins[0] - 1..origins[origins.len() - 1] + question.horizon {
                times.push((symbol.stamps()[bar], symbol.stamp_text(bar)));
                instruments.push(symbol.name().to_string());
                models.push(evaluation.name.clone());
                let values = bar_of(symbol, bar);
                bars.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
                let window = windows.next_if(|(origin, _)| **origin == bar + 1);
                let (expected, came) = window.map_or((f64::NAN, f64::NAN), |(origin, prediction)| {
                    let (last, end) = (symbol.closes()[bar], symbol.closes()[origin + question.horizon - 1]);
                    let came = Prediction { close: vec![end], ..prediction.clone() };
                    (prediction.expected_return(last), came.expected_return(last))
                });
                score.push(expected);
                label.push(came);
                let number =
                    |of: &dyn Fn(&Prediction) -> f64| window.map_or(f64::NAN, |(_, prediction)| of(prediction));
                steps.iter_mut().enumerate().for_each(|(step, column)| column.push(number(&|p| p.close[step])));
                let last = question.horizon - 1;
                quantiles
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, column)| column.push(number(&|p| p.quantiles[at][last])));
            }
        }
    }
    let mut sheet = Sheet::default();
    sheet.push("datetime", Cells::Times(times));
    sheet.push("instrument", Cells::Text(instruments));
    sheet.push("model", Cells::Text(models));
    for (name, values) in ["Open", "High", "Low", "Close", "Volume"].into_iter().zip(bars) {
        sheet.push(name, Cells::Numbers(values));
    }
    sheet.push("score", Cells::Numbers(score));
    sheet.push("label", Cells::Numbers(label));
    for (step, values) in steps.into_iter().enumerate() {
        sheet.push(format!("forecast_{}", step + 1), Cells::Numbers(values));
    }
    for (level, values) in question.levels.iter().zip(quantiles) {
        sheet.push(format!("q{}", rounded(*level)), Cells::Numbers(values));
    }
    sheet
}

/// A level without the digits that rounding added: 0.1 for 0.09999999999999998.
fn rounded(level: f64) -> f64 {
    (level * 1e9).round() / 1e9
}

fn bar_of(symbol: &Symbol, bar: usize) -> [f64; 5] {
    let price = |price: Price| symbol.prices(price).unwrap_or(symbol.closes())[bar];
    let volume = symbol.volumes().map_or(f64::NAN, |volumes| volumes[bar]);
    [price(Price::Open), price(Price::High), price(Price::Low), price(Price::Close), volume]
}

/// One row for each trade, named as the trades of backtesting.py; bars are counted as the rows of [`forecasts`] of one
/// symbol and forecaster, from 0. `Size` and `PnL` are those of an account that began with 1.
pub fn trades(answer: &BacktestAnswer) -> Sheet {
    let mut text: [Vec<String>; 5] = Default::default();
    let mut times: [Vec<_>; 2] = Default::default();
    let mut numbers: [Vec<f64>; 7] = Default::default();
    for evaluation in &answer.evaluations {
        for trading in &evaluation.trading {
            for (symbol, ledger) in answer.backtest.symbols().iter().zip(&trading.ledgers) {
                let Some(ledger) = ledger else { continue };
                for trade in &ledger.trades {
                    let words = [
                        symbol.name().to_string(),
                        evaluation.name.clone(),
                        trading.strategy.to_string(),
                        trade.side.name().to_string(),
                        trade.reason.name().to_string(),
                    ];
                    text.iter_mut().zip(words).for_each(|(column, word)| column.push(word));
                    let at = |bar: usize| (symbol.stamps()[bar], symbol.stamp_text(bar));
                    let both = [at(trade.entry_bar), at(trade.exit_bar)];
                    times.iter_mut().zip(both).for_each(|(column, time)| column.push(time));
                    let values = [
                        trade.units,
                        (trade.entry_bar - ledger.first_bar) as f64,
                        (trade.exit_bar - ledger.first_bar) as f64,
                        trade.entry_price,
                        trade.exit_price,
                        trade.profit,
                        trade.gain,
                    ];
                    numbers.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
                }
            }
        }
    }
    let mut sheet = Sheet::default();
    for (name, values) in ["Symbol", "Model", "Strategy", "Side", "Tag"].into_iter().zip(text) {
        sheet.push(name, Cells::Text(values));
    }
    let names = ["Size", "EntryBar", "ExitBar", "EntryPrice", "ExitPrice", "PnL", "ReturnPct"];
    for (name, values) in names.into_iter().zip(numbers) {
        sheet.push(name, Cells::Numbers(values));
    }
    for (name, values) in ["EntryTime", "ExitTime"].into_iter().zip(times) {
        sheet.push(name, Cells::Times(values));
    }
    sheet
}
