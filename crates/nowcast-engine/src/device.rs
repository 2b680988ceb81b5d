//! What a device offers: it takes weights, and it runs plans over them.

use std::sync::Arc;

use crate::cpu::pool::ThreadPool;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::extent::Live;
use crate::plan::{Plan, Section, Tensor};
use crate::token_sampling::TokenSampling;
use crate::weights::WeightList;

/// A processor with memory: the CPU, or a GPU.
pub trait Device: Send + Sync {
    /// The device in words.
    fn describe(&self) -> String;

    /// Whether it multiplies in these numbers.
    fn supports(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    /// Bytes that can still be reserved on it, where that is known: other processes' use is respected.
    fn available(&self) -> Option<usize> {
        None
    }

    /// Threads of the host that may prepare weights for it.
    fn host_threads(&self) -> usize {
        ThreadPool::available_threads()
    }

    /// Takes a model's weights into the layout its kernels read.
    ///
    /// # Errors
    /// Not enough memory, or a matrix of a dtype that is not supported.
    fn load(&self, weights: WeightList<'_>) -> Result<Arc<dyn Resident>>;
}

/// A model's weights on a device.
pub trait Resident: Send + Sync {
    /// Bytes the weights occupy.
    fn bytes(&self) -> usize;

    /// Bytes that can still be reserved beside them, as [`Device::available`].
    fn available(&self) -> Option<usize> {
        None
    }

    /// Bytes of device memory that [`Resident::prepare`] reserves for a plan.
    ///
    /// # Errors
    /// The sizes overflow.
    fn plan_bytes(&self, plan: &Plan) -> Result<usize> {
        Ok(plan.bytes())
    }

    /// Reserves the memory of a plan and makes it ready to run.
    ///
    /// # Errors
    /// Not enough memory.
    fn prepare(self: Arc<Self>, plan: Arc<Plan>) -> Result<Box<dyn Executable>>;
}

/// What varies from run to run without a new plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launch {
    /// How much of the plan's capacity is live.
    pub live: Live,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Index of the first sample path of this run.
    pub first_sample: u32,
    /// How tokens are drawn from logits.
    pub token_sampling: TokenSampling,
}

/// What a device did for an executable since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Graphs recorded.
    pub graphs_captured: u64,
    /// Graphs launched.
    pub graphs_replayed: u64,
    /// Kernels launched one by one or into a recording.
    pub kernels_launched: u64,
    /// Graphs that could not be recorded, so that kernels were launched one by one instead.
    pub graph_fallbacks: u64,
    /// Times the host waited for the device otherwise than at the end of a decode.
    pub host_syncs: u64,
}

/// An f32 tensor whose memory the reader keeps; runs after that write elsewhere.
#[derive(Clone)]
pub struct Kept {
    /// All rows; only live ones mean something.
    pub values: Arc<dyn AsRef<[f32]> + Send + Sync>,
    /// Whether the device has seen that all live rows are finite; otherwise nobody has looked.
    pub is_finite: bool,
}

/// A plan with its memory, ready to run any number of times.
pub trait Executable: Send {
    /// The plan.
    fn plan(&self) -> &Plan;

    /// Where the host writes an f32 input, its leading rows first.
    fn input(&mut self, tensor: Tensor) -> &mut [f32];

    /// Writes the leading rows of an f32 input; `values` is a whole number of rows.
    fn write(&mut self, tensor: Tensor, values: &[f32]) {
        self.input(tensor)[..values.len()].copy_from_slice(values);
    }

    /// Writes the leading rows of an i32 input.
    fn write_integers(&mut self, tensor: Tensor, values: &[i32]);

    /// Writes the leading rows of an f64 input.
    fn write_doubles(&mut self, tensor: Tensor, values: &[f64]);

    /// Runs one section.
    ///
    /// # Errors
    /// The device failed; the message names the operation.
    fn run(&mut self, section: Section, launch: &Launch) -> Result<()>;

    /// Copies the leading rows of a tensor that the plan keeps.
    fn read(&mut self, tensor: Tensor, values: &mut [f64]);

    /// All rows of an f32 tensor that the plan keeps, where they lie; only live ones mean something.
    fn view(&mut self, tensor: Tensor) -> &[f32];

    /// What [`view`](Self::view) shows, for keeping without a copy; `None` where the memory is needed for the next run.
    fn keep(&mut self, _: Tensor) -> Option<Kept> {
        None
    }

    /// What the device did so far; nothing to tell where operations run on this processor.
    fn activity(&self) -> Activity {
        Activity::default()
    }
}
