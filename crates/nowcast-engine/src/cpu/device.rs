//! The CPU as a [`Device`].

use std::sync::Arc;

use super::arena::Arena;
use super::available::available;
use super::executor::CpuExecutable;
use super::linear::{GateHalf, Layout, MOST_INT8_INPUTS, PackedLinear, Shape};
use super::pool::ThreadPool;
use crate::device::{Device, Executable, Resident};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::profile::{Matrix, Profile};
use crate::weights::{Activation, LinearId, LinearSource, WeightList};

/// The processor's cores behind one thread pool.
pub struct CpuDevice {
    pool: Arc<ThreadPool>,
    poison: bool,
    checked: bool,
    profile: Option<Arc<Profile>>,
}

impl CpuDevice {
    /// A device with this many threads, shared with all others of the process that have as many; `None` takes every core
    /// the process may use.
    pub fn new(threads: Option<usize>) -> Self {
        let threads = threads.unwrap_or_else(ThreadPool::available_threads);
        Self { pool: ThreadPool::shared(threads), poison: false, checked: false, profile: None }
    }

    /// Fills every plan's memory with NaN before it is used, for tests.
    #[must_use]
    pub fn with_poisoned_memory(self) -> Self {
        Self { poison: true, ..self }
    }

    /// Looks at what every operation makes, and names the first that makes NaN or an infinity. Slow.
    #[must_use]
    pub fn with_checked_operations(self, checked: bool) -> Self {
        Self { checked, ..self }
    }

    /// Notes how long every operation takes.
    #[must_use]
    pub fn with_profile(self, profile: Arc<Profile>) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// The threads it computes with.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }
}

impl Device for CpuDevice {
    fn describe(&self) -> String {
        format!("cpu, {} threads, {}", self.pool.threads(), super::detect::InstructionSet::detected().name())
    }

    fn available(&self) -> Option<usize> {
        available()
    }

    fn supports(&self, dtype: Dtype) -> bool {
        dtype != Dtype::Tf32
    }

    fn host_threads(&self) -> usize {
        self.pool.threads()
    }

    fn load(&self, weights: WeightList<'_>) -> Result<Arc<dyn Resident>> {
        weights.check(self)?;
        let linears = weights.linears.into_iter().map(|source| pack(source, &self.pool)).collect::<Result<_>>()?;
        Ok(Arc::new(CpuWeights {
            linears,
            vectors: weights.vectors,
            pool: Arc::clone(&self.pool),
            poison: self.poison,
            checked: self.checked,
            profile: self.profile.clone(),
        }))
    }
}

fn pack(source: LinearSource<'_>, pool: &ThreadPool) -> Result<PackedLinear> {
    let LinearSource { rows, inputs, dtype, .. } = source;
    if dtype == Dtype::Int8 && inputs > MOST_INT8_INPUTS {
        return Err(Error::Device(format!("a matrix of {inputs} inputs is too wide for int8: choose another dtype")));
    }
    let read = (source.open)();
    let (layout, outputs) = match source.activation {
        Activation::None => (Layout::Plain, rows),
        Activation::SwiGlu => (Layout::Gated(GateHalf::First), rows / 2),
    };
    let shape = Shape { layout, outputs, inputs, dtype };
    let packed = PackedLinear::pack(shape, &read, source.bias.as_deref(), pool);
    drop(read);
    (source.packed)();
    Ok(packed)
}

/// Packed weights.
pub(super) struct CpuWeights {
    pub(super) linears: Vec<PackedLinear>,
    pub(super) vectors: Vec<Vec<f32>>,
    pub(super) pool: Arc<ThreadPool>,
    poison: bool,
    /// Whether what operations make is looked at.
    pub(super) checked: bool,
    pub(super) profile: Option<Arc<Profile>>,
}

impl CpuWeights {
    /// How a matrix is kept, for a profile.
    pub(super) fn matrix(&self, id: LinearId) -> Matrix {
        let packed = &self.linears[id.index];
        let rows_per_output = if packed.layout() == Layout::Plain { 1 } else { 2 };
        Matrix { bytes: packed.bytes(), rows_per_output, dtype: packed.dtype() }
    }
}

impl Resident for CpuWeights {
    fn bytes(&self) -> usize {
        let linears: usize = self.linears.iter().map(PackedLinear::bytes).sum();
        linears + self.vectors.iter().map(|vector| vector.len() * 4).sum::<usize>()
    }

    fn available(&self) -> Option<usize> {
        available()
    }

    fn prepare(self: Arc<Self>, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        let mut arena = Arena::new(plan.bytes())?;
        if self.poison {
            arena.poison();
        }
        Ok(Box::new(CpuExecutable::new(self, plan, arena)))
    }
}
