//! Toto 1.0: Datadog's decoder-only forecaster of many variates, <https://arxiv.org/abs/2505.14766>.
//!
//! | file | what it owns |
//! |---|---|
//! | [`config`] | `config.json` |
//! | `weights` | tensors by their published names, permuted and folded on the way to the device |
//! | `folding` | products of weights, taken once in f64 |
//! | `forward` | the forward pass and the decode loop, written down once as a plan |

pub mod config;
mod folding;
pub(crate) mod forward;
mod layers;
mod weights;

use std::sync::Arc;

use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::device::{Device, Resident};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::Plan;
use nowcast_engine::weights::WeightList;

use crate::checkpoint::Checkpoint;
use crate::forecaster::plans::{PlanShape, Planned};
use crate::weights::check_dtype;
use crate::{Error, Result};
use config::TotoConfig;
use weights::TotoWeights;

/// How a checkpoint is brought onto a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Operation by operation, without folding or fusion: the accuracy baseline.
    pub eager: bool,
    /// Prepend the learned labels of target and exogenous variates (the reference loader leaves them off).
    pub variate_labels: bool,
    /// In what numbers weights are kept and multiplied; the eager mode knows f32 only.
    pub dtype: Dtype,
}

/// A Toto model on a device.
pub struct Toto {
    pub(crate) config: TotoConfig,
    pub(crate) options: LoadOptions,
    pub(crate) weights: TotoWeights,
    pub(crate) resident: Arc<dyn Resident>,
    /// Threads of the host that gather what the device computed.
    pub(crate) pool: Arc<ThreadPool>,
}

impl Toto {
    /// Loads a checkpoint onto a device.
    ///
    /// # Errors
    /// The checkpoint does not fit its config or holds weights that are not finite, or the device does not support the
    /// dtype or has no room.
    pub fn load(
        config: TotoConfig,
        checkpoint: &Checkpoint,
        device: &dyn Device,
        options: LoadOptions,
    ) -> Result<Self> {
        check_dtype(device, options.dtype, options.eager)?;
        let mut list = WeightList::default();
        let weights = TotoWeights::new(&config, checkpoint, options, device.host_threads(), &mut list)?;
        let resident = device.load(list).map_err(Error::of_device)?;
        checkpoint.check_rows()?;
        let pool = ThreadPool::shared(device.host_threads());
        Ok(Self { config, options, weights, resident, pool })
    }

    /// The architecture.
    pub fn config(&self) -> &TotoConfig {
        &self.config
    }

    /// Bytes the weights occupy on the device.
    pub fn weight_bytes(&self) -> usize {
        self.resident.bytes()
    }

    /// Tokens that stand before the context: one label, or none.
    pub(crate) fn prepended_tokens(&self) -> usize {
        usize::from(self.options.variate_labels)
    }
}

impl Planned for Toto {
    type Shape = forward::Shape;
    type Tensors = forward::TotoPlan;

    fn plan(&self, shape: Self::Shape) -> Result<Self::Tensors> {
        self.write_plan(shape)
    }

    fn of(tensors: &Self::Tensors) -> &Arc<Plan> {
        &tensors.plan
    }

    fn resident(&self) -> &Arc<dyn Resident> {
        &self.resident
    }
}

impl PlanShape for forward::Shape {
    fn capacity(&mut self) -> &mut Live {
        &mut self.capacity
    }

    fn rows_per_sample(&self) -> usize {
        self.variates
    }
}
