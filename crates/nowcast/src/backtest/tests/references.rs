use super::super::{Reference, ReferencePredictor};
use super::*;

fn predict(reference: Reference, symbol: &Symbol, horizon: usize, seed: u64) -> Prediction {
    let question = Question { horizon, levels: vec![0.1, 0.5, 0.9], high_and_low: symbol.is_candle() };
    let mut predictor = ReferencePredictor::new(reference, 6, Some(3), seed);
    predictor.predict(&[symbol.history(symbol.len())], &question, &mut |_, _| ()).unwrap().remove(0)
}

#[test]
fn naive_repeats_the_last_value_and_seasonal_naive_the_last_season() {
    let symbol = values("v", &[9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]);
    assert_eq!(predict(Reference::Naive, &symbol, 4, 0).close, [8.0; 4]);
    assert_eq!(predict(Reference::SeasonalNaive, &symbol, 4, 0).close, [4.0, 6.0, 8.0, 4.0]);
}

#[test]
fn their_intervals_are_the_errors_they_made() {
    let symbol = values("v", &[0.0, 1.0, 3.0, 6.0, 10.0, 15.0]);
    let naive = predict(Reference::Naive, &symbol, 2, 0);
    // One step: changes of 1 to 5, with both signs; position 0.1 * 9 lies between -5 and -4, at 0.9.
    near(naive.quantiles[0][0], 15.0 - 4.1);
    near(naive.quantiles[2][0], 15.0 + 4.1);
    // Two steps: changes of 3, 5, 7, 9; position 0.1 * 7 lies between -9 and -7, at 0.7.
    near(naive.quantiles[0][1], 15.0 - 7.6);
    assert_eq!(naive.quantiles[1], naive.close);
    // Over whole seasons of three: 6, 9, 12; position 0.5.
    let seasonal = predict(Reference::SeasonalNaive, &symbol, 1, 0);
    near(seasonal.quantiles[0][0], 6.0 - 10.5);
}

#[test]
fn buy_and_hold_rises_by_the_typical_change() {
    let symbol =
        candles("a", &[[1.0, 2.0, 0.5, 1.0], [1.0, 4.0, 0.5, 2.0], [1.0, 5.0, 0.5, 0.0], [1.0, 8.0, 0.5, 4.0]]);
    let hold = predict(Reference::BuyAndHold, &symbol, 1, 0);
    // Closes change by 1, 2 and 4, highs by 2, 1 and 3, lows never.
    assert_eq!((hold.close[0], hold.high.unwrap()[0], hold.low.unwrap()[0]), (6.0, 10.0, 0.5));
}

#[test]
fn the_coin_depends_on_seed_symbol_and_time_alone() {
    let days: Vec<f64> = (0..64).map(|day| f64::from(day * 5 % 7)).collect();
    let flips = |name: &str, days: &[f64], seed: u64| -> Vec<bool> {
        let symbol = values(name, days);
        let windows: Vec<History<'_>> = (10..days.len()).map(|bars| symbol.history(bars)).collect();
        let question = Question { horizon: 1, levels: vec![0.5], high_and_low: false };
        let mut predictor = ReferencePredictor::new(Reference::CoinFlip, 6, None, seed);
        let answers = predictor.predict(&windows, &question, &mut |_, _| ()).unwrap();
        answers.iter().zip(&windows).map(|(answer, window)| answer.close[0] > window.last_close()).collect()
    };
    let all = flips("a", &days, 1);
    // Fewer windows, and other values: the same flips.
    assert_eq!(all[..20], flips("a", &days[..30], 1));
    assert_eq!(all, flips("a", &days.iter().map(|value| value + 1.0).collect::<Vec<_>>(), 1));
    assert!(all != flips("a", &days, 2) && all != flips("b", &days, 1));
    // Of 54 fair flips between 10 and 44 are heads but once in ten million.
    let heads = all.iter().filter(|head| **head).count();
    assert!((10..=44).contains(&heads), "{heads}");
}
