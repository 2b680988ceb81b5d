//! The order in which forecasts are timed.

use std::time::{Duration, Instant};

use nowcast::Result;

use super::milliseconds;

/// The first forecast, which writes the plan, then some that do not count, until processor and GPU have found the pace that
/// they keep, then those that count.
pub(super) struct Times {
    pub(super) first_ms: f64,
    /// Forecasts that do not count.
    pub(super) warm_up_runs: usize,
    pub(super) runs_ms: Vec<f64>,
}

impl Times {
    /// Calls `forecast` with one seed after the other; `tell` hears of the first and of those that count.
    pub(super) fn of(
        runs: usize,
        warm_up: Duration,
        mut forecast: impl FnMut(u64) -> Result<()>,
        mut tell: impl FnMut(usize),
    ) -> Result<Self> {
        let mut seed = 0;
        let mut next = || -> Result<f64> {
            let started = Instant::now();
            forecast(seed)?;
            seed += 1;
            Ok(milliseconds(started))
        };
        let first_ms = next()?;
        tell(1);
        let (started, mut warm_up_runs) = (Instant::now(), 0);
        while started.elapsed() < warm_up {
            next()?;
            warm_up_runs += 1;
        }
        let mut runs_ms = Vec::with_capacity(runs);
        for run in 0..runs {
            runs_ms.push(next()?);
            tell(run + 2);
        }
        Ok(Self { first_ms, warm_up_runs, runs_ms })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn seeds_of(warm_up: Duration) -> (Times, Vec<u64>, Vec<usize>) {
        let (seeds, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let forecast = |seed| {
            seeds.borrow_mut().push(seed);
            Ok(())
        };
        let times = Times::of(3, warm_up, forecast, |done| told.borrow_mut().push(done)).unwrap();
        (times, seeds.into_inner(), told.into_inner())
    }

    #[test]
    fn forecasts_that_warm_up_do_not_count() {
        let (times, seeds, told) = seeds_of(Duration::from_millis(5));
        assert!(times.warm_up_runs > 0 && times.runs_ms.len() == 3);
        assert_eq!(seeds, (0..4 + times.warm_up_runs as u64).collect::<Vec<_>>());
        assert_eq!(told, [1, 2, 3, 4]);
    }

    #[test]
    fn without_warming_up_all_but_the_first_count() {
        let (times, seeds, _) = seeds_of(Duration::ZERO);
        assert_eq!((times.warm_up_runs, seeds.len()), (0, 4));
    }

    #[test]
    fn a_forecast_that_fails_ends_it() {
        let fails = |seed| if seed == 2 { Err(nowcast::Error::Setting("no".into())) } else { Ok(()) };
        assert!(Times::of(3, Duration::ZERO, fails, |_| ()).is_err());
    }
}
