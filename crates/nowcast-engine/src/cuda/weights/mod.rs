//! Weights on the device, in the layouts of the products.

mod fragments;
mod panels;

use std::sync::Arc;

pub(super) use fragments::{BAND, Format, Fragments, LINK, Reach};
pub(super) use panels::{PANEL, Panels};

use super::machine::{DeviceMemory, Machine};
use crate::cpu::linear::MOST_NARROW_INPUTS;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::weights::LinearSource;

/// Distance between the parts of a block.
const ALIGNMENT: usize = 256;

/// A matrix.
pub(super) enum DeviceLinear {
    Panels(Panels),
    Fragments(Fragments),
}

impl DeviceLinear {
    /// How a matrix will lie in memory: for tensor cores, unless its inputs are few or `exact` asks for the
    /// sums of the CPU.
    pub(super) fn of(source: &LinearSource<'_>, exact: bool) -> Result<Self> {
        let format = match source.dtype {
            Dtype::Bf16 => Format::Brain,
            Dtype::Tf32 => Format::Half,
            _ => Format::Split,
        };
        match source.inputs <= MOST_NARROW_INPUTS || (exact && format == Format::Split) {
            true => Panels::of(source).map(Self::Panels),
            false => Fragments::of(source, format).map(Self::Fragments),
        }
    }

    /// Packs it on all cores and uploads it.
    pub(super) fn pack(&mut self, source: LinearSource<'_>, block: &mut WeightBlock) -> Result<()> {
        match self {
            Self::Panels(panels) => panels.pack(source, block),
            Self::Fragments(fragments) => fragments.pack(source, block),
        }
    }

    /// Where the weights begin.
    pub(super) fn weight_address(&self) -> u64 {
        match self {
            Self::Panels(panels) => panels.address,
            Self::Fragments(fragments) => fragments.address,
        }
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
        match self {
            Self::Panels(panels) => panels.bytes,
            Self::Fragments(fragments) => fragments.bytes,
        }
    }
}

/// The weights of a model in one block, because the driver rounds every block up to megabytes.
pub(super) struct WeightBlock {
    /// None for nothing.
    memory: Option<DeviceMemory>,
    used: usize,
}

impl WeightBlock {
    /// Reserves room for parts of these sizes.
    pub(super) fn new(machine: &Arc<dyn Machine>, mut sizes: impl Iterator<Item = usize>) -> Result<Self> {
        let add = |sum: usize, bytes: usize| sum.checked_add(bytes.checked_next_multiple_of(ALIGNMENT)?);
        let bytes = sizes.try_fold(0, add).ok_or(Error::Overflow)?;
        let memory = (bytes > 0).then(|| DeviceMemory::new(machine, bytes, "weights")).transpose()?;
        Ok(Self { memory, used: 0 })
    }

    /// Uploads the next part and returns where it lies.
    pub(super) fn put(&mut self, contents: &[u8]) -> Result<u64> {
        let start = self.used;
        self.used += contents.len().next_multiple_of(ALIGNMENT);
        self.memory.as_mut().map_or(Ok(0), |memory| memory.upload(start, contents))
    }

    /// Bytes of the whole block.
    pub(super) fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, DeviceMemory::bytes)
    }
}

pub(super) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: the type has no padding, so any value is bytes that may be read as such; the borrow keeps them alive.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Numbers without padding.
pub(super) trait Plain {}
impl Plain for f32 {}
impl Plain for u32 {}
