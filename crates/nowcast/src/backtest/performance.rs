//! What a strategy earned, and at what risk.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Ledger;

/// Figures of an equity curve; the risk-free rate is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Performance {
    /// Bars after the first equity.
    pub bars: usize,
    /// Gain over the whole curve, as a share: 0.1 is 10%.
    pub total_return: f64,
    /// Gain of a year at the same rate: `(last / first)^(bars of a year / bars) - 1`.
    pub annual_return: f64,
    /// Mean return of a bar by its standard deviation (divisor n - 1), times the root of the bars of a year; `None` where
    /// returns do not vary.
    pub sharpe: Option<f64>,
    /// As `sharpe`, with the root of the mean square of the negative returns instead; `None` without any.
    pub sortino: Option<f64>,
    /// Greatest loss from a peak, as a share of it.
    pub max_drawdown: f64,
    /// What was traded in a year, in multiples of the equity.
    pub turnover: f64,
    /// Share of the bars with a position.
    pub exposure: f64,
    /// Trades closed.
    pub trades: usize,
    /// Share of the trades that gained; `None` without trades.
    pub winners: Option<f64>,
    /// Fees and slippage, as a share of the capital at the start.
    pub costs: f64,
}

impl Performance {
    /// Of the trades of one symbol.
    pub fn of(ledger: &Ledger, bars_per_year: f64) -> Self {
        let bars = ledger.equity.len() - 1;
        let winners = ledger.trades.iter().filter(|trade| trade.profit > 0.0).count();
        let years = bars as f64 / bars_per_year;
        Self {
            turnover: if bars == 0 { 0.0 } else { ledger.traded / years },
            exposure: if bars == 0 { 0.0 } else { ledger.exposed as f64 / bars as f64 },
            trades: ledger.trades.len(),
            winners: (!ledger.trades.is_empty()).then(|| winners as f64 / ledger.trades.len() as f64),
            costs: ledger.paid,
            ..Self::of_curve(&ledger.equity, bars_per_year)
        }
    }

    /// Of an equity curve alone; what only trades tell is 0.
    pub fn of_curve(equity: &[f64], bars_per_year: f64) -> Self {
        let returns = returns(equity);
        let bars = returns.len();
        let growth = equity[bars] / equity[0];
        let count = bars as f64;
        let mean = returns.iter().sum::<f64>() / count;
        let squares: f64 = returns.iter().map(|value| (value - mean).powi(2)).sum();
        let downside: f64 = returns.iter().map(|value| value.min(0.0).powi(2)).sum();
        let annual = bars_per_year.sqrt();
        // A curve of equal returns has a deviation of rounding alone.
        let varies = returns.iter().any(|value| *value != returns[0]);
        Self {
            bars,
            total_return: growth - 1.0,
            annual_return: if bars == 0 { 0.0 } else { growth.powf(bars_per_year / count) - 1.0 },
            sharpe: varies.then(|| mean / (squares / (count - 1.0)).sqrt() * annual),
            sortino: (downside > 0.0).then(|| mean / (downside / count).sqrt() * annual),
            max_drawdown: drawdowns(equity).into_iter().fold(0.0, f64::max),
            turnover: 0.0,
            exposure: 0.0,
            trades: 0,
            winners: None,
            costs: 0.0,
        }
    }
}

/// The return of every bar; 0 behind a ruin.
pub fn returns(equity: &[f64]) -> Vec<f64> {
    equity.windows(2).map(|pair| if pair[0] > 0.0 { pair[1] / pair[0] - 1.0 } else { 0.0 }).collect()
}

/// The loss from the highest equity so far, at every bar, as a share of it.
pub fn drawdowns(equity: &[f64]) -> Vec<f64> {
    let mut peak = f64::NEG_INFINITY;
    let drawdown = |value: &f64| {
        peak = peak.max(*value);
        1.0 - value / peak
    };
    equity.iter().map(drawdown).collect()
}

/// A curve over several symbols: equal weights, set anew at every time at which one of them has a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Portfolio {
    /// When, in nanoseconds since 1970.
    pub times: Vec<i128>,
    /// The equity at these times, from 1.
    pub equity: Vec<f64>,
}

impl Portfolio {
    /// Of ledgers with the time of each of their bars.
    pub fn of<'a>(ledgers: impl IntoIterator<Item = (&'a Ledger, Vec<i128>)>) -> Self {
        let mut by_time: BTreeMap<i128, (f64, f64)> = BTreeMap::new();
        for (ledger, times) in ledgers {
            by_time.entry(times[0]).or_default();
            for (time, value) in times[1..].iter().zip(returns(&ledger.equity)) {
                let (sum, count) = by_time.entry(*time).or_default();
                *sum += value;
                *count += 1.0;
            }
        }
        let mut equity = 1.0;
        let grow = |(time, (sum, count)): (i128, (f64, f64))| {
            if count > 0.0 {
                equity *= 1.0 + sum / count;
            }
            (time, equity)
        };
        let (times, equity) = by_time.into_iter().map(grow).unzip();
        Self { times, equity }
    }
}
