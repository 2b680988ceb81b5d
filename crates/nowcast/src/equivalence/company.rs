//! Whole forecasts: their digits in any company, what is counted, and what they take.

use std::sync::Arc;

use super::grid::{Case, Family};
use super::{Cell, Report, Scope, Way};
use crate::Result;
use crate::forecast::{Distribution, Forecast};
use crate::forecaster::Counters;

/// No way may take more than this beyond the eager mode, as a share of what that one takes.
const MOST_MEMORY_OVERHEAD: f64 = 0.3;

/// Sample paths of a forecast that is cut to pieces of few.
const SAMPLES_IN_PIECES: usize = 96;

/// The longest context in which digits are compared.
const LONGEST: usize = 128;

/// A forecaster with the items it is asked about.
pub(super) trait Forecasts {
    /// Forecasts of some items.
    fn forecast(&mut self, request: Request<'_>) -> Result<Vec<Forecast>>;

    /// What happened so far.
    fn counters(&self) -> Counters;

    /// Bytes of the weights.
    fn weight_bytes(&self) -> usize;

    /// Bytes of the plan of one long item with many sample paths.
    fn planned_bytes(&self) -> Result<usize>;

    /// Bytes of the plan of one sample path of the longest item asked about.
    fn least_bytes(&self) -> Result<usize>;
}

/// Which forecast is asked for.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// Which items.
    pub(super) items: &'a [usize],
    /// Sample paths, if not the usual few.
    pub(super) samples: Option<usize>,
    pub(super) seed: u64,
    pub(super) memory_limit: Option<usize>,
}

/// The digits of a forecast, item by item.
pub(super) type Digits = Vec<Vec<u64>>;

/// Items of two lengths, so that a call needs more than one plan.
pub(super) struct Mixed {
    batch: usize,
    context: usize,
}

/// Every digit of an answer.
fn digits(forecasts: &[Forecast]) -> Digits {
    let of_variate = |distribution: &Distribution| -> Vec<u64> {
        match distribution {
            Distribution::Paths { values, .. } | Distribution::Samples { values, .. } | Distribution::Mean(values) => {
                values.iter().map(|value| u64::from(value.to_bits())).collect()
            }
            Distribution::Mixture(steps) => {
                steps.iter().flat_map(|mixture| mixture.quantiles(&[0.1, 0.5, 0.9])).map(f64::to_bits).collect()
            }
        }
    };
    let of_forecast = |forecast: &Forecast| {
        forecast.variates().iter().flat_map(|variate| of_variate(variate.distribution())).collect()
    };
    forecasts.iter().map(of_forecast).collect()
}

/// How many digits differ.
fn differing(ours: &[Vec<u64>], expected: &[Vec<u64>]) -> f64 {
    let of_item = |(ours, expected): (&Vec<u64>, &Vec<u64>)| match ours.len() == expected.len() {
        true => ours.iter().zip(expected).filter(|(ours, expected)| ours != expected).count(),
        false => ours.len().max(expected.len()),
    };
    ours.iter().zip(expected).map(of_item).sum::<usize>() as f64
}

impl Mixed {
    /// The largest batch of the scope.
    pub(super) fn of<F: Family>(family: &F, scope: &Scope) -> Result<Self> {
        let batch = scope.batches.iter().copied().max().unwrap_or(1).max(2);
        let context = LONGEST.min(family.longest());
        Ok(Self { batch, context })
    }

    fn items<F: Family>(&self, family: &F) -> Result<Vec<F::Item>> {
        let shorter = (2 * self.context / 3).max(1);
        let of_length = |context, batch| Ok(family.items(Cell { context, batch })?.unwrap_or_default());
        let mut items: Vec<F::Item> = of_length(self.context, self.batch - self.batch / 2)?;
        items.extend(of_length(shorter, self.batch / 2)?);
        Ok(items)
    }

    /// Weights and the plan of one forecast.
    pub(super) fn bytes<F: Family>(&self, family: &F, way: &Way) -> Result<usize> {
        let forecasts = family.forecasts(way, Arc::clone(&way.device), Vec::new())?;
        Ok(forecasts.weight_bytes() + forecasts.planned_bytes()?)
    }

    /// Checks digits, counters and memory of one way, and answers its digits.
    pub(super) fn verify<F: Family>(
        &self,
        family: &F,
        way: &Way,
        leader: Option<Digits>,
        eager_bytes: usize,
        report: &mut Report,
    ) -> Result<Digits> {
        let setting = format!("context {}, batch {}", self.context, self.batch);
        let case = Case { way, setting: &setting };
        let all: Vec<usize> = (0..self.batch).collect();
        let request = Request { items: &all, samples: None, seed: 7, memory_limit: None };
        let mut forecasts = family.forecasts(way, Arc::clone(&way.device), self.items(family)?)?;
        let expected = digits(&forecasts.forecast(request)?);
        if let Some(leader) = leader {
            report.push(case, "digits other than the default mode's", differing(&expected, &leader), 0.0);
        }
        counters(case, &mut *forecasts, request, report)?;
        let again = digits(&forecasts.forecast(request)?);
        report.push(case, "digits that change when repeated", differing(&again, &expected), 0.0);

        let mut alone = 0.0;
        for item in [0, self.batch / 2, self.batch - 1] {
            let one = digits(&forecasts.forecast(Request { items: &[item], ..request })?);
            alone += differing(&one, &expected[item..=item]);
        }
        report.push(case, "digits that change in company", alone, 0.0);
        pieces(case, &mut *forecasts, request, &expected, report)?;
        drop(forecasts);

        if let Some(device) = &way.one_thread {
            let mut forecasts = family.forecasts(way, Arc::clone(device), self.items(family)?)?;
            let one = digits(&forecasts.forecast(request)?);
            report.push(case, "digits that change on one thread", differing(&one, &expected), 0.0);
        }
        let overhead = self.bytes(family, way)? as f64 / eager_bytes as f64 - 1.0;
        report.push(case, "memory beyond eager, as a share", overhead, MOST_MEMORY_OVERHEAD);
        Ok(expected)
    }
}

/// After the first forecast nothing is planned, captured or waited for any more.
fn counters(case: Case<'_>, forecasts: &mut dyn Forecasts, request: Request<'_>, report: &mut Report) -> Result<()> {
    let before = forecasts.counters();
    for seed in [8, 9] {
        forecasts.forecast(Request { seed, ..request })?;
    }
    let after = forecasts.counters();
    for (what, count) in [
        ("plans built after the first forecast", after.plans_built - before.plans_built),
        ("graphs captured after the first forecast", after.graphs_captured - before.graphs_captured),
        ("host synchronisations inside a forecast", after.host_syncs - before.host_syncs),
    ] {
        report.push(case, what, count as f64, 0.0);
    }
    Ok(())
}

/// All items with half the room for their plan, and many sample paths of one item with room for one path.
fn pieces(
    case: Case<'_>,
    forecasts: &mut dyn Forecasts,
    request: Request<'_>,
    expected: &Digits,
    report: &mut Report,
) -> Result<()> {
    let least = forecasts.least_bytes()?;
    let half = forecasts.counters().planned_bytes / 2;
    let many = Request { items: &request.items[..1], samples: Some(SAMPLES_IN_PIECES), ..request };
    let whole = digits(&forecasts.forecast(many)?);
    let mut different = 0.0;
    for (request, expected, room) in [(request, expected, half.max(least)), (many, &whole, least)] {
        let results: usize = expected.iter().map(|item| item.len() * size_of::<f32>()).sum();
        let memory_limit = Some(forecasts.weight_bytes() + results + room);
        different += differing(&digits(&forecasts.forecast(Request { memory_limit, ..request })?), expected);
    }
    report.push(case, "digits that change in pieces", different, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_counts() {
        let expected = vec![vec![1, 2, 3], vec![4, 5]];
        assert_eq!(differing(&expected, &expected), 0.0);
        assert_eq!(differing(&[vec![1, 2, 4], vec![5, 4]], &expected), 3.0);
        assert_eq!(differing(&[vec![1, 2], vec![4, 5]], &expected), 3.0, "missing ones too");
    }
}
