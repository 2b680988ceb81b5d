//! Rank correlation over symbols: does a forecast know which of them will do better?

use std::collections::BTreeMap;

use serde::Serialize;

/// RankIC: for each date, the rank correlation over the symbols between the returns that were forecast and those that
/// came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankIc {
    /// Mean over the dates.
    pub mean: f64,
    /// Mean over the dates divided by the standard deviation over the dates (divisor n - 1); `None` of fewer than two
    /// dates, or where all are equal.
    pub information_ratio: Option<f64>,
    /// Dates on which at least two symbols had a window and neither returns were all equal.
    pub dates: usize,
}

/// One window of one symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// The time of the last known bar, whatever counts it.
    pub date: i128,
    /// The return that was forecast.
    pub expected: f64,
    /// The return that came.
    pub real: f64,
}

impl RankIc {
    /// Over all windows of all symbols; `None` where no date is shared.
    pub fn of(windows: impl IntoIterator<Item = Ranked>) -> Option<Self> {
        let mut dates: BTreeMap<i128, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for Ranked { date, expected, real } in windows {
            let (forecast, came) = dates.entry(date).or_default();
            forecast.push(expected);
            came.push(real);
        }
        let correlations: Vec<f64> = dates.values().filter_map(|(expected, real)| spearman(expected, real)).collect();
        let count = correlations.len();
        if count == 0 {
            return None;
        }
        let mean = correlations.iter().sum::<f64>() / count as f64;
        let squares: f64 = correlations.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count as f64 - 1.0)).sqrt();
        let information_ratio = (count > 1 && deviation > 0.0).then(|| mean / deviation);
        Some(Self { mean, information_ratio, dates: count })
    }
}

/// Spearman's rank correlation, equal values sharing the mean of their ranks; `None` of fewer than two values or where one
/// side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < 2 || a.len() != b.len() {
        return None;
    }
    let (a, b) = (ranks(a), ranks(b));
    // Ranks always have this mean.
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let (aa, bb) = (product(&a, &a), product(&b, &b));
    (aa > 0.0 && bb > 0.0).then(|| product(&a, &b) / (aa * bb).sqrt())
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for run in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = first as f64 + (run.len() as f64 - 1.0) / 2.0;
        run.iter().for_each(|&place| ranks[place] = shared);
        first += run.len();
    }
    ranks
}
