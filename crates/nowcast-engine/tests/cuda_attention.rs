//! Attention in chunks of keys against sums in f64, and against itself in other company.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;
mod numbers;
mod passes;
mod softmax;

use devices::devices;
use nowcast_engine::check::{live, projecting};
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation};
use nowcast_engine::plan::{Element, PlanBuilder, Tensor};
use nowcast_engine::weights::{Activation, LinearSource, WeightList};
use numbers::{bits, scattered};

/// A context that attends to itself, and paths that attend to it and to their own tokens.
#[derive(Clone, Copy)]
struct Case {
    heads: usize,
    head_dim: usize,
    series: usize,
    capacity: usize,
    context: usize,
    samples: usize,
    /// Own tokens of each path.
    tokens: usize,
    hidden: usize,
    /// Of the products that take what is attended to.
    dtype: Dtype,
    /// Of a product that has nothing to do with it.
    other_dtype: Dtype,
    /// Whether another cache of the same shape, with keys for values, is asked before.
    has_twin: bool,
}

/// What a device answers: the tokens of the context, and the own tokens of every path.
struct Answers {
    context: Vec<f64>,
    paths: Vec<f64>,
}

impl Case {
    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Value of a projection (0 query, 1 key, 2 value) of a context token.
    fn context_value(&self, part: usize, series: usize, token: usize, column: usize) -> f32 {
        let at = ((series * 1000 + token) * 3 + part) * self.width() + column;
        scattered(at, 1) * if part == 0 { 0.7 } else { 1.5 }
    }

    fn own_value(&self, part: usize, path: usize, token: usize, column: usize) -> f32 {
        // Paths are numbered so that the first ones are the same whatever the number of samples.
        let (series, sample) = (path / self.samples, path % self.samples);
        let at = (((series * 1000 + sample) * 50 + token) * 3 + part) * self.width() + column;
        scattered(at, 2) * if part == 0 { 0.7 } else { 1.5 }
    }

    fn run(&self, device: &dyn Device) -> Answers {
        let capacity = Live { batch: self.series, context: self.capacity, samples: self.samples };
        let live = Live { context: self.context, ..capacity };
        let width = self.width();
        let mut list = WeightList::default();
        list.linear(product(width, self.other_dtype));
        let behind = list.linear(product(width, self.dtype));
        let mut plan = PlanBuilder::new(capacity, true);
        let context = Rows::fixed(1).times_context(0);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let shape = CacheShape { series, heads: self.heads, head_dim: self.head_dim, context, steps: self.tokens };
        let cache = LayerCache::new(&mut plan, shape);
        let all = plan.input(Element::F32, series.times_context(0), 3 * width);
        let own = plan.input(Element::F32, paths.times(self.tokens), 3 * width);
        let twin = self.has_twin.then(|| LayerCache::new(&mut plan, shape));
        let append = |plan: &mut PlanBuilder, input: Tensor, part: CachePart| {
            let caches = twin.map(|twin| (twin, [2, 1])).into_iter().chain([(cache, [1, 2])]);
            caches.for_each(|(cache, [key, value])| {
                plan.push(Operation::AppendCache(operation::AppendCache {
                    rotation: None,
                    input,
                    key_column: key * width,
                    value_column: value * width,
                    cache,
                    part,
                }));
            });
        };
        append(&mut plan, all, CachePart::Context);
        let context_output = plan.tensor(all.rows, width);
        let attend = operation::AttendContext { query: all, query_column: 0, cache, output: context_output };
        plan.push(Operation::AttendContext(attend));
        plan.linear(behind, context_output);
        plan.keep(context_output);
        plan.begin_decode();
        append(&mut plan, own, CachePart::Suffix { first: 0, tokens: self.tokens });
        let (tokens, hidden) = (self.tokens, self.hidden);
        let attend = |plan: &mut PlanBuilder, cache: LayerCache| {
            let output = plan.tensor(own.rows, width);
            plan.push(Operation::AttendPaths(operation::AttendPaths {
                query: own,
                query_column: 0,
                cache,
                output,
                tokens,
                seen: 1,
                hidden,
            }));
            output
        };
        if let Some(twin) = twin {
            let output = attend(&mut plan, twin);
            plan.linear(behind, output);
        }
        let paths_output = attend(&mut plan, cache);
        plan.linear(behind, paths_output);
        plan.keep(paths_output);
        let mut executable = passes::prepare(device, list, plan);
        let rows = |outer: usize, tokens: usize, value: &dyn Fn(usize, usize, usize, usize) -> f32| -> Vec<f32> {
            let mut values = Vec::new();
            for item in 0..outer {
                for token in 0..tokens {
                    for part in 0..3 {
                        values.extend((0..width).map(|column| value(part, item, token, column)));
                    }
                }
            }
            values
        };
        executable.write(all, &rows(self.series, self.context, &|p, s, t, c| self.context_value(p, s, t, c)));
        let own_rows = rows(self.series * self.samples, self.tokens, &|p, s, t, c| self.own_value(p, s, t, c));
        executable.write(own, &own_rows);
        passes::run(&mut *executable, live);
        let [context, paths] =
            [context_output, paths_output].map(|tensor| passes::read(&mut *executable, tensor, live));
        Answers { context, paths }
    }

    fn truth(&self, query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<(f64, f64)> {
        softmax::attention(softmax::on_tensor_cores(self.dtype), self.tokens, query, keys, values)
    }

    fn check(&self, name: &str, answers: &Answers) {
        let (width, head_dim) = (self.width(), self.head_dim);
        let of_context = |part: usize, series: usize, token: usize, head: usize| -> Vec<f64> {
            let columns = head * head_dim..(head + 1) * head_dim;
            columns.map(|column| self.context_value(part, series, token, column).into()).collect()
        };
        let of_path = |part: usize, path: usize, token: usize, head: usize| -> Vec<f64> {
            let columns = head * head_dim..(head + 1) * head_dim;
            columns.map(|column| self.own_value(part, path, token, column).into()).collect()
        };
        let compare = |what: &str, truth: &[(f64, f64)], found: &[f64]| {
            for (place, (&(expected, allowed), &found)) in truth.iter().zip(found).enumerate() {
                let error = (found - expected).abs();
                assert!(
                    error <= allowed,
                    "{name}, {what}: {found} instead of {expected} at {place}: {error} > {allowed}"
                );
            }
        };
        for (series, head) in (0..self.series).flat_map(|series| (0..self.heads).map(move |head| (series, head))) {
            let keys: Vec<_> = (0..self.context).map(|token| of_context(1, series, token, head)).collect();
            let values: Vec<_> = (0..self.context).map(|token| of_context(2, series, token, head)).collect();
            for token in 0..self.context {
                let truth = self.truth(&of_context(0, series, token, head), &keys[..=token], &values[..=token]);
                let place = (series * self.context + token) * width + head * head_dim;
                compare(&format!("token {token}"), &truth, &answers.context[place..]);
            }
            for path in series * self.samples..(series + 1) * self.samples {
                for token in 0..self.tokens {
                    let with_own = |part: usize, shared: &[Vec<f64>]| -> Vec<Vec<f64>> {
                        let own = (0..=token).map(|own| of_path(part, path, own, head));
                        shared.iter().cloned().chain(own).skip(self.hidden).collect()
                    };
                    let truth = self.truth(&of_path(0, path, token, head), &with_own(1, &keys), &with_own(2, &values));
                    let place = (path * self.tokens + token) * width + head * head_dim;
                    compare(&format!("path {path}, token {token}"), &truth, &answers.paths[place..]);
                }
            }
        }
    }
}

/// A product whose results nobody looks at.
fn product(inputs: usize, dtype: Dtype) -> LinearSource<'static> {
    LinearSource {
        rows: 8,
        inputs,
        bias: None,
        activation: Activation::None,
        dtype,
        open: Box::new(|| Box::new(|_, out| out.fill(1.0))),
        packed: Box::new(|| ()),
    }
}

/// One case alone and in company: few paths take one kernel, many another.
fn compare(case: Case) {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let mut first: Option<(usize, Vec<f64>)> = None;
        for samples in [1, 12, 70] {
            let case = Case { samples, ..case };
            let name = format!("{}: {samples} paths", device.describe());
            let answers = case.run(&device);
            case.check(&name, &answers);
            let path = case.tokens * case.width();
            let paths = |answers: &[f64], samples: usize, series: usize| {
                bits(&answers[series * samples * path..(series * samples + 1) * path])
            };
            let (fewest, expected) = first.get_or_insert_with(|| (samples, answers.paths.clone()));
            for series in 0..case.series {
                let same = paths(expected, *fewest, series) == paths(&answers.paths, samples, series);
                assert!(same, "{name}: company changes digits");
            }
        }
    }
}

const PLAIN: Case = Case {
    heads: 2,
    head_dim: 64,
    series: 2,
    capacity: 72,
    context: 70,
    samples: 1,
    tokens: 1,
    hidden: 0,
    dtype: Dtype::F32,
    other_dtype: Dtype::F32,
    has_twin: false,
};

/// So many components that products of them are not the exact ones of few inputs.
const WIDE: Case = Case { heads: 3, ..PLAIN };

#[test]
fn contexts_of_one_chunk_and_of_several() {
    compare(PLAIN);
    compare(Case { capacity: 40, context: 17, ..PLAIN });
    compare(Case { heads: 1, series: 1, capacity: 201, context: 200, ..PLAIN });
}

/// More chunks than go side by side: rounds that are in shared memory together, and more of them.
#[test]
fn contexts_of_several_rounds() {
    // So many heads that no cluster shares the chunks of 70 paths.
    let many = Case { heads: 9, series: 1, has_twin: true, ..PLAIN };
    compare(Case { head_dim: 12, capacity: 333, context: 330, ..many });
    compare(Case { head_dim: 36, capacity: 540, context: 530, hidden: 70, dtype: Dtype::Bf16, ..many });
}

/// Clusters go through contexts that were cut before.
#[test]
fn few_paths_of_long_contexts() {
    compare(Case { heads: 1, head_dim: 36, capacity: 340, context: 330, tokens: 2, hidden: 140, ..PLAIN });
    compare(Case {
        heads: 1,
        head_dim: 132,
        series: 1,
        capacity: 330,
        context: 300,
        hidden: 65,
        has_twin: true,
        ..PLAIN
    });
}

/// So many blocks that each goes through one or two chunks at once.
#[test]
fn many_heads_and_series() {
    let many = Case { heads: 15, head_dim: 4, series: 3, ..PLAIN };
    compare(Case { capacity: 18, context: 18, ..many });
    compare(Case { capacity: 68, context: 68, tokens: 3, ..many });
}

/// More blocks than find room at once: those of contexts of one chunk take more rows.
#[test]
fn many_rows_over_one_chunk() {
    let many = Case { heads: 15, head_dim: 36, series: 12, capacity: 40, context: 33, ..PLAIN };
    compare(many);
    compare(Case { series: 3, tokens: 6, ..many });
    compare(Case { heads: 8, series: 3, tokens: 11, hidden: 5, dtype: Dtype::Bf16, ..many });
}

#[test]
fn beside_narrow_products() {
    compare(Case { dtype: Dtype::Tf32, ..WIDE });
    compare(Case {
        dtype: Dtype::Bf16,
        heads: 3,
        head_dim: 52,
        series: 1,
        capacity: 201,
        context: 200,
        tokens: 11,
        ..PLAIN
    });
    compare(Case { dtype: Dtype::Tf32, heads: 2, head_dim: 128, series: 1, ..PLAIN });
    compare(Case { dtype: Dtype::Bf16, heads: 1, head_dim: 208, series: 1, ..PLAIN });
}

/// Kronos' tokenizer keeps f32 in a model of bf16.
#[test]
fn narrow_products_elsewhere_leave_attention_in_f32() {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let digits = |dtype: Dtype, other_dtype: Dtype| {
            let answers = Case { dtype, other_dtype, ..WIDE }.run(&device);
            [answers.context, answers.paths].map(|answer| bits(&answer))
        };
        let expected = digits(Dtype::F32, Dtype::F32);
        for narrow in [Dtype::Bf16, Dtype::Tf32] {
            assert_eq!(digits(Dtype::F32, narrow), expected, "{}: {narrow:?}", device.describe());
            assert_ne!(digits(narrow, Dtype::F32), expected, "{}: {narrow:?}", device.describe());
        }
    }
}

#[test]
fn heads_of_any_size() {
    compare(Case { head_dim: 52, ..PLAIN });
    compare(Case { heads: 1, head_dim: 128, series: 1, ..PLAIN });
    compare(Case { heads: 1, head_dim: 208, series: 1, ..PLAIN });
    // Clusters for few rows.
    compare(Case { heads: 1, head_dim: 128, series: 1, capacity: 141, context: 139, tokens: 9, ..PLAIN });
    compare(Case { heads: 1, head_dim: 208, series: 1, capacity: 130, context: 130, ..PLAIN });
    // For 70 paths pairs of blocks.
    compare(Case { heads: 8, head_dim: 68, series: 1, capacity: 141, context: 139, ..PLAIN });
    compare(Case { heads: 8, head_dim: 132, series: 1, capacity: 130, context: 130, dtype: Dtype::Bf16, ..PLAIN });
    // No multiple of four: the kernel that sums as the CPU takes over.
    compare(Case { head_dim: 10, ..PLAIN });
}

#[test]
fn own_tokens_and_hidden_ones() {
    compare(Case { tokens: 5, ..PLAIN });
    compare(Case { tokens: 11, ..PLAIN });
    compare(Case { tokens: 3, hidden: 5, ..PLAIN });
    compare(Case { tokens: 3, hidden: 66, ..PLAIN });
}

/// Few rows are projected and attend in one launch, more in several.
#[test]
fn projections_and_attention_have_the_same_digits_in_one_launch_and_in_several() {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let run = |series: usize, capacity: usize| {
            let (answers, _) = projecting(live(series, capacity, 1)).run(&device, &[live(series, 4, 1)]).unwrap();
            answers.iter().map(|answer| bits(answer)).collect::<Vec<_>>()
        };
        let many = run(3, 4);
        for (series, capacity) in [(1, 4), (2, 4), (1, 7)] {
            for (few, many) in run(series, capacity).iter().zip(&many) {
                assert_eq!(few[..], many[..few.len()], "{}: {series} series, room for {capacity}", device.describe());
            }
        }
    }
}
