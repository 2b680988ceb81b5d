//! Plans kept ready, the least recently used given up first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use nowcast_engine::device::{Executable, Launch, Resident};
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Plan, Section};

use super::{Counters, memory};
use crate::{Error, Result};

/// A model that writes plans.
pub(crate) trait Planned {
    /// What a plan is made for.
    type Shape: PlanShape;
    /// A plan and its tensors.
    type Tensors;

    /// Writes down the plan of a shape.
    fn plan(&self, shape: Self::Shape) -> Result<Self::Tensors>;

    /// The plan among its tensors.
    fn of(tensors: &Self::Tensors) -> &Arc<Plan>;

    /// The weights on their device.
    fn resident(&self) -> &Arc<dyn Resident>;
}

/// What a plan is made for, as far as memory is concerned.
pub(crate) trait PlanShape: Copy + Eq + Hash {
    /// Greatest extents.
    fn capacity(&mut self) -> &mut Live;

    /// Rows of a decode pass for each sample of each item.
    fn rows_per_sample(&self) -> usize;
}

/// What a plan keeps for inspection, beside what the forecast needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Observe {
    /// Nothing.
    Nothing,
    /// What later steps go on from: KV caches, tokens, logits. The operations are those of a forecast.
    State,
    /// Every stage, all tokens carried to the end.
    Stages,
}

/// A plan with its memory.
pub(crate) struct Ready<M: Planned> {
    pub(crate) tensors: M::Tensors,
    pub(crate) executable: Box<dyn Executable>,
}

impl<M: Planned> Ready<M> {
    /// Builds a plan and reserves its memory.
    pub(crate) fn new(model: &M, shape: M::Shape) -> Result<Self> {
        Self::of_tensors(model, model.plan(shape)?)
    }

    /// Reserves the memory of a plan.
    pub(crate) fn of_tensors(model: &M, tensors: M::Tensors) -> Result<Self> {
        let plan = Arc::clone(M::of(&tensors));
        let executable = Arc::clone(model.resident()).prepare(plan).map_err(Error::of_device)?;
        Ok(Self { tensors, executable })
    }

    /// Runs one section.
    pub(crate) fn run(&mut self, section: Section, launch: &Launch) -> Result<()> {
        self.executable.run(section, launch).map_err(Error::of_device)
    }
}

/// Sizes up to 8 have plans of their own; larger ones share a plan with at most an eighth more.
pub(super) fn bucket(size: usize) -> usize {
    let step = size.next_power_of_two() / 16;
    size.next_multiple_of(step.max(1))
}

/// A plan in the cache, and the bytes it takes on its device.
struct Kept<M: Planned> {
    shape: M::Shape,
    bytes: usize,
    ready: Ready<M>,
}

/// Plans in order of use, the latest last.
pub(super) struct PlanCache<M: Planned> {
    plans: Vec<Kept<M>>,
    /// What plans take, so that a forecast of a known shape writes none.
    sizes: HashMap<M::Shape, usize>,
    /// The plan written last, in case it is the one to run.
    written: Option<(M::Shape, M::Tensors)>,
}

impl<M: Planned> Default for PlanCache<M> {
    fn default() -> Self {
        Self { plans: Vec::new(), sizes: HashMap::new(), written: None }
    }
}

/// Sizes remembered; forgetting them costs a little time only.
const MOST_SIZES: usize = 4096;

/// Plans are kept while they take no more than this together, if no limit says less.
const KEPT_BYTES: usize = 2 << 30;

impl<M: Planned> PlanCache<M> {
    /// Bytes of all plans that are ready.
    pub(super) fn held_bytes(&self) -> usize {
        self.plans.iter().map(|kept| kept.bytes).sum()
    }

    /// Bytes that the plan of a shape would add.
    pub(super) fn missing_bytes(&mut self, model: &M, shape: M::Shape, counters: &mut Counters) -> Result<usize> {
        if self.plans.iter().any(|kept| kept.shape == shape) { Ok(0) } else { self.bytes(model, shape, counters) }
    }

    /// Gives all plans up; their sizes stay known.
    pub(super) fn clear(&mut self) {
        self.evict(self.plans.len());
        self.written = None;
    }

    /// Gives up this many of the plans that were not used for longest.
    fn evict(&mut self, count: usize) {
        for kept in self.plans.drain(..count) {
            tracing::debug!(target: "plans", bytes = kept.bytes, "evicted");
        }
    }

    /// Bytes of the plan of a shape, written down if its size is not known.
    pub(super) fn bytes(&mut self, model: &M, shape: M::Shape, counters: &mut Counters) -> Result<usize> {
        if let Some(&bytes) = self.sizes.get(&shape) {
            return Ok(bytes);
        }
        if self.sizes.len() >= MOST_SIZES {
            self.sizes.clear();
        }
        let tensors = model.plan(shape)?;
        counters.plans_built += 1;
        let bytes = model.resident().plan_bytes(M::of(&tensors)).map_err(Error::of_device)?;
        self.sizes.insert(shape, bytes);
        self.written = Some((shape, tensors));
        Ok(bytes)
    }

    /// Makes the plan of a shape the latest, built if it is not at hand; others give way so that all fit `limit` bytes.
    ///
    /// # Errors
    /// Not enough memory; the plans that did not give way are still there.
    pub(super) fn bring(
        &mut self,
        model: &M,
        mut shape: M::Shape,
        limit: Option<usize>,
        counters: &mut Counters,
    ) -> Result<()> {
        let Live { batch, context, samples } = *shape.capacity();
        if let Some(index) = self.plans.iter().position(|kept| kept.shape == shape) {
            counters.plans_reused += 1;
            tracing::debug!(target: "plans", batch, context, samples, "reused");
            let plan = self.plans.remove(index);
            self.plans.push(plan);
        } else {
            let needed = self.bytes(model, shape, counters)?;
            let mut room = limit.unwrap_or(KEPT_BYTES).saturating_sub(needed);
            let keep = self.plans.iter().rev().take_while(|kept| {
                let fits = kept.bytes <= room;
                room = room.saturating_sub(kept.bytes);
                fits
            });
            let dropped = self.plans.len() - keep.count();
            self.evict(dropped);
            memory::check_plan(needed, model.resident().available())?;
            counters.planned_bytes = counters.planned_bytes.max(needed);
            let ready = match self.written.take() {
                Some((written, tensors)) if written == shape => Ready::of_tensors(model, tensors)?,
                _ => {
                    counters.plans_built += 1;
                    Ready::new(model, shape)?
                }
            };
            tracing::debug!(target: "plans", batch, context, samples, bytes = needed, "built");
            tracing::debug!(target: "memory", bytes = needed, "plan reserved");
            self.plans.push(Kept { shape, bytes: needed, ready });
        }
        Ok(())
    }

    /// The plan that was brought last.
    pub(super) fn latest(&mut self) -> &mut Ready<M> {
        &mut self.plans.last_mut().expect("a plan was brought").ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_waste_at_most_an_eighth() {
        for size in 1..10_000 {
            let bucket = bucket(size);
            assert!(bucket >= size && (bucket - size) * 8 <= size, "{size} {bucket}");
            if size <= 8 {
                assert_eq!(bucket, size);
            }
        }
    }
}
