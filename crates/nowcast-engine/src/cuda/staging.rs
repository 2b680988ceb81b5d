//! The host's side of a plan on the device: what is written before a run and read after it.

use std::sync::Arc;

use super::answers::Answer;
use super::argument::{Argument, Fields};
use super::machine::{HostMemory, KernelLaunch, Machine, Queue};
use super::record::{MOST_PIECES, Piece, Sent, send_answer, transfer};
use crate::device::{Kept, Launch};
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::plan::{Element, Placement, Plan, Tensor};
use crate::token_sampling::Filter;

/// Bytes of the structure `Live` in the kernels' sources.
const LIVE_BYTES: usize = 48;
const ALIGNMENT: usize = 256;
/// Tensors up to this size are copied by a kernel, several at once; larger ones by the copy engine, but for answers.
const MOST_PIECE_BYTES: usize = 64 * 1024;
/// Large outputs of f32 that are answers: a kernel writes each into memory of its own.
const MOST_ANSWERS: usize = 8;
/// Behind the live extents, here and on the device: the place of each answer.
const PLACES: usize = LIVE_BYTES;
const PLACES_END: usize = PLACES + MOST_ANSWERS * size_of::<u64>();
/// Behind the places, here alone: for each answer a word that is not 0 if some of it is not finite.
const NOT_FINITE: usize = PLACES_END;

/// A tensor that the host writes or reads, and where it stands in the staging memory.
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

/// Live extents and what belongs to answers, then inputs, then other outputs.
pub(super) struct Staging {
    memory: HostMemory,
    /// Where the device keeps the live extents.
    live: u64,
    inputs: Vec<Transfer>,
    outputs: Vec<Transfer>,
    answers: Vec<Answer>,
}

impl Staging {
    /// Reserves room for the inputs and outputs of a plan whose tensors begin at `arena` and lie as placed.
    pub(super) fn new(
        machine: &Arc<dyn Machine>,
        plan: &Plan,
        placement: &Placement,
        arena: u64,
        live: u64,
    ) -> Result<Self> {
        let address = |tensor: Tensor| arena + placement.offset(tensor) as u64;
        let mut end = ALIGNMENT;
        let mut transfer = |tensor: &Tensor| {
            let bytes = plan.tensor_bytes(*tensor);
            let offset = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            Transfer { tensor: *tensor, address: address(*tensor), offset, bytes, changed: false, direct: false }
        };
        let inputs = plan.inputs().iter().map(&mut transfer).collect();
        let is_answer =
            |tensor: &&Tensor| tensor.element == Element::F32 && plan.tensor_bytes(**tensor) > MOST_PIECE_BYTES;
        let large: Vec<_> = plan.kept().iter().filter(is_answer).take(MOST_ANSWERS).collect();
        let others = plan.kept().iter().filter(|tensor| !large.iter().any(|answer| answer.index == tensor.index));
        let outputs = others.map(&mut transfer).collect();
        let answers = large.into_iter().map(|&tensor| Answer::new(machine, plan, tensor, address(tensor)));
        let answers = answers.collect::<Result<_>>()?;
        let mut staging = Self { memory: HostMemory::new(machine, end)?, live, inputs, outputs, answers };
        staging.write_places();
        Ok(staging)
    }

    /// Tells the device where answers go.
    fn write_places(&mut self) {
        let (places, _) = self.memory.contents_mut()[PLACES..PLACES_END].as_chunks_mut();
        places.iter_mut().zip(&self.answers).for_each(|(place, answer)| *place = answer.place().to_ne_bytes());
    }

    /// What a caller keeps of an answer, if it is one; runs after that write elsewhere.
    pub(super) fn keep(&mut self, tensor: Tensor) -> Option<Kept> {
        let index = self.answers.iter().position(|answer| answer.tensor.index == tensor.index)?;
        let (flags, _) = self.memory.contents()[NOT_FINITE..].as_chunks();
        let kept = self.answers[index].keep(u32::from_ne_bytes(flags[index]) == 0);
        self.write_places();
        kept
    }

    /// Where the host writes a tensor.
    pub(super) fn input(&mut self, tensor: Tensor) -> &mut [u8] {
        let input = self.inputs.iter_mut().find(|input| input.tensor.index == tensor.index);
        let input = input.expect("the host writes what the plan takes as input");
        input.changed = true;
        &mut self.memory.contents_mut()[input.offset..][..input.bytes]
    }

    /// Where the host writes a tensor of f32.
    pub(super) fn input_floats(&mut self, tensor: Tensor) -> &mut [f32] {
        assert_eq!(tensor.element, Element::F32, "a tensor is written as what it holds");
        // SAFETY: any bits are an f32, and any f32 is bytes.
        let (before, floats, _) = unsafe { self.input(tensor).align_to_mut() };
        assert!(before.is_empty(), "inputs are aligned");
        floats
    }

    /// What the device left of a tensor.
    pub(super) fn output(&self, tensor: Tensor) -> &[u8] {
        if let Some(answer) = self.answers.iter().find(|answer| answer.tensor.index == tensor.index) {
            return answer.contents();
        }
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
        // SAFETY: any bits are an f32.
        let (before, floats, _) = unsafe { self.output(tensor).align_to() };
        assert!(before.is_empty(), "outputs are aligned");
        floats
    }

    /// Makes a tensor that the device could not compute NaN.
    pub(super) fn lose(&mut self, tensor: Tensor) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.tensor.index == tensor.index) {
            return answer.contents_mut().fill(0xff);
        }
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
        self.memory.contents_mut()[NOT_FINITE..ALIGNMENT].fill(0);
    }

    /// Queues copies of the live extents, of the places of answers, and of inputs.
    ///
    /// # Safety
    /// The device memory of the plan and this stay until the work is done, and the host writes nothing before that.
    pub(super) unsafe fn send(&self, queue: &mut dyn Queue, which: Inputs) -> Result<()> {
        let staging = self.memory.pointer();
        let mut small = vec![Piece { from: staging.expose_provenance() as u64, to: self.live, bytes: PLACES_END }];
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
        for (index, answer) in self.answers.iter().enumerate() {
            let sent = Sent {
                from: answer.address,
                to: self.live + (PLACES + index * size_of::<u64>()) as u64,
                // SAFETY: the words lie within the memory, before all inputs.
                not_finite: unsafe { self.memory.pointer().add(NOT_FINITE + index * size_of::<u32>()) }
                    .expose_provenance() as u64,
                live: self.live,
                rows: answer.rows,
                width: answer.width,
            };
            // SAFETY: as `send`; an answer's place has room for all its rows.
            unsafe { launch(queue, &send_answer(&sent))? };
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
    // SAFETY: as the caller promised.
    pieces.chunks(MOST_PIECES).try_for_each(|pieces| unsafe { launch(queue, &transfer(pieces)) })
}

/// A kernel that copies.
///
/// # Safety
/// As the copies of [`Queue`].
unsafe fn launch(queue: &mut dyn Queue, launch: &KernelLaunch) -> Result<()> {
    // SAFETY: as the caller promised.
    unsafe { queue.launch(launch) }.map_err(|error| Error::Operation {
        operation: format!("copying inputs and outputs, kernel {}", launch.kernel.name()),
        reason: error.to_string(),
    })
}
