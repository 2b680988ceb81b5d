//! A context and paths with own tokens that a product makes, on a device and, rounded alike, on the host.

use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::{Element, PlanBuilder, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::weights::{Activation, LinearSource, WeightList};

use crate::numbers::{bits, scattered};
use crate::{passes, softmax};

/// So many that a product runs on tensor cores.
const INPUTS: usize = 288;
/// The second weight of every row of the product: results have bits that bf16 has not.
const SMALL: f32 = 1.0 / 512.0;

#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) series: usize,
    pub(crate) context: usize,
    pub(crate) samples: usize,
    pub(crate) pairing: Pairing,
    /// Whether queries and keys are rotated.
    pub(crate) rotates: bool,
    /// Passes over own tokens, and tokens of each.
    pub(crate) steps: usize,
    pub(crate) tokens: usize,
    /// Oldest tokens that the first pass does not see; with all of the context, digits depend on own ones alone.
    pub(crate) hidden: usize,
    /// By how many more every further pass hides.
    pub(crate) slide: usize,
    /// Of the product that makes own queries, keys and values.
    pub(crate) dtype: Dtype,
}

/// A plan of a case, and its tensors.
pub(crate) struct Parts {
    pub(crate) list: WeightList<'static>,
    pub(crate) plan: PlanBuilder,
    shared: Tensor,
    own: Vec<Tensor>,
    passes: Vec<[Tensor; 2]>,
    /// Own keys and values.
    suffix: [Tensor; 2],
}

/// What a device leaves.
pub(crate) struct Answers {
    /// Of each pass: cosines and sines, `[tokens, 4, head_dim]`, and answers, `[paths, tokens, heads, head_dim]`.
    passes: Vec<[Vec<f64>; 2]>,
    /// Own keys and values, `[paths, heads, tokens, head_dim]`.
    cache: [Vec<f64>; 2],
}

impl Case {
    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn live(&self) -> Live {
        Live { batch: self.series, context: self.context, samples: self.samples }
    }

    fn paths(&self) -> usize {
        self.series * self.samples
    }

    fn all_tokens(&self) -> usize {
        self.steps * self.tokens
    }

    fn hidden(&self, step: usize) -> usize {
        self.hidden + step * self.slide
    }

    fn packs(&self) -> bool {
        self.dtype == Dtype::Bf16
    }

    /// Key (0) or value (1) of a token of a context.
    fn context_value(&self, part: usize, series: usize, token: usize, column: usize) -> f32 {
        scattered(((series * 1000 + token) * 2 + part) * self.width() + column, 1)
    }

    /// What the product takes: eight bits of a row that is the same whatever the number of samples.
    fn input(&self, path: usize, token: usize, input: usize) -> f32 {
        let (series, sample) = (path / self.samples, path % self.samples);
        (scattered(((series * 1000 + sample) * 50 + token) * INPUTS + input, 2) * 128.0).round() / 128.0
    }

    /// What the product makes of it, which f32 holds: query (0), key (1) or value (2) of a path's token.
    fn made(&self, part: usize, path: usize, token: usize, column: usize) -> f32 {
        let [large, small] = inputs_of(part * self.width() + column);
        self.input(path, token, large) + self.input(path, token, small) * SMALL
    }

    /// A plan of all passes that keeps what they leave.
    pub(crate) fn plan(&self) -> Parts {
        let (heads, head_dim, width) = (self.heads, self.head_dim, self.width());
        let mut list = WeightList::default();
        let weight = list.linear(product(3 * width, self.dtype));
        let mut plan = PlanBuilder::new(self.live(), true);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let context = Rows::fixed(1).times_context(0);
        let shape = CacheShape { series, heads, head_dim, context, steps: self.all_tokens() };
        let cache = LayerCache::new(&mut plan, shape);
        let shared = plan.input(Element::F32, series.times_context(0), 2 * width);
        let own: Vec<Tensor> =
            (0..self.steps).map(|_| plan.input(Element::F32, paths.times(self.tokens), INPUTS)).collect();
        let append = |plan: &mut PlanBuilder, rotation, input, key_column, part| {
            let value_column = key_column + width;
            let append = operation::AppendCache { rotation, input, key_column, value_column, cache, part };
            plan.push(Operation::AppendCache(append));
        };
        append(&mut plan, None, shared, 0, CachePart::Context);
        plan.begin_decode();
        let rotary = Rotary { head_dim, pairing: self.pairing, xpos_scale_base: None };
        let passes: Vec<[Tensor; 2]> = own
            .iter()
            .enumerate()
            .map(|(step, &input)| {
                let (first, anchor_tokens) = (context.plus(step * self.tokens), Rows::fixed(self.tokens));
                let table = plan.tensor(anchor_tokens, 4 * head_dim);
                plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
                let tensor = plan.linear(weight, input);
                let part = CachePart::Suffix { first: step * self.tokens, tokens: self.tokens };
                append(&mut plan, self.rotates.then_some(Rotation { rotary, table }), tensor, width, part);
                if self.rotates {
                    let rotate = operation::RotateQuery { rotary, tensor, column: 0, heads, table };
                    plan.push(Operation::RotateQuery(rotate));
                }
                let output = plan.tensor(tensor.rows, width);
                plan.push(Operation::AttendPaths(operation::AttendPaths {
                    query: tensor,
                    query_column: 0,
                    cache,
                    output,
                    tokens: self.tokens,
                    seen: step * self.tokens + 1,
                    hidden: self.hidden(step),
                }));
                [table, output]
            })
            .collect();
        let suffix = cache.suffix.expect("paths have own tokens").into();
        passes.iter().flatten().chain(&suffix).for_each(|&tensor| plan.keep(tensor));
        Parts { list, plan, shared, own, passes, suffix }
    }

    pub(crate) fn run(&self, device: &dyn Device) -> Answers {
        let Parts { list, plan, shared, own, passes, suffix } = self.plan();
        let (live, width) = (self.live(), self.width());
        let mut executable = passes::prepare(device, list, plan);
        let tokens = (0..self.series).flat_map(|series| (0..self.context).map(move |token| (series, token)));
        let of_context = tokens.flat_map(|(series, token)| {
            (0..2 * width).map(move |column| self.context_value(column / width, series, token, column % width))
        });
        executable.write(shared, &of_context.collect::<Vec<_>>());
        for (step, &tensor) in own.iter().enumerate() {
            let tokens = move |path| (step * self.tokens..(step + 1) * self.tokens).map(move |token| (path, token));
            let rows = (0..self.paths()).flat_map(tokens);
            let values = rows.flat_map(|(path, token)| (0..INPUTS).map(move |input| self.input(path, token, input)));
            executable.write(tensor, &values.collect::<Vec<_>>());
        }
        passes::run(&mut *executable, live);
        let mut read = |tensor: Tensor| passes::read(&mut *executable, tensor, live);
        Answers { passes: passes.into_iter().map(|pass| pass.map(&mut read)).collect(), cache: suffix.map(read) }
    }

    /// A head of what the product makes, rounded as the device rounds it.
    fn taken(&self, part: usize, path: usize, token: usize, head: usize) -> Vec<f32> {
        let columns = head * self.head_dim..(head + 1) * self.head_dim;
        // Queries that nobody rotates stay what they are.
        let rounds = self.packs() && (part > 0 || self.rotates);
        columns
            .map(|column| self.made(part, path, token, column))
            .map(|x| if rounds { nearest_bf16(x) } else { x })
            .collect()
    }

    /// A head of queries or keys by their cosines and the sines behind them, operation by operation.
    fn rotated(&self, values: &[f32], entry: &[f64]) -> Vec<f32> {
        if !self.rotates {
            return values.to_vec();
        }
        let (head_dim, mut rotated) = (self.head_dim, values.to_vec());
        for pair in 0..head_dim / 2 {
            let (first, second) = match self.pairing {
                Pairing::Interleaved => (2 * pair, 2 * pair + 1),
                Pairing::HalfSplit => (pair, pair + head_dim / 2),
            };
            for (own, other) in [(first, second), (second, first)] {
                rotated[own] = values[own] * entry[own] as f32 + values[other] * entry[head_dim + own] as f32;
            }
        }
        rotated
    }

    /// Cosines and sines of a token's queries (0) or keys (1).
    fn entry<'a>(&self, answers: &'a Answers, part: usize, token: usize) -> &'a [f64] {
        let at = (token % self.tokens * 4 + 2 * part) * self.head_dim;
        &answers.passes[token / self.tokens][0][at..at + 2 * self.head_dim]
    }

    /// A path's own keys and values, as they are in the cache to the last bit.
    fn own(&self, answers: &Answers, path: usize, head: usize) -> [Vec<Vec<f64>>; 2] {
        let key = |token| {
            let key = self.rotated(&self.taken(1, path, token, head), self.entry(answers, 1, token));
            key.into_iter().map(|x| if self.packs() { nearest_bf16(x) } else { x }.into()).collect()
        };
        let value = |token| self.taken(2, path, token, head).into_iter().map(f64::from).collect();
        [(0..self.all_tokens()).map(key).collect(), (0..self.all_tokens()).map(value).collect()]
    }

    /// Everything that a device left, bit by bit.
    pub(crate) fn digits(answers: &Answers) -> Vec<u64> {
        answers.passes.iter().flatten().chain(&answers.cache).flat_map(|values| bits(values)).collect()
    }

    /// Bytes of all own values, were they by themselves.
    pub(crate) fn value_bytes(&self) -> usize {
        self.paths() * self.all_tokens() * self.width() * size_of::<f32>()
    }

    /// Against what a host that rounds alike comes to.
    pub(crate) fn check(&self, name: &str, answers: &Answers) {
        for (path, head) in (0..self.paths()).flat_map(|path| (0..self.heads).map(move |head| (path, head))) {
            let own = self.own(answers, path, head);
            let room = (path * self.heads + head) * self.all_tokens() * self.head_dim;
            for (found, expected) in answers.cache.iter().zip(&own) {
                let expected = expected.concat();
                assert_eq!(found[room..room + expected.len()], expected, "{name}: own tokens of path {path}");
            }
            let shared = [0, 1].map(|part| -> Vec<Vec<f64>> {
                let of_token = |token| {
                    let columns = head * self.head_dim..(head + 1) * self.head_dim;
                    columns.map(|column| self.context_value(part, path / self.samples, token, column).into()).collect()
                };
                (0..self.context).map(of_token).collect()
            });
            for token in 0..self.all_tokens() {
                let hidden = self.hidden(token / self.tokens);
                // What sees no context never comes to a tensor core.
                let shared_product = if hidden < self.context { softmax::on_tensor_cores(self.dtype) } else { 0.0 };
                let product = shared_product + softmax::on_multiply_adds(self.head_dim);
                let [keys, values] = [0, 1].map(|part| -> Vec<Vec<f64>> {
                    shared[part].iter().chain(&own[part][..=token]).skip(hidden).cloned().collect()
                });
                let query = self.rotated(&self.taken(0, path, token, head), self.entry(answers, 0, token));
                let query: Vec<f64> = query.into_iter().map(f64::from).collect();
                let truth = softmax::attention(product, token + 1, &query, &keys, &values);
                let place = (path * self.tokens + token % self.tokens) * self.width() + head * self.head_dim;
                for (&(expected, allowed), &found) in truth.iter().zip(&answers.passes[token / self.tokens][1][place..])
                {
                    let error = (found - expected).abs();
                    let what = format!("{name}: path {path}, head {head}, token {token}");
                    assert!(error <= allowed, "{what}: {found} instead of {expected}: {error} > {allowed}");
                }
            }
        }
    }

    /// Answers to the first paths of the first series, bit by bit.
    pub(crate) fn first_paths(&self, answers: &Answers, paths: usize) -> Vec<u64> {
        let values = paths * self.tokens * self.width();
        answers.passes.iter().flat_map(|[_, output]| bits(&output[..values])).collect()
    }
}

/// The product's inputs whose weights are 1 and `SMALL`.
fn inputs_of(row: usize) -> [usize; 2] {
    let large = row * 7 % INPUTS;
    [large, (large + 1 + row / INPUTS) % INPUTS]
}

fn product(rows: usize, dtype: Dtype) -> LinearSource<'static> {
    LinearSource {
        rows,
        inputs: INPUTS,
        bias: None,
        activation: Activation::None,
        dtype,
        open: Box::new(|| {
            Box::new(|row, out| {
                out.fill(0.0);
                let [large, small] = inputs_of(row);
                (out[large], out[small]) = (1.0, SMALL);
            })
        }),
        packed: Box::new(|| ()),
    }
}

fn nearest_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}
