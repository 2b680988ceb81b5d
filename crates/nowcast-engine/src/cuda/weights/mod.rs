//! Weights on the device, in the layouts of the products.

mod fragments;
mod panels;

use std::sync::Arc;

pub(super) use fragments::{BAND, Format, Fragments};
pub(super) use panels::{PANEL, Panels};

use super::machine::{DeviceMemory, Machine};
use crate::cpu::linear::MOST_NARROW_INPUTS;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::weights::LinearSource;

/// A matrix.
pub(super) enum DeviceLinear {
    Panels(Panels),
    Fragments(Fragments),
}

impl DeviceLinear {
    /// Packs a matrix on all cores and uploads it: for tensor cores, unless its few inputs are summed in f64 or `exact`
    /// asks for the sums of the CPU.
    pub(super) fn pack(machine: &Arc<dyn Machine>, source: LinearSource<'_>, exact: bool) -> Result<Self> {
        let format = match source.dtype {
            Dtype::Bf16 => Format::Brain,
            Dtype::Tf32 => Format::Half,
            _ => Format::Split,
        };
        match source.inputs <= MOST_NARROW_INPUTS || (exact && format == Format::Split) {
            true => Panels::pack(machine, source).map(Self::Panels),
            false => Fragments::pack(machine, source, format).map(Self::Fragments),
        }
    }

    fn memory(&self) -> &DeviceMemory {
        match self {
            Self::Panels(panels) => &panels.memory,
            Self::Fragments(fragments) => &fragments.memory,
        }
    }

    /// Where the weights begin.
    pub(super) fn weight_address(&self) -> u64 {
        self.memory().address()
    }

    /// Bytes of the weights alone.
    pub(super) fn weight_bytes(&self) -> usize {
        match self {
            Self::Panels(panels) => panels.weight_bytes(),
            Self::Fragments(fragments) => fragments.weight_bytes(),
        }
    }

    /// Bytes with everything that belongs to them.
    pub(super) fn bytes(&self) -> usize {
        self.memory().bytes()
    }
}

/// A vector on the device.
pub(super) fn upload_vector(machine: &Arc<dyn Machine>, values: &[f32]) -> Result<DeviceMemory> {
    DeviceMemory::holding(machine, bytes_of(values), "weights")
}

fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: the type has no padding, so any value is bytes that may be read as such; the borrow keeps them alive.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Numbers without padding.
trait Plain {}
impl Plain for f32 {}
impl Plain for u32 {}
