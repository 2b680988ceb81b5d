//! How much memory a forecast may take, and how it is cut to fit.

/// Bytes of host memory that can still be had.
pub use nowcast_engine::cpu::available;
use nowcast_engine::extent::Live;

use super::plans::PlanShape;
use crate::{Error, Result};

/// A plan grows no larger than this by itself; more would not be faster.
const COMFORTABLE_PLAN: usize = 1 << 30;

/// Rows of a decode pass below which products stop being efficient: samples are cut down to here first.
const EFFICIENT_ROWS: usize = 1024;

/// The largest capacity within `budget` bytes. `bytes` tells what a plan of a shape takes.
pub(super) fn fit<S: PlanShape>(
    mut shape: S,
    limit: Option<usize>,
    mut bytes: impl FnMut(S) -> Result<usize>,
) -> Result<S> {
    let budget = limit.unwrap_or(COMFORTABLE_PLAN);
    loop {
        let needed = bytes(shape)?;
        if needed <= budget {
            return Ok(shape);
        }
        match smaller(shape) {
            Some(smaller) => shape = smaller,
            None if limit.is_none() => return Ok(shape),
            None => {
                return Err(Error::Memory(format!(
                    "one series with one sample needs {} beside weights and paths where {} are left: raise the memory limit or shorten context and horizon",
                    in_words(needed),
                    in_words(budget)
                )));
            }
        }
    }
}

/// The next smaller chunk; the digits stay. `None` where there is one sample of one series.
pub(super) fn smaller<S: PlanShape>(mut shape: S) -> Option<S> {
    let rows_per_sample = shape.rows_per_sample();
    let capacity = shape.capacity();
    let Live { batch, samples, .. } = *capacity;
    if samples > 1 && (batch == 1 || batch * samples * rows_per_sample > EFFICIENT_ROWS) {
        capacity.samples = samples.div_ceil(2);
    } else if batch > 1 {
        capacity.batch = batch.div_ceil(2);
    } else {
        return None;
    }
    Some(shape)
}

/// Refuses a plan that its device cannot hold, before the system ends the process for it.
pub(super) fn check_plan(bytes: usize, available: Option<usize>) -> Result<()> {
    match available {
        Some(most) if bytes > most => Err(Error::Memory(format!(
            "the plan needs {} where {} can be had: shorten context and horizon, or choose fewer columns",
            in_words(bytes),
            in_words(most)
        ))),
        _ => Ok(()),
    }
}

/// Results that are held against a limit only: asking the system takes 50 us, a sixth of a short forecast on a GPU.
const SMALL_RESULTS: usize = 16 << 20;

/// Refuses results that the machine or the limit cannot hold; how many bytes they take.
pub(super) fn check_results(bytes: Option<usize>, limit: Option<usize>) -> Result<usize> {
    let ask = || if bytes.is_some_and(|bytes| bytes <= SMALL_RESULTS) { None } else { available() };
    let most = limit.or_else(ask).unwrap_or(usize::MAX);
    match bytes {
        Some(bytes) if bytes <= most => Ok(bytes),
        _ => Err(Error::Memory(format!(
            "the sample paths alone need {} where {} can be had: ask for fewer samples, steps or series at once",
            bytes.map_or_else(|| "more than the address space".into(), in_words),
            in_words(most)
        ))),
    }
}

/// Bytes as people read them.
pub fn in_words(bytes: usize) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toto::forward::{Decode, Shape};

    fn shape(batch: usize, samples: usize) -> Shape {
        Shape {
            capacity: Live { batch, context: 8, samples },
            variates: 1,
            exogenous: 0,
            known_future: false,
            horizon: 200,
            decode: Decode::Sample,
            uncached_xpos: false,
            levels: 0,
            sorted: false,
            observe: super::super::plans::Observe::Nothing,
        }
    }

    fn bytes(shape: Shape) -> Result<usize> {
        Ok(shape.capacity.batch * (1000 + shape.capacity.samples))
    }

    #[test]
    fn samples_are_cut_before_series_while_rows_abound() {
        let fitted = fit(shape(4, 4096), Some(10_000), bytes).unwrap();
        assert_eq!((fitted.capacity.batch, fitted.capacity.samples), (4, 1024));
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(fit(shape(4, 16), Some(10_000), bytes).unwrap(), shape(4, 16));
    }

    #[test]
    fn what_cannot_fit_is_one_clear_error() {
        let error = fit(shape(4, 16), Some(100), bytes).unwrap_err().to_string();
        assert!(error.contains("1001 bytes") && error.contains("100 bytes") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn plans_beyond_the_machine_are_refused() {
        assert!(check_plan(1, Some(1)).is_ok() && check_plan(usize::MAX, None).is_ok());
        assert!(check_plan(2, Some(1)).is_err());
    }

    #[test]
    fn results_beyond_the_limit_are_refused() {
        assert!(check_results(Some(5), Some(4)).is_err());
        assert!(check_results(None, None).is_err());
        assert!(check_results(Some(4), Some(4)).is_ok());
    }
}
