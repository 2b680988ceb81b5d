//! Positions, caches, and every kind of attention.

use super::case::{Case, live};
use crate::extent::{Live, Rows};
use crate::kv_cache::{CacheShape, LayerCache};
use crate::operation::{self, CachePart, Operation, Rotation};
use crate::plan::Tensor;
use crate::rotary::{Pairing, Rotary};
use crate::weights::Activation;

/// Inputs of the projections of [`projecting`].
pub(super) const PROJECTED_INPUTS: usize = 160;

/// Rotary positions, the cache, and attention of a context and of two decode passes.
pub fn attending<'a>(pairing: Pairing, tokens: usize, hidden: usize, capacity: Live) -> Case<'a> {
    const HEADS: usize = 3;
    const HEAD_DIM: usize = 10;
    const WIDTH: usize = HEADS * HEAD_DIM;
    let mut case = Case::new(capacity);
    let xpos_scale_base = (pairing == Pairing::Interleaved).then_some(512.0);
    let rotary = Rotary { head_dim: HEAD_DIM, pairing, xpos_scale_base };
    let series = Rows::batch().times(2);
    let context = Rows::fixed(1).times_context(1);
    let shape = CacheShape { series, heads: HEADS, head_dim: HEAD_DIM, context, steps: 2 * tokens };
    let cache = LayerCache::new(&mut case.plan, shape);
    let qkv = case.input(series.times_context(1), 3 * WIDTH, 0.8);
    let table = |case: &mut Case<'a>, rows: Rows, first: Rows, anchor_tokens: Rows| {
        let table = case.plan.tensor(rows, 4 * HEAD_DIM);
        case.plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
        table
    };
    let append = |case: &mut Case<'a>, input: Tensor, table: Tensor, part: CachePart| {
        case.plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: Some(Rotation { rotary, table }),
            input,
            key_column: WIDTH,
            value_column: 2 * WIDTH,
            cache,
            part,
        }));
    };
    let rotate = |case: &mut Case<'a>, tensor: Tensor, table: Tensor| {
        case.plan.push(Operation::RotateQuery(operation::RotateQuery {
            rotary,
            tensor,
            column: 0,
            heads: HEADS,
            table,
        }));
    };
    let positions = table(&mut case, context, Rows::fixed(0), context);
    append(&mut case, qkv, positions, CachePart::Context);
    // Nothing between: short contexts do all three at once.
    rotate(&mut case, qkv, positions);
    let output = case.plan.tensor(qkv.rows, WIDTH);
    let attend = operation::AttendContext { query: qkv, query_column: 0, cache, output };
    case.plan.push(Operation::AttendContext(attend));
    case.output("at once", output);
    let again = case.input(series.times_context(1), 3 * WIDTH, 0.8);
    rotate(&mut case, again, positions);
    let output = case.plan.tensor(again.rows, WIDTH);
    let attend = operation::AttendContext { query: again, query_column: 0, cache, output };
    case.plan.push(Operation::AttendContext(attend));
    case.output("again", output);
    let paths = series.times_samples();
    let own: Vec<Tensor> = (0..2).map(|_| case.input(paths.times(tokens), 3 * WIDTH, 0.8)).collect();
    case.plan.begin_decode();
    for (step, own) in own.into_iter().enumerate() {
        let first = context.plus(step * tokens);
        let positions = table(&mut case, Rows::fixed(tokens), first, context.plus((step + 1) * tokens));
        append(&mut case, own, positions, CachePart::Suffix { first: step * tokens, tokens });
        rotate(&mut case, own, positions);
        let output = case.plan.tensor(own.rows, WIDTH);
        case.plan.push(Operation::AttendPaths(operation::AttendPaths {
            query: own,
            query_column: 0,
            cache,
            output,
            tokens,
            seen: step * tokens + 1,
            hidden,
        }));
        case.output("paths", output);
    }
    case
}

/// Normed projections of a short context, and its attention over itself: what few tokens do in one launch.
pub fn projecting<'a>(capacity: Live) -> Case<'a> {
    const HEADS: usize = 2;
    const HEAD_DIM: usize = 64;
    const WIDTH: usize = HEADS * HEAD_DIM;
    let mut case = Case::new(capacity);
    let rotary = Rotary { head_dim: HEAD_DIM, pairing: Pairing::Interleaved, xpos_scale_base: Some(512.0) };
    let (series, context) = (Rows::batch(), Rows::fixed(1).times_context(0));
    let shape = CacheShape { series, heads: HEADS, head_dim: HEAD_DIM, context, steps: 1 };
    let cache = LayerCache::new(&mut case.plan, shape);
    let weight = case.linear(3 * WIDTH, PROJECTED_INPUTS, Activation::None);
    let input = case.input(series.times_context(0), PROJECTED_INPUTS, 1.5);
    let table = case.plan.tensor(context, 4 * HEAD_DIM);
    let first = Rows::fixed(0);
    case.plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens: context, table }));
    let qkv = case.plan.tensor(input.rows, 3 * WIDTH);
    // A large epsilon keeps scores small, so that no key takes all the weight.
    case.plan.push(Operation::Linear(operation::Linear {
        weight,
        input,
        columns: 0..3 * WIDTH,
        output: qkv,
        norm_epsilon: Some(10.0),
        residual: None,
    }));
    case.plan.push(Operation::AppendCache(operation::AppendCache {
        rotation: Some(Rotation { rotary, table }),
        input: qkv,
        key_column: WIDTH,
        value_column: 2 * WIDTH,
        cache,
        part: CachePart::Context,
    }));
    case.plan.push(Operation::RotateQuery(operation::RotateQuery {
        rotary,
        tensor: qkv,
        column: 0,
        heads: HEADS,
        table,
    }));
    let output = case.plan.tensor(input.rows, WIDTH);
    case.plan.push(Operation::AttendContext(operation::AttendContext { query: qkv, query_column: 0, cache, output }));
    case.output("attended", output);
    let weight = case.linear(PROJECTED_INPUTS, WIDTH, Activation::None);
    let sum = case.plan.linear_add(weight, output, input);
    case.output("added", sum);
    // Paths ask the cache, which shows what was put there.
    let asking = case.input(series.times_samples(), WIDTH, 0.3);
    case.plan.begin_decode();
    let answer = case.plan.tensor(asking.rows, WIDTH);
    case.plan.push(Operation::AttendPaths(operation::AttendPaths {
        query: asking,
        query_column: 0,
        cache,
        output: answer,
        tokens: 1,
        seen: 0,
        hidden: 0,
    }));
    case.output("asked again", answer);
    case
}

/// Attention between variates, in three groups.
pub fn attending_group<'a>(variates: usize, heads: usize, head_dim: usize) -> Case<'a> {
    let mut case = Case::new(live(2, 4, 3));
    let rows = Rows::batch().times(variates).times_context(0);
    let qkv = case.input(rows, 3 * heads * head_dim, 0.7);
    let groups = case.integers(Rows::batch().times(variates), 1, |index| (index * index % 3) as i32);
    let output = case.plan.tensor(rows, heads * head_dim);
    let inner = Rows::fixed(1).times_context(0);
    case.plan.push(Operation::AttendGroup(operation::AttendGroup { qkv, groups, output, variates, inner, heads }));
    case.output("output", output);
    case
}
