//! A plan on the device: its memory, its launches, and its graphs.
//!
//! The prefill waits for the first decode, so that a whole forecast is one graph: copies of the inputs, every kernel,
//! copies of what is kept. The host waits once, at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::device::CudaWeights;
use super::layout::Layout;
use super::machine::{DeviceMemory, HostMemory, KernelLaunch, Queue};
use super::record::{PackedOwn, Recording, record};
use super::staging::{Inputs, Staging};
use crate::device::{Activity, Executable, Kept, Launch};
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::plan::{Element, Placement, Plan, Section, Tensor};
use crate::watch::Watch;

/// See the [module documentation](self).
pub(super) struct CudaExecutable {
    // Dropped first, so that nothing runs when the memory below goes.
    queue: Box<dyn Queue>,
    plan: Arc<Plan>,
    sections: [Vec<KernelLaunch>; 2],
    /// Which operation of its section each launch belongs to.
    places: [Vec<usize>; 2],
    staging: Staging,
    memory: DeviceMemory,
    weights: Arc<CudaWeights>,
    /// Whether the prefill does without the number of samples, and so can wait for the decode.
    defers: bool,
    /// Where tensors lie in the memory.
    placement: Placement,
    /// Caches that the host does not find as they stand in the plan.
    packed_own: PackedOwn,
    /// The prefill that has yet to run.
    waiting: Option<Launch>,
    /// Why a prefill failed that ran while inputs were written; the next run says so.
    failure: Option<Error>,
    /// Recorded prefill with decode, and decode alone.
    graphs: [Option<usize>; 2],
    replays: bool,
    activity: Activity,
}

impl CudaExecutable {
    pub(super) fn new(weights: Arc<CudaWeights>, plan: Arc<Plan>) -> Result<Self> {
        let (machine, settings) = (&weights.machine, weights.settings);
        let layout = Layout::new(&weights, &plan)?;
        let mut memory = DeviceMemory::new(machine, layout.bytes, "the plan")?;
        if settings.poison {
            memory.fill(0xff)?;
        }
        let constants = layout.contents();
        if !constants.is_empty() {
            // SAFETY: the layout has room for them, and nothing is queued yet.
            unsafe { machine.upload(memory.address() + layout.constants as u64, &constants)? };
        }
        let (arena, live) = (memory.address(), memory.address() + layout.live as u64);
        let mut staging = Staging::new(machine, &plan, &layout.placement, arena, live)?;
        let recording = record(&weights, &plan, layout, arena, &mut staging)?;
        let Recording { sections, places, defers, placement, packed_own } = recording;
        Ok(Self {
            queue: Arc::clone(machine).queue()?,
            plan,
            sections,
            places,
            staging,
            memory,
            weights,
            defers,
            placement,
            packed_own,
            waiting: None,
            failure: None,
            graphs: [None; 2],
            replays: settings.replays(),
            activity: Activity::default(),
        })
    }

    /// Where the host writes; a prefill that waits for its inputs runs first.
    fn inputs(&mut self) -> &mut Staging {
        if let Err(error) = self.settle() {
            // Its inputs are gone with this.
            self.waiting = None;
            self.failure = Some(error);
        }
        &mut self.staging
    }

    /// Runs a prefill that still waits, without a decode; if it fails, it waits on.
    fn settle(&mut self) -> Result<()> {
        let Some(launch) = self.waiting else { return Ok(()) };
        self.staging.write_live(&launch);
        self.send(Inputs::All)?;
        self.enqueue(Section::Prefill, launch.live)?;
        self.fetch()?;
        self.activity.host_syncs += 1;
        self.queue.wait()?;
        self.staging.sent();
        self.waiting = None;
        Ok(())
    }

    fn send(&mut self, which: Inputs) -> Result<()> {
        // SAFETY: all memory stays as long as the queue, and the host writes the staging memory only after it has
        // waited for the queue.
        unsafe { self.staging.send(self.queue.as_mut(), which) }
    }

    fn fetch(&mut self) -> Result<()> {
        // SAFETY: as `send`.
        unsafe { self.staging.fetch(self.queue.as_mut()) }
    }

    fn enqueue(&mut self, section: Section, live: Live) -> Result<()> {
        for index in 0..self.sections[section as usize].len() {
            if self.weights.settings.checked {
                self.run_checked(section, index, live)?;
            } else {
                self.launch(section, index)?;
            }
        }
        self.activity.kernels_launched += self.sections[section as usize].len() as u64;
        Ok(())
    }

    fn launch(&mut self, section: Section, index: usize) -> Result<()> {
        // SAFETY: the recording names memory of the weights and of this only, within their sizes, and this holds both
        // until the queue is gone.
        let launched = unsafe { self.queue.launch(&self.sections[section as usize][index]) };
        launched.map_err(|error| self.blame(section, index, &error))
    }

    /// An error of a launch with the operation it belongs to.
    fn blame(&self, section: Section, index: usize, error: &Error) -> Error {
        let operation = self.plan.describe(section, self.places[section as usize][index]);
        let kernel = self.sections[section as usize][index].kernel.name();
        Error::Operation { operation: format!("{operation}, kernel {kernel}"), reason: error.to_string() }
    }

    /// One launch from its inputs to its outputs, looked at on both sides.
    fn run_checked(&mut self, section: Section, index: usize, live: Live) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let places = &self.places[section as usize];
        let place = places[index];
        // Several operations may be one launch.
        let end = places[index..].iter().find(|other| **other > place).copied();
        let operations = &plan.operations(section)[place..end.unwrap_or(plan.operations(section).len())];
        let watch = Watch::before(operations, &mut |tensor| self.copy(tensor, live))?;
        self.launch(section, index)?;
        self.queue.wait().map_err(|error| self.blame(section, index, &error))?;
        watch.after(&plan, (section, place), &mut |tensor| self.copy(tensor, live))
    }

    /// The live rows of a tensor, from the device.
    fn copy(&mut self, tensor: Tensor, live: Live) -> Result<Vec<u8>> {
        let bytes = tensor.rows.count(live) * tensor.width * tensor.element.bytes();
        let host = HostMemory::new(&self.weights.machine, bytes)?;
        // SAFETY: the tensor lies within the plan's memory, the host's was just reserved, and both stay until the wait.
        unsafe {
            let address = self.memory.address() + self.placement.offset(tensor) as u64;
            self.queue.copy_out(host.pointer(), address, bytes)?;
        }
        self.queue.wait()?;
        Ok(host.contents()[..bytes].to_vec())
    }

    /// The graph of a whole forecast or of the decode alone, recorded when it is first needed.
    fn graph(&mut self, with_prefill: bool, live: Live) -> Result<usize> {
        if let Some(graph) = self.graphs[usize::from(with_prefill)] {
            return Ok(graph);
        }
        self.queue.begin_recording()?;
        // Inputs that change between decodes go before the graph.
        let inputs = if with_prefill { Inputs::All } else { Inputs::None };
        let enqueued = self.enqueue_all(with_prefill, inputs, live);
        let recorded = self.queue.end_recording(enqueued.is_ok());
        // What failed first says more than that the recording cannot be ended.
        enqueued?;
        let graph = recorded?.expect("a recording that is kept has a number");
        self.graphs[usize::from(with_prefill)] = Some(graph);
        self.activity.graphs_captured += 1;
        tracing::debug!(target: "graphs", prefill = with_prefill, kernels = self.sections.iter().map(Vec::len).sum::<usize>(), "captured");
        Ok(graph)
    }

    fn enqueue_all(&mut self, with_prefill: bool, inputs: Inputs, live: Live) -> Result<()> {
        self.send(inputs)?;
        if with_prefill {
            self.enqueue(Section::Prefill, live)?;
        }
        self.enqueue(Section::Decode, live)?;
        self.fetch()
    }

    fn replay(&mut self, graph: usize, with_prefill: bool) -> Result<()> {
        if !with_prefill {
            self.send(Inputs::Changed)?;
        }
        self.activity.graphs_replayed += 1;
        tracing::debug!(target: "graphs", prefill = with_prefill, "replayed");
        // SAFETY: as `launch` and `send`.
        unsafe { self.queue.replay(graph) }
    }

    /// From here on kernels are launched one by one; whoever runs a program hears of it once.
    fn fall_back(&mut self, error: &Error) {
        self.replays = false;
        self.activity.graph_fallbacks += 1;
        tracing::debug!(target: "graphs", %error, "fallback");
        if !self.weights.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("graphs cannot be recorded, kernels are launched one by one: {error}");
        }
    }

    /// A decode, together with the prefill that waits for it.
    fn run_all(&mut self, with_prefill: bool, live: Live) -> Result<()> {
        if self.replays {
            match self.graph(with_prefill, live) {
                Ok(graph) => {
                    self.replay(graph, with_prefill)?;
                    return self.queue.wait();
                }
                Err(error) if self.weights.settings.strict => return Err(error),
                Err(error) => self.fall_back(&error),
            }
        }
        self.enqueue_all(with_prefill, if with_prefill { Inputs::All } else { Inputs::Changed }, live)?;
        self.queue.wait()
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

    fn input(&mut self, tensor: Tensor) -> &mut [f32] {
        self.inputs().input_floats(tensor)
    }

    fn write_integers(&mut self, tensor: Tensor, values: &[i32]) {
        assert_eq!(tensor.element, Element::I32, "a tensor is written as what it holds");
        fill(self.inputs().input(tensor), values, i32::to_ne_bytes);
    }

    fn write_doubles(&mut self, tensor: Tensor, values: &[f64]) {
        assert_eq!(tensor.element, Element::F64, "a tensor is written as what it holds");
        fill(self.inputs().input(tensor), values, f64::to_ne_bytes);
    }

    fn run(&mut self, section: Section, launch: &Launch) -> Result<()> {
        let Live { batch, context, samples } = self.plan.capacity();
        let live = launch.live;
        assert!(live.batch <= batch && live.context <= context && live.samples <= samples, "a run exceeds its plan");
        if section == Section::Prefill {
            // A new prefill depends on none before it.
            self.failure = None;
            self.waiting = Some(*launch);
            return if self.defers { Ok(()) } else { self.settle() };
        }
        let of_this = |first: &Launch| (first.live.batch, first.live.context) == (live.batch, live.context);
        if self.waiting.as_ref().is_some_and(|first| !of_this(first)) {
            self.settle()?;
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.staging.write_live(launch);
        self.run_all(self.waiting.is_some(), live)?;
        self.waiting = None;
        self.staging.sent();
        Ok(())
    }

    fn read(&mut self, tensor: Tensor, values: &mut [f64]) {
        // Whoever ran the decode has heard of the failure.
        if self.settle().is_err() {
            return values.fill(f64::NAN);
        }
        if let Some((words, half)) = self.packed_own.half_of(tensor) {
            let words = self.staging.output(words);
            return widen(words, values, |bytes| half.of(u32::from_ne_bytes(bytes)).into());
        }
        let bytes = self.staging.output(tensor);
        match tensor.element {
            Element::F64 => widen(bytes, values, f64::from_ne_bytes),
            Element::F32 => widen(bytes, values, |bytes| f32::from_ne_bytes(bytes).into()),
            Element::I32 => widen(bytes, values, |bytes| i32::from_ne_bytes(bytes).into()),
        }
    }

    fn view(&mut self, tensor: Tensor) -> &[f32] {
        if self.settle().is_err() {
            // As in `read`.
            self.staging.lose(tensor);
        }
        self.staging.floats(tensor)
    }

    fn keep(&mut self, tensor: Tensor) -> Option<Kept> {
        // As in `read`; who then views the tensor sees that it is lost.
        self.settle().ok().and_then(|()| self.staging.keep(tensor))
    }

    fn activity(&self) -> Activity {
        self.activity
    }
}

fn fill<T: Copy, const N: usize>(bytes: &mut [u8], values: &[T], to: impl Fn(T) -> [u8; N]) {
    let (places, _) = bytes.as_chunks_mut::<N>();
    assert!(values.len() <= places.len(), "a tensor is written within its size");
    places.iter_mut().zip(values).for_each(|(place, &value)| *place = to(value));
}

fn widen<const N: usize>(bytes: &[u8], values: &mut [f64], from: impl Fn([u8; N]) -> f64) {
    let (numbers, _) = bytes.as_chunks::<N>();
    assert!(values.len() <= numbers.len(), "a tensor is read within its size");
    values.iter_mut().zip(numbers).for_each(|(value, &bytes)| *value = from(bytes));
}
