//! What has not happened yet changes nothing that was decided before.

use proptest::prelude::*;

use super::super::{
    Backtest, BacktestOptions, Costs, Evaluation, Price, Reference, ReferencePredictor, Strategy, Windows,
};
use super::*;

/// A forecaster that makes something of every number it can reach.
struct Curious;

impl Predictor for Curious {
    fn name(&self) -> &str {
        "curious"
    }

    fn context(&self, _: &Symbol, _: usize) -> usize {
        3
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        _: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let predict = |window: &History<'_>| {
            let prices = [Price::Open, Price::High, Price::Low, Price::Close];
            let sum: f64 = prices.iter().flat_map(|price| window.prices(*price).unwrap()).sum();
            let series = window.series(Price::Close, usize::MAX).unwrap();
            let bars = window.candles(usize::MAX, question.horizon).unwrap();
            let more: f64 = series.values(0).iter().map(|value| f64::from(*value)).sum::<f64>()
                + bars.rows().iter().map(|row| row[3]).sum::<f64>();
            let noise = ((sum + more) * 1e3).sin();
            let close = vec![window.last_close() * (1.0 + 0.1 * noise); question.horizon];
            let quantile = |level: &f64| vec![close[0] + (level - 0.5) * noise; question.horizon];
            Prediction {
                quantiles: question.levels.iter().map(quantile).collect(),
                high: Some(close.iter().map(|close| close * 1.05).collect()),
                low: Some(close.iter().map(|close| close * 0.95).collect()),
                open: None,
                close,
            }
        };
        Ok(windows.iter().map(predict).collect())
    }
}

/// A forecaster that kept the future from another place: what the property must catch.
struct Cheat(Vec<f64>);

impl Predictor for Cheat {
    fn name(&self) -> &str {
        "cheat"
    }

    fn context(&self, _: &Symbol, _: usize) -> usize {
        3
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        question: &Question,
        _: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let predict = |window: &History<'_>| {
            let future = vec![self.0[window.bars()]; question.horizon];
            Prediction { quantiles: vec![future.clone(); question.levels.len()], ..certain(&future, &future, &future) }
        };
        Ok(windows.iter().map(predict).collect())
    }
}

fn evaluate(symbol: &Symbol, stride: usize, predictor: &mut dyn Predictor) -> (Backtest, Evaluation) {
    let mut options = BacktestOptions::new(Windows { stride, ..Windows::new(3) });
    options.strategies =
        vec![Strategy::Sign, Strategy::Agree, Strategy::Bracket, Strategy::Shutdown, Strategy::Guard(0.6)];
    options.costs = Costs::from_basis_points(5.0, 5.0);
    let backtest = Backtest::new(vec![symbol.clone()], vec![3], options).unwrap();
    let evaluation = backtest.evaluate(predictor, &mut |_, _| ()).unwrap();
    (backtest, evaluation)
}

/// Whether forecasts, orders and equity from before bar `cut` are the same in both.
fn same_past(symbols: [&Symbol; 2], cut: usize, stride: usize, predictors: [&mut dyn Predictor; 2]) -> bool {
    let [one, other] = predictors;
    let (backtest, before) = evaluate(symbols[0], stride, one);
    let (_, after) = evaluate(symbols[1], stride, other);
    let decided = backtest.origins(0).partition_point(|origin| *origin <= cut);
    let trading = before.trading.iter().zip(&after.trading).all(|(before, after)| {
        let (Some(before), Some(after)) = (&before.ledgers[0], &after.ledgers[0]) else { return false };
        let bars = (cut - before.first_bar.min(cut)).min(before.equity.len());
        before.orders[..decided] == after.orders[..decided] && before.equity[..bars] == after.equity[..bars]
    });
    trading && before.predictions[0][..decided] == after.predictions[0][..decided]
}

/// Bars that make sense, from random numbers.
fn bars(numbers: &[(f64, f64)]) -> Vec<[f64; 4]> {
    let bar = |(open, close): &(f64, f64)| [*open, open.max(*close) * 1.02, open.min(*close) * 0.98, *close];
    numbers.iter().map(bar).collect()
}

fn numbers() -> impl proptest::strategy::Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((50.0..150.0f64, 50.0..150.0f64), 30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_future_moves_no_past_decision(past in numbers(), other in numbers(), cut in 4usize..28, stride in 1usize..5) {
        let changed = [&past[..cut], &other[cut..]].concat();
        let symbols = [candles("a", &bars(&past)), candles("a", &bars(&changed))];
        let [before, after] = &symbols;
        prop_assert!(same_past([before, after], cut, stride, [&mut Curious, &mut Curious]));
        for reference in Reference::ALL {
            let mut one = ReferencePredictor::new(reference, 10, None, 7);
            let mut two = one.clone();
            prop_assert!(same_past([before, after], cut, stride, [&mut one, &mut two]), "{}", reference);
        }
    }
}

#[test]
fn a_cheat_is_caught() {
    let past: Vec<(f64, f64)> = (0..30).map(|day| (100.0 + f64::from(day % 7), 101.0 + f64::from(day % 5))).collect();
    let mut changed = past.clone();
    changed[20..].iter_mut().for_each(|(_, close)| *close = 60.0);
    let symbols = [candles("a", &bars(&past)), candles("a", &bars(&changed))];
    let closes = |symbol: &Symbol| Cheat([symbol.closes(), &[0.0; 4]].concat());
    let (mut one, mut two) = (closes(&symbols[0]), closes(&symbols[1]));
    assert!(!same_past([&symbols[0], &symbols[1]], 20, 1, [&mut one, &mut two]));
}
