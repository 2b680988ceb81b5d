//! The walk over contexts and batches, the same for every family.

use std::sync::Arc;

use nowcast_engine::device::Device;

use super::company::{self, Forecasts};
use super::{Cell, Report, Scope, Way};
use crate::forecaster::plans::Planned;
use crate::{Error, Result};

/// What a family brings to the comparison.
pub(super) trait Family {
    /// Its model.
    type Model: Planned;
    /// What it forecasts.
    type Item;
    /// Plans of one and of several steps that have run.
    type Runs;

    /// The longest item of the data.
    fn longest(&self) -> usize;

    /// A batch of the data; `None` where no item is long enough.
    fn items(&self, cell: Cell) -> Result<Option<Vec<Self::Item>>>;

    /// The model as a way runs it.
    fn load(&self, way: &Way) -> Result<Self::Model>;

    /// One step and several, state kept.
    fn run(&self, model: &Self::Model, items: &[Self::Item]) -> Result<Self::Runs>;

    /// Holds one run against the baseline's.
    fn compare(&self, case: Case<'_>, ours: &mut Self::Runs, baseline: &mut Self::Runs, report: &mut Report);

    /// Whole forecasts of these items.
    fn forecasts(&self, way: &Way, device: Arc<dyn Device>, items: Vec<Self::Item>) -> Result<Box<dyn Forecasts>>;

    /// Checks that need more than a baseline; the model is the one that the way runs.
    fn against_double(&self, _way: &Way, _model: &Self::Model, _report: &mut Report) -> Result<()> {
        Ok(())
    }
}

/// Whose run is compared, and where in the grid.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) way: &'a Way,
    pub(super) setting: &'a str,
}

/// Tells `(done, total)` as the work goes on.
struct Steps<'a> {
    done: usize,
    total: usize,
    tell: &'a mut dyn FnMut(usize, usize),
}

impl Steps<'_> {
    fn one_more(&mut self) {
        self.done += 1;
        (self.tell)(self.done, self.total);
    }
}

/// Compares every way with the eager f32 mode on `baseline`.
pub(super) fn verify<F: Family>(
    family: &F,
    baseline: Arc<dyn Device>,
    ways: &[Way],
    scope: &Scope,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    let baseline = Way::baseline(baseline);
    let mut report = Report::default();
    let mut cells = Vec::new();
    for cell in scope.cells() {
        match family.items(cell)? {
            Some(items) => cells.push((cell, items)),
            None => report.note(format!(
                "context {}: no item of the data is that long (the longest has {} steps), left out",
                cell.context,
                family.longest()
            )),
        }
    }
    if cells.is_empty() {
        return Err(nothing_to_compare(family.longest(), scope));
    }
    let whole: Vec<&Way> = ways.iter().filter(|way| !way.same_digits).collect();
    let mut steps = Steps { done: 0, total: cells.len() * whole.len() + ways.len(), tell: progress };

    let models = whole.iter().map(|way| family.load(way)).collect::<Result<Vec<_>>>()?;
    let eager = family.load(&baseline)?;
    for (way, model) in std::iter::once((&baseline, &eager)).chain(whole.iter().copied().zip(&models)) {
        family.against_double(way, model, &mut report)?;
    }
    for (cell, items) in &cells {
        let mut truth = family.run(&eager, items)?;
        let setting = format!("context {}, batch {}", cell.context, cell.batch);
        for (way, model) in whole.iter().zip(&models) {
            let mut ours = family.run(model, items)?;
            family.compare(Case { way, setting: &setting }, &mut ours, &mut truth, &mut report);
            steps.one_more();
        }
    }
    drop((models, eager));

    let mixed = company::Mixed::of(family, scope)?;
    let eager_bytes = mixed.bytes(family, &baseline)?;
    let mut leader = None;
    for way in ways {
        leader = Some(mixed.verify(family, way, leader.filter(|_| way.same_digits), eager_bytes, &mut report)?);
        steps.one_more();
    }
    Ok(report)
}

/// Nothing of the grid fits the data.
fn nothing_to_compare(longest: usize, scope: &Scope) -> Error {
    let least = scope.contexts.iter().min().copied().unwrap_or(0);
    Error::Data(format!(
        "the longest item of the data has {longest} steps where the shortest comparison needs {least}: give longer files"
    ))
}
