//! Rows that a norm, a product and perhaps attention make, and the product behind that takes them: on a device, and that
//! product once more in f64.

use nowcast_engine::device::{Device, Executable};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::{Element, PlanBuilder, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::weights::{Activation, LinearId, LinearSource, WeightList};

use crate::numbers::scattered;
use crate::passes;

/// What makes the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Maker {
    /// A gate times a value.
    Gate,
    /// Attention of so many heads.
    Attention { heads: usize, pairing: Pairing },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer {
    pub(crate) dtype: Dtype,
    pub(crate) maker: Maker,
    pub(crate) inputs: usize,
    /// Columns of the rows that are handed over.
    pub(crate) width: usize,
    pub(crate) outputs: usize,
    /// The weight of the last one and the last input, which is zero then; 0 where it is like the others.
    pub(crate) outlier: f32,
}

/// The rows, `[rows, width]`, and what the product behind made of them, `[rows, outputs]`, of the prefill and of paths.
pub(crate) type Answers = [[Vec<f64>; 2]; 2];

impl Layer {
    fn rows_of_weights(&self) -> usize {
        if matches!(self.maker, Maker::Gate) { 2 * self.width } else { 3 * self.width }
    }

    /// Rows of weights differ in length, as those of queries do not: else one key would take all.
    fn weight(&self, row: usize, input: usize) -> f32 {
        let is_value = row >= self.rows_of_weights() - self.width;
        let size = if is_value { [1.0, 0.05, 4.0][row % 3] } else { 1.0 };
        if self.outlier > 0.0 && row + 1 == self.rows_of_weights() && input + 1 == self.inputs {
            return self.outlier;
        }
        scattered(row * self.inputs + input, 1) * size / (self.inputs as f32).sqrt()
    }

    fn weight_behind(&self, row: usize, input: usize) -> f32 {
        scattered(row * self.width + input, 2)
    }

    fn source(
        self,
        rows: usize,
        inputs: usize,
        activation: Activation,
        weight: fn(&Self, usize, usize) -> f32,
    ) -> LinearSource<'static> {
        LinearSource {
            rows,
            inputs,
            bias: Some((0..rows).map(|row| 0.1 * scattered(row, 3)).collect()),
            activation,
            dtype: self.dtype,
            open: Box::new(move || {
                Box::new(move |row, out| {
                    out.iter_mut().enumerate().for_each(|(input, value)| *value = weight(&self, row, input));
                })
            }),
            packed: Box::new(|| ()),
        }
    }

    /// Rows of any size, which a norm brings to one.
    fn value(&self, row: usize, input: usize) -> f32 {
        if self.outlier > 0.0 && input + 1 == self.inputs {
            return 0.0;
        }
        scattered(row * self.inputs + input, 4) * [1.0, 3e4, 1e-3][row % 3]
    }

    /// A prefill of all tokens of a context and a pass of one token of every path. `keeps` the rows, so that nobody cuts them
    /// for another. Without it they are empty.
    pub(crate) fn run(&self, device: &dyn Device, live: Live, room: usize, keeps: bool) -> Answers {
        let mut list = WeightList::default();
        let (columns, activation) = match self.maker {
            Maker::Gate => (self.width, Activation::SwiGlu),
            Maker::Attention { .. } => (3 * self.width, Activation::None),
        };
        let before = list.linear(self.source(self.rows_of_weights(), self.inputs, activation, Self::weight));
        let behind = list.linear(self.source(self.outputs, self.width, Activation::None, Self::weight_behind));
        let mut plan = PlanBuilder::new(Live { context: room, ..live }, true);
        let (series, context) = (Rows::batch(), Rows::fixed(1).times_context(0));
        let inputs =
            [series.times_context(0), series.times_samples()].map(|rows| plan.input(Element::F32, rows, self.inputs));
        let cache = match self.maker {
            Maker::Gate => None,
            Maker::Attention { heads, .. } => {
                let shape = CacheShape { series, heads, head_dim: self.width / heads, context, steps: 1 };
                Some(LayerCache::new(&mut plan, shape))
            }
        };
        let mut parts: Vec<[Tensor; 2]> = Vec::new();
        for (pass, input) in inputs.into_iter().enumerate() {
            if pass == 1 {
                plan.begin_decode();
            }
            plan.keep(input);
            let rotation = cache.map(|cache| self.rotation(&mut plan, pass, &cache));
            let made = plan.tensor(input.rows, columns);
            plan.push(linear(before, input, made, Some(1e-5)));
            let rows = match (rotation, cache) {
                (Some(rotation), Some(cache)) => self.attend(&mut plan, pass, made, rotation, cache),
                _ => made,
            };
            let output = plan.tensor(rows.rows, self.outputs);
            plan.push(linear(behind, rows, output, None));
            plan.keep(output);
            if keeps {
                plan.keep(rows);
            }
            parts.push([rows, output]);
        }
        let mut executable = passes::prepare(device, list, plan);
        for input in inputs {
            let count = input.rows.count(live);
            let values: Vec<f32> =
                (0..count * self.inputs).map(|at| self.value(at / self.inputs, at % self.inputs)).collect();
            executable.write(input, &values);
        }
        passes::run(&mut *executable, live);
        let mut read = |[rows, output]: [Tensor; 2]| {
            let executable: &mut dyn Executable = &mut *executable;
            let rows = if keeps { passes::read(executable, rows, live) } else { Vec::new() };
            [rows, passes::read(executable, output, live)]
        };
        [read(parts[0]), read(parts[1])]
    }

    /// Positions of a pass's tokens, before all else as in a model.
    fn rotation(&self, plan: &mut PlanBuilder, pass: usize, cache: &LayerCache) -> Rotation {
        let Maker::Attention { pairing, .. } = self.maker else { unreachable!("gates have no positions") };
        let context = cache.shape.context;
        let rotary = Rotary { head_dim: cache.shape.head_dim, pairing, xpos_scale_base: None };
        let (first, anchor_tokens) = if pass == 0 { (Rows::fixed(0), context) } else { (context, Rows::fixed(1)) };
        let table = plan.tensor(anchor_tokens, 4 * rotary.head_dim);
        // Of other layers as well, so that nothing takes its place; the same of the input.
        plan.keep(table);
        plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
        Rotation { rotary, table }
    }

    fn attend(
        &self,
        plan: &mut PlanBuilder,
        pass: usize,
        query: Tensor,
        rotation: Rotation,
        cache: LayerCache,
    ) -> Tensor {
        let heads = cache.shape.heads;
        let Rotation { rotary, table } = rotation;
        plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: Some(rotation),
            input: query,
            key_column: self.width,
            value_column: 2 * self.width,
            cache,
            part: if pass == 0 { CachePart::Context } else { CachePart::Suffix { first: 0, tokens: 1 } },
        }));
        plan.push(Operation::RotateQuery(operation::RotateQuery { rotary, tensor: query, column: 0, heads, table }));
        let output = plan.tensor(query.rows, self.width);
        let query_column = 0;
        plan.push(match pass {
            0 => Operation::AttendContext(operation::AttendContext { query, query_column, cache, output }),
            _ => Operation::AttendPaths(operation::AttendPaths {
                query,
                query_column,
                cache,
                output,
                tokens: 1,
                seen: 1,
                hidden: 0,
            }),
        });
        output
    }

    /// How far rows reach, from the lengths of weights that meet something.
    fn reach(&self) -> f64 {
        let most = |row: usize| {
            let inputs = if self.outlier > 0.0 { self.inputs - 1 } else { self.inputs };
            let square: f64 = (0..inputs).map(|input| f64::from(self.weight(row, input)).powi(2)).sum();
            (self.inputs as f64 * square).sqrt() + 0.1
        };
        let value = |column: usize| most(self.rows_of_weights() - self.width + column);
        let of = |column: usize| match self.maker {
            Maker::Gate => most(column) * value(column),
            Maker::Attention { .. } => value(column),
        };
        (0..self.width).map(of).fold(0.0, f64::max)
    }

    /// Compares every product of a row with its sum in f64; returns the largest part of what is allowed.
    pub(crate) fn check(&self, name: &str, [rows, results]: &[Vec<f64>; 2]) -> f64 {
        let reach = self.reach();
        assert!(rows.iter().all(|value| value.abs() <= reach), "{name}: rows go beyond their reach");
        // Two roundings of operands; f32 also drops the product of what both leave.
        let (operands, rounds, chain) = match self.dtype {
            Dtype::F32 => (3.0 * 2f64.powi(-22), 6.0, 1),
            Dtype::Tf32 => (2.0 * 2f64.powi(-11), 2.0, 8),
            _ => (2.0 * 2f64.powi(-9), 2.0, 8),
        };
        // f16 is off by up to 2^-25: the reach becomes 2^14 at least, a row's own largest value 2^12.
        let quantum = |row: &[f64]| match (self.dtype, self.outlier > 0.0) {
            (Dtype::Bf16, _) => 0.0,
            (_, false) => reach * 1.01 * 2f64.powi(-14 - 25),
            (_, true) => row.iter().fold(0.0f64, |largest, value| largest.max(value.abs())) * 2f64.powi(-12 - 25),
        };
        let part = self.width.div_ceil(32).div_ceil(8) * 2;
        // A chain rounds towards zero in every round, a part once for every chain, the whole once for every part.
        let sums =
            rounds * chain.min(part) as f64 * 2f64.powi(-23) + (part.div_ceil(chain) as f64 + 5.0) * 2f64.powi(-24);
        let quanta: Vec<f64> = rows.chunks(self.width).map(quantum).collect();
        let mut worst = 0.0f64;
        for output in 0..self.outputs {
            let weights: Vec<f64> = (0..self.width).map(|input| f64::from(self.weight_behind(output, input))).collect();
            let all: f64 = weights.iter().map(|weight| weight.abs()).sum();
            let bias = f64::from(0.1 * scattered(output, 3));
            for ((row, results), quantum) in rows.chunks(self.width).zip(results.chunks(self.outputs)).zip(&quanta) {
                let products = row.iter().zip(&weights).map(|(value, weight)| value * weight);
                let (sum, sizes) =
                    products.fold((0.0, 0.0), |(sum, sizes), product: f64| (sum + product, sizes + product.abs()));
                let (expected, found) = (sum + bias, results[output]);
                let allowed = sizes * (operands * 1.01 + sums) + all * quantum + expected.abs() * 2f64.powi(-22);
                let error = (found - expected).abs();
                assert!(error <= allowed, "{name}: {found} instead of {expected} at {output}: {error} > {allowed}");
                worst = worst.max(error / allowed);
            }
        }
        worst
    }
}

fn linear(weight: LinearId, input: Tensor, output: Tensor, norm_epsilon: Option<f32>) -> Operation {
    let columns = 0..weight.outputs;
    Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual: None })
}
