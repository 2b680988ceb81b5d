//! What a model and its plan take of a GPU's memory, as the driver counts.

use std::sync::Arc;

use nowcast::Result;
use nowcast::device::Device;

use crate::device;

/// A GPU's free memory at some time; other processes on it are counted along.
pub(super) struct Occupied {
    /// `None` on the CPU, whose memory the system counts.
    device: Option<Arc<dyn Device>>,
    free: Option<usize>,
}

impl Occupied {
    /// Counts from now on.
    pub(super) fn since_now(name: &str, device: &Arc<dyn Device>) -> Result<Self> {
        let device = (device::meant(name)? != "cpu").then(|| Arc::clone(device));
        let free = device.as_ref().and_then(|device| device.available());
        Ok(Self { device, free })
    }

    /// Bytes that were taken since.
    pub(super) fn bytes(&self) -> Option<usize> {
        let free = self.device.as_ref()?.available()?;
        Some(self.free?.saturating_sub(free))
    }
}
