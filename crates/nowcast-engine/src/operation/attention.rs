//! Rotary positions, the KV cache, and attention.

use crate::extent::Rows;
use crate::kv_cache::LayerCache;
use crate::plan::Tensor;
use crate::rotary::Rotary;

/// See [`RotaryTable`](super::Operation::RotaryTable). `table` is `[positions, 4 head_dim]`: cosine and sine for
/// queries, cosine and sine for keys, the xPos factor multiplied in. Row `r` belongs to position `first + r`.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    /// The embedding.
    pub rotary: Rotary,
    /// Position of the table's first row.
    pub first: Rows,
    /// Tokens up to the end of the pass that anchors xPos: the anchor is half of its largest position.
    pub anchor_tokens: Rows,
    /// The table.
    pub table: Tensor,
}

/// See [`RotateQuery`](super::Operation::RotateQuery).
#[derive(Debug, Clone)]
pub struct RotateQuery {
    /// The embedding.
    pub rotary: Rotary,
    /// `[rows, width]`, changed in place.
    pub tensor: Tensor,
    /// First column of the queries.
    pub column: usize,
    /// Number of heads.
    pub heads: usize,
    /// Rows of [`RotaryTable`], one for each token of the pass.
    pub table: Tensor,
}

/// Positions for keys on their way into the cache.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// The embedding.
    pub rotary: Rotary,
    /// Rows of [`RotaryTable`], one for each token of the pass.
    pub table: Tensor,
}

/// Which part of a cache a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePart {
    /// The context, from its first token.
    Context,
    /// Each path's own tokens.
    Suffix {
        /// First token to write.
        first: usize,
        /// Tokens of each path.
        tokens: usize,
    },
}

/// See [`AppendCache`](super::Operation::AppendCache).
#[derive(Debug, Clone)]
pub struct AppendCache {
    /// `None` leaves keys as they are.
    pub rotation: Option<Rotation>,
    /// `[rows, width]`.
    pub input: Tensor,
    /// First column of the keys.
    pub key_column: usize,
    /// First column of the values.
    pub value_column: usize,
    /// The cache.
    pub cache: LayerCache,
    /// Where to write.
    pub part: CachePart,
}

/// See [`AttendContext`](super::Operation::AttendContext). Queries are scaled already.
#[derive(Debug, Clone)]
pub struct AttendContext {
    /// `[series, tokens, width]`
    pub query: Tensor,
    /// First column of the queries.
    pub query_column: usize,
    /// Keys and values.
    pub cache: LayerCache,
    /// As many rows as `query`, `[.., heads · head_dim]`.
    pub output: Tensor,
}

/// See [`AttendPaths`](super::Operation::AttendPaths). Queries are scaled already. A query sees the whole context of
/// its series and the first tokens of its own path.
#[derive(Debug, Clone)]
pub struct AttendPaths {
    /// `[series, samples, tokens, width]`.
    pub query: Tensor,
    /// First column of the queries.
    pub query_column: usize,
    /// Keys and values.
    pub cache: LayerCache,
    /// `[series, samples, tokens, heads · head_dim]`.
    pub output: Tensor,
    /// Queries of each path.
    pub tokens: usize,
    /// Own tokens that the first query of a path sees; each further query sees one more.
    pub seen: usize,
    /// Oldest tokens, context before own ones, that are no longer seen.
    pub hidden: usize,
}

/// See [`AttendGroup`](super::Operation::AttendGroup). Queries are scaled already.
#[derive(Debug, Clone)]
pub struct AttendGroup {
    /// `[batch, variates, inner, 3 · heads · head_dim]`: queries, keys, values.
    pub qkv: Tensor,
    /// Group of every series, `[batch, variates]` in i32.
    pub groups: Tensor,
    /// `[batch, variates, inner, heads · head_dim]`.
    pub output: Tensor,
    /// Variates of one item.
    pub variates: usize,
    /// Rows of one variate: tokens or samples.
    pub inner: Rows,
    /// Number of heads.
    pub heads: usize,
}
