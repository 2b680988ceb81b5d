//! A window's forecast is the forecast of a file that ends where the window does, bit for bit.

use std::path::PathBuf;

use super::super::{
    Ask, Backtest, BacktestOptions, CandlePredictor, Question, SeriesPredictor, Strategy, Symbol, Windows,
};
use super::Prediction;
use crate::data::{ReadOptions, Table};
use crate::forecast::VariateForecast;
use crate::{Aggregation, CandleForecaster, CandleOptions, Candles, ForecastOptions, Forecaster};

fn text(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn table(name: &str, text: &str) -> Table {
    Table::from_reader(name, text.as_bytes(), &ReadOptions::default()).unwrap()
}

/// The file as it was when it had so many rows.
fn cut(text: &str, rows: usize) -> String {
    text.lines().take(1 + rows).map(|line| format!("{line}\n")).collect()
}

fn backtest(table: &Table, context: usize, horizon: usize, strategies: Vec<Strategy>) -> Backtest {
    let (symbols, _) = Symbol::from_table(table).unwrap();
    let mut options = BacktestOptions::new(Windows { count: Some(5), stride: 3, ..Windows::new(horizon) });
    options.strategies = strategies;
    let contexts = vec![context; symbols.len()];
    Backtest::new(symbols, contexts, options).unwrap()
}

fn check(prediction: &Prediction, close: &VariateForecast, rule: &str, question: &Question) {
    let rule: Aggregation = rule.parse().unwrap();
    assert_eq!(prediction.close, close.point(&rule).unwrap());
    assert_eq!(prediction.quantiles, close.quantiles(&question.levels).unwrap());
}

#[test]
fn windows_of_series_are_single_forecasts() {
    let file = text("vix_daily.csv");
    let whole = table("vix", &file);
    // Within one patch nothing is sampled; beyond it paths are drawn.
    for (horizon, samples) in [(4, None), (40, Some(8))] {
        let mut options = ForecastOptions::new(horizon);
        (options.context, options.samples, options.seed) = (Some(96), samples, 5);
        let backtest = backtest(&whole, 96, horizon, vec![Strategy::Agree]);
        let ask = Ask { options: options.clone(), point: Aggregation::Median };
        let forecaster = Forecaster::load("nano").unwrap();
        let mut predictor = SeriesPredictor::new("nano", forecaster, Box::new(move |_| ask.clone()));
        let evaluation = backtest.evaluate(&mut predictor, &mut |_, _| ()).unwrap();
        let mut single = Forecaster::load("nano").unwrap();
        for (prediction, &origin) in evaluation.predictions[0].iter().zip(backtest.origins(0)) {
            let past = table("vix", &cut(&file, origin));
            let series = past.series().unwrap();
            let column = |name: &str| series.iter().find(|one| one.names()[0].ends_with(name)).unwrap().clone();
            let mut forecast = |name: &str| single.forecast(&[column(name)], &options).unwrap().remove(0);
            check(prediction, &forecast("CLOSE").variates()[0], "median", backtest.question());
            assert_eq!(prediction.high.as_ref().unwrap(), &forecast("HIGH").variates()[0].median());
            assert_eq!(prediction.low.as_ref().unwrap(), &forecast("LOW").variates()[0].median());
        }
    }
}

#[test]
fn windows_of_candles_are_single_forecasts() {
    let file = text("kline_5min.csv");
    let whole = table("kline", &file);
    let mut options = CandleOptions::new(6);
    (options.context, options.samples, options.seed) = (Some(64), Some(4), 9);
    let backtest = backtest(&whole, 64, 6, vec![Strategy::Bracket]);
    let ask = Ask { options: options.clone(), point: Aggregation::Mean };
    let forecaster = CandleForecaster::load("kronos-nano").unwrap();
    let mut predictor = CandlePredictor::new("kronos-nano", forecaster, Box::new(move |_| ask.clone()));
    let evaluation = backtest.evaluate(&mut predictor, &mut |_, _| ()).unwrap();
    let mut single = CandleForecaster::load("kronos-nano").unwrap();
    for (prediction, &origin) in evaluation.predictions[0].iter().zip(backtest.origins(0)) {
        let (candles, _) = Candles::from_table(&table("kline", &cut(&file, origin)), 6).unwrap();
        let forecast = single.forecast(&[candles], &options).unwrap().remove(0);
        check(prediction, forecast.variate("close").unwrap(), "mean", backtest.question());
        for (kept, name) in [(&prediction.open, "open"), (&prediction.high, "high"), (&prediction.low, "low")] {
            assert_eq!(kept.as_ref().unwrap(), &forecast.variate(name).unwrap().mean());
        }
    }
}

#[test]
fn symbols_may_be_asked_differently() {
    let rows = |level: f64| -> String {
        let row = |day: i64| {
            let date = jiff::civil::date(2024, 1, 1) + jiff::Span::new().days(day);
            format!("{date},{}\n", level + (day as f64 / 3.0).sin())
        };
        format!("date,x\n{}", (0..60).map(row).collect::<String>())
    };
    let symbol = |name: &str, level| Symbol::from_table(&table(name, &rows(level))).unwrap().0.remove(0);
    let symbols = vec![symbol("a", 10.0), symbol("b", 20.0), symbol("c", 30.0)];
    let ask = |name: &str| {
        let mut options = ForecastOptions::new(3);
        options.context = Some(if name == "b/x" { 20 } else { 40 });
        Ask { options, point: if name == "b/x" { Aggregation::Mean } else { Aggregation::Median } }
    };
    let run = |symbols: Vec<Symbol>| {
        let contexts = vec![40; symbols.len()];
        let options = BacktestOptions::new(Windows { count: Some(3), ..Windows::new(3) });
        let backtest = Backtest::new(symbols, contexts, options).unwrap();
        let mut predictor = SeriesPredictor::new("nano", Forecaster::load("nano").unwrap(), Box::new(ask));
        let mut last = (0, 0);
        let evaluation = backtest.evaluate(&mut predictor, &mut |done, total| last = (done, total)).unwrap();
        assert_eq!(last, (backtest.windows(), backtest.windows()));
        evaluation.predictions
    };
    let together = run(symbols.clone());
    let alone: Vec<_> = symbols.into_iter().flat_map(|symbol| run(vec![symbol])).collect();
    assert_eq!(together, alone);
}
