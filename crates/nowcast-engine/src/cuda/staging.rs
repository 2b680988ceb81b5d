//! The host's side of a plan on the device: what is written before a run and read after it.

use std::sync::Arc;

use super::argument::{Argument, Fields};
use super::machine::{HostMemory, Machine, Queue};
use super::record::{MOST_PIECES, Piece, transfer};
use crate::device::Launch;
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::plan::{Element, Plan, Tensor};
use crate::token_sampling::Filter;

/// Bytes of the structure `Live` in the kernels' sources.
const LIVE_BYTES: usize = 48;
const ALIGNMENT: usize = 256;
/// Tensors up to this size are copied by a kernel, several at once; larger ones by the copy engine.
const MOST_PIECE_BYTES: usize = 64 * 1024;

/// A tensor that the host writes or reads, and its place in the staging memory.
struct Transfer {
    tensor: Tensor,
    address: u64,
    offset: usize,
    bytes: usize,
    /// Whether the host has written it since it was last copied.
    changed: bool,
    /// Whether kernels write it here themselves.
    direct: bool,
}

/// Which inputs go to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inputs {
    All,
    Changed,
    None,
}

/// Live extents, then inputs, then outputs.
pub(super) struct Staging {
    memory: HostMemory,
    /// Where the device keeps the live extents.
    live: u64,
    inputs: Vec<Transfer>,
    outputs: Vec<Transfer>,
}

impl Staging {
    /// Reserves room for the inputs and outputs of a plan whose tensors begin at `arena`.
    pub(super) fn new(machine: &Arc<dyn Machine>, plan: &Plan, arena: u64, live: u64) -> Result<Self> {
        let mut end = ALIGNMENT;
        let mut transfer = |tensor: &Tensor| {
            let bytes = plan.tensor_bytes(*tensor);
            let offset = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            let address = arena + plan.offset(*tensor) as u64;
            Transfer { tensor: *tensor, address, offset, bytes, changed: false, direct: false }
        };
        let inputs = plan.inputs().iter().map(&mut transfer).collect();
        let outputs = plan.kept().iter().map(&mut transfer).collect();
        Ok(Self { memory: HostMemory::new(machine, end)?, live, inputs, outputs })
    }

    /// Where the host writes a tensor.
    pub(super) fn input(&mut self, tensor: Tensor) -> &mut [u8] {
        let input = self.inputs.iter_mut().find(|input| input.tensor.index == tensor.index);
        let input = input.expect("the host writes what the plan takes as input");
        input.changed = true;
        &mut self.memory.contents_mut()[input.offset..][..input.bytes]
    }

    /// What the device left of a tensor.
    pub(super) fn output(&self, tensor: Tensor) -> &[u8] {
        let output = self.outputs.iter().find(|output| output.tensor.index == tensor.index);
        let output = output.expect("the host reads what the plan keeps");
        &self.memory.contents()[output.offset..][..output.bytes]
    }

    /// Where kernels write an output themselves, if it is small; from then on it is not copied.
    pub(super) fn direct(&mut self, tensor: Tensor) -> Option<u64> {
        let output = self.outputs.iter_mut().find(|output| output.tensor.index == tensor.index)?;
        output.direct = output.bytes <= MOST_PIECE_BYTES;
        // SAFETY: outputs lie within the memory.
        let place = unsafe { self.memory.pointer().add(output.offset) };
        output.direct.then(|| place.expose_provenance() as u64)
    }

    /// What the device left of a tensor of f32.
    pub(super) fn floats(&self, tensor: Tensor) -> &[f32] {
        assert_eq!(tensor.element, Element::F32, "a tensor is read as what it holds");
        // SAFETY: any bits are an f32, and outputs are aligned to more.
        let (before, floats, _) = unsafe { self.output(tensor).align_to() };
        assert!(before.is_empty(), "outputs are aligned");
        floats
    }

    /// Makes a tensor that the device could not compute NaN.
    pub(super) fn lose(&mut self, tensor: Tensor) {
        let lost = self.outputs.iter().find(|output| output.tensor.index == tensor.index);
        let lost = lost.expect("the host reads what the plan keeps");
        self.memory.contents_mut()[lost.offset..][..lost.bytes].fill(0xff);
    }

    /// Everything the host wrote is on its way.
    pub(super) fn sent(&mut self) {
        self.inputs.iter_mut().for_each(|input| input.changed = false);
    }

    /// Writes what varies from run to run.
    pub(super) fn write_live(&mut self, launch: &Launch) {
        let bytes = self.memory.contents_mut()[..LIVE_BYTES].chunks_exact_mut(8);
        bytes.zip(live_extents(launch).words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_ne_bytes()));
    }

    /// Queues copies of the live extents and of inputs.
    ///
    /// # Safety
    /// The device memory of the plan and this stay until the work is done, and the host writes nothing before that.
    pub(super) unsafe fn send(&self, queue: &mut dyn Queue, which: Inputs) -> Result<()> {
        let staging = self.memory.pointer();
        let mut small = vec![Piece { from: staging.expose_provenance() as u64, to: self.live, bytes: LIVE_BYTES }];
        let wanted = |input: &&Transfer| which == Inputs::All || which == Inputs::Changed && input.changed;
        for input in self.inputs.iter().filter(wanted) {
            // SAFETY: staging and device memory have room for each tensor; the rest is as the caller promised.
            unsafe {
                let from = staging.add(input.offset);
                if input.bytes <= MOST_PIECE_BYTES {
                    small.push(Piece { from: from.expose_provenance() as u64, to: input.address, bytes: input.bytes });
                } else {
                    queue.copy_in(input.address, from, input.bytes)?;
                }
            }
        }
        // SAFETY: as the copies above, of which these are some.
        unsafe { copy_pieces(queue, &small) }
    }

    /// Queues copies of the outputs.
    ///
    /// # Safety
    /// As [`Staging::send`], and the host reads nothing before the work is done.
    pub(super) unsafe fn fetch(&self, queue: &mut dyn Queue) -> Result<()> {
        let mut small = Vec::new();
        for output in self.outputs.iter().filter(|output| !output.direct) {
            // SAFETY: as `send`.
            unsafe {
                let to = self.memory.pointer().add(output.offset);
                if output.bytes <= MOST_PIECE_BYTES {
                    let to = to.expose_provenance() as u64;
                    small.push(Piece { from: output.address, to, bytes: output.bytes });
                } else {
                    queue.copy_out(to, output.address, output.bytes)?;
                }
            }
        }
        // SAFETY: as the copies above, of which these are some.
        unsafe { copy_pieces(queue, &small) }
    }
}

/// `Live` of the kernels' sources.
pub(super) fn live_extents(launch: &Launch) -> Argument {
    let Live { batch, context, samples } = launch.live;
    let sampling = &launch.token_sampling;
    let live = Fields::default()
        .push(batch as u32)
        .push(context as u32)
        .push(samples as u32)
        .push(launch.first_sample)
        .push(launch.seed as u32)
        .push((launch.seed >> 32) as u32)
        .push(sampling.temperature)
        // No vocabulary is that large: all tokens are kept either way.
        .push(i32::try_from(sampling.top_k).unwrap_or(i32::MAX))
        .push(sampling.top_p)
        .push(i32::from(sampling.filter == Filter::Both))
        .finish();
    assert_eq!(live.length, LIVE_BYTES, "the structure of the kernels");
    live
}

/// Small copies, many in one launch.
///
/// # Safety
/// As the copies of [`Queue`].
unsafe fn copy_pieces(queue: &mut dyn Queue, pieces: &[Piece]) -> Result<()> {
    for pieces in pieces.chunks(MOST_PIECES) {
        // SAFETY: as the caller promised.
        let launched = unsafe { queue.launch(&transfer(pieces)) };
        launched.map_err(|error| Error::Operation {
            operation: "copying inputs and outputs, kernel transfer".into(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}
