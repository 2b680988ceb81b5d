//! Attention: the context over itself, a step over context and suffix, variates over each other.

use super::arena::Access;
use super::executor::Context;
use super::pool::ThreadPool;
use super::rows::SharedRows;
use crate::operation::{AttendContext, AttendGroup, AttendStep, Tokens};
use crate::plan::Plan;

pub(super) fn scratch_length(_plan: &Plan, _pool: &ThreadPool) -> usize {
    0
}

fn softmax_sum(scores: &mut [f32], out: &mut [f32], value: impl Fn(usize) -> *const f32) {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for s in scores.iter_mut() {
        *s = (*s - max).exp();
        sum += *s;
    }
    out.fill(0.0);
    for (n, p) in scores.iter().enumerate() {
        let v = unsafe { std::slice::from_raw_parts(value(n), out.len()) };
        for (o, v) in out.iter_mut().zip(v) {
            *o = p.mul_add(*v, *o);
        }
    }
    out.iter_mut().for_each(|o| *o /= sum);
}

pub(super) fn context(op: &AttendContext, access: &Access<'_>, context: &mut Context<'_>) {
    let shape = op.cache.shape;
    let (heads, d) = (shape.heads, shape.head_dim);
    let cap = op.cache.context_keys.width / (heads * d);
    let tokens = access.live().context + shape.extra;
    let keys = access.read::<f32>(op.cache.context_keys);
    let values = access.read::<f32>(op.cache.context_values);
    let query = access.read::<f32>(op.query);
    let out = SharedRows::new(access.write::<f32>(op.output), op.output.width);
    context.weights.pool.for_each_chunk(access.rows(op.output), 1, |range| {
        for row in range {
            let (series, t) = match op.tokens {
                Tokens::All => (row / tokens, row % tokens),
                _ => (row, tokens - 1),
            };
            let out = unsafe { out.row(row) };
            for h in 0..heads {
                let q = &query[row * op.query.width + op.query_column + h * d..][..d];
                let base = (series * heads + h) * d * cap;
                let mut scores: Vec<f32> =
                    (0..=t).map(|n| (0..d).fold(0.0f32, |s, i| q[i].mul_add(keys[base + i * cap + n], s))).collect();
                softmax_sum(&mut scores, &mut out[h * d..(h + 1) * d], |n| values[base + n * d..].as_ptr());
            }
        }
    });
}

pub(super) fn step(op: &AttendStep, access: &Access<'_>, context: &mut Context<'_>) {
    let shape = op.cache.shape;
    let (heads, d) = (shape.heads, shape.head_dim);
    let cap = op.cache.context_keys.width / (heads * d);
    let tokens = access.live().context + shape.extra;
    let samples = access.live().samples;
    let keys = access.read::<f32>(op.cache.context_keys);
    let values = access.read::<f32>(op.cache.context_values);
    let (sk, sv) = op.cache.suffix.unwrap();
    let (sk, sv) = (access.read::<f32>(sk), access.read::<f32>(sv));
    let query = access.read::<f32>(op.query);
    let out = SharedRows::new(access.write::<f32>(op.output), op.output.width);
    context.weights.pool.for_each_chunk(access.rows(op.output), 1, |range| {
        for row in range {
            let series = row / samples;
            let out = unsafe { out.row(row) };
            for h in 0..heads {
                let q = &query[row * op.query.width + op.query_column + h * d..][..d];
                let base = (series * heads + h) * d * cap;
                let own = (row * heads + h) * shape.steps * d;
                let mut scores: Vec<f32> = (0..tokens)
                    .map(|n| (0..d).fold(0.0f32, |s, i| q[i].mul_add(keys[base + i * cap + n], s)))
                    .chain((0..=op.step).map(|n| (0..d).fold(0.0f32, |s, i| q[i].mul_add(sk[own + n * d + i], s))))
                    .collect();
                softmax_sum(&mut scores, &mut out[h * d..(h + 1) * d], |n| {
                    if n < tokens { values[base + n * d..].as_ptr() } else { sv[own + (n - tokens) * d..].as_ptr() }
                });
            }
        }
    });
}

pub(super) fn group(op: &AttendGroup, access: &Access<'_>, context: &mut Context<'_>) {
    let heads = op.heads;
    let width = op.output.width;
    let d = width / heads;
    let inner = op.inner.count(access.live());
    let qkv = access.read::<f32>(op.qkv);
    let groups = access.read::<i32>(op.groups);
    let out = SharedRows::new(access.write::<f32>(op.output), width);
    let at = |row: usize, part: usize, h: usize| &qkv[row * 3 * width + part * width + h * d..][..d];
    context.weights.pool.for_each_chunk(access.rows(op.output), 1, |range| {
        for row in range {
            let series = row / inner;
            let first = series / op.variates * op.variates;
            let peers: Vec<usize> = (first..first + op.variates)
                .filter(|&v| groups[v] == groups[series])
                .map(|v| v * inner + row % inner)
                .collect();
            let out = unsafe { out.row(row) };
            for h in 0..heads {
                let q = at(row, 0, h);
                let mut scores: Vec<f32> = peers
                    .iter()
                    .map(|&p| q.iter().zip(at(p, 1, h)).fold(0.0f32, |s, (a, b)| a.mul_add(*b, s)))
                    .collect();
                softmax_sum(&mut scores, &mut out[h * d..(h + 1) * d], |n| at(peers[n], 2, h).as_ptr());
            }
        }
    });
}
