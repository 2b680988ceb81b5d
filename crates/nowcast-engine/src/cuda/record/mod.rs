//! From the operations of a plan to launches whose arguments never change.
//!
//! Grids cover the plan's capacity; kernels look up how much of it is live. One file for each family of kernels.

mod attention;
mod attention_chunks;
mod attention_projected;
mod attention_rows;
mod context_operands;
mod fragments;
mod linear;
mod linear_pair;
mod mixture;
mod own_tokens;
mod reach;
mod rotary;
mod rows;
mod scaler;
mod streamed;
mod tile;
mod tokens;
mod transfer;
mod uses;

pub(super) use context_operands::CutContexts;
pub(super) use own_tokens::PackedOwn;
pub(super) use transfer::{MOST_PIECES, Piece, Sent, send_answer, transfer};
pub(super) use uses::Uses;

use std::sync::Arc;

use super::argument::{Argument, KernelRows};
use super::choices::Choices;
use super::device::CudaWeights;
use super::kernel::Kernel;
use super::layout::{Layout, count};
use super::machine::KernelLaunch;
use super::staging::Staging;
use super::stopwatch::Stopwatch;
use crate::error::{Error, Result};
use crate::extent::Rows;
use crate::operation::{AppendCache, Linear, Operation};
use crate::plan::{Placement, Plan, Section, Tensor};
use crate::rotary::Rotary;
use fragments::CutRows;
use reach::Reaches;

/// Launches of a plan.
pub(super) struct Recording {
    /// Prefill, then decode.
    pub(super) sections: [Vec<KernelLaunch>; 2],
    /// Which operation of its section each launch belongs to; of several at once, the first.
    pub(super) places: [Vec<usize>; 2],
    /// Whether the prefill does without the number of samples.
    pub(super) defers: bool,
    pub(super) placement: Placement,
    pub(super) packed_own: PackedOwn,
}

/// Blocks that a grid can have in its second and third direction.
const MOST_SIDE_BLOCKS: usize = 65_535;

/// Records a plan over a block of memory that is laid out so.
pub(super) fn record(
    weights: &Arc<CudaWeights>,
    plan: &Plan,
    layout: Layout,
    arena: u64,
    staging: &mut Staging,
) -> Result<Recording> {
    let mut recorder = Recorder {
        weights,
        plan,
        placement: layout.placement,
        packed_own: layout.packed_own,
        uses: Uses::of(plan),
        staging,
        arena,
        live: arena + layout.live as u64,
        row_scale: arena + layout.row_scale as u64,
        constants: arena + layout.constants as u64,
        normed_fragments: arena + layout.normed_fragments as u64,
        bare_fragments: arena + layout.bare_fragments as u64,
        operands: None,
        cut_rows: [None, None],
        reaches: Reaches::default(),
        rotaries: layout.rotaries,
        cut_contexts: layout.cut_contexts,
        next: (0, 0),
        launches: Vec::new(),
        stopwatch: None,
    };
    if weights.choices.is_some() {
        // SAFETY: the caller has just allocated the plan's memory, and nothing is queued yet.
        recorder.stopwatch = Some(unsafe { Stopwatch::new(&weights.machine, recorder.live, plan.capacity())? });
    }
    let mut record = |section: Section| -> Result<(Vec<KernelLaunch>, Vec<usize>)> {
        let operations = plan.operations(section);
        let (mut place, mut places) = (0, Vec::new());
        // A decode may run again, when others have taken their place.
        recorder.cut_rows = [None, None];
        while let Some(operation) = operations.get(place) {
            let following = &operations[place + 1..];
            recorder.next = recorder.weights_of_next(following);
            let performed = match operation {
                Operation::Linear(op) if recorder.project_and_attend(op, following)? => 4,
                Operation::Linear(op) if recorder.stream_operands(op, following)? => 1,
                Operation::Linear(op) if recorder.linear_pair(op, following)? => 2,
                Operation::Linear(op) => recorder.linear_with(op, following)?,
                Operation::AppendCache(append) => recorder.append_with(append, following)?,
                Operation::AttendContext(op) => recorder.attend_context(op, following)?,
                Operation::AttendPaths(op) => recorder.attend_paths(op, following)?,
                Operation::LastRow(first) => recorder.last_rows(first, following)?,
                Operation::SampleMixture(op) => recorder.sample(op, following)?,
                _ => recorder.operation(operation).map(|()| 1)?,
            };
            recorder.pass_cut_rows(operation);
            places.resize(recorder.launches.len(), place);
            place += performed;
        }
        if section == Section::Prefill {
            recorder.cut_contexts()?;
            places.resize(recorder.launches.len(), operations.len().saturating_sub(1));
        }
        Ok((std::mem::take(&mut recorder.launches), places))
    };
    let (first, second) = (record(Section::Prefill)?, record(Section::Decode)?);
    weights.choices.iter().for_each(Choices::keep);
    let mut defers = true;
    let prefill = plan.operations(Section::Prefill).iter();
    prefill.for_each(|operation| {
        // A suffix is named with its cache, but only paths write it.
        operation.each_tensor(&mut |tensor| defers &= !tensor.rows.counts_samples());
    });
    let (placement, packed_own) = (recorder.placement, recorder.packed_own);
    Ok(Recording { sections: [first.0, second.0], places: [first.1, second.1], defers, placement, packed_own })
}

/// What all recording functions know.
struct Recorder<'a> {
    weights: &'a CudaWeights,
    plan: &'a Plan,
    uses: Uses<'a>,
    placement: Placement,
    packed_own: PackedOwn,
    staging: &'a mut Staging,
    arena: u64,
    live: u64,
    row_scale: u64,
    /// Rows of products with a norm, which sees whole rows before they are cut.
    normed_fragments: u64,
    /// Rows of products without one, which may be cut by whoever writes them.
    bare_fragments: u64,
    /// The tensor of few rows that the launch before has left there, for the product behind.
    operands: Option<usize>,
    /// Rows that the product before has left cut, and those that this one leaves.
    cut_rows: [Option<CutRows>; 2],
    reaches: Reaches,
    constants: u64,
    rotaries: Vec<Rotary>,
    /// Contexts that the prefill leaves cut for the paths.
    cut_contexts: Vec<CutContexts>,
    /// Address and bytes of the weights of the next product.
    next: (u64, u64),
    launches: Vec<KernelLaunch>,
    /// Where kernels are chosen by their time.
    stopwatch: Option<Stopwatch>,
}

/// Shape of a launch.
struct Shape {
    grid: [usize; 3],
    threads: usize,
    shared_bytes: usize,
}

impl Shape {
    /// One thread for each of `count` things.
    fn flat(count: usize, threads: usize) -> Self {
        Self { grid: [count.div_ceil(threads), 1, 1], threads, shared_bytes: 0 }
    }
}

impl Recorder<'_> {
    fn operation(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::ScaleContext(op) => self.scale_context(op),
            Operation::ScaleStep(op) => self.scale_step(op),
            Operation::PrependLabel(op) => self.prepend_label(op),
            Operation::Linear(op) => self.linear(op),
            Operation::Norm(op) => self.norm(op),
            Operation::SwiGlu(op) => self.swiglu(op),
            Operation::Add(op) => self.add(op),
            Operation::RotaryTable(op) => self.rotary_table(op),
            Operation::RotateQuery(op) => self.rotate_query(op),
            Operation::AppendCache(op) => self.append_cache(op, None),
            Operation::AttendContext(op) => self.attend_context(op, &[]).map(drop),
            Operation::AttendPaths(op) => self.attend_paths(op, &[]).map(drop),
            Operation::AttendGroup(op) => self.attend_group(op),
            Operation::LastRow(op) => self.last_rows(op, &[]).map(drop),
            Operation::RepeatRows(op) => self.repeat_rows(op),
            Operation::Embed(op) => self.embed(op),
            Operation::QuantiseBits(op) => self.quantise_bits(op),
            Operation::SampleToken(op) => self.sample_token(op),
            Operation::ActivateMixture(op) => self.activate_mixture(op),
            Operation::MixtureQuantiles(op) => self.mixture_quantiles(op),
            Operation::MeanMixture(op) => self.draw(Kernel::MeanMixture, op, 0),
            Operation::SampleMixture(op) => self.sample(op, &[]).map(drop),
            Operation::OverwriteExogenous(op) => self.overwrite_exogenous(op),
            Operation::Round(op) => self.round(op),
            Operation::SortSamples(op) => self.sort_samples(op),
        }
    }

    /// Records a product together with the attention of paths that takes its results, if one does, and returns how many
    /// operations that were.
    fn linear_with(&mut self, op: &Linear, following: &[Operation]) -> Result<usize> {
        match self.project_paths(op, following)? {
            Some(count) => Ok(count),
            None => self.linear(op).map(|()| 1),
        }
    }

    /// Records an `AppendCache` together with what follows it, if one kernel does both, and returns how many operations
    /// that were: queries that rotate by the same table, and a short context that attends to what is appended.
    fn append_with(&mut self, append: &AppendCache, following: &[Operation]) -> Result<usize> {
        let Some(Operation::RotateQuery(queries)) = following.first() else {
            return self.append_cache(append, None).map(|()| 1);
        };
        if !Self::rotates_with(append, queries) {
            return self.append_cache(append, None).map(|()| 1);
        }
        if let Some(Operation::AttendContext(attend)) = following.get(1)
            && self.attends_fresh(append, queries, attend)
            && !self.overlap(queries.table, attend.output)?
            && self.is_last_use(append.input, &following[2..])
        {
            return self.attend_fresh(append, attend).map(|()| 3);
        }
        if let Some(Operation::AttendPaths(attend)) = following.get(1)
            && self.attends_newest(append, queries, attend)?
        {
            return Ok(2 + self.attend_newest(append, attend, &following[2..])?);
        }
        self.append_cache(append, Some(queries)).map(|()| 2)
    }

    /// What a product leaves cut stays so while operations only take tensors into a cache.
    fn pass_cut_rows(&mut self, operation: &Operation) {
        let only_reads = matches!(operation, Operation::AppendCache(append) if append.rotation.is_none());
        if !only_reads {
            self.cut_rows[0] = self.cut_rows[1].take();
        }
    }

    /// Whether nobody touches a tensor of the prefill from the following operations on.
    fn is_last_use(&self, tensor: Tensor, following: &[Operation]) -> bool {
        let end = self.plan.operations(Section::Prefill).len().saturating_sub(following.len());
        let is_before = |&(section, place): &(Section, usize)| section == Section::Prefill && place < end;
        !self.is_kept(tensor) && self.uses.places(tensor).iter().all(is_before)
    }

    fn is_kept(&self, tensor: Tensor) -> bool {
        self.plan.kept().iter().any(|kept| kept.index == tensor.index)
    }

    /// Whether two tensors have memory in common. One that an operation reads for the last time may have the place of what
    /// the next one writes, so that one kernel cannot do both.
    fn overlap(&self, one: Tensor, other: Tensor) -> Result<bool> {
        let place = |tensor: Tensor| -> Result<std::ops::Range<usize>> {
            let start = self.placement.offset(tensor);
            Ok(start..start + self.most(tensor.rows)? * tensor.width * tensor.element.bytes())
        };
        let (one, other) = (place(one)?, place(other)?);
        Ok(one.start < other.end && other.start < one.end)
    }

    /// Where the weights of the next product lie, for a kernel to ask for them early.
    fn weights_of_next(&self, following: &[Operation]) -> (u64, u64) {
        let next = following.iter().find_map(|operation| match operation {
            Operation::Linear(op) => Some(&self.weights.linears[op.weight.index]),
            _ => None,
        });
        next.map_or((0, 0), |linear| (linear.weight_address(), linear.weight_bytes() as u64))
    }

    /// Address of a tensor.
    fn at(&self, tensor: Tensor) -> u64 {
        self.arena + self.placement.offset(tensor) as u64
    }

    /// Where the only operation that touches a tensor writes it: straight to the host if the host takes it and it is small.
    fn at_host(&mut self, tensor: Tensor) -> u64 {
        // Checks look at what stands in the plan's memory.
        let is_only_use = self.uses.places(tensor).len() == 1;
        let direct = if is_only_use && !self.weights.settings.checked { self.staging.direct(tensor) } else { None };
        direct.unwrap_or_else(|| self.at(tensor))
    }

    /// Rows at full capacity.
    fn most(&self, rows: Rows) -> Result<usize> {
        count(rows, self.plan.capacity())
    }

    /// One thread for each value of a tensor.
    fn each_value(&self, tensor: Tensor) -> Result<Shape> {
        Ok(Shape::flat(self.most(tensor.rows)? * tensor.width, 256))
    }

    fn launch(
        &mut self,
        operation: &'static str,
        kernel: Kernel,
        shape: Shape,
        argument: impl Into<Argument>,
    ) -> Result<()> {
        let Shape { grid, threads, shared_bytes } = shape;
        if grid.contains(&0) {
            return Ok(());
        }
        if grid[0] > i32::MAX as usize || grid[1].max(grid[2]) > MOST_SIDE_BLOCKS {
            return Err(Error::Device(format!(
                "{operation} is too large for one launch ({grid:?} blocks): forecast fewer series at once"
            )));
        }
        if shared_bytes > self.weights.machine.most_shared_bytes() {
            return Err(Error::Device(format!(
                "{operation} needs {shared_bytes} bytes of shared memory, more than the GPU has: shorten the context \
                 or use the CPU"
            )));
        }
        self.launches.push(KernelLaunch {
            kernel,
            grid: grid.map(|blocks| blocks as u32),
            threads: threads as u32,
            shared_bytes: shared_bytes as u32,
            argument: argument.into(),
            operation,
        });
        Ok(())
    }
}

fn rows(rows: Rows) -> Result<KernelRows> {
    KernelRows::new(rows).ok_or(Error::Overflow)
}

/// A number as kernels take it.
fn int(value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::Overflow)
}
