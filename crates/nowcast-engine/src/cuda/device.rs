//! A GPU as a [`Device`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::choices::Choices;
use super::cubin_cache::CubinCache;
use super::driver;
use super::executable::CudaExecutable;
use super::layout::Layout;
use super::machine::Machine;
use super::weights::{DeviceLinear, WeightBlock, bytes_of};
use crate::device::{Device, Executable, Resident};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::plan::{Plan, Section};
use crate::weights::WeightList;

/// An NVIDIA GPU.
pub struct CudaDevice {
    machine: Arc<dyn Machine>,
    settings: Settings,
    /// Where measured choices are kept.
    cache: Option<PathBuf>,
    /// Whether it has been said that graphs cannot be recorded; once is enough.
    warned: Arc<AtomicBool>,
}

/// How plans are run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// Whether a plan is recorded and replayed.
    pub(super) graphs: bool,
    /// Whether a graph that cannot be recorded is an error.
    pub(super) strict: bool,
    /// Whether memory is filled with NaN before it is used.
    pub(super) poison: bool,
    /// Whether every operation is waited for and looked at.
    pub(super) checked: bool,
    /// Whether sums are those of the CPU, without tensor cores.
    pub(super) exact: bool,
    /// Whether warpgroups are used where there are some.
    pub(super) warpgroups: bool,
    /// Whether kernels are chosen by their time.
    pub(super) measured: bool,
}

impl Settings {
    /// Whether runs are replays of a recording.
    pub(super) fn replays(self) -> bool {
        self.graphs && !self.checked
    }
}

impl CudaDevice {
    /// The GPU of this number, 0 for the first.
    ///
    /// # Errors
    /// There is no driver, no such device, or its kernels can be neither found nor compiled; the message tells which.
    pub fn new(ordinal: usize) -> Result<Self> {
        driver::open(ordinal).map(|machine| Self::of(machine, CubinCache::of_user().folder()))
    }

    /// How many GPUs there are; 0 without a driver.
    pub fn count() -> usize {
        driver::count()
    }

    /// The same kernels compiled for this processor, to test them where no GPU is. Slow.
    ///
    /// # Errors
    /// There is no C++ compiler.
    ///
    /// # Panics
    /// The kernels do not compile: a test may be skipped for want of a compiler, not for that.
    #[cfg(feature = "emulation")]
    pub fn emulated() -> Result<Self> {
        super::emulator::open().map(|machine| Self::of(machine, None))
    }

    /// As [`CudaDevice::emulated`], on a machine that fails where it is told to.
    ///
    /// # Errors
    /// There is no C++ compiler.
    #[cfg(feature = "emulation")]
    pub fn emulated_with(faults: &super::Faults) -> Result<Self> {
        Ok(Self::of(faults.over(super::emulator::open()?), None))
    }

    fn of(machine: Arc<dyn Machine>, cache: Option<&Path>) -> Self {
        let settings = Settings {
            graphs: true,
            strict: false,
            poison: false,
            checked: false,
            exact: false,
            warpgroups: true,
            measured: false,
        };
        Self { machine, settings, cache: cache.map(Path::to_owned), warned: Arc::default() }
    }

    /// Whether a plan is recorded into graphs and replayed (the default), or launched kernel by kernel.
    #[must_use]
    pub fn with_graphs(mut self, graphs: bool) -> Self {
        self.settings.graphs = graphs;
        self
    }

    /// Makes a graph that cannot be recorded an error; otherwise kernels are launched one by one, after one warning.
    #[must_use]
    pub fn with_strict_graphs(mut self) -> Self {
        self.settings.strict = true;
        self
    }

    /// Waits for every operation and looks at what it made, so that the one that fails, or first makes NaN or an
    /// infinity, is named. No graphs; slow.
    #[must_use]
    pub fn with_checked_operations(mut self, checked: bool) -> Self {
        self.settings.checked = checked;
        self
    }

    /// Whether products of f32 and attention are summed as on the CPU, to the last digit, without tensor cores; otherwise
    /// (the default) they are off by about the rounding of f32, and several times faster.
    #[must_use]
    pub fn with_exact_sums(mut self, exact: bool) -> Self {
        self.settings.exact = exact;
        self
    }

    /// Whether products of many rows may use warpgroups where the GPU has them (the default); the digits are the same
    /// without.
    #[must_use]
    pub fn with_warpgroups(mut self, warpgroups: bool) -> Self {
        self.settings.warpgroups = warpgroups;
        self
    }

    /// Whether, of kernels that give the same digits, the one is taken that is the fastest on this machine: measured when a
    /// plan first asks, and kept on disk for other processes. Otherwise (the default) a model of their costs decides.
    #[must_use]
    pub fn with_measured_choices(mut self, measured: bool) -> Self {
        self.settings.measured = measured;
        self
    }

    /// Fills every plan's memory with NaN before it is used, for tests.
    #[must_use]
    pub fn with_poisoned_memory(mut self) -> Self {
        self.settings.poison = true;
        self
    }
}

impl Device for CudaDevice {
    fn describe(&self) -> String {
        self.machine.describe()
    }

    fn available(&self) -> Option<usize> {
        self.machine.memory().ok().map(|(free, _)| free)
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::Tf32 | Dtype::Bf16)
    }

    fn load(&self, weights: WeightList<'_>) -> Result<Arc<dyn Resident>> {
        weights.check(self)?;
        let linears = weights.linears.iter().map(|source| DeviceLinear::of(source, self.settings.exact));
        let mut linears = linears.collect::<Result<Vec<_>>>()?;
        let vector_bytes = weights.vectors.iter().map(|values| size_of_val(&values[..]));
        let sizes = linears.iter().map(DeviceLinear::bytes).chain(vector_bytes);
        let mut block = WeightBlock::new(&self.machine, sizes)?;
        for (linear, source) in linears.iter_mut().zip(weights.linears) {
            linear.pack(source, &mut block)?;
        }
        let vectors = weights.vectors.iter().map(|values| block.put(bytes_of(values))).collect::<Result<Vec<_>>>()?;
        let machine = Arc::clone(&self.machine);
        let (settings, warned) = (self.settings, Arc::clone(&self.warned));
        let choices = settings.measured.then(|| Choices::at(self.cache.as_deref(), &machine.kind()));
        Ok(Arc::new(CudaWeights { linears, vectors, block, machine, settings, choices, warned }))
    }
}

/// Weights in device memory.
pub(super) struct CudaWeights {
    pub(super) linears: Vec<DeviceLinear>,
    /// Where each vector lies.
    pub(super) vectors: Vec<u64>,
    block: WeightBlock,
    pub(super) machine: Arc<dyn Machine>,
    pub(super) settings: Settings,
    /// Where kernels are chosen by their time.
    pub(super) choices: Option<Choices>,
    pub(super) warned: Arc<AtomicBool>,
}

impl Resident for CudaWeights {
    fn bytes(&self) -> usize {
        self.machine.taken(self.block.bytes())
    }

    fn available(&self) -> Option<usize> {
        self.machine.memory().ok().map(|(free, _)| free)
    }

    fn plan_bytes(&self, plan: &Plan) -> Result<usize> {
        let block = self.machine.taken(Layout::new(self, plan)?.bytes);
        let operations = [Section::Prefill, Section::Decode].map(|section| plan.operations(section).len());
        let recording = self.machine.recording_bytes(operations.iter().sum());
        Ok(block.saturating_add(if self.settings.replays() { recording } else { 0 }))
    }

    fn prepare(self: Arc<Self>, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        Ok(Box::new(CudaExecutable::new(self, plan)?))
    }
}
