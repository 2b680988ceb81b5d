//! A GPU as a [`Device`].

use std::sync::Arc;

use super::driver;
use super::executable::CudaExecutable;
use super::machine::{DeviceMemory, Machine};
use super::weights::{DeviceLinear, upload_vector};
use crate::device::{Device, Executable, Resident};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::plan::Plan;
use crate::weights::WeightList;

/// An NVIDIA GPU.
pub struct CudaDevice {
    machine: Arc<dyn Machine>,
    graphs: bool,
    exact: bool,
    warpgroups: bool,
    poison: bool,
}

impl CudaDevice {
    /// The GPU of this number, 0 for the first.
    ///
    /// # Errors
    /// There is no driver, no such device, or its kernels can be neither found nor compiled; the message tells which.
    pub fn new(ordinal: usize) -> Result<Self> {
        Ok(Self { machine: driver::open(ordinal)?, graphs: true, exact: false, warpgroups: true, poison: false })
    }

    /// How many GPUs there are; 0 without a driver.
    pub fn count() -> usize {
        driver::count()
    }

    /// The same kernels compiled for this processor, to test them where no GPU is. Slow.
    ///
    /// # Errors
    /// There is no C++ compiler.
    #[cfg(feature = "emulation")]
    pub fn emulated() -> Result<Self> {
        Ok(Self { machine: super::emulator::open()?, graphs: true, exact: false, warpgroups: true, poison: false })
    }

    /// Whether a plan is recorded into graphs and replayed (the default), or launched kernel by kernel.
    #[must_use]
    pub fn with_graphs(self, graphs: bool) -> Self {
        Self { graphs, ..self }
    }

    /// Whether products of f32 and attention are summed as on the CPU, to the last digit, without tensor cores; otherwise
    /// (the default) they are off by about the rounding of f32, and several times faster.
    #[must_use]
    pub fn with_exact_sums(self, exact: bool) -> Self {
        Self { exact, ..self }
    }

    /// Whether products of many rows may use warpgroups where the GPU has them (the default); the digits are the same
    /// without.
    #[must_use]
    pub fn with_warpgroups(self, warpgroups: bool) -> Self {
        Self { warpgroups, ..self }
    }

    /// Fills every plan's memory with NaN before it is used, for tests.
    #[must_use]
    pub fn with_poisoned_memory(self) -> Self {
        Self { poison: true, ..self }
    }
}

impl Device for CudaDevice {
    fn describe(&self) -> String {
        self.machine.describe()
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::Tf32 | Dtype::Bf16)
    }

    fn load(&self, weights: WeightList<'_>) -> Result<Arc<dyn Resident>> {
        weights.check(self)?;
        let machine = &self.machine;
        let linears = weights.linears.into_iter().map(|source| DeviceLinear::pack(machine, source, self.exact));
        let linears = linears.collect::<Result<Vec<_>>>()?;
        let vectors = weights.vectors.iter().map(|values| upload_vector(machine, values));
        let vectors = vectors.collect::<Result<Vec<_>>>()?;
        let machine = Arc::clone(machine);
        let Self { graphs, exact, warpgroups, poison, .. } = *self;
        Ok(Arc::new(CudaWeights { linears, vectors, machine, graphs, exact, warpgroups, poison }))
    }
}

/// Weights in device memory.
pub(super) struct CudaWeights {
    pub(super) linears: Vec<DeviceLinear>,
    pub(super) vectors: Vec<DeviceMemory>,
    pub(super) machine: Arc<dyn Machine>,
    pub(super) graphs: bool,
    pub(super) exact: bool,
    pub(super) warpgroups: bool,
    pub(super) poison: bool,
}

impl Resident for CudaWeights {
    fn bytes(&self) -> usize {
        let linears: usize = self.linears.iter().map(DeviceLinear::bytes).sum();
        linears + self.vectors.iter().map(DeviceMemory::bytes).sum::<usize>()
    }

    fn prepare(self: Arc<Self>, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        Ok(Box::new(CudaExecutable::new(self, plan)?))
    }
}
