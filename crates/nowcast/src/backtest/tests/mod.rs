//! Backtests against hand-computed cases, plain loops, and single forecasts.

mod forecasts;
mod look_ahead;
mod references;
mod scores;
mod trading;
mod windows;

use super::{History, Prediction, Predictor, Question, Symbol};
use crate::Result;
use crate::data::{ReadOptions, Table};

/// A symbol of daily bars (open, high, low, close) from Monday 2024-01-01 on, weekends included.
fn candles(name: &str, bars: &[[f64; 4]]) -> Symbol {
    let start = jiff::civil::date(2024, 1, 1);
    let mut text = String::from("date,open,high,low,close\n");
    for (day, [open, high, low, close]) in bars.iter().enumerate() {
        let date = start + jiff::Span::new().days(day as i64);
        text += &format!("{date},{open},{high},{low},{close}\n");
    }
    symbol(name, &text)
}

/// A symbol of daily values.
fn values(name: &str, values: &[f64]) -> Symbol {
    let start = jiff::civil::date(2024, 1, 1);
    let rows = values.iter().enumerate().map(|(day, value)| {
        let date = start + jiff::Span::new().days(day as i64);
        format!("{date},{value}\n")
    });
    symbol(name, &format!("date,x\n{}", rows.collect::<String>()))
}

fn symbol(name: &str, text: &str) -> Symbol {
    let table = Table::from_reader(name, text.as_bytes(), &ReadOptions::default()).unwrap();
    Symbol::from_table(&table).unwrap().0.remove(0)
}

/// A forecaster that says what it was told for each number of known bars.
struct Script(fn(usize) -> Prediction);

impl Predictor for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn context(&self, _: &Symbol, _: usize) -> usize {
        1
    }

    fn predict(
        &mut self,
        windows: &[History<'_>],
        _: &Question,
        _: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        Ok(windows.iter().map(|window| (self.0)(window.bars())).collect())
    }
}

/// A forecast of these prices without spread.
fn certain(close: &[f64], high: &[f64], low: &[f64]) -> Prediction {
    Prediction {
        close: close.to_vec(),
        // As many levels as any question here asks for.
        quantiles: vec![close.to_vec(); 11],
        open: None,
        high: Some(high.to_vec()),
        low: Some(low.to_vec()),
    }
}

#[track_caller]
fn near(measured: f64, expected: f64) {
    // A few dozen operations in f64 on either side.
    assert!((measured - expected).abs() <= 64.0 * f64::EPSILON * expected.abs().max(1.0), "{measured} {expected}");
}
