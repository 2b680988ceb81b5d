//! Weights and plans of one model: kept while there is room, given up and brought back when there is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::{MemoryBudget, Tenant};
use super::plans::{PlanCache, Planned, Ready};
use super::{Counters, memory};
use crate::{Error, Result};

/// Brings a model onto its device; may be called again after the weights were given up.
pub(crate) type Load<M> = Box<dyn Fn() -> Result<M> + Send>;

/// What a forecaster holds. Others who share its budget may take from it while it rests.
pub(super) struct Keeper<M: Planned> {
    kept: Arc<Mutex<Kept<M>>>,
    budget: Option<MemoryBudget>,
}

/// See [`Keeper`].
pub(super) struct Kept<M: Planned> {
    load: Load<M>,
    model: Option<M>,
    /// Bytes of the weights, there or given up.
    weights: usize,
    pub(super) plans: PlanCache<M>,
    pub(super) counters: Counters,
    held: Arc<AtomicUsize>,
}

/// A forecaster at work: its model is there, and nobody takes anything from it.
pub(super) struct AtWork<'a, M: Planned> {
    kept: MutexGuard<'a, Kept<M>>,
    budget: Option<&'a MemoryBudget>,
    tenant: usize,
}

impl<M: Planned + Send + 'static> Keeper<M>
where
    M::Shape: Send,
    M::Tensors: Send,
{
    /// Loads a model.
    pub(super) fn new(load: Load<M>) -> Result<Self> {
        let kept = Kept {
            load,
            model: None,
            weights: 0,
            plans: PlanCache::default(),
            counters: Counters::default(),
            held: Arc::default(),
        };
        let keeper = Self { kept: Arc::new(Mutex::new(kept)), budget: None };
        keeper.at_work()?;
        Ok(keeper)
    }

    /// Shares a budget with others from now on.
    pub(super) fn join(&mut self, budget: &MemoryBudget) -> Result<()> {
        let kept = lock(&self.kept);
        budget.check_alone(kept.weights)?;
        budget.enter(self.tenant(), Arc::downgrade(&self.kept) as _, Arc::clone(&kept.held));
        self.budget = Some(budget.clone());
        budget.make_room(self.tenant(), kept.held())
    }

    /// Weights and plans for one forecast, brought back if they were given up.
    pub(super) fn at_work(&self) -> Result<AtWork<'_, M>> {
        let mut kept = lock(&self.kept);
        let budget = self.budget.as_ref();
        if kept.model.is_none() {
            if let Some(budget) = budget {
                budget.make_room(self.tenant(), kept.weights)?;
            }
            let model = loop {
                match (kept.load)() {
                    Err(Error::Memory(_)) if budget.is_some_and(|budget| budget.free_one(self.tenant())) => {}
                    loaded => break loaded?,
                }
            };
            kept.weights = model.resident().bytes();
            tracing::debug!(target: "memory", bytes = kept.weights, "weights loaded");
            kept.model = Some(model);
            kept.note_held();
        }
        Ok(AtWork { kept, budget, tenant: self.tenant() })
    }

    /// Gives weights and plans up; the next forecast loads them again.
    pub(super) fn unload(&self) {
        lock(&self.kept).give_up_weights();
    }

    /// Bytes of the weights, loaded or not.
    pub(super) fn weight_bytes(&self) -> usize {
        lock(&self.kept).weights
    }

    /// Bytes of weights and plans that are there now.
    pub(super) fn held_bytes(&self) -> usize {
        lock(&self.kept).held()
    }

    pub(super) fn counters(&self) -> Counters {
        lock(&self.kept).counters
    }

    /// What names this keeper among the tenants of a budget.
    fn tenant(&self) -> usize {
        Arc::as_ptr(&self.kept) as usize
    }
}

impl<M: Planned> Drop for Keeper<M> {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.leave(Arc::as_ptr(&self.kept) as usize);
        }
    }
}

/// A forecast that panicked leaves nothing half-done in here: plans are written anew before every run.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Planned> Kept<M> {
    fn held(&self) -> usize {
        let weights = if self.model.is_some() { self.weights } else { 0 };
        weights + self.plans.held_bytes()
    }

    fn note_held(&self) {
        self.held.store(self.held(), Ordering::Relaxed);
    }
}

impl<M: Planned> Tenant for Kept<M> {
    fn give_up_plans(&mut self) {
        self.plans.clear();
        self.note_held();
    }

    fn give_up_weights(&mut self) {
        self.plans.clear();
        if self.model.take().is_some() {
            tracing::debug!(target: "memory", bytes = self.weights, "weights unloaded");
        }
        self.note_held();
    }
}

impl<M: Planned> AtWork<'_, M> {
    /// The model.
    pub(super) fn model(&self) -> &M {
        self.kept.model.as_ref().expect("it was brought back when work began")
    }

    /// The model beside its plans and counters.
    pub(super) fn parts(&mut self) -> (&M, &mut PlanCache<M>, &mut Counters) {
        let Kept { model, plans, counters, .. } = &mut *self.kept;
        (model.as_ref().expect("it was brought back when work began"), plans, counters)
    }

    /// The room for plans that the caller's limit and the budget leave beside the weights and `results` bytes of paths.
    pub(super) fn room(&self, results: usize, limit: Option<usize>) -> Result<Room> {
        Ok(Room { limit: self.plan_limit(results, limit)?, results })
    }

    /// What a plan may take of the caller's limit and of the budget, beside the weights and `results` bytes of paths.
    pub(super) fn plan_limit(&self, results: usize, limit: Option<usize>) -> Result<Option<usize>> {
        let weights = self.kept.weights;
        let limit = limit.into_iter().chain(self.budget.map(MemoryBudget::limit)).min();
        let rest = |limit: usize| {
            let taken = weights.saturating_add(results);
            limit.checked_sub(taken).ok_or_else(|| {
                let (what, bytes, cure) = match limit < weights {
                    true => ("the weights alone", weights, "raise it"),
                    false => ("weights and sample paths", taken, "raise it or ask for fewer samples, steps or series"),
                };
                let (bytes, limit) = (memory::in_words(bytes), memory::in_words(limit));
                Error::Memory(format!("{what} take {bytes}, above the memory limit of {limit}: {cure}"))
            })
        };
        limit.map(rest).transpose()
    }

    /// The plan of the largest chunk of a shape for which there is room, with its chunk and the counters.
    ///
    /// What a device promised may be gone when it is asked for: then own plans give way, then others who share the
    /// budget, and then the chunk shrinks, for the rest of the forecast.
    pub(super) fn ready(
        &mut self,
        shape: M::Shape,
        room: &mut Room,
    ) -> Result<(M::Shape, &mut Ready<M>, &mut Counters)> {
        let mut refused = None;
        let shape = loop {
            let (model, plans, counters) = self.parts();
            let fitted = memory::fit(shape, room.limit, |shape| plans.bytes(model, shape, counters));
            let fitted = fitted.map_err(|error| refused.take().unwrap_or(error))?;
            self.make_room(fitted, room)?;
            let (model, plans, counters) = self.parts();
            let Err(error) = plans.bring(model, fitted, room.limit, counters) else { break fitted };
            let Error::Memory(reason) = error else { return Err(error) };
            let bytes = plans.bytes(model, fitted, counters)?;
            let gave_way = plans.held_bytes() > 0;
            plans.clear();
            if gave_way || self.budget.is_some_and(|budget| budget.free_one(self.tenant)) {
                continue;
            }
            tracing::debug!(target: "memory", bytes, %reason, "chunk shrunk");
            room.limit = Some(bytes - 1);
            refused = Some(Error::Memory(reason));
        };
        let Kept { plans, counters, .. } = &mut *self.kept;
        Ok((shape, plans.latest(), counters))
    }

    /// Lets a plan in: others who share the budget give up what they do not use.
    fn make_room(&mut self, shape: M::Shape, room: &Room) -> Result<()> {
        let Some(budget) = self.budget else { return Ok(()) };
        let (model, plans, counters) = self.parts();
        let plan = plans.missing_bytes(model, shape, counters)?;
        // Own plans give way first, when the plan is taken from the cache.
        let plans = plans.held_bytes().saturating_add(plan).min(room.limit.unwrap_or(usize::MAX));
        let mine = self.kept.weights.saturating_add(plans).saturating_add(room.results);
        budget.make_room(self.tenant, mine)
    }
}

/// What one forecast may take beside the weights.
pub(super) struct Room {
    /// Bytes of plans.
    limit: Option<usize>,
    /// Bytes of the paths that are answered.
    results: usize,
}

impl<M: Planned> Drop for AtWork<'_, M> {
    fn drop(&mut self) {
        self.kept.note_held();
    }
}
