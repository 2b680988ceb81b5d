//! A plan on the device: its memory, its launches, and its graphs.
//!
//! The prefill waits for the first decode, so that a whole forecast is one graph: copies of the inputs, every kernel,
//! copies of what is kept. The host waits once, at the end.

use std::sync::Arc;

use super::argument::Fields;
use super::device::CudaWeights;
use super::machine::{DeviceMemory, HostMemory, KernelLaunch, Queue};
use super::record::{MOST_PIECES, Piece, Recording, record, transfer};
use crate::device::{Activity, Executable, Launch};
use crate::error::Result;
use crate::extent::Live;
use crate::plan::{Element, Plan, Section, Tensor};
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
}

/// See the [module documentation](self).
pub(super) struct CudaExecutable {
    // Dropped first, so that nothing runs when the memory below goes.
    queue: Box<dyn Queue>,
    plan: Arc<Plan>,
    sections: [Vec<KernelLaunch>; 2],
    inputs: Vec<Transfer>,
    outputs: Vec<Transfer>,
    /// Live extents, then inputs, then outputs.
    staging: HostMemory,
    extra: DeviceMemory,
    /// Held for their addresses, which the launches name.
    _arena: DeviceMemory,
    _weights: Arc<CudaWeights>,
    /// Whether the prefill does without the number of samples, and so can wait for the decode.
    defers: bool,
    /// The prefill that has yet to run.
    waiting: Option<Launch>,
    /// Recorded prefill with decode, and decode alone.
    graphs: [Option<usize>; 2],
    replays: bool,
    activity: Activity,
}

impl CudaExecutable {
    pub(super) fn new(weights: Arc<CudaWeights>, plan: Arc<Plan>) -> Result<Self> {
        let machine = &weights.machine;
        let mut arena = DeviceMemory::new(machine, plan.bytes(), "the plan")?;
        if weights.poison {
            arena.fill(0xff)?;
        }
        let Recording { sections, extra, defers } = record(&weights, &plan, arena.address())?;
        let mut end = ALIGNMENT;
        let mut transfer = |tensor: &Tensor| {
            let bytes = plan.tensor_bytes(*tensor);
            let offset = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            let address = arena.address() + plan.offset(*tensor) as u64;
            Transfer { tensor: *tensor, address, offset, bytes, changed: false }
        };
        let inputs = plan.inputs().iter().map(&mut transfer).collect();
        let outputs = plan.kept().iter().map(&mut transfer).collect();
        let staging = HostMemory::new(machine, end)?;
        let queue = Arc::clone(machine).queue()?;
        let replays = weights.graphs;
        Ok(Self {
            queue,
            plan,
            sections,
            inputs,
            outputs,
            staging,
            extra,
            _arena: arena,
            _weights: weights,
            defers,
            waiting: None,
            graphs: [None; 2],
            replays,
            activity: Activity::default(),
        })
    }

    /// Where the host writes a tensor; a prefill that waits for its inputs runs first.
    fn input(&mut self, tensor: Tensor) -> &mut [u8] {
        // A failure shows again when the decode runs.
        let _ = self.settle();
        let input = self.inputs.iter_mut().find(|input| input.tensor.index == tensor.index);
        let input = input.expect("the host writes what the plan takes as input");
        input.changed = true;
        &mut self.staging.contents_mut()[input.offset..][..input.bytes]
    }

    /// Runs a prefill that still waits, without a decode.
    fn settle(&mut self) -> Result<()> {
        let Some(launch) = self.waiting.take() else { return Ok(()) };
        self.write_live(&launch);
        self.enqueue_inputs(false)?;
        self.enqueue(Section::Prefill)?;
        self.enqueue_outputs()?;
        self.activity.host_syncs += 1;
        self.queue.wait()
    }

    fn write_live(&mut self, launch: &Launch) {
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
        let bytes = self.staging.contents_mut()[..LIVE_BYTES].chunks_exact_mut(8);
        bytes.zip(live.words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_ne_bytes()));
    }

    /// Copies of the live extents and of the inputs, all of them or those that changed.
    fn enqueue_inputs(&mut self, only_changed: bool) -> Result<()> {
        let staging = self.staging.pointer();
        // A copy of its own: kernels may start before those ahead of them are done, but not before a copy is.
        // SAFETY: both sides have room for the live extents; the rest is as below.
        unsafe { self.queue.copy_in(self.extra.address(), staging, LIVE_BYTES)? };
        let mut small = Vec::new();
        for input in self.inputs.iter_mut().filter(|input| input.changed || !only_changed) {
            // SAFETY: staging and device memory have room for each tensor and stay as long as the queue; the host
            // writes the staging memory only after it has waited for the queue.
            unsafe {
                let from = staging.add(input.offset);
                if input.bytes <= MOST_PIECE_BYTES {
                    small.push(Piece { from: from.expose_provenance() as u64, to: input.address, bytes: input.bytes });
                } else {
                    self.queue.copy_in(input.address, from, input.bytes)?;
                }
            }
            input.changed = false;
        }
        self.enqueue_pieces(&small)
    }

    /// Small copies in one launch.
    fn enqueue_pieces(&mut self, pieces: &[Piece]) -> Result<()> {
        for pieces in pieces.chunks(MOST_PIECES) {
            // SAFETY: as the copies in `enqueue_inputs`, of which this is one for several tensors.
            unsafe { self.queue.launch(&transfer(pieces))? };
        }
        Ok(())
    }

    fn enqueue(&mut self, section: Section) -> Result<()> {
        for launch in &self.sections[section as usize] {
            // SAFETY: the recording names memory of the weights, the arena and `extra` only, within their sizes, and
            // this holds all three until the queue is gone.
            unsafe { self.queue.launch(launch)? };
        }
        self.activity.kernels_launched += self.sections[section as usize].len() as u64;
        Ok(())
    }

    fn enqueue_outputs(&mut self) -> Result<()> {
        let mut small = Vec::new();
        for output in &self.outputs {
            // SAFETY: as `enqueue_inputs`; the host reads the staging memory only after it has waited.
            unsafe {
                let to = self.staging.pointer().add(output.offset);
                if output.bytes <= MOST_PIECE_BYTES {
                    let to = to.expose_provenance() as u64;
                    small.push(Piece { from: output.address, to, bytes: output.bytes });
                } else {
                    self.queue.copy_out(to, output.address, output.bytes)?;
                }
            }
        }
        self.enqueue_pieces(&small)
    }

    fn enqueue_all(&mut self, with_prefill: bool) -> Result<()> {
        self.enqueue_inputs(!with_prefill)?;
        if with_prefill {
            self.enqueue(Section::Prefill)?;
        }
        self.enqueue(Section::Decode)?;
        self.enqueue_outputs()
    }

    /// The graph of a whole forecast or of the decode alone, recorded when it is first needed.
    fn graph(&mut self, with_prefill: bool) -> Result<usize> {
        if let Some(graph) = self.graphs[usize::from(with_prefill)] {
            return Ok(graph);
        }
        self.queue.begin_recording()?;
        let enqueued = self.enqueue_all(with_prefill);
        let graph = self.queue.end_recording(enqueued.is_ok())?;
        enqueued?;
        self.graphs[usize::from(with_prefill)] = graph;
        self.activity.graphs_captured += 1;
        Ok(graph.expect("a recording that is kept has a number"))
    }

    fn replay(&mut self, with_prefill: bool) -> Result<()> {
        // The graph of the decode holds no copies of inputs that did not change: those that did go first.
        let graph = self.graph(with_prefill)?;
        if !with_prefill {
            self.enqueue_inputs(true)?;
        }
        self.inputs.iter_mut().for_each(|input| input.changed = false);
        self.activity.graphs_replayed += 1;
        // SAFETY: as `enqueue`.
        unsafe { self.queue.replay(graph) }
    }
}

impl Drop for CudaExecutable {
    fn drop(&mut self) {
        // An error of work in flight was due to whoever asked for it; here memory must only not be in use any more.
        let _ = self.queue.wait();
    }
}

impl Executable for CudaExecutable {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn write(&mut self, tensor: Tensor, values: &[f32]) {
        assert_eq!(tensor.element, Element::F32, "a tensor is written as what it holds");
        let bytes = self.input(tensor)[..size_of_val(values)].chunks_exact_mut(4);
        bytes.zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_ne_bytes()));
    }

    fn write_integers(&mut self, tensor: Tensor, values: &[i32]) {
        assert_eq!(tensor.element, Element::I32, "a tensor is written as what it holds");
        let bytes = self.input(tensor)[..size_of_val(values)].chunks_exact_mut(4);
        bytes.zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_ne_bytes()));
    }

    fn run(&mut self, section: Section, launch: &Launch) -> Result<()> {
        let Live { batch, context, samples } = self.plan.capacity();
        let live = launch.live;
        assert!(live.batch <= batch && live.context <= context && live.samples <= samples, "a run exceeds its plan");
        if section == Section::Prefill {
            self.waiting = Some(*launch);
            return if self.defers { Ok(()) } else { self.settle() };
        }
        let of_this = |first: &Launch| (first.live.batch, first.live.context) == (live.batch, live.context);
        if self.waiting.as_ref().is_some_and(|first| !of_this(first)) {
            self.settle()?;
        }
        let with_prefill = self.waiting.take().is_some();
        self.write_live(launch);
        if self.replays {
            match self.replay(with_prefill) {
                Ok(()) => return self.queue.wait(),
                Err(error) => {
                    tracing::warn!("graphs are not used from here on: {error}");
                    self.replays = false;
                    self.queue.wait()?;
                }
            }
        }
        self.enqueue_all(with_prefill)?;
        self.queue.wait()
    }

    fn read(&mut self, tensor: Tensor, values: &mut [f64]) {
        if self.settle().is_err() {
            return values.fill(f64::NAN);
        }
        let output = self.outputs.iter().find(|output| output.tensor.index == tensor.index);
        let output = output.expect("the host reads what the plan keeps");
        let bytes = &self.staging.contents()[output.offset..][..output.bytes];
        match tensor.element {
            Element::F64 => widen(bytes, values, f64::from_ne_bytes),
            Element::F32 => widen(bytes, values, |bytes| f32::from_ne_bytes(bytes).into()),
            Element::I32 => widen(bytes, values, |bytes| i32::from_ne_bytes(bytes).into()),
        }
    }

    fn read_rounded(&mut self, tensor: Tensor, start: usize, values: &mut [f32]) {
        assert_eq!(tensor.element, Element::F64, "a tensor is read as what it holds");
        if self.settle().is_err() {
            return values.fill(f32::NAN);
        }
        let output = self.outputs.iter().find(|output| output.tensor.index == tensor.index);
        let output = output.expect("the host reads what the plan keeps");
        let (numbers, _) = self.staging.contents()[output.offset..][..output.bytes].as_chunks();
        let from = &numbers[start..][..values.len()];
        values.iter_mut().zip(from).for_each(|(to, &from)| *to = f64::from_ne_bytes(from) as f32);
    }

    fn activity(&self) -> Activity {
        self.activity
    }
}

fn widen<const N: usize>(bytes: &[u8], values: &mut [f64], from: impl Fn([u8; N]) -> f64) {
    let (numbers, _) = bytes.as_chunks::<N>();
    assert!(values.len() <= numbers.len(), "a tensor is read within its size");
    values.iter_mut().zip(numbers).for_each(|(value, &bytes)| *value = from(bytes));
}
