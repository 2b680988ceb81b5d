//! Rotary positions: the table of a pass, queries in place, keys on their way into the cache.

use super::arena::Access;
use super::detect::{InstructionSet, Kernel};
use super::executor::Context;
use super::rows::SharedRows;
use super::tile::LINE;
use super::vector::Vector;
use crate::operation::{AppendCache, CachePart, RotaryTable, RotateQuery};
use crate::rotary::Rotary;

/// Positions or rows that one task takes: enough to be worth a thread.
const GRAIN: usize = 8;

/// Tokens whose keys are turned into columns together: those of one cache line.
const LINE_TOKENS: usize = LINE;

pub(super) fn table(op: &RotaryTable, access: &Access<'_>, context: &mut Context<'_>) {
    let first = op.first.count(access.live());
    let anchor = op.anchor_tokens.count(access.live()).saturating_sub(1) / 2;
    let rows = SharedRows::new(access.write::<f32>(op.table), op.table.width);
    context.weights.pool.for_each_chunk(access.rows(op.table), GRAIN, |range| {
        // SAFETY: chunks do not overlap.
        op.rotary.fill_rows(first + range.start, anchor, unsafe { rows.rows(range) });
    });
}

pub(super) fn query(op: &RotateQuery, access: &Access<'_>, context: &mut Context<'_>) {
    let table = access.read::<f32>(op.table);
    let count = table.len() / op.table.width;
    let head_dim = op.rotary.head_dim;
    let queries = SharedRows::new(access.write::<f32>(op.tensor), op.tensor.width);
    context.weights.pool.for_each_chunk(access.rows(op.tensor), GRAIN, |range| {
        for row in range {
            let entry = &table[row % count * op.table.width..];
            let (cosine, sine) = (&entry[..head_dim], &entry[head_dim..2 * head_dim]);
            // SAFETY: every row is visited once.
            let row = unsafe { queries.row(row) };
            for head in row[op.column..op.column + op.heads * head_dim].chunks_exact_mut(head_dim) {
                op.rotary.rotate(head, cosine, sine);
            }
        }
    });
}

pub(super) fn append(op: &AppendCache, access: &Access<'_>, context: &mut Context<'_>) {
    let shape = op.cache.shape;
    let source = Source {
        rows: access.read::<f32>(op.input),
        op,
        rotation: op
            .rotation
            .map(|rotation| (rotation.rotary, rotation.table.width, access.read::<f32>(rotation.table))),
    };
    let pool = &context.weights.pool;
    match op.part {
        CachePart::Context => {
            let size = shape.head_dim * op.cache.capacity();
            let keys = SharedRows::new(access.write::<f32>(op.cache.context_keys), size);
            let values = SharedRows::new(access.write::<f32>(op.cache.context_values), size);
            let tokens = shape.context.count(access.live());
            pool.for_each_chunk(shape.series.count(access.live()) * shape.heads, 1, |heads| {
                let mut columns = [0.0; LINE_TOKENS * MOST_HEAD_DIM];
                for head in heads {
                    // SAFETY: every head of every series is visited once.
                    let cache = unsafe { [keys.row(head), values.row(head)] };
                    source.append_to_context(head, tokens, &mut columns, cache);
                }
            });
        }
        CachePart::Suffix { first, tokens } => {
            let Some((keys, values)) = op.cache.suffix else { unreachable!("a step appends to a suffix") };
            let keys = SharedRows::new(access.write::<f32>(keys), keys.width);
            let values = SharedRows::new(access.write::<f32>(values), values.width);
            let set = InstructionSet::detected();
            pool.for_each_chunk(access.rows(op.input) / tokens, GRAIN, |paths| {
                for path in paths {
                    // SAFETY: every path is visited once.
                    let (keys, values) = unsafe { (keys.row(path), values.row(path)) };
                    set.dispatch(AppendToPath { source: &source, path, first, tokens, keys, values });
                }
            });
        }
    }
}

/// Rows whose keys and values go into a cache.
struct Source<'a> {
    rows: &'a [f32],
    op: &'a AppendCache,
    /// The rotation of keys, the width of its table, and the table.
    rotation: Option<(Rotary, usize, &'a [f32])>,
}

impl Source<'_> {
    /// Writes the key of a row and head, rotated.
    #[inline(always)]
    fn key(&self, row: usize, head: usize, key: &mut [f32]) {
        let head_dim = key.len();
        key.copy_from_slice(&self.rows[row * self.op.input.width + self.op.key_column + head * head_dim..][..head_dim]);
        if let Some((rotary, width, table)) = self.rotation {
            let entry = &table[row % (table.len() / width) * width..];
            rotary.rotate(key, &entry[2 * head_dim..3 * head_dim], &entry[3 * head_dim..4 * head_dim]);
        }
    }

    /// The value of a row and head.
    #[inline(always)]
    fn value(&self, row: usize, head: usize) -> &[f32] {
        let head_dim = self.op.cache.shape.head_dim;
        &self.rows[row * self.op.input.width + self.op.value_column + head * head_dim..][..head_dim]
    }

    /// Writes the keys, as columns, and the values of one head of one series, counted through.
    fn append_to_context(&self, index: usize, tokens: usize, columns: &mut [f32], [keys, values]: [&mut [f32]; 2]) {
        let shape = self.op.cache.shape;
        let (series, head) = (index / shape.heads, index % shape.heads);
        let (head_dim, capacity) = (shape.head_dim, self.op.cache.capacity());
        for first in (0..tokens).step_by(LINE_TOKENS) {
            let count = LINE_TOKENS.min(tokens - first);
            for (token, key) in columns.chunks_exact_mut(head_dim).enumerate().take(count) {
                let row = series * tokens + first + token;
                self.key(row, head, key);
                values[(first + token) * head_dim..][..head_dim].copy_from_slice(self.value(row, head));
            }
            for component in 0..head_dim {
                let line = &mut keys[component * capacity + first..][..count];
                line.iter_mut().enumerate().for_each(|(token, key)| *key = columns[token * head_dim + component]);
            }
        }
    }
}

/// A path's tokens on their way into its own cache.
struct AppendToPath<'a> {
    source: &'a Source<'a>,
    path: usize,
    /// The first of the tokens in the cache.
    first: usize,
    tokens: usize,
    /// `[heads, steps, head_dim]`
    keys: &'a mut [f32],
    /// `[heads, steps, head_dim]`
    values: &'a mut [f32],
}

impl Kernel for AppendToPath<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { source, path, first, tokens, keys, values } = self;
        let shape = source.op.cache.shape;
        let (head_dim, size) = (shape.head_dim, shape.steps * shape.head_dim);
        for head in 0..shape.heads {
            for token in 0..tokens {
                let at = head * size + (first + token) * head_dim;
                // Those of the next path, which no hardware prefetcher foresees.
                for line in (0..head_dim).step_by(LINE) {
                    V::prefetch(keys.as_ptr().wrapping_add(keys.len() + at + line));
                    V::prefetch(values.as_ptr().wrapping_add(values.len() + at + line));
                }
                let row = path * tokens + token;
                source.key(row, head, &mut keys[at..][..head_dim]);
                values[at..][..head_dim].copy_from_slice(source.value(row, head));
            }
        }
    }
}

/// Heads are never wider than this; models check it when they load.
pub const MOST_HEAD_DIM: usize = 512;
