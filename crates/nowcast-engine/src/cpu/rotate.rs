//! Rotary positions: the table of a pass, queries in place, keys on their way into the cache.

use super::arena::Access;
use super::executor::Context;
use super::rows::SharedRows;
use crate::operation::{AppendCache, CachePart, RotaryTable, RotateQuery, Tokens};

/// Positions or rows that one task takes: enough to be worth a thread.
const GRAIN: usize = 8;

/// Tokens whose keys are turned into columns together: those of one cache line.
const LINE_TOKENS: usize = 16;

pub(super) fn table(op: &RotaryTable, access: &Access<'_>, context: &mut Context<'_>) {
    let first = op.first.count(access.live());
    let anchor = op.anchor_tokens.count(access.live()).saturating_sub(1) / 2;
    let rows = SharedRows::new(access.write::<f32>(op.table), op.table.width);
    context.weights.pool.for_each_chunk(access.rows(op.table), GRAIN, |range| {
        // SAFETY: chunks do not overlap.
        op.rotary.fill_rows(first + range.start, anchor, unsafe { rows.rows(range) });
    });
}

/// The row of the table that a tensor row takes.
fn position(tokens: Tokens, row: usize, count: usize) -> usize {
    match tokens {
        Tokens::All => row % count,
        Tokens::Last => count - 1,
    }
}

pub(super) fn query(op: &RotateQuery, access: &Access<'_>, context: &mut Context<'_>) {
    let table = access.read::<f32>(op.table);
    let count = table.len() / op.table.width;
    let head_dim = op.rotary.head_dim;
    let queries = SharedRows::new(access.write::<f32>(op.tensor), op.tensor.width);
    context.weights.pool.for_each_chunk(access.rows(op.tensor), GRAIN, |range| {
        for row in range {
            let entry = &table[position(op.tokens, row, count) * op.table.width..];
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
    let (heads, head_dim) = (shape.heads, shape.head_dim);
    let input = access.read::<f32>(op.input);
    let rotation = op.rotation.map(|rotation| (rotation, access.read::<f32>(rotation.table)));
    let rotated = |row: usize, head: usize, key: &mut [f32]| {
        key.copy_from_slice(&input[row * op.input.width + op.key_column + head * head_dim..][..head_dim]);
        if let Some((rotation, table)) = rotation {
            let count = table.len() / rotation.table.width;
            let entry = &table[(row % count) * rotation.table.width..];
            let (cosine, sine) = (&entry[2 * head_dim..3 * head_dim], &entry[3 * head_dim..4 * head_dim]);
            rotation.rotary.rotate(key, cosine, sine);
        }
    };
    let value =
        |row: usize, head: usize| &input[row * op.input.width + op.value_column + head * head_dim..][..head_dim];
    let pool = &context.weights.pool;
    match op.part {
        CachePart::Context => {
            let capacity = op.cache.capacity();
            let tokens = shape.context.count(access.live());
            let keys = SharedRows::new(access.write::<f32>(op.cache.context_keys), head_dim * capacity);
            let values = SharedRows::new(access.write::<f32>(op.cache.context_values), head_dim * capacity);
            pool.for_each_chunk(shape.series.count(access.live()) * heads, 1, |range| {
                let mut columns = [0.0; LINE_TOKENS * MOST_HEAD_DIM];
                for index in range {
                    let (series, head) = (index / heads, index % heads);
                    // SAFETY: every head of every series is visited once.
                    let (keys, values) = unsafe { (keys.row(index), values.row(index)) };
                    for first in (0..tokens).step_by(LINE_TOKENS) {
                        let count = LINE_TOKENS.min(tokens - first);
                        for (token, key) in columns.chunks_exact_mut(head_dim).enumerate().take(count) {
                            let row = series * tokens + first + token;
                            rotated(row, head, key);
                            values[(first + token) * head_dim..][..head_dim].copy_from_slice(value(row, head));
                        }
                        for component in 0..head_dim {
                            let line = &mut keys[component * capacity + first..][..count];
                            line.iter_mut()
                                .enumerate()
                                .for_each(|(token, key)| *key = columns[token * head_dim + component]);
                        }
                    }
                }
            });
        }
        CachePart::Suffix { first, tokens } => {
            let Some((keys, values)) = op.cache.suffix else { unreachable!("a step appends to a suffix") };
            let keys = SharedRows::new(access.write::<f32>(keys), keys.width);
            let values = SharedRows::new(access.write::<f32>(values), values.width);
            pool.for_each_chunk(access.rows(op.input) / tokens, GRAIN, |range| {
                for path in range {
                    // SAFETY: every path is visited once.
                    let (keys, values) = unsafe { (keys.row(path), values.row(path)) };
                    for (head, token) in (0..heads).flat_map(|head| (0..tokens).map(move |token| (head, token))) {
                        let at = (head * shape.steps + first + token) * head_dim;
                        let row = path * tokens + token;
                        rotated(row, head, &mut keys[at..at + head_dim]);
                        values[at..at + head_dim].copy_from_slice(value(row, head));
                    }
                }
            });
        }
    }
}

/// Heads are never wider than this; models check it when they load.
pub const MOST_HEAD_DIM: usize = 512;
