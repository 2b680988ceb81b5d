//! Tokens: from integers to embeddings, from signs and logits to integers.

use super::arena::Access;
use super::detect::InstructionSet;
use super::executor::Context;
use super::rows::SharedRows;
use crate::operation::{Embed, QuantiseBits, SampleToken};
use crate::random::{Stream, uniform_from_64};
use crate::token_sampling::{NO_TOKEN, draw};

/// Rows that one task embeds or draws: enough to be worth a thread.
const GRAIN: usize = 8;

pub(super) fn embed(op: &Embed, access: &Access<'_>, context: &mut Context<'_>) {
    let live = access.live();
    let tokens = op.tokens.count(live).max(1);
    let rows = access.rows(op.output);
    let outer = rows / tokens;
    let values = access.write::<f32>(op.output);
    values.fill(0.0);
    let output = SharedRows::new(values, op.output.width);
    for term in &op.terms {
        let index = access.read::<i32>(term.index);
        let (groups, first) = (term.groups.count(live), term.first.count(live));
        let length = index.len() / term.index.width / groups.max(1);
        let table = &context.weights.vectors[term.table.vector.index];
        context.weights.pool.for_each_chunk(rows, GRAIN, |range| {
            for row in range {
                let group = row / tokens * groups / outer;
                let entry = index[(group * length + first + row % tokens) * term.index.width + term.column];
                // SAFETY: every row is visited once.
                let output = unsafe { output.row(row) };
                let columns = &mut output[term.output_column..][..term.table.width];
                if entry == NO_TOKEN {
                    columns.fill(f32::NAN);
                    continue;
                }
                let entry = &table[entry as usize * term.table.width..][..term.table.width];
                for (out, value) in columns.iter_mut().zip(entry) {
                    *out += value;
                }
            }
        });
    }
}

pub(super) fn quantise(op: &QuantiseBits, access: &Access<'_>) {
    let bits = op.input.width;
    let output = access.write::<i32>(op.output);
    for (row, pair) in access.read::<f32>(op.input).chunks(bits).zip(output.chunks_mut(2)) {
        for (token, bits) in pair.iter_mut().zip([&row[..op.first_bits], &row[op.first_bits..]]) {
            let number = bits.iter().rev().fold(0, |token, &value| token << 1 | i32::from(value > 0.0));
            *token = if bits.iter().any(|value| value.is_nan()) { NO_TOKEN } else { number };
        }
    }
}

pub(super) fn sample(op: &SampleToken, access: &Access<'_>, context: &mut Context<'_>) {
    let vocabulary = op.logits.width;
    let logits = access.read::<f32>(op.logits);
    let samples = access.live().samples;
    let launch = context.launch;
    let streams = access.read::<i32>(op.streams);
    let set = InstructionSet::detected();
    let weights = access.write::<f64>(op.weights);
    let rows = SharedRows::new(&mut *weights, vocabulary);
    let pool = &context.weights.pool;
    pool.for_each_chunk(access.rows(op.logits), 1, |range| {
        for row in range {
            // SAFETY: every row is visited once.
            let weights = unsafe { rows.row(row) };
            launch.token_sampling.weigh(set, &logits[row * vocabulary..][..vocabulary], weights);
        }
    });
    let weights = &*weights;
    let tokens = SharedRows::new(access.write::<i32>(op.tokens), op.tokens.width);
    pool.for_each_chunk(access.rows(op.tokens), GRAIN, |range| {
        for path in range {
            let row = if op.shared { path / samples } else { path };
            let stream = Stream {
                seed: launch.seed,
                series: streams[path / samples] as u32,
                sample: launch.first_sample + (path % samples) as u32,
                step: op.step as u32,
            };
            let [high, low, ..] = stream.words(op.position as u32);
            // SAFETY: every path is visited once.
            let tokens = unsafe { tokens.row(path) };
            tokens[op.column] = draw(&weights[row * vocabulary..][..vocabulary], uniform_from_64(high, low));
        }
    });
}
