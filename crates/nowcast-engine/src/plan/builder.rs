//! How a model writes its forward pass down.

use std::ops::Range;

use super::layout::Lifetime;
use super::{Element, Placement, Plan, Tensor};
use crate::error::{Error, Result};
use crate::extent::{Live, Rows};
use crate::operation::{self, Operation};
use crate::weights::{LinearId, VectorId};

/// An RMS norm in front of a product.
#[derive(Debug, Clone, Copy)]
pub struct Norm {
    /// Added to the mean square.
    pub epsilon: f32,
    /// Scale of each column; `None` when it is folded into the matrix, and the norm is fused into the product.
    pub scale: Option<VectorId>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    bytes: Option<usize>,
    first: usize,
    last: usize,
}

/// Operations in front of attention that a device may perform together with it: the product, the cache and the rotation.
const BEFORE_ATTENTION: usize = 3;

/// Records operations and the tensors they need.
#[derive(Debug)]
pub struct PlanBuilder {
    capacity: Live,
    fused: bool,
    operations: Vec<Operation>,
    prefill: Option<usize>,
    entries: Vec<Entry>,
    inputs: Vec<Tensor>,
    kept: Vec<Tensor>,
    stages: Vec<(usize, String)>,
}

impl PlanBuilder {
    /// Starts with the prefill section. Without `fused`, residual sums and gates are operations of their own.
    pub fn new(capacity: Live, fused: bool) -> Self {
        let (operations, entries, inputs, kept, stages) = Default::default();
        Self { capacity, fused, operations, prefill: None, entries, inputs, kept, stages }
    }

    /// Greatest extents of the plan.
    pub fn capacity(&self) -> Live {
        self.capacity
    }

    /// Names the part of the model that the operations from here on belong to, for those who ask which one failed.
    pub fn stage(&mut self, name: impl Into<String>) {
        self.stages.push((self.operations.len(), name.into()));
    }

    /// Ends the prefill section: what follows may run several times over what stands.
    pub fn begin_decode(&mut self) {
        self.prefill = Some(self.operations.len());
    }

    /// An f32 tensor.
    pub fn tensor(&mut self, rows: Rows, width: usize) -> Tensor {
        self.tensor_of(Element::F32, rows, width)
    }

    /// A tensor of any kind.
    pub fn tensor_of(&mut self, element: Element, rows: Rows, width: usize) -> Tensor {
        let bytes = rows
            .checked_count(self.capacity)
            .and_then(|rows| rows.checked_mul(width))
            .and_then(|values| values.checked_mul(element.bytes()));
        self.entries.push(Entry { bytes, first: usize::MAX, last: 0 });
        Tensor { index: self.entries.len() - 1, rows, width, element }
    }

    /// A tensor the host writes before a run.
    pub fn input(&mut self, element: Element, rows: Rows, width: usize) -> Tensor {
        let tensor = self.tensor_of(element, rows, width);
        self.entries[tensor.index].first = 0;
        self.inputs.push(tensor);
        tensor
    }

    /// Keeps a tensor to the end, for the host to read.
    pub fn keep(&mut self, tensor: Tensor) {
        self.entries[tensor.index].last = usize::MAX;
        self.kept.push(tensor);
    }

    /// Records one operation. What a device may perform together with it keeps its tensors until it is done.
    pub fn push(&mut self, operation: Operation) {
        let now = self.operations.len();
        let (entries, prefill) = (&mut self.entries, self.prefill);
        operation.each_tensor(&mut |tensor| {
            let entry = &mut entries[tensor.index];
            entry.first = entry.first.min(now);
            // What the decode section reads of the prefill must survive every repetition of the decode section.
            let survives = prefill.is_some_and(|start| entry.first < start);
            entry.last = if survives { usize::MAX } else { entry.last.max(now) };
        });
        let last_rows = self.operations.iter().rev().take_while(|before| matches!(before, Operation::LastRow(_)));
        let together = match operation {
            Operation::AttendContext(_) | Operation::AttendPaths(_) => BEFORE_ATTENTION,
            Operation::LastRow(_) => last_rows.count(),
            _ => 0,
        };
        self.operations[now.saturating_sub(together)..].iter().for_each(|before| {
            before.each_tensor(&mut |tensor| entries[tensor.index].last = entries[tensor.index].last.max(now));
        });
        self.operations.push(operation);
    }

    /// `input · Wᵀ + bias`.
    pub fn linear(&mut self, weight: LinearId, input: Tensor) -> Tensor {
        self.product(weight, input, 0..weight.outputs, None, None)
    }

    /// `input · Wᵀ + bias + residual`.
    pub fn linear_add(&mut self, weight: LinearId, input: Tensor, residual: Tensor) -> Tensor {
        if self.fused {
            return self.product(weight, input, 0..weight.outputs, None, Some(residual));
        }
        let product = self.linear(weight, input);
        let output = self.tensor(product.rows, product.width);
        self.push(Operation::Add(operation::Add { left: residual, right: product, output }));
        output
    }

    /// `norm(input) · Wᵀ + bias`.
    pub fn norm_linear(&mut self, norm: Norm, weight: LinearId, input: Tensor) -> Tensor {
        self.norm_linear_columns(norm, weight, input, 0..weight.outputs)
    }

    /// Some columns of `norm(input) · Wᵀ + bias`.
    pub fn norm_linear_columns(
        &mut self,
        norm: Norm,
        weight: LinearId,
        input: Tensor,
        columns: Range<usize>,
    ) -> Tensor {
        match norm.scale {
            None => self.product(weight, input, columns, Some(norm.epsilon), None),
            Some(scale) => {
                let normed = self.tensor(input.rows, input.width);
                let epsilon = norm.epsilon;
                self.push(Operation::Norm(operation::Norm { input, output: normed, scale, epsilon }));
                self.product(weight, normed, columns, None, None)
            }
        }
    }

    /// `input · Wᵀ + bias`, only some columns.
    pub fn linear_columns(&mut self, weight: LinearId, input: Tensor, columns: Range<usize>) -> Tensor {
        self.product(weight, input, columns, None, None)
    }

    /// `silu(gate) * value` of a tensor whose rows hold gates, then values (unfused modes).
    pub fn swiglu(&mut self, input: Tensor) -> Tensor {
        let output = self.tensor(input.rows, input.width / 2);
        self.push(Operation::SwiGlu(operation::SwiGlu { input, output }));
        output
    }

    /// The last row of every series.
    pub fn last_row(&mut self, input: Tensor, series: Rows) -> Tensor {
        let output = self.tensor_of(input.element, series, input.width);
        self.push(Operation::LastRow(operation::LastRow { input, output, series }));
        output
    }

    fn product(
        &mut self,
        weight: LinearId,
        input: Tensor,
        columns: Range<usize>,
        norm_epsilon: Option<f32>,
        residual: Option<Tensor>,
    ) -> Tensor {
        assert_eq!(input.width, weight.inputs, "a product needs an input as wide as its matrix");
        let output = self.tensor(input.rows, columns.len());
        self.push(Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual }));
        output
    }

    /// Lays out the arena.
    ///
    /// # Errors
    /// The sizes overflow.
    pub fn finish(self) -> Result<Plan> {
        let lifetimes = self
            .entries
            .iter()
            .map(|entry| match entry.bytes {
                // A tensor no operation touches takes no memory.
                Some(_) if entry.first == usize::MAX => Ok(Lifetime { bytes: 0, first: 0, last: 0 }),
                Some(bytes) => Ok(Lifetime { bytes, first: entry.first, last: entry.last }),
                None => Err(Error::Overflow),
            })
            .collect::<Result<Vec<_>>>()?;
        let placement = Placement::of(&lifetimes, &[]).ok_or(Error::Overflow)?;
        Ok(Plan {
            capacity: self.capacity,
            prefill: self.prefill.unwrap_or(self.operations.len()),
            operations: self.operations,
            lifetimes,
            placement,
            inputs: self.inputs,
            kept: self.kept,
            stages: self.stages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv_cache::{CacheShape, LayerCache};
    use crate::plan::Section;

    const CAPACITY: Live = Live { batch: 2, context: 4, samples: 8 };

    #[test]
    fn what_decode_reads_of_the_prefill_is_never_overwritten() {
        let mut plan = PlanBuilder::new(CAPACITY, true);
        let input = plan.input(Element::F32, Rows::batch(), 64);
        let kept = plan.swiglu(input);
        plan.begin_decode();
        let step = plan.swiglu(kept);
        let later = plan.tensor(Rows::batch().times_samples(), 1024);
        plan.push(Operation::Add(operation::Add { left: later, right: later, output: later }));
        let plan = plan.finish().unwrap();
        let range = |tensor: Tensor| plan.offset(tensor)..plan.offset(tensor) + plan.tensor_bytes(tensor);
        for other in [step, later] {
            assert!(range(other).start >= range(kept).end || range(other).end <= range(kept).start);
        }
    }

    #[test]
    fn last_rows_are_taken_together_and_none_overwrites_what_another_reads() {
        let mut plan = PlanBuilder::new(CAPACITY, true);
        let input = plan.input(Element::F32, Rows::batch().times_context(0), 64);
        let inputs = [(); 2].map(|()| plan.swiglu(input));
        let outputs = inputs.map(|tensor| plan.last_row(tensor, Rows::batch()));
        let plan = plan.finish().unwrap();
        let range = |tensor: Tensor| plan.offset(tensor)..plan.offset(tensor) + plan.tensor_bytes(tensor);
        for (read, written) in inputs.into_iter().flat_map(|read| outputs.map(|written| (range(read), range(written))))
        {
            assert!(read.start >= written.end || read.end <= written.start);
        }
    }

    #[test]
    fn what_leads_to_attention_stays_until_it_is_done() {
        let mut plan = PlanBuilder::new(CAPACITY, true);
        let (series, context) = (Rows::batch(), Rows::fixed(1).times_context(0));
        let cache = LayerCache::new(&mut plan, CacheShape { series, heads: 1, head_dim: 4, context, steps: 1 });
        let query = plan.input(Element::F32, series.times_context(0), 64);
        let attended = [false, true].map(|of_paths| {
            let early = plan.swiglu(query);
            let read = plan.swiglu(early);
            let [_, _] = [(); 2].map(|()| plan.swiglu(query));
            let output = plan.tensor(query.rows, 4);
            let (query_column, tokens, seen, hidden) = (0, 1, 1, 0);
            plan.push(if of_paths {
                let attend = operation::AttendPaths { query, query_column, tokens, seen, hidden, cache, output };
                Operation::AttendPaths(attend)
            } else {
                Operation::AttendContext(operation::AttendContext { query, query_column, cache, output })
            });
            [early, read, output]
        });
        let plan = plan.finish().unwrap();
        let range = |tensor: Tensor| plan.offset(tensor)..plan.offset(tensor) + plan.tensor_bytes(tensor);
        for [early, read, output] in attended {
            for other in [early, read] {
                assert!(range(other).start >= range(output).end || range(other).end <= range(output).start);
            }
        }
    }

    #[test]
    fn operations_are_named_by_the_part_they_belong_to() {
        let mut plan = PlanBuilder::new(CAPACITY, true);
        let input = plan.input(Element::F32, Rows::batch(), 64);
        let gated = plan.swiglu(input);
        plan.stage("layer 1");
        plan.swiglu(gated);
        plan.begin_decode();
        plan.stage("step 0");
        plan.push(Operation::Add(operation::Add { left: gated, right: gated, output: gated }));
        let plan = plan.finish().unwrap();
        assert_eq!(plan.describe(Section::Prefill, 0), "SwiGlu (operation 1 of 2 of the prefill)");
        assert_eq!(plan.describe(Section::Prefill, 1), "layer 1, SwiGlu (operation 2 of 2 of the prefill)");
        assert_eq!(plan.describe(Section::Decode, 0), "step 0, Add (operation 1 of 1 of the decode)");
    }

    #[test]
    fn sizes_that_overflow_are_an_error() {
        let mut plan = PlanBuilder::new(Live { batch: usize::MAX / 2, context: 1, samples: 1 }, true);
        plan.input(Element::F32, Rows::batch(), 64);
        assert!(matches!(plan.finish(), Err(Error::Overflow)));
    }
}
