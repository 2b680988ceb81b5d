//! Attention.

use super::attention_chunks::{CHUNK, ChunkedExtent, chunked, is_narrow};
use super::context_operands::PathAttention;
use super::rotary::interleaved;
use super::uses::Uses;
use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{Argument, KernelRows, argument};
use crate::cuda::device::CudaWeights;
use crate::cuda::kernel::Kernel;
use crate::cuda::layout::count;
use crate::cuda::weights::Format;
use crate::error::Result;
use crate::kv_cache::LayerCache;
use crate::operation::{AppendCache, AttendContext, AttendGroup, AttendPaths, CachePart, Operation, RotateQuery};
use crate::plan::{Plan, Tensor};

argument! {
    /// `Attention` in attention.cu.
    AttentionArgument {
        query: u64, prefix_keys: u64, prefix_values: u64, suffix_keys: u64, suffix_values: u64, output: u64, table: u64,
        operands: u64, live: u64, series: KernelRows, rows: KernelRows, context: KernelRows,
        query_width: i32, query_column: i32, output_width: i32, heads: i32, head_dim: i32, prefix_capacity: i32,
        suffix_capacity: i32, tokens: i32, seen: i32, hidden: i32, tile_rows: i32, score_stride: i32,
        staged: i32, key_column: i32, value_column: i32, interleaved: i32, result_factor: f32, hands_bf16: i32,
        chunks: i32, stages: i32, packs_own: i32, takes_operands: i32,
    }
}

argument! {
    /// `FreshAttention` in attention_fresh.cu.
    FreshAttentionArgument {
        input: u64, table: u64, keys: u64, values: u64, output: u64, live: u64, series: KernelRows, tokens: KernelRows,
        width: i32, query_column: i32, key_column: i32, value_column: i32, output_width: i32, heads: i32,
        head_dim: i32, capacity: i32, interleaved: i32, reserved: i32,
    }
}

argument! {
    /// `GroupAttention` in group_attention.cu.
    GroupAttentionArgument {
        input: u64, groups: u64, output: u64, live: u64, inner: KernelRows,
        variates: i32, heads: i32, head_dim: i32, reserved: i32,
    }
}

/// Rows of a block at most; `TILE_ROWS` in attention.cu.
const TILE_ROWS: usize = 8;
const THREADS: usize = 128;
/// Shared memory that leaves a multiprocessor room for a second block.
const COMFORTABLE_BYTES: usize = 96 * 1024;

/// Inner rows of a block whose variates are staged, and the gap behind each; those in group_attention.cu.
const STAGED_ROWS: usize = 2;
const STAGED_GAP: usize = 4;

/// Tokens of a context that is staged whole.
const MOST_STAGED_TOKENS: usize = 64;

/// Tokens of a context that attends to its projections; `MOST_TOKENS` in attention_fresh.cu.
const MOST_FRESH_TOKENS: usize = 16;

/// Shared memory for a context that is staged whole, so that one wait for memory serves all keys; 0 if it is long.
fn staged_bytes(cache: &LayerCache) -> usize {
    let head = cache.shape.head_dim * cache.capacity();
    if cache.capacity() <= MOST_STAGED_TOKENS && head.is_multiple_of(4) { 2 * head * 4 } else { 0 }
}

/// What the two kinds of attention over a cache do not share.
pub(super) struct Queries {
    name: &'static str,
    pub(super) query: Tensor,
    pub(super) column: usize,
    pub(super) output: Tensor,
    /// Queries of each path; 0 for the context's own tokens.
    pub(super) tokens: usize,
    pub(super) seen: usize,
    hidden: usize,
    /// Whether the product that made them has cut them, with their keys and values.
    is_cut: bool,
}

impl Queries {
    pub(super) fn of_paths(op: &AttendPaths) -> Self {
        let (query, column, output) = (op.query, op.query_column, op.output);
        let (tokens, seen, hidden) = (op.tokens, op.seen, op.hidden);
        Self { name: "AttendPaths", query, column, output, tokens, seen, hidden, is_cut: false }
    }
}

/// The kernel that goes through keys in chunks, if it suits: not where the sums of the CPU are wanted, the context is one
/// that attends to fresh projections, or heads are not made of whole groups of four components.
pub(super) fn chunked_attention(
    weights: &CudaWeights,
    plan: &Plan,
    uses: &Uses,
    cache: &LayerCache,
    queries: &Queries,
) -> Result<Option<(Kernel, Shape)>> {
    let shape = cache.shape;
    let is_short = queries.tokens == 0 && cache.capacity() <= MOST_FRESH_TOKENS;
    let columns = [shape.head_dim, queries.query.width, queries.column, queries.output.width];
    let is_aligned = columns.iter().all(|column| column.is_multiple_of(4));
    if weights.settings.exact || is_short || !is_aligned {
        return Ok(None);
    }
    let series = count(shape.series, plan.capacity())?;
    let extent = ChunkedExtent {
        head_dim: shape.head_dim,
        heads: shape.heads,
        series,
        rows: count(queries.query.rows, plan.capacity())?.div_ceil(series.max(1)),
        chunks: cache.capacity().div_ceil(CHUNK),
        is_narrow: is_narrow(weights, uses, queries.query, queries.output),
    };
    Ok(chunked(weights.machine.as_ref(), &extent))
}

impl Recorder<'_> {
    /// Records the product behind as well where it takes what this writes; how many operations that were.
    pub(super) fn attend_context(&mut self, op: &AttendContext, following: &[Operation]) -> Result<usize> {
        let (query, column, output) = (op.query, op.query_column, op.output);
        let (tokens, seen, hidden, is_cut) = (0, 0, 0, false);
        let queries = Queries { name: "AttendContext", query, column, output, tokens, seen, hidden, is_cut };
        self.attend(&op.cache, &queries, None, following)
    }

    /// Whether a context is short enough to attend to projections that have yet to go into the cache. Its sums are not
    /// those of the CPU.
    pub(super) fn attends_fresh(&self, append: &AppendCache, queries: &RotateQuery, attend: &AttendContext) -> bool {
        !self.weights.settings.exact
            && append.part == CachePart::Context
            && attend.query == append.input
            && attend.query_column == queries.column
            && attend.cache.context_keys == append.cache.context_keys
            && attend.cache.shape.context == append.cache.shape.context
            && attend.cache.capacity() <= MOST_FRESH_TOKENS
            && staged_bytes(&attend.cache) > 0
    }

    /// Rotates, fills the cache and attends in one launch.
    pub(super) fn attend_fresh(&mut self, append: &AppendCache, op: &AttendContext) -> Result<()> {
        let (cache, rotation) = (&op.cache, append.rotation.expect("keys that rotate with their queries"));
        let (heads, head_dim, capacity) = (cache.shape.heads, cache.shape.head_dim, cache.capacity());
        let argument = FreshAttentionArgument {
            input: self.at(op.query),
            table: self.at(rotation.table),
            keys: self.at(cache.context_keys),
            values: self.at(cache.context_values),
            output: self.at(op.output),
            live: self.live,
            series: rows(cache.shape.series)?,
            tokens: rows(cache.shape.context)?,
            width: int(op.query.width)?,
            query_column: int(op.query_column)?,
            key_column: int(append.key_column)?,
            value_column: int(append.value_column)?,
            output_width: int(op.output.width)?,
            heads: int(heads)?,
            head_dim: int(head_dim)?,
            capacity: int(capacity)?,
            interleaved: interleaved(&rotation.rotary),
            reserved: 0,
        };
        // Queries, keys and values with a gap behind each token, exponents, and a sum for each.
        let shared_bytes = capacity * (3 * (head_dim + 2) + MOST_FRESH_TOKENS + 1) * size_of::<f32>();
        let grid = [heads, self.most(cache.shape.series)?, 1];
        let shape = Shape { grid, threads: MOST_FRESH_TOKENS * MOST_FRESH_TOKENS, shared_bytes };
        self.launch("AttendContext", Kernel::AttendFresh, shape, argument)
    }

    /// As [`Self::attend_context`].
    pub(super) fn attend_paths(&mut self, op: &AttendPaths, following: &[Operation]) -> Result<usize> {
        self.attend(&op.cache, &Queries::of_paths(op), None, following)
    }

    /// Whether one kernel rotates, appends the newest token of every path and attends.
    pub(super) fn attends_newest(&self, append: &AppendCache, queries: &RotateQuery, op: &AttendPaths) -> Result<bool> {
        // Each row's own key is then asked for by nobody else.
        Ok(op.tokens == 1
            && op.seen.checked_sub(1).is_some_and(|first| append.part == CachePart::Suffix { first, tokens: 1 })
            && op.query == append.input
            && op.query_column == queries.column
            && op.cache.suffix == append.cache.suffix
            && !self.overlap(queries.table, op.output)?
            && chunked_attention(self.weights, self.plan, &self.uses, &op.cache, &Queries::of_paths(op))?.is_some())
    }

    /// That, and as [`Self::attend_context`].
    pub(super) fn attend_newest(
        &mut self,
        append: &AppendCache,
        op: &AttendPaths,
        following: &[Operation],
    ) -> Result<usize> {
        self.attend(&op.cache, &Queries::of_paths(op), Some(append), following)
    }

    /// The same of queries, keys and values that the product before has cut.
    pub(super) fn attend_cut(
        &mut self,
        append: &AppendCache,
        op: &AttendPaths,
        following: &[Operation],
    ) -> Result<usize> {
        self.attend(&op.cache, &Queries { is_cut: true, ..Queries::of_paths(op) }, Some(append), following)
    }

    /// Whether [`Self::attend_cut`] can do it: in a kernel where nobody else reads the queries, which takes sixteens of
    /// columns.
    pub(super) fn attends_cut(&self, append: &AppendCache, op: &AttendPaths, following: &[Operation]) -> Result<bool> {
        let columns =
            [op.query.width, op.query_column, append.key_column, append.value_column, op.cache.shape.head_dim];
        let path = self.path_attention(&op.cache, &Queries::of_paths(op), self.is_rewritten(op.query, following))?;
        Ok(path.is_some_and(|path| path.path.is_alone)
            && self.packed_own.has(&op.cache)
            && columns.iter().all(|column| column.is_multiple_of(16)))
    }

    /// Attends, before that appends what the kernel does along, and after it multiplies what the kernel has cut.
    fn attend(
        &mut self,
        cache: &LayerCache,
        queries: &Queries,
        append: Option<&AppendCache>,
        following: &[Operation],
    ) -> Result<usize> {
        let shape = cache.shape;
        let series = self.most(shape.series)?;
        let series_rows = self.most(queries.query.rows)?.div_ceil(series.max(1));
        // A multiple of four keeps what follows aligned.
        let score_stride = (cache.capacity() + queries.seen + queries.tokens).next_multiple_of(4);
        let bytes = |tile: usize| (TILE_ROWS * shape.head_dim + tile * score_stride) * 4;
        let mut tile = TILE_ROWS;
        while tile > 1 && bytes(tile) > COMFORTABLE_BYTES {
            tile /= 2;
        }
        let staged = staged_bytes(cache);
        let can_be_alone = append.is_some() && self.is_rewritten(queries.query, following);
        let path = self.path_attention(cache, queries, can_be_alone)?;
        let (suffix_keys, suffix_values) = cache.suffix.map_or((0, 0), |(k, v)| (self.at(k), self.at(v)));
        let rotation = append.and_then(|append| append.rotation);
        let mut argument = AttentionArgument {
            query: self.at(queries.query),
            prefix_keys: self.at(cache.context_keys),
            prefix_values: self.at(cache.context_values),
            suffix_keys,
            suffix_values,
            output: self.at(queries.output),
            table: rotation.map_or(0, |rotation| self.at(rotation.table)),
            operands: path.as_ref().map_or(0, |path| path.operands),
            live: self.live,
            series: rows(shape.series)?,
            rows: rows(queries.query.rows)?,
            context: rows(shape.context)?,
            query_width: int(queries.query.width)?,
            query_column: int(queries.column)?,
            output_width: int(queries.output.width)?,
            heads: int(shape.heads)?,
            head_dim: int(shape.head_dim)?,
            prefix_capacity: int(cache.capacity())?,
            suffix_capacity: int(shape.steps)?,
            tokens: int(queries.tokens)?,
            seen: int(queries.seen)?,
            hidden: int(queries.hidden)?,
            tile_rows: int(tile)?,
            score_stride: int(score_stride)?,
            staged: (staged > 0).into(),
            key_column: append.map_or(Ok(-1), |append| int(append.key_column))?,
            value_column: append.map_or(Ok(-1), |append| int(append.value_column))?,
            interleaved: rotation.map_or(0, |rotation| interleaved(&rotation.rotary)),
            result_factor: 0.0,
            hands_bf16: 0,
            chunks: path.as_ref().map_or(Ok(0), |path| int(path.chunks))?,
            stages: path.as_ref().map_or(Ok(0), |path| int(path.path.stages))?,
            packs_own: (queries.tokens > 0 && self.packed_own.has(cache)).into(),
            takes_operands: queries.is_cut.into(),
        };
        let chunked = match path {
            Some(PathAttention { path, .. }) => Some((path.kernel, path.shape, path.is_alone)),
            None => chunked_attention(self.weights, self.plan, &self.uses, cache, queries)?
                .map(|(kernel, shape)| (kernel, shape, false)),
        };
        if let Some((kernel, shape, is_alone)) = chunked {
            let product = self.product_of_operands(queries.output, following)?;
            // Kernels beside products of f32 cut for those, the others for both of the others.
            let is_narrow = is_narrow(self.weights, &self.uses, queries.query, queries.output);
            let product = product.filter(|(product, _)| match product.format {
                Format::Split => !is_narrow,
                // Packed tokens, which products of bf16 make, stand before others of bf16.
                Format::Half => is_narrow && !self.packed_own.has(cache),
                Format::Brain => is_narrow,
            });
            if let Some((product, _)) = &product {
                (argument.output, argument.result_factor) = (self.bare_fragments, product.argument.row_factor);
                argument.hands_bf16 = (product.format == Format::Brain).into();
            }
            let argument = if is_alone { self.rows_argument(cache, argument)? } else { Argument::from(argument) };
            self.launch(queries.name, kernel, shape, argument)?;
            let Some((product, tile)) = product else { return Ok(1) };
            return self.multiply(&product, tile).map(|()| 2);
        }
        let grid = [series_rows.div_ceil(tile), shape.heads, series];
        let shape = Shape { grid, threads: THREADS, shared_bytes: bytes(tile) + staged };
        self.launch(queries.name, Kernel::Attention, shape, argument).map(|()| 1)
    }

    pub(super) fn attend_group(&mut self, op: &AttendGroup) -> Result<()> {
        let head_dim = op.output.width / op.heads;
        // Queries, keys and values of an inner row, its scores, their sum, and where its keys are.
        let staged = STAGED_ROWS * op.variates * (3 * head_dim + STAGED_GAP + op.variates + 4) * 4;
        let is_staged = head_dim.is_multiple_of(16) && staged <= COMFORTABLE_BYTES;
        let argument = GroupAttentionArgument {
            input: self.at(op.qkv),
            groups: self.at(op.groups),
            output: self.at(op.output),
            live: self.live,
            inner: rows(op.inner)?,
            variates: int(op.variates)?,
            heads: int(op.heads)?,
            head_dim: int(head_dim)?,
            reserved: 0,
        };
        let (kernel, rows, shared_bytes) = match is_staged {
            true => (Kernel::GroupAttentionStaged, STAGED_ROWS, staged),
            // Scores and members of one variate for each warp.
            false => (Kernel::GroupAttention, 1, THREADS / 32 * 2 * op.variates * 4),
        };
        let grid = [self.most(op.inner)?.div_ceil(rows), op.heads, self.plan.capacity().batch];
        self.launch("AttendGroup", kernel, Shape { grid, threads: THREADS, shared_bytes }, argument)
    }
}
