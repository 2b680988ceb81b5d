//! The memory of a plan on the device: one block, its size known before it is reserved.

use super::device::CudaWeights;
use super::record::{CutContexts, PackedOwn, Uses};
use super::weights::{BAND, DeviceLinear};
use crate::error::{Error, Result};
use crate::extent::{Live, Rows};
use crate::operation::Operation;
use crate::plan::{Placement, Plan, Section};
use crate::rotary::Rotary;

/// Distance between the parts.
const ALIGNMENT: usize = 256;

/// Offsets in the block: the plan's tensors, the live extents, scratch and constants.
pub(super) struct Layout {
    /// Where each tensor lies, from the block's start.
    pub(super) placement: Placement,
    /// Caches whose values lie where their keys do.
    pub(super) packed_own: PackedOwn,
    /// The structure that varies from run to run.
    pub(super) live: usize,
    /// One f64 for each row of the longest product.
    pub(super) row_scale: usize,
    /// [`Layout::contents`].
    pub(super) constants: usize,
    /// The rows of a product with a norm as tensor cores read them.
    pub(super) normed_fragments: usize,
    /// Those of a product without, which whoever writes them may have cut.
    pub(super) bare_fragments: usize,
    /// The whole block.
    pub(super) bytes: usize,
    /// Contexts that are cut for tensor cores, each with its place.
    pub(super) cut_contexts: Vec<CutContexts>,
    /// Whose constants follow each other.
    pub(super) rotaries: Vec<Rotary>,
}

impl Layout {
    pub(super) fn new(weights: &CudaWeights, plan: &Plan) -> Result<Self> {
        let mut rotaries: Vec<Rotary> = Vec::new();
        let (mut scale_rows, mut normed_bytes, mut bare_bytes) = (0, 0, 0);
        let sections = [Section::Prefill, Section::Decode];
        for operation in sections.iter().flat_map(|&section| plan.operations(section)) {
            match operation {
                Operation::RotaryTable(op) if !rotaries.contains(&op.rotary) => rotaries.push(op.rotary),
                Operation::Linear(op) => {
                    let rows = count(op.input.rows, plan.capacity())?;
                    scale_rows = scale_rows.max(rows);
                    if let DeviceLinear::Fragments(matrix) = &weights.linears[op.weight.index] {
                        let bytes_of = |links: usize| {
                            let links = rows.div_ceil(BAND).checked_mul(links);
                            links.and_then(|links| links.checked_mul(matrix.format.link_bytes())).ok_or(Error::Overflow)
                        };
                        let most = if op.norm_epsilon.is_some() { &mut normed_bytes } else { &mut bare_bytes };
                        *most = bytes_of(matrix.links)?.max(*most);
                    }
                }
                _ => {}
            }
        }
        let mut end = 0usize;
        let mut part = |bytes: usize| -> Result<usize> {
            let start = end;
            let bytes = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(Error::Overflow)?;
            end = end.checked_add(bytes).ok_or(Error::Overflow)?;
            Ok(start)
        };
        let uses = Uses::of(plan);
        let packed_own = PackedOwn::of(weights, plan, &uses);
        let placement = packed_own.placement(weights.settings, plan)?;
        part(placement.bytes())?;
        let live = part(ALIGNMENT)?;
        let row_scale = part(scale_rows.checked_mul(size_of::<f64>()).ok_or(Error::Overflow)?)?;
        let constants = part(rotaries.iter().flat_map(Rotary::constants).count() * size_of::<f64>())?;
        let (normed_fragments, bare_fragments) = (part(normed_bytes)?, part(bare_bytes)?);
        let mut cut_contexts = CutContexts::of(weights, plan, &uses, &packed_own)?;
        for contexts in &mut cut_contexts {
            contexts.start = part(contexts.bytes()?)?;
        }
        let bytes = end;
        Ok(Self {
            placement,
            packed_own,
            live,
            row_scale,
            constants,
            normed_fragments,
            bare_fragments,
            bytes,
            cut_contexts,
            rotaries,
        })
    }

    /// The constants.
    pub(super) fn contents(&self) -> Vec<u8> {
        self.rotaries.iter().flat_map(Rotary::constants).flat_map(f64::to_ne_bytes).collect()
    }
}

/// Live rows at full capacity; kernels count in 32 bits.
pub(super) fn count(rows: Rows, capacity: Live) -> Result<usize> {
    rows.checked_count(capacity).filter(|&count| i32::try_from(count).is_ok()).ok_or(Error::Overflow)
}
