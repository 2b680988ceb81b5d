//! Toto and Kronos in one process, under one memory limit.
#![cfg(feature = "nano")]

use jiff::civil::date;
use nowcast::{
    CandleColumns, CandleForecaster, CandleOptions, Candles, Forecast, ForecastOptions, Forecaster, MemoryBudget,
    Series,
};

fn closes(length: usize) -> Vec<f64> {
    (0..length).map(|step| 100.0 + (step as f64 / 9.0).sin() * 3.0 + (step as f64 / 2.3).cos()).collect()
}

fn series() -> Vec<Series> {
    vec![Series::new("close", closes(400).iter().map(|&close| close as f32).collect()).unwrap()]
}

fn markets() -> Vec<Candles> {
    let close = closes(200);
    let shifted = |shift: f64| close.iter().map(|close| close + shift).collect();
    let (open, high, low) = (shifted(0.0), shifted(0.5), shifted(-0.5));
    let columns = CandleColumns { open, high, low, close: close.clone(), volume: None, amount: None };
    let day = |day: i64| date(2023, 1, 2).at(0, 0, 0, 0) + jiff::Span::new().days(day);
    vec![Candles::new("market", columns, (0..200).map(day).collect(), (200..210).map(day).collect()).unwrap()]
}

fn options() -> (ForecastOptions, CandleOptions) {
    let mut of_series = ForecastOptions::new(40);
    of_series.paths = true;
    of_series.samples = Some(16);
    let mut of_candles = CandleOptions::new(4);
    of_candles.samples = Some(8);
    (of_series, of_candles)
}

/// Every digit of the paths.
fn digits(forecasts: &[Forecast]) -> Vec<u32> {
    let variates = forecasts.iter().flat_map(Forecast::variates);
    variates.flat_map(|variate| variate.paths().unwrap()).flatten().map(|value| value.to_bits()).collect()
}

/// Bytes of memory that the process has made its own, where the system tells. Pages of files (the program, its weights) come
/// and go as the system likes.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? * 1024)
}

/// One after the other: what others hold meanwhile would count as growth.
#[test]
fn two_models_share_a_process() {
    two_hundred_rounds_in_turn_take_no_more_memory_than_five_and_change_no_digit();
    weights_leave_when_told_to_and_come_back_by_themselves();
    a_budget_for_one_model_at_a_time_holds_one_model_at_a_time();
}

fn two_hundred_rounds_in_turn_take_no_more_memory_than_five_and_change_no_digit() {
    let (of_series, of_candles) = options();
    let mut toto = Forecaster::load("nano").unwrap();
    let mut kronos = CandleForecaster::load("kronos-nano").unwrap();
    let expected = (
        digits(&toto.forecast(&series(), &of_series).unwrap()),
        digits(&kronos.forecast(&markets(), &of_candles).unwrap()),
    );
    // Room for both models and one of the plans, so that plans come and go.
    let plans = toto.held_bytes() + kronos.held_bytes() - toto.weight_bytes() - kronos.weight_bytes();
    let budget = MemoryBudget::new(toto.weight_bytes() + kronos.weight_bytes() + plans * 3 / 4);
    let (mut toto, mut kronos) = (toto.with_budget(&budget).unwrap(), kronos.with_budget(&budget).unwrap());
    let mut early = None;
    for round in 1..=200 {
        assert_eq!(digits(&toto.forecast(&series(), &of_series).unwrap()), expected.0, "round {round}");
        assert!(budget.held() <= budget.limit());
        assert_eq!(digits(&kronos.forecast(&markets(), &of_candles).unwrap()), expected.1, "round {round}");
        assert!(budget.held() <= budget.limit());
        if round == 5 {
            early = resident();
        }
    }
    assert!(toto.counters().plans_built > 100, "plans had to come and go");
    if let (Some(early), Some(late)) = (early, resident()) {
        // Less than a page of every allocation made since would be more.
        assert!(late <= early + (1 << 20), "{early} bytes grew to {late}");
    }
}

fn weights_leave_when_told_to_and_come_back_by_themselves() {
    let (of_series, of_candles) = options();
    let mut toto = Forecaster::load("nano").unwrap();
    let mut kronos = CandleForecaster::load("kronos-nano").unwrap();
    let expected = digits(&toto.forecast(&series(), &of_series).unwrap());
    assert!(toto.held_bytes() > toto.weight_bytes() && toto.weight_bytes() > 1_000_000);
    toto.unload();
    assert_eq!(toto.held_bytes(), 0);
    assert_eq!(digits(&toto.forecast(&series(), &of_series).unwrap()), expected);
    let expected = digits(&kronos.forecast(&markets(), &of_candles).unwrap());
    kronos.unload();
    assert_eq!(kronos.held_bytes(), 0);
    assert_eq!(digits(&kronos.forecast(&markets(), &of_candles).unwrap()), expected);
}

fn a_budget_for_one_model_at_a_time_holds_one_model_at_a_time() {
    let (of_series, of_candles) = options();
    let toto = Forecaster::load("nano").unwrap();
    let kronos = CandleForecaster::load("kronos-nano").unwrap();
    let budget = MemoryBudget::new(toto.weight_bytes().max(kronos.weight_bytes()) + (4 << 20));
    let (mut toto, mut kronos) = (toto.with_budget(&budget).unwrap(), kronos.with_budget(&budget).unwrap());
    for _ in 0..3 {
        toto.forecast(&series(), &of_series).unwrap();
        assert_eq!(kronos.held_bytes(), 0);
        kronos.forecast(&markets(), &of_candles).unwrap();
        assert_eq!(toto.held_bytes(), 0);
        assert!(budget.held() <= budget.limit());
    }
    let error = Forecaster::load("nano").unwrap().with_budget(&MemoryBudget::new(1 << 20)).err().unwrap().to_string();
    assert!(error.contains("memory budget") && error.contains("raise"), "{error}");
}
