//! Attention of paths whose context is one chunk that was cut: every warp has sixteen rows by itself.

use super::attention::{AttentionArgument, Queries, chunked_attention};
use super::attention_chunks::{GROUP, TILE_ROWS, is_narrow};
use super::context_operands::{PathKernel, chunk_bytes};
use super::own_tokens::PackedOwn;
use super::uses::Uses;
use super::{Recorder, Shape};
use crate::cuda::argument::{Argument, argument};
use crate::cuda::device::CudaWeights;
use crate::cuda::kernel::Kernel;
use crate::cuda::layout::count;
use crate::cuda::machine::{Boxes, Map};
use crate::error::Result;
use crate::kv_cache::LayerCache;
use crate::operation::Operation;
use crate::plan::{Plan, Tensor};

argument! {
    /// `RowsAttention` in own_ring.cuh.
    RowsArgument { keys: Map, values: Map, attention: Argument }
}

/// Own keys that are gone through together, `OWN_CHUNK` in attention_own.cuh.
const MOST_OWN_KEYS: usize = 8;
/// Warps of a block, `ROW_WARPS` in attention_rows.cuh, and fewest such blocks for each multiprocessor: fewer begin early
/// where the product before leaves room, crowd there, and its successor waits.
const WARPS: usize = 4;
const LEAST_BLOCKS: usize = 2;
/// Tokens of a warp in shared memory; with more of them memory answers later.
const MOST_STAGES: usize = 2;

/// The kernel, if it suits: each path has one query, at most its eighth, in heads of 64.
pub(super) fn rows_kernel(
    weights: &CudaWeights,
    plan: &Plan,
    uses: &Uses,
    packed_own: &PackedOwn,
    cache: &LayerCache,
    queries: &Queries,
) -> Result<Option<PathKernel>> {
    let (machine, head_dim) = (&weights.machine, cache.shape.head_dim);
    if !machine.has_warpgroups()
        || queries.tokens != 1
        || !(1..=MOST_OWN_KEYS).contains(&queries.seen)
        || head_dim != GROUP
        || chunked_attention(weights, plan, uses, cache, queries)?.is_none()
    {
        return Ok(None);
    }
    let series = count(cache.shape.series, plan.capacity())?.max(1);
    let tiles = count(queries.query.rows, plan.capacity())?.div_ceil(series).div_ceil(TILE_ROWS);
    let grid = [tiles.div_ceil(WARPS), cache.shape.heads, series];
    if grid.iter().product::<usize>() < LEAST_BLOCKS * machine.multiprocessors() {
        return Ok(None);
    }
    let stages = (queries.seen - 1).min(MOST_STAGES);
    let is_narrow = is_narrow(weights, uses, queries.query, queries.output);
    // As `attend_rows` divides it: the chunk, a ring for each warp, and barriers.
    let stage_bytes = TILE_ROWS * head_dim * size_of::<f32>() + size_of::<u64>();
    let shared_bytes = chunk_bytes(1, is_narrow) + WARPS * stages * stage_bytes + size_of::<u64>();
    let kernel = match is_narrow {
        true if packed_own.has(cache) => Kernel::PackedAttendRows,
        true => Kernel::HalfAttendRows,
        false => Kernel::AttendRows,
    };
    Ok(Some(PathKernel { kernel, shape: Shape { grid, threads: 32 * WARPS, shared_bytes }, stages, is_alone: true }))
}

impl Recorder<'_> {
    /// Whether the next operation that touches a tensor, if any, makes it anew.
    pub(super) fn is_rewritten(&self, tensor: Tensor, following: &[Operation]) -> bool {
        let touches = |operation: &&Operation| {
            let mut is_touched = false;
            operation.each_tensor(&mut |other| is_touched |= other.index == tensor.index);
            is_touched
        };
        let is_other = |other: Tensor| other.index != tensor.index;
        !self.is_kept(tensor)
            && following.iter().find(touches).is_none_or(|operation| match operation {
                Operation::Linear(op) => is_other(op.input) && op.residual.is_none_or(is_other),
                _ => false,
            })
    }

    /// The kernel's argument, around that of every other.
    pub(super) fn rows_argument(&self, cache: &LayerCache, attention: AttentionArgument) -> Result<Argument> {
        let (keys, values) = cache.suffix.expect("paths that append keys");
        let values = if self.packed_own.has(cache) { keys } else { values };
        let boxes = |tensor: Tensor| {
            let (address, box_words) = (self.at(tensor), cache.shape.head_dim);
            let (words, rows) = (cache.shape.heads * cache.shape.steps * box_words, self.most(tensor.rows)?);
            self.weights.machine.map(Boxes { address, words, rows, box_words, box_rows: TILE_ROWS })
        };
        Ok(RowsArgument { keys: boxes(keys)?, values: boxes(values)?, attention: attention.into() }.into())
    }
}
