//! Toto and Kronos in turn under one memory limit, and what the process holds meanwhile.
//!
//! ```text
//! cargo run --release --example two_models [TOTO KRONOS [LIMIT_MIB [ROUNDS]]]
//! ```

use jiff::civil::date;
use nowcast::{
    CandleColumns, CandleForecaster, CandleOptions, Candles, ForecastOptions, Forecaster, MemoryBudget, Result, Series,
};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let toto = arguments.next().unwrap_or_else(|| "nano".into());
    let kronos = arguments.next().unwrap_or_else(|| "kronos-nano".into());
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (limit, rounds) = (number(2048) << 20, number(200));

    let budget = MemoryBudget::new(limit);
    report("at the start");
    let mut toto = Forecaster::load(&toto)?.with_budget(&budget)?;
    report("Toto loaded");
    let mut kronos = CandleForecaster::load(&kronos)?.with_budget(&budget)?;
    report("both loaded");

    let closes: Vec<f64> = (0..400).map(|step| 100.0 + (f64::from(step) / 9.0).sin() * 3.0).collect();
    let series = [Series::new("close", closes.iter().map(|&close| close as f32).collect())?];
    let shifted = |shift: f64| closes.iter().map(|close| close + shift).collect();
    let (open, high, low, close) = (shifted(0.0), shifted(0.5), shifted(-0.5), closes.clone());
    let day = |day: i64| date(2023, 1, 2).at(0, 0, 0, 0) + jiff::Span::new().days(day);
    let columns = CandleColumns { open, high, low, close, volume: None, amount: None };
    let markets = [Candles::new("market", columns, (0..400).map(day).collect(), (400..410).map(day).collect())?];

    for round in 1..=rounds {
        // The lengths change, the plans need not.
        let horizon = 4 + round % 3;
        toto.forecast(&series, &ForecastOptions::new(8 * horizon))?;
        kronos.forecast(&markets, &CandleOptions::new(horizon))?;
        if [1, 5, rounds / 2, rounds].contains(&round) {
            report(&format!("after round {round}, {} MiB held", budget.held() >> 20));
        }
    }
    toto.unload();
    report("Toto unloaded");
    kronos.unload();
    report("both unloaded");
    toto.forecast(&series, &ForecastOptions::new(8))?;
    report("Toto has forecast again");
    Ok(())
}

/// Memory of the process, where the system tells.
fn report(when: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("unknown").trim();
    println!("{when}: {resident}");
}
