//! What one kernel does together has the same digits as its operations one by one: own tokens that attention rotates and
//! appends along, and results that attention cuts for the product behind.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;
mod numbers;
mod passes;

use devices::devices;
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::{Element, PlanBuilder, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::weights::{Activation, LinearSource, WeightList};
use numbers::{bits, scattered};

#[derive(Clone, Copy)]
struct Case {
    heads: usize,
    head_dim: usize,
    series: usize,
    context: usize,
    samples: usize,
    pairing: Pairing,
    /// Own tokens of every path, one after the other.
    steps: usize,
    /// Whether rotated queries are looked at; else a kernel need not put them back.
    keeps_queries: bool,
    /// Of a product that makes own tokens; else they are inputs.
    before: Option<Dtype>,
    /// Of a product that takes what paths attend to, and is looked at for it.
    behind: Option<Dtype>,
}

impl Case {
    fn live(&self) -> Live {
        Live { batch: self.series, context: self.context, samples: self.samples }
    }

    /// Every tensor that is written, bit by bit, and how many kernels that took. Where queries are rotated before keys are
    /// appended, no kernel does both.
    fn run(&self, device: &dyn Device, rotates_first: bool) -> (Vec<Vec<u64>>, u64) {
        let live = self.live();
        let (heads, head_dim, width) = (self.heads, self.head_dim, self.heads * self.head_dim);
        let mut list = WeightList::default();
        let weight = self.behind.map(|dtype| list.linear(product(PRODUCT_ROWS, width, dtype)));
        let makes_own = self.before.map(|dtype| list.linear(product(3 * width, PRODUCT_INPUTS, dtype)));
        let mut plan = PlanBuilder::new(live, true);
        let context = Rows::fixed(1).times_context(0);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let cache = LayerCache::new(&mut plan, CacheShape { series, heads, head_dim, context, steps: self.steps });
        let rotary = Rotary { head_dim, pairing: self.pairing, xpos_scale_base: None };
        let rotation = |plan: &mut PlanBuilder, first: Rows, tokens: Rows| {
            let table = plan.tensor(tokens, 4 * head_dim);
            let anchor_tokens = tokens;
            plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
            Rotation { rotary, table }
        };
        let pass = |plan: &mut PlanBuilder, input: Tensor, rotation: Rotation, part: CachePart| {
            let rotate = Operation::RotateQuery(operation::RotateQuery {
                rotary,
                tensor: input,
                column: 0,
                heads,
                table: rotation.table,
            });
            let append = Operation::AppendCache(operation::AppendCache {
                rotation: Some(rotation),
                input,
                key_column: width,
                value_column: 2 * width,
                cache,
                part,
            });
            let both = if rotates_first { [rotate, append] } else { [append, rotate] };
            both.into_iter().for_each(|operation| plan.push(operation));
        };
        let shared = plan.input(Element::F32, series.times_context(0), 3 * width);
        let inputs = if self.before.is_some() { PRODUCT_INPUTS } else { 3 * width };
        let own: Vec<Tensor> = (0..self.steps).map(|_| plan.input(Element::F32, paths, inputs)).collect();
        let of_context = rotation(&mut plan, Rows::fixed(0), context);
        pass(&mut plan, shared, of_context, CachePart::Context);
        plan.begin_decode();
        let mut written = vec![shared];
        written.extend(cache.tensors());
        for (first, &input) in own.iter().enumerate() {
            let input = makes_own.map_or(input, |weight| plan.linear(weight, input));
            let rotation = rotation(&mut plan, context.plus(first), Rows::fixed(1));
            pass(&mut plan, input, rotation, CachePart::Suffix { first, tokens: 1 });
            let output = plan.tensor(paths, width);
            plan.push(Operation::AttendPaths(operation::AttendPaths {
                query: input,
                query_column: 0,
                cache,
                output,
                tokens: 1,
                seen: first + 1,
                hidden: first,
            }));
            // Else the output could have the table's place, and several launches would be needed.
            written.push(rotation.table);
            written.push(weight.map_or(output, |weight| plan.linear(weight, output)));
            if self.keeps_queries {
                written.push(input);
            }
        }
        written.iter().for_each(|&tensor| plan.keep(tensor));
        let inputs: Vec<Tensor> = std::iter::once(shared).chain(own).collect();
        run(device, (list, plan), live, [&inputs, &written])
    }

    /// A product of what a context attends to and of what paths attend to, in one dtype. If the rows are kept, no kernel
    /// cuts them for the product behind.
    fn run_products(&self, device: &dyn Device, dtype: Dtype, keeps_rows: bool) -> (Vec<Vec<u64>>, u64) {
        let (live, heads, head_dim, width) = (self.live(), self.heads, self.head_dim, self.heads * self.head_dim);
        let mut list = WeightList::default();
        let weight = list.linear(product(PRODUCT_ROWS, width, dtype));
        let mut plan = PlanBuilder::new(live, true);
        let context = Rows::fixed(1).times_context(0);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let cache = LayerCache::new(&mut plan, CacheShape { series, heads, head_dim, context, steps: 1 });
        let input = plan.input(Element::F32, series.times_context(0), 3 * width);
        let query = plan.input(Element::F32, paths, width);
        plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: None,
            input,
            key_column: width,
            value_column: 2 * width,
            cache,
            part: CachePart::Context,
        }));
        let output = plan.tensor(input.rows, width);
        let attend = operation::AttendContext { query: input, query_column: 0, cache, output };
        plan.push(Operation::AttendContext(attend));
        let of_context = plan.linear(weight, output);
        plan.begin_decode();
        let own = plan.tensor(paths, width);
        let attend =
            operation::AttendPaths { query, query_column: 0, cache, output: own, tokens: 1, seen: 0, hidden: 0 };
        plan.push(Operation::AttendPaths(attend));
        let of_paths = plan.linear(weight, own);
        [of_context, of_paths].into_iter().for_each(|tensor| plan.keep(tensor));
        if keeps_rows {
            [output, own].into_iter().for_each(|tensor| plan.keep(tensor));
        }
        run(device, (list, plan), live, [&[input, query], &[of_context, of_paths]])
    }
}

/// So many that a product runs on tensor cores.
const PRODUCT_INPUTS: usize = 288;
/// So many that warpgroups pay.
const PRODUCT_ROWS: usize = 2112;

/// Runs a plan on inputs without a pattern: what stands in some tensors then, bit by bit, and how many kernels that took.
fn run(
    device: &dyn Device,
    (list, plan): (WeightList<'static>, PlanBuilder),
    live: Live,
    [inputs, outputs]: [&[Tensor]; 2],
) -> (Vec<Vec<u64>>, u64) {
    let mut executable = passes::prepare(device, list, plan);
    for (salt, &tensor) in inputs.iter().enumerate() {
        let values: Vec<f32> = (0..tensor.rows.count(live) * tensor.width).map(|at| scattered(at, salt)).collect();
        executable.write(tensor, &values);
    }
    passes::run(&mut *executable, live);
    let mut read = |tensor: &Tensor| {
        let values = passes::read(&mut *executable, *tensor, live);
        assert!(values.iter().all(|value| !value.is_nan()), "something was not written");
        bits(&values)
    };
    let contents = outputs.iter().map(&mut read).collect();
    (contents, executable.activity().kernels_launched)
}

fn product(rows: usize, inputs: usize, dtype: Dtype) -> LinearSource<'static> {
    LinearSource {
        rows,
        inputs,
        bias: None,
        activation: Activation::None,
        dtype,
        open: Box::new(move || {
            Box::new(move |row, out| {
                out.iter_mut().enumerate().for_each(|(column, out)| *out = scattered(row * inputs + column, 9));
            })
        }),
        packed: Box::new(|| ()),
    }
}

fn compare(case: Case) {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let ((together, fewer), (apart, kernels)) = (case.run(&device, false), case.run(&device, true));
        // Two for each step, and one for the context.
        assert_eq!(kernels - fewer, 2 * case.steps as u64 + 1, "{}: attention appends along", device.describe());
        same_digits(&device.describe(), &together, &apart);
    }
}

fn same_digits(device: &str, together: &[Vec<u64>], apart: &[Vec<u64>]) {
    for (which, (one, several)) in together.iter().zip(apart).enumerate() {
        let differs = one.iter().zip(several).position(|(one, several)| one != several);
        assert_eq!(differs, None, "{device}: one launch has other digits than several in tensor {which}");
    }
}

const PATHS: Case = Case {
    heads: 2,
    head_dim: 52,
    series: 2,
    context: 130,
    samples: 40,
    pairing: Pairing::HalfSplit,
    steps: 3,
    keeps_queries: true,
    before: None,
    behind: None,
};

#[test]
fn paths_of_a_long_context() {
    compare(PATHS);
    compare(Case { heads: 5, series: 3, context: 100, ..PATHS });
    compare(Case { heads: 9, series: 1, context: 270, samples: 70, pairing: Pairing::Interleaved, ..PATHS });
}

/// So many blocks that each goes through one chunk at once.
#[test]
fn many_series_of_a_short_context() {
    let pairing = Pairing::Interleaved;
    compare(Case { heads: 15, head_dim: 8, series: 3, context: 20, samples: 70, pairing, ..PATHS });
}

/// So many blocks that a warp has sixteen rows by itself, for up to eight own tokens.
#[test]
fn many_series_of_one_chunk() {
    let rows = Case { heads: 12, head_dim: 64, series: 22, context: 50, samples: 3, keeps_queries: false, ..PATHS };
    compare(Case { samples: 2, steps: 9, ..rows });
    let interleaved = Case { pairing: Pairing::Interleaved, ..rows };
    compare(Case { head_dim: 36, context: 3, steps: 5, ..interleaved });
    compare(Case { heads: 27, head_dim: 12, series: 5, samples: 85, context: 33, ..interleaved });
    // A head of one link, and rows that are cut for the product behind.
    compare(Case { head_dim: 32, behind: Some(Dtype::Bf16), ..interleaved });
    compare(Case { context: 64, samples: 1, steps: 2, behind: Some(Dtype::Tf32), ..rows });
}

/// Blocks of a cluster share the chunks, and one of them appends.
#[test]
fn few_paths() {
    compare(Case { series: 1, context: 201, samples: 1, ..PATHS });
    compare(Case { series: 1, context: 140, samples: 1, head_dim: 128, ..PATHS });
    compare(Case { series: 1, context: 140, samples: 70, heads: 8, head_dim: 68, ..PATHS });
}

#[test]
fn wide_heads() {
    let pairing = Pairing::Interleaved;
    compare(Case { heads: 1, head_dim: 208, series: 1, context: 20, samples: 37, pairing, ..PATHS });
    compare(Case { heads: 1, head_dim: 104, series: 1, ..PATHS });
}

/// In bf16 own keys and values are packed, whoever does it.
#[test]
fn own_tokens_that_products_of_bf16_make() {
    let bf16 = Case { before: Some(Dtype::Bf16), ..PATHS };
    compare(Case { heads: 9, head_dim: 36, series: 1, samples: 70, steps: 9, ..bf16 });
    compare(Case { head_dim: 8, context: 20, samples: 3, pairing: Pairing::Interleaved, ..bf16 });
    compare(Case { heads: 15, head_dim: 8, series: 3, context: 20, samples: 70, ..bf16 });
    compare(Case { series: 1, context: 201, samples: 1, ..bf16 });
    compare(Case { heads: 1, head_dim: 132, series: 1, context: 201, samples: 2, ..bf16 });
    compare(Case { heads: 1, head_dim: 104, series: 1, ..bf16 });
    let rows = Case { heads: 12, head_dim: 36, series: 22, context: 50, samples: 3, keeps_queries: false, ..bf16 };
    compare(Case { pairing: Pairing::Interleaved, steps: 4, ..rows });
    compare(Case { head_dim: 64, behind: Some(Dtype::Bf16), ..rows });
}

/// In bf16 a product's rows are cut by the attention that makes them; other formats need a row's largest value first.
#[test]
fn attention_cuts_rows_for_the_product_behind() {
    let many = Case { heads: 4, head_dim: 40, context: 100, samples: 100, ..PATHS };
    for case in [many, Case { heads: 8, series: 1, context: 120, samples: 99, ..PATHS }] {
        for device in devices() {
            let device = device.with_exact_sums(false);
            for (dtype, cuts) in [(Dtype::Bf16, 2), (Dtype::Tf32, 0)] {
                let (together, fewer) = case.run_products(&device, dtype, false);
                let (apart, kernels) = case.run_products(&device, dtype, true);
                same_digits(&device.describe(), &together, &apart);
                assert_eq!(kernels - fewer, cuts, "{}: {dtype:?}", device.describe());
            }
        }
    }
}

/// So many rows that they are cut.
const MANY: Live = Live { batch: 1, context: 1, samples: 40 };
const WIDTH: usize = 288;

/// A product of rows, perhaps behind another of them that goes into a cache, and behind a sum that changes them.
fn rows_of_two(device: &dyn Device, dtype: Dtype, is_second: bool, changes: bool) -> (Vec<Vec<u64>>, u64) {
    let mut list = WeightList::default();
    let [of_cache, of_rows] = [2 * WIDTH, 300].map(|outputs| list.linear(product(outputs, WIDTH, dtype)));
    let mut plan = PlanBuilder::new(MANY, true);
    let (series, context) = (Rows::batch(), Rows::fixed(1).times_context(0));
    let shape = CacheShape { series, heads: 2, head_dim: WIDTH / 2, context, steps: 1 };
    let cache = LayerCache::new(&mut plan, shape);
    let [rows, more] = [(); 2].map(|()| plan.input(Element::F32, series.times_samples(), WIDTH));
    plan.begin_decode();
    if is_second {
        let input = plan.linear(of_cache, rows);
        plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: None,
            input,
            key_column: 0,
            value_column: WIDTH,
            cache,
            part: CachePart::Suffix { first: 0, tokens: 1 },
        }));
    }
    if changes {
        plan.push(Operation::Add(operation::Add { left: rows, right: more, output: rows }));
    }
    let output = plan.linear(of_rows, rows);
    plan.keep(output);
    run(device, (list, plan), MANY, [&[rows, more], &[output]])
}

/// What changes rows in between has them cut again.
#[test]
fn rows_are_cut_once_for_two_products() {
    for device in devices() {
        let device = device.with_exact_sums(false);
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::Bf16] {
            // Of the other product the multiplication, the way into the cache, and the cut.
            for (changes, kernels) in [(false, 2), (true, 3)] {
                let (alone, few) = rows_of_two(&device, dtype, false, changes);
                let (second, all) = rows_of_two(&device, dtype, true, changes);
                same_digits(&device.describe(), &second, &alone);
                assert_eq!(all - few, kernels, "{}: {dtype:?}, {changes}", device.describe());
            }
        }
    }
}

/// The same values in rows of another width.
#[test]
fn rows_of_another_shape_are_cut_again() {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let [alone, second] = [false, true].map(|is_second| {
            let mut list = WeightList::default();
            let [narrow, wide] = [WIDTH, 2 * WIDTH].map(|inputs| list.linear(product(300, inputs, Dtype::F32)));
            let mut plan = PlanBuilder::new(MANY, true);
            let rows = plan.input(Element::F32, Rows::batch().times_samples(), WIDTH);
            if is_second {
                let output = plan.linear(narrow, rows);
                plan.keep(output);
            }
            let output = plan.linear(wide, rows.reshaped(Rows::fixed(MANY.samples / 2), 2 * WIDTH));
            plan.keep(output);
            plan.begin_decode();
            run(&device, (list, plan), MANY, [&[rows], &[output]]).0
        });
        same_digits(&device.describe(), &second, &alone);
    }
}

/// What the prefill has left cut is gone when a decode runs again.
#[test]
fn rows_of_the_prefill_are_cut_again_for_every_decode() {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let mut list = WeightList::default();
        let [first, second, third] = [(); 3].map(|()| list.linear(product(300, WIDTH, Dtype::F32)));
        let mut plan = PlanBuilder::new(MANY, true);
        let [rows, others] = [(); 2].map(|()| plan.input(Element::F32, Rows::batch().times_samples(), WIDTH));
        let before = plan.linear(first, rows);
        plan.begin_decode();
        let [output, after] = [(second, rows), (third, others)].map(|(weight, rows)| plan.linear(weight, rows));
        [before, output, after].into_iter().for_each(|tensor| plan.keep(tensor));
        let mut executable = passes::prepare(&device, list, plan);
        for (salt, tensor) in [rows, others].into_iter().enumerate() {
            let values: Vec<f32> = (0..MANY.samples * WIDTH).map(|at| scattered(at, salt)).collect();
            executable.write(tensor, &values);
        }
        passes::run(&mut *executable, MANY);
        let [once, again] = [(); 2].map(|()| {
            let values = bits(&passes::read(&mut *executable, output, MANY));
            passes::decode(&mut *executable, MANY);
            values
        });
        same_digits(&device.describe(), &[again], &[once]);
    }
}
