//! Attention operations: from tensors of a plan to the calls of the kernels.

use super::arena::Access;
use super::attention::{Decode, Grouped, Prefill, Prefix, Suffix, scratch_len};
use super::executor::Context;
use super::pool::ThreadPool;
use crate::kv_cache::LayerCache;
use crate::operation::{AttendContext, AttendGroup, AttendPaths, Operation};
use crate::plan::{Plan, Section};

/// Scratch values that the attention operations of a plan need at most.
pub(super) fn scratch_length(plan: &Plan, pool: &ThreadPool) -> usize {
    let needed = |operation: &Operation| {
        let (keys, head_dim) = match operation {
            Operation::AttendContext(op) => (op.cache.capacity(), op.cache.shape.head_dim),
            Operation::AttendPaths(op) => (op.cache.capacity() + op.seen + op.tokens, op.cache.shape.head_dim),
            Operation::AttendGroup(op) => (op.variates, op.output.width / op.heads),
            _ => return 0,
        };
        scratch_len(pool.threads(), keys, head_dim)
    };
    let operations = [Section::Prefill, Section::Decode].into_iter().flat_map(|section| plan.operations(section));
    operations.map(needed).max().unwrap_or(0)
}

fn prefix<'a>(cache: &LayerCache, access: &'a Access<'_>) -> Prefix<'a> {
    Prefix {
        keys: access.read(cache.context_keys),
        values: access.read(cache.context_values),
        capacity: cache.capacity(),
        first: 0,
        live: cache.shape.context.count(access.live()),
    }
}

pub(super) fn context(op: &AttendContext, access: &Access<'_>, context: &mut Context<'_>) {
    let shape = op.cache.shape;
    let prefix = prefix(&op.cache, access);
    let call = Prefill {
        heads: shape.heads,
        head_dim: shape.head_dim,
        series: shape.series.count(access.live()),
        queries: prefix.live,
        query: &access.read::<f32>(op.query)[op.query_column..],
        query_stride: op.query.width,
        prefix,
        output: access.write(op.output),
        output_stride: op.output.width,
    };
    call.run(context.scratch, &context.weights.pool);
}

pub(super) fn paths(op: &AttendPaths, access: &Access<'_>, context: &mut Context<'_>) {
    let shape = op.cache.shape;
    let context_tokens = shape.context.count(access.live());
    let hidden = op.hidden.min(context_tokens);
    let own = op.cache.suffix.map(|(keys, values)| (access.read(keys), access.read(values)));
    let (keys, values) = own.unwrap_or_default();
    let series = shape.series.count(access.live());
    let call = Decode {
        heads: shape.heads,
        head_dim: shape.head_dim,
        series,
        samples: access.rows(op.query) / (series * op.tokens).max(1),
        tokens: op.tokens,
        query: &access.read::<f32>(op.query)[op.query_column..],
        query_stride: op.query.width,
        prefix: Prefix { first: hidden, live: context_tokens - hidden, ..prefix(&op.cache, access) },
        suffix: Suffix { keys, values, capacity: shape.steps, first: op.hidden - hidden, seen: op.seen },
        output: access.write(op.output),
        output_stride: op.output.width,
    };
    call.run(context.scratch, &context.weights.pool);
}

pub(super) fn group(op: &AttendGroup, access: &Access<'_>, context: &mut Context<'_>) {
    let width = op.output.width;
    let call = Grouped {
        heads: op.heads,
        head_dim: width / op.heads,
        batch: access.live().batch,
        variates: op.variates,
        inner: op.inner.count(access.live()),
        input: access.read(op.qkv),
        input_stride: op.qkv.width,
        offsets: [0, width, 2 * width],
        groups: access.read(op.groups),
        output: access.write(op.output),
        output_stride: width,
    };
    call.run(context.scratch, &context.weights.pool);
}
