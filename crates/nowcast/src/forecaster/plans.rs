//! Plans kept ready, the least recently used given up first.

use std::collections::HashMap;
use std::sync::Arc;

use nowcast_engine::device::Executable;

use super::{Counters, memory};
use crate::toto::Toto;
use crate::toto::forward::{Shape, TotoPlan};
use crate::{Error, Result};

/// A plan with its memory.
pub(crate) struct Ready {
    pub(crate) tensors: TotoPlan,
    pub(crate) executable: Box<dyn Executable>,
}

impl Ready {
    /// Builds a plan and reserves its memory.
    pub(crate) fn new(model: &Toto, shape: Shape) -> Result<Self> {
        Self::of(model, model.plan(shape)?)
    }

    /// Reserves the memory of a plan.
    fn of(model: &Toto, tensors: TotoPlan) -> Result<Self> {
        let plan = Arc::clone(&tensors.plan);
        let executable = Arc::clone(&model.resident).prepare(plan).map_err(|error| Error::Memory(error.to_string()))?;
        Ok(Self { tensors, executable })
    }
}

/// Plans in order of use, the latest last.
#[derive(Default)]
pub(super) struct PlanCache {
    plans: Vec<(Shape, Ready)>,
    /// What plans take, so that a forecast of a known shape writes none.
    sizes: HashMap<Shape, usize>,
    /// The plan written last, in case it is the one to run.
    written: Option<(Shape, TotoPlan)>,
}

/// Sizes remembered; forgetting them costs a little time only.
const MOST_SIZES: usize = 4096;

/// Plans are kept while they take no more than this together, if no limit says less.
const KEPT_BYTES: usize = 2 << 30;

impl PlanCache {
    /// Bytes of the plan of a shape, written down if its size is not known.
    pub(super) fn bytes(&mut self, model: &Toto, shape: Shape, counters: &mut Counters) -> Result<usize> {
        if let Some(&bytes) = self.sizes.get(&shape) {
            return Ok(bytes);
        }
        if self.sizes.len() >= MOST_SIZES {
            self.sizes.clear();
        }
        let tensors = model.plan(shape)?;
        counters.plans_built += 1;
        let bytes = tensors.plan.bytes();
        self.sizes.insert(shape, bytes);
        self.written = Some((shape, tensors));
        Ok(bytes)
    }

    /// The plan of a shape, built if it is not at hand; others give way so that all fit `limit` bytes.
    pub(super) fn get(
        &mut self,
        model: &Toto,
        shape: Shape,
        limit: Option<usize>,
        counters: &mut Counters,
    ) -> Result<&mut Ready> {
        if let Some(index) = self.plans.iter().position(|(other, _)| *other == shape) {
            counters.plans_reused += 1;
            let plan = self.plans.remove(index);
            self.plans.push(plan);
        } else {
            let needed = self.bytes(model, shape, counters)?;
            let mut room = limit.unwrap_or(KEPT_BYTES).saturating_sub(needed);
            let keep = self.plans.iter().rev().take_while(|(_, ready)| {
                let bytes = ready.executable.plan().bytes();
                let fits = bytes <= room;
                room = room.saturating_sub(bytes);
                fits
            });
            let dropped = self.plans.len() - keep.count();
            self.plans.drain(..dropped);
            memory::check_plan(needed)?;
            counters.planned_bytes = counters.planned_bytes.max(needed);
            let ready = match self.written.take() {
                Some((written, tensors)) if written == shape => Ready::of(model, tensors)?,
                _ => {
                    counters.plans_built += 1;
                    Ready::new(model, shape)?
                }
            };
            self.plans.push((shape, ready));
        }
        let (_, ready) = self.plans.last_mut().expect("just pushed");
        Ok(ready)
    }
}
