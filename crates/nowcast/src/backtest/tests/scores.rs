use proptest::prelude::*;

use super::super::{
    Backtest, BacktestOptions, DECILES, RankIc, Ranked, Reference, ReferencePredictor, Scored, Scores, Windows,
    spearman,
};
use super::*;
use crate::metrics;

fn question() -> Question {
    BacktestOptions::new(Windows::new(2)).question()
}

/// A forecast whose quantiles are the level itself above `base`.
fn spread(close: [f64; 2], base: f64) -> Prediction {
    let question = question();
    Prediction {
        quantiles: question.levels.iter().map(|level| vec![base + level; 2]).collect(),
        ..certain(&close, &[], &[])
    }
}

#[test]
fn two_windows_by_hand() {
    let (one, two) = (spread([2.0, 4.0], 1.0), spread([1.0, 1.0], 2.0));
    let windows = [
        Scored { prediction: &one, actual: &[1.5, 2.0], last: 1.0, scale: Some(0.5) },
        Scored { prediction: &two, actual: &[3.0, 4.0], last: 2.0, scale: None },
    ];
    let scores = Scores::of(&windows, &question(), 0.8);
    near(scores.mae, (0.5 + 2.0 + 2.0 + 3.0) / 4.0);
    near(scores.mae_percent.unwrap(), 100.0 * 7.5 / 10.5);
    near(scores.rmse, ((0.25 + 4.0 + 4.0 + 9.0) / 4.0f64).sqrt());
    near(scores.mase.unwrap(), 1.25 / 0.5);
    let pinball = |level: f64, quantile: f64, actual: f64| {
        let error = actual - quantile;
        f64::max(level * error, (level - 1.0) * error)
    };
    let loss =
        |base: f64, actual: f64| -> f64 { DECILES.iter().map(|level| pinball(*level, base + level, actual)).sum() };
    let sum = loss(1.0, 1.5) + loss(1.0, 2.0) + loss(2.0, 3.0) + loss(2.0, 4.0);
    near(scores.crps.unwrap(), 2.0 * sum / 9.0 / 4.0);
    near(scores.wql.unwrap(), 2.0 * sum / 9.0 / 10.5);
    // Only 1.5 lies between 1.1 and 1.9; the second window's 3 and 4 lie above 2.9.
    near(scores.coverage, 0.25);
    // The first window rises and was forecast to; the second was forecast to fall and rises.
    near(scores.direction.unwrap(), 0.5);
}

#[test]
fn without_spread_the_crps_is_the_mae() {
    let prediction = Prediction { quantiles: vec![vec![3.0, 3.0]; 9], ..certain(&[3.0, 3.0], &[], &[]) };
    let windows = [Scored { prediction: &prediction, actual: &[1.0, 7.0], last: 1.0, scale: Some(1.0) }];
    let scores = Scores::of(&windows, &question(), 0.8);
    near(scores.crps.unwrap(), scores.mae);
}

#[test]
fn the_naive_forecast_has_a_mase_near_one_on_its_own_scale() {
    let walk: Vec<f64> = (0..200).map(|day| 100.0 + f64::from(day * day * 7 % 13)).collect();
    let mut options = BacktestOptions::new(Windows::new(1));
    options.season = Some(1);
    let backtest = Backtest::new(vec![values("walk", &walk)], vec![50], options).unwrap();
    let mut naive = ReferencePredictor::new(Reference::Naive, 50, Some(1), 0);
    let scores = backtest.evaluate(&mut naive, &mut |_, _| ()).unwrap().scores;
    // The same by a plain loop over the windows.
    let plain: Vec<f64> = (50..200)
        .map(|origin| {
            let scale = metrics::seasonal_naive_error(&walk[origin - 50..origin], 1).unwrap();
            (walk[origin] - walk[origin - 1]).abs() / scale
        })
        .collect();
    near(scores[0].mase.unwrap(), plain.iter().sum::<f64>() / 150.0);
}

#[test]
fn rank_correlations_by_hand() {
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
    // Ranks 0 1 2 3 against 1 0 3 2: 1 - 6 * 4 / (4 * 15).
    near(spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]).unwrap(), 0.6);
    // Ties share their rank: 0.5 0.5 2 against 0 1 2.
    near(spearman(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]).unwrap(), 1.5 / (1.5f64 * 2.0).sqrt());
    assert_eq!((spearman(&[1.0, 1.0], &[1.0, 2.0]), spearman(&[1.0], &[1.0])), (None, None));
}

#[test]
fn rank_ic_is_the_mean_over_dates_that_are_shared() {
    let ranked = |date, expected, real| Ranked { date, expected, real };
    let windows = [
        ranked(1, 1.0, 1.0),
        ranked(1, 2.0, 2.0),
        ranked(2, 1.0, 2.0),
        ranked(2, 2.0, 1.0),
        ranked(3, 1.0, 1.0),
        ranked(4, 1.0, 1.0),
        ranked(4, 1.0, 2.0),
        ranked(5, 1.0, 1.0),
        ranked(5, 2.0, 2.0),
    ];
    let ic = RankIc::of(windows).unwrap();
    // 1, -1 and 1; date 3 has one symbol, on date 4 all forecasts are equal.
    near(ic.mean, 1.0 / 3.0);
    assert_eq!(ic.dates, 3);
    near(ic.information_ratio.unwrap(), (1.0 / 3.0) / (8.0f64 / 3.0 / 2.0).sqrt());
    assert_eq!(RankIc::of([ranked(1, 1.0, 1.0)]), None);
}

proptest! {
    /// Without ties Spearman is 1 - 6 sum d² / (n (n² - 1)).
    #[test]
    fn spearman_is_the_textbook_formula(values in prop::collection::vec(-1e3..1e3f64, 3..30), seed in any::<u64>()) {
        let mut other = values.clone();
        let length = other.len();
        for place in (1..length).rev() {
            other.swap(place, (seed.rotate_left(place as u32) % (place as u64 + 1)) as usize);
        }
        let rank = |all: &[f64], value: f64| all.iter().filter(|other| **other < value).count() as f64;
        let squares: f64 =
            values.iter().zip(&other).map(|(a, b)| (rank(&values, *a) - rank(&other, *b)).powi(2)).sum();
        let n = length as f64;
        let expected = 1.0 - 6.0 * squares / (n * (n * n - 1.0));
        prop_assert!((spearman(&values, &other).unwrap() - expected).abs() < 1e-12);
    }
}
