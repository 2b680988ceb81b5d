//! Contexts whose keys and values are cut once, behind the prefill, for all the queries that paths have of them.

use super::attention::{Queries, chunked_attention};
use super::attention_chunks::{
    CHUNK, CHUNK_STEPS, CHUNK_THREADS, CHUNK_WARPS, GROUP, STEP_BYTES, TILE_ROWS, is_narrow,
};
use super::attention_rows::rows_kernel;
use super::own_tokens::PackedOwn;
use super::uses::Uses;
use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::device::CudaWeights;
use crate::cuda::kernel::Kernel;
use crate::cuda::layout::count;
use crate::error::{Error, Result};
use crate::kv_cache::LayerCache;
use crate::operation::{AppendCache, CachePart, Operation};
use crate::plan::{Plan, Section};

argument! {
    /// `CutContext` in context_operands.cuh.
    CutContextArgument {
        keys: [u64; MOST_CONTEXTS], values: [u64; MOST_CONTEXTS], operands: u64, live: u64,
        series: KernelRows, context: KernelRows, most_series: i32, head_dim: i32, capacity: i32, reserved: i32,
    }
}

/// Contexts of one launch; `MOST_CONTEXTS` in context_operands.cuh.
const MOST_CONTEXTS: usize = 24;
/// Chunks side by side, `PATH_SLOTS` in attention_paths.cuh, and links of a chunk.
const SLOTS: usize = 4;
const HALVES: usize = 2;
const PATH_THREADS: usize = 32 * SLOTS * HALVES;
/// Rounds of chunks in shared memory at most, as in attention_paths.cuh.
const MOST_STAGES: usize = 2;

/// Contexts of one shape, cut by one launch, and where their operands lie in the plan's block.
pub(in crate::cuda) struct CutContexts {
    caches: Vec<LayerCache>,
    is_narrow: bool,
    most_series: usize,
    pub(in crate::cuda) start: usize,
}

impl CutContexts {
    /// Those that stay as the prefill left them and that a kernel takes cut.
    pub(in crate::cuda) fn of(
        weights: &CudaWeights,
        plan: &Plan,
        uses: &Uses,
        packed_own: &PackedOwn,
    ) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for operation in plan.operations(Section::Decode) {
            let Operation::AttendPaths(op) = operation else { continue };
            let (cache, queries) = (op.cache, Queries::of_paths(op));
            if all.iter().any(|group| group.place(&cache).is_some())
                || is_written_by_decode(plan, uses, &cache)
                || PathKernel::of(weights, plan, uses, packed_own, &cache, &queries)?.is_none()
            {
                continue;
            }
            let is_narrow = is_narrow(weights, uses, queries.query, queries.output);
            let group = all.iter_mut().find(|group| {
                group.is_narrow == is_narrow && group.is_alike(&cache) && group.caches.len() < MOST_CONTEXTS
            });
            match group {
                Some(group) => group.caches.push(cache),
                None => {
                    let most_series = count(cache.shape.series, plan.capacity())?;
                    all.push(Self { caches: vec![cache], is_narrow, most_series, start: 0 });
                }
            }
        }
        Ok(all)
    }

    fn first(&self) -> &LayerCache {
        &self.caches[0]
    }

    fn is_alike(&self, cache: &LayerCache) -> bool {
        let (one, other) = (&self.first().shape, &cache.shape);
        (one.series, one.heads, one.head_dim, one.context) == (other.series, other.heads, other.head_dim, other.context)
            && self.first().capacity() == cache.capacity()
    }

    fn place(&self, cache: &LayerCache) -> Option<usize> {
        let is_same = |own: &LayerCache| own.context_keys.index == cache.context_keys.index;
        self.caches.iter().position(|own| is_same(own) && own.shape.context == cache.shape.context)
    }

    fn chunks(&self) -> usize {
        self.first().capacity().div_ceil(CHUNK)
    }

    /// Bytes of one context's operands.
    fn context_bytes(&self) -> Result<usize> {
        let shape = &self.first().shape;
        let blocks = self.most_series.checked_mul(shape.heads * self.chunks());
        blocks
            .and_then(|blocks| blocks.checked_mul(chunk_bytes(groups(shape.head_dim), self.is_narrow)))
            .ok_or(Error::Overflow)
    }

    pub(in crate::cuda) fn bytes(&self) -> Result<usize> {
        self.context_bytes()?.checked_mul(self.caches.len()).ok_or(Error::Overflow)
    }

    fn kernel(&self) -> Kernel {
        let kernels = match groups(self.first().shape.head_dim) {
            1 => [Kernel::CutContext64, Kernel::HalfCutContext64],
            2 => [Kernel::CutContext128, Kernel::HalfCutContext128],
            _ => [Kernel::CutContext256, Kernel::HalfCutContext256],
        };
        kernels[usize::from(self.is_narrow)]
    }
}

/// Groups of components that kernels make of a head.
fn groups(head_dim: usize) -> usize {
    head_dim.div_ceil(GROUP).next_power_of_two()
}

/// Parts of a value.
fn parts(is_narrow: bool) -> usize {
    if is_narrow { 1 } else { 2 }
}

/// `SCALE_WORDS`, `SIDE_WORDS` and `CHUNK_WORDS` in context_operands.cuh: of a chunk's scales, of its keys or its values,
/// and of all of it.
fn scale_bytes(groups: usize) -> usize {
    (CHUNK + groups * GROUP) * size_of::<f32>()
}

fn side_bytes(groups: usize, is_narrow: bool) -> usize {
    CHUNK_WARPS * groups * CHUNK_STEPS * parts(is_narrow) * STEP_BYTES
}

pub(super) fn chunk_bytes(groups: usize, is_narrow: bool) -> usize {
    scale_bytes(groups) + 2 * side_bytes(groups, is_narrow)
}

fn is_written_by_decode(plan: &Plan, uses: &Uses, cache: &LayerCache) -> bool {
    uses.places(cache.context_keys).iter().any(|&(section, place)| {
        let operation = &plan.operations(section)[place];
        section == Section::Decode
            && matches!(operation, Operation::AppendCache(AppendCache { part: CachePart::Context, .. }))
    })
}

/// A kernel for the queries of paths over a context that is cut.
pub(super) struct PathKernel {
    pub(super) kernel: Kernel,
    pub(super) shape: Shape,
    pub(super) stages: usize,
    /// Whether it appends the newest keys itself, and nobody else may read their queries.
    pub(super) is_alone: bool,
}

impl PathKernel {
    /// The kernel if there is one: where blocks share chunks, for more rows than a tile has, and for contexts of one chunk.
    fn of(
        weights: &CudaWeights,
        plan: &Plan,
        uses: &Uses,
        packed_own: &PackedOwn,
        cache: &LayerCache,
        queries: &Queries,
    ) -> Result<Option<Self>> {
        if queries.tokens == 0 {
            return Ok(None);
        }
        if cache.capacity() <= CHUNK {
            return rows_kernel(weights, plan, uses, packed_own, cache, queries);
        }
        let Some((kernel, shape)) = chunked_attention(weights, plan, uses, cache, queries)? else { return Ok(None) };
        let series = count(cache.shape.series, plan.capacity())?.max(1);
        let series_rows = count(queries.query.rows, plan.capacity())?.div_ceil(series);
        if let Some(kernel) = cut_twin(kernel) {
            return Ok(Some(Self { kernel, shape, stages: 0, is_alone: false }));
        }
        if cache.shape.head_dim > GROUP || series_rows <= TILE_ROWS || !weights.machine.has_warpgroups() {
            return Ok(None);
        }
        let is_narrow = is_narrow(weights, uses, queries.query, queries.output);
        // As the constructor of `PathAttention` in attention_paths.cuh divides it: results with two numbers each, a row's
        // scale and what is put by; queries; barriers; chunks, of f32 without values.
        let row_bytes = SLOTS * HALVES * (GROUP + 2) * size_of::<f32>() + 12;
        let tile_bytes = TILE_ROWS * row_bytes + CHUNK_STEPS * parts(is_narrow) * STEP_BYTES;
        let staged_bytes = scale_bytes(1) + if is_narrow { 2 } else { 1 } * side_bytes(1, is_narrow);
        let fixed_bytes = tile_bytes + MOST_STAGES * SLOTS * size_of::<u64>();
        let shared_bytes = |stages: usize| stages * SLOTS * staged_bytes + fixed_bytes;
        let mut stages = cache.capacity().div_ceil(CHUNK * SLOTS).min(MOST_STAGES);
        while stages > 1 && shared_bytes(stages) > weights.machine.most_shared_bytes() {
            stages -= 1;
        }
        let grid = [series_rows.div_ceil(TILE_ROWS), cache.shape.heads, series];
        let shape = Shape { grid, threads: PATH_THREADS, shared_bytes: shared_bytes(stages) };
        let kernel = if is_narrow { Kernel::HalfAttendPaths } else { Kernel::AttendPaths };
        Ok(Some(Self { kernel, shape, stages, is_alone: false }))
    }
}

/// The kernel that does the same to a context that is cut, of those whose blocks share chunks.
fn cut_twin(kernel: Kernel) -> Option<Kernel> {
    let twin = match kernel {
        Kernel::AttendFew64 => Kernel::AttendCutFew64,
        Kernel::AttendFew128 => Kernel::AttendCutFew128,
        Kernel::AttendFew256 => Kernel::AttendCutFew256,
        Kernel::AttendPair128 => Kernel::AttendCutPair128,
        Kernel::AttendPair256 => Kernel::AttendCutPair256,
        Kernel::HalfAttendFew64 => Kernel::HalfAttendCutFew64,
        Kernel::HalfAttendFew128 => Kernel::HalfAttendCutFew128,
        Kernel::HalfAttendFew256 => Kernel::HalfAttendCutFew256,
        Kernel::HalfAttendPair128 => Kernel::HalfAttendCutPair128,
        Kernel::HalfAttendPair256 => Kernel::HalfAttendCutPair256,
        _ => return None,
    };
    Some(twin)
}

/// Attention over a context that is cut.
pub(super) struct PathAttention {
    pub(super) path: PathKernel,
    pub(super) operands: u64,
    pub(super) chunks: usize,
}

impl Recorder<'_> {
    /// Cuts the contexts that the prefill has filled.
    pub(super) fn cut_contexts(&mut self) -> Result<()> {
        for index in 0..self.cut_contexts.len() {
            let group = &self.cut_contexts[index];
            let (cache, mut keys, mut values) = (*group.first(), [0; MOST_CONTEXTS], [0; MOST_CONTEXTS]);
            for (place, cache) in group.caches.iter().enumerate() {
                (keys[place], values[place]) = (self.at(cache.context_keys), self.at(cache.context_values));
            }
            let argument = CutContextArgument {
                keys,
                values,
                operands: self.arena + group.start as u64,
                live: self.live,
                series: rows(cache.shape.series)?,
                context: rows(cache.shape.context)?,
                most_series: int(group.most_series)?,
                head_dim: int(cache.shape.head_dim)?,
                capacity: int(cache.capacity())?,
                reserved: 0,
            };
            // Of a chunk the keys, then each group of its values.
            let blocks = group.chunks() * (1 + groups(cache.shape.head_dim));
            let grid = [blocks, cache.shape.heads, group.caches.len() * group.most_series];
            let shape = Shape { grid, threads: CHUNK_THREADS, shared_bytes: 0 };
            let kernel = group.kernel();
            self.launch("AttendPaths", kernel, shape, argument)?;
        }
        Ok(())
    }

    /// The kernel for the queries of paths over a context that is cut, if this one is. It `can_be_alone` with queries and keys
    /// that have yet to be rotated and appended, if they are.
    pub(super) fn path_attention(
        &self,
        cache: &LayerCache,
        queries: &Queries,
        can_be_alone: bool,
    ) -> Result<Option<PathAttention>> {
        let is_narrow = is_narrow(self.weights, &self.uses, queries.query, queries.output);
        let mut own = self.cut_contexts.iter().filter(|group| group.is_narrow == is_narrow);
        let Some((group, place)) = own.find_map(|group| group.place(cache).map(|place| (group, place))) else {
            return Ok(None);
        };
        let path = PathKernel::of(self.weights, self.plan, &self.uses, &self.packed_own, cache, queries)?;
        let Some(path) = path.filter(|path| can_be_alone || !path.is_alone) else {
            return Ok(None);
        };
        let operands = self.arena + (group.start + place * group.context_bytes()?) as u64;
        Ok(Some(PathAttention { path, operands, chunks: group.chunks() }))
    }
}
