//! The least an operation must do: bytes of its operands, each once, and the arithmetic of its products.

use super::Cost;
use crate::dtype::Dtype;
use crate::extent::Live;
use crate::kv_cache::LayerCache;
use crate::operation::{AttendGroup, AttendPaths, CachePart, Linear, Operation};
use crate::plan::Tensor;
use crate::weights::LinearId;

/// How a device keeps a matrix.
pub(crate) struct Matrix {
    /// Bytes of the whole matrix.
    pub(crate) bytes: usize,
    /// Weight rows behind one output: two where a gate belongs to each.
    pub(crate) rows_per_output: usize,
    pub(crate) dtype: Dtype,
}

/// A multiplication and an addition.
const MULTIPLY_ADD: usize = 2;

/// The cost of one operation with these live extents.
pub(crate) fn cost(operation: &Operation, live: Live, matrix: impl Fn(LinearId) -> Matrix) -> Cost {
    let size = Size(live);
    let rows = |tensor: Tensor| tensor.rows.count(live);
    let (name, shape, bytes, flops) = match operation {
        Operation::Linear(op) => return linear(op, live, &matrix(op.weight)),
        Operation::AttendContext(op) => {
            let (tokens, row) = (op.cache.shape.context.count(live), cache_row(&op.cache));
            let series = op.cache.shape.series.count(live);
            let pairs = tokens * (tokens + 1) / 2;
            let values = 4 * series * tokens * row;
            let shape = format!("{series} x {tokens} queries, {tokens} keys, {}", heads(&op.cache));
            ("attend context", shape, 4 * values, 2 * MULTIPLY_ADD * series * pairs * row)
        }
        Operation::AttendPaths(op) => attend_paths(op, live),
        Operation::AttendGroup(op) => attend_group(op, live),
        Operation::AppendCache(op) => {
            let values = rows(op.input) * 2 * cache_row(&op.cache);
            let part = if op.part == CachePart::Context { "context" } else { "own" };
            ("append cache", format!("{} {part} tokens", rows(op.input)), 2 * 4 * values, 0)
        }
        Operation::RotateQuery(op) => {
            let values = rows(op.tensor) * op.heads * op.rotary.head_dim;
            ("rotate query", format!("{} tokens", rows(op.tensor)), 2 * 4 * values, 0)
        }
        Operation::SampleMixture(op) => ("sample mixture", draws(op.positions, rows(op.paths)), drawn(op, live), 0),
        Operation::MeanMixture(op) => ("mean mixture", draws(op.positions, rows(op.paths)), drawn(op, live), 0),
        Operation::SampleToken(op) => {
            let (paths, vocabulary) = (rows(op.tokens), op.logits.width);
            ("sample token", format!("{paths} of {vocabulary}"), size.of(&[op.logits, op.weights]) + 4 * paths, 0)
        }
        Operation::Embed(op) => {
            let count = rows(op.output);
            let read: usize = op.terms.iter().map(|term| count * (term.table.width + 1)).sum();
            let shape = format!("{count} rows of {} tables", op.terms.len());
            ("embed", shape, 4 * (read + count * op.output.width), 0)
        }
        Operation::ScaleStep(op) => {
            let tensors = [op.state, op.scaled, op.location, op.scale];
            let read = rows(op.paths) * op.scaled.width * op.paths.element.bytes();
            ("scale step", format!("{} paths", rows(op.paths)), size.of(&tensors) + read, 0)
        }
        Operation::ScaleContext(op) => {
            let tensors = [op.values, op.mask, op.scaled, op.location, op.scale, op.last[0], op.last[1], op.state];
            ("scale context", format!("{} series", op.series.count(live)), size.of(&tensors), 0)
        }
        Operation::PrependLabel(op) => whole("prepend label", op.output, &[op.input, op.output], live),
        Operation::Norm(op) => whole("norm", op.output, &[op.input, op.output], live),
        Operation::SwiGlu(op) => whole("swiglu", op.output, &[op.input, op.output], live),
        Operation::Round(op) => whole("round", op.output, &[op.input, op.output], live),
        Operation::SortSamples(op) => whole("sort samples", op.paths, &[op.paths, op.sorted], live),
        Operation::Add(op) => whole("add", op.output, &[op.left, op.right, op.output], live),
        Operation::RotaryTable(op) => whole("rotary table", op.table, &[op.table], live),
        Operation::LastRow(op) => whole("last row", op.output, &[op.output, op.output], live),
        Operation::RepeatRows(op) => whole("repeat rows", op.output, &[op.input, op.output], live),
        Operation::QuantiseBits(op) => whole("quantise bits", op.input, &[op.input, op.output], live),
        Operation::MixtureQuantiles(op) => whole("mixture quantiles", op.quantiles, &op.parameters, live),
        Operation::ActivateMixture(op) => {
            let tensors = [op.parameters, op.degrees_of_freedom, op.location, op.scale, op.logits];
            whole("activate mixture", op.parameters, &tensors, live)
        }
        Operation::OverwriteExogenous(op) => {
            let values = rows(op.paths) / op.variates * op.exogenous * op.columns.len();
            ("overwrite exogenous", format!("{values} values"), 2 * 8 * values, 0)
        }
    };
    Cost { operation: name, shape, dtype: Dtype::F32, bytes: bytes as u64, flops: flops as u64 }
}

/// Bytes of live rows.
struct Size(Live);

impl Size {
    fn of(&self, tensors: &[Tensor]) -> usize {
        let bytes = |tensor: &Tensor| tensor.rows.count(self.0) * tensor.width * tensor.element.bytes();
        tensors.iter().map(bytes).sum()
    }
}

type Parts = (&'static str, String, usize, usize);

/// An operation that touches all live rows of its tensors, named by one of them.
fn whole(name: &'static str, named: Tensor, tensors: &[Tensor], live: Live) -> Parts {
    (name, format!("{} x {}", named.rows.count(live), named.width), Size(live).of(tensors), 0)
}

fn linear(op: &Linear, live: Live, matrix: &Matrix) -> Cost {
    let rows = op.input.rows.count(live);
    let (inputs, columns) = (op.weight.inputs, op.columns.len());
    let weights = matrix.bytes * columns / op.weight.outputs;
    let values = rows * (inputs + columns + if op.residual.is_some() { columns } else { 0 });
    let weight_rows = matrix.rows_per_output * columns;
    let mut shape = format!("{rows} x {inputs} -> {weight_rows}");
    [(op.norm_epsilon.is_some(), ", norm"), (matrix.rows_per_output > 1, ", swiglu"), (op.residual.is_some(), ", add")]
        .into_iter()
        .for_each(|(fused, name)| shape += if fused { name } else { "" });
    Cost {
        operation: "linear",
        shape,
        dtype: matrix.dtype,
        bytes: (weights + 4 * values) as u64,
        flops: (MULTIPLY_ADD * rows * inputs * weight_rows) as u64,
    }
}

fn attend_paths(op: &AttendPaths, live: Live) -> Parts {
    let (context, row) = (op.cache.shape.context.count(live), cache_row(&op.cache));
    let series = op.cache.shape.series.count(live);
    let paths = op.query.rows.count(live) / op.tokens;
    let seen = |query: usize| (context + op.seen + query).saturating_sub(op.hidden);
    let pairs: usize = (0..op.tokens).map(seen).sum();
    let own = op.seen + op.tokens - 1;
    let values = (2 * paths * op.tokens + 2 * series * context + 2 * paths * own) * row;
    let shape = format!("{paths} x {} queries, {} keys, {}", op.tokens, seen(0), heads(&op.cache));
    ("attend paths", shape, 4 * values, 2 * MULTIPLY_ADD * paths * pairs * row)
}

/// As if all variates were of one group.
fn attend_group(op: &AttendGroup, live: Live) -> Parts {
    let (rows, width) = (op.output.rows.count(live), op.output.width);
    let shape = format!("{rows} queries, {} keys, {} heads of {}", op.variates, op.heads, width / op.heads);
    ("attend group", shape, Size(live).of(&[op.qkv, op.output]), 2 * MULTIPLY_ADD * rows * op.variates * width)
}

/// Values of one token's keys.
fn cache_row(cache: &LayerCache) -> usize {
    cache.shape.heads * cache.shape.head_dim
}

fn heads(cache: &LayerCache) -> String {
    format!("{} heads of {}", cache.shape.heads, cache.shape.head_dim)
}

fn draws(positions: usize, paths: usize) -> String {
    format!("{paths} x {positions} draws")
}

/// Parameters of the positions drawn, and the draws.
fn drawn(op: &crate::operation::DrawMixture, live: Live) -> usize {
    let rows = op.parameters.rows.count(live);
    op.positions * (rows * (4 * op.head.values() + 16) + op.paths.rows.count(live) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::Rows;
    use crate::kv_cache::CacheShape;
    use crate::operation::AttendContext;
    use crate::plan::{Norm, PlanBuilder, Section};

    const LIVE: Live = Live { batch: 3, context: 5, samples: 7 };

    fn costs(build: impl FnOnce(&mut PlanBuilder)) -> Vec<Cost> {
        let mut builder = PlanBuilder::new(Live { batch: 4, context: 8, samples: 8 }, true);
        build(&mut builder);
        let plan = builder.finish().unwrap();
        let matrix = |_| Matrix { bytes: 1000, rows_per_output: 2, dtype: Dtype::Bf16 };
        plan.operations(Section::Prefill).iter().map(|operation| cost(operation, LIVE, matrix)).collect()
    }

    #[test]
    fn a_product_reads_its_columns_weights_and_its_live_rows() {
        let weight = LinearId { index: 0, inputs: 6, outputs: 10 };
        let costs = costs(|plan| {
            let input = plan.tensor(Rows::batch().times_context(0), 6);
            plan.norm_linear_columns(Norm { epsilon: 1e-5, scale: None }, weight, input, 2..7);
        });
        assert_eq!(costs.len(), 1);
        assert_eq!((costs[0].operation, &costs[0].shape[..]), ("linear", "15 x 6 -> 10, norm, swiglu"));
        assert_eq!(costs[0].dtype, Dtype::Bf16);
        // Half of the matrix, 15 rows of 6 values, 15 rows of 5 results.
        assert_eq!(costs[0].bytes, 500 + 4 * 15 * (6 + 5));
        let plain: u64 = (0..15 * 5 * 2).map(|_| 2 * 6).sum();
        assert_eq!(costs[0].flops, plain);
    }

    #[test]
    fn attention_counts_every_pair_that_is_seen() {
        let shape = CacheShape {
            series: Rows::batch(),
            heads: 2,
            head_dim: 4,
            context: Rows::fixed(1).times_context(0),
            steps: 3,
        };
        let costs = costs(|plan| {
            let cache = LayerCache::new(plan, shape);
            let query = plan.tensor(Rows::batch().times_context(0), 8);
            let output = plan.tensor(query.rows, 8);
            plan.push(Operation::AttendContext(AttendContext { query, query_column: 0, cache, output }));
            let query = plan.tensor(Rows::batch().times_samples().times(2), 8);
            let output = plan.tensor(query.rows, 8);
            let attend = AttendPaths { query, query_column: 0, cache, output, tokens: 2, seen: 2, hidden: 1 };
            plan.push(Operation::AttendPaths(attend));
        });
        // A pair costs a product of four components for the score and one for the sum, in each of two heads.
        let pair = 2 * 2 * (4 + 4);
        let all: u64 = (0..3).flat_map(|_| (0..5).flat_map(|query| (0..=query).map(|_| pair))).sum();
        assert_eq!(costs[0].flops, all);
        // The first query sees five tokens of context and two of its own, less one; the second one more.
        assert_eq!(costs[1].flops, 3 * 7 * (6 + 7) * pair);
        assert_eq!(costs[0].bytes, 4 * 8 * (2 * 15 + 2 * 15));
        assert_eq!(costs[1].bytes, 4 * 8 * (2 * 42 + 2 * 15 + 2 * 21 * 3));
    }
}
