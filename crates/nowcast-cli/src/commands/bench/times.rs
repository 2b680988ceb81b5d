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
    /// Calls `forecast` with one seed after the other; `is_warm` is asked after the first one and after each that does not
    /// count, and `tell` hears of the others.
    pub(super) fn of(
        runs: usize,
        mut is_warm: impl FnMut() -> bool,
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
        let mut warm_up_runs = 0;
        while !is_warm() {
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

/// Whether so much time has passed since this was asked first.
pub(super) fn after(warm_up: Duration) -> impl FnMut() -> bool {
    let mut started = None;
    move || started.get_or_insert_with(Instant::now).elapsed() >= warm_up
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn seeds_of(is_warm: impl FnMut() -> bool) -> (Times, Vec<u64>, Vec<usize>) {
        let (seeds, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let forecast = |seed| {
            seeds.borrow_mut().push(seed);
            Ok(())
        };
        let times = Times::of(3, is_warm, forecast, |done| told.borrow_mut().push(done)).unwrap();
        (times, seeds.into_inner(), told.into_inner())
    }

    #[test]
    fn forecasts_that_warm_up_do_not_count() {
        let mut asked = 0;
        let (times, seeds, told) = seeds_of(|| {
            asked += 1;
            asked > 2
        });
        assert_eq!((times.warm_up_runs, times.runs_ms.len()), (2, 3));
        assert_eq!((seeds, told), ((0..6).collect(), vec![1, 2, 3, 4]));
    }

    #[test]
    fn without_warming_up_all_but_the_first_count() {
        let (times, seeds, _) = seeds_of(after(Duration::ZERO));
        assert_eq!((times.warm_up_runs, seeds.len()), (0, 4));
    }

    #[test]
    fn a_forecast_that_fails_ends_it() {
        let fails = |seed| if seed == 2 { Err(nowcast::Error::Setting("no".into())) } else { Ok(()) };
        assert!(Times::of(3, || true, fails, |_| ()).is_err());
    }
}
