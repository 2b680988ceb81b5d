//! Own tokens that attention rotates and appends along: the same digits as rotating, appending and attending one by one.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;

use std::sync::Arc;

use devices::devices;
use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation, Tokens};
use nowcast_engine::plan::{Element, PlanBuilder, Section, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::WeightList;

/// Own tokens of every path, one after the other.
const STEPS: usize = 3;

#[derive(Clone, Copy)]
struct Case {
    heads: usize,
    head_dim: usize,
    series: usize,
    context: usize,
    samples: usize,
    pairing: Pairing,
}

impl Case {
    /// Every tensor that is written, bit by bit, and how many kernels that took. Where queries are rotated before keys are
    /// appended, no kernel does both.
    fn run(&self, device: &dyn Device, rotates_first: bool) -> (Vec<Vec<u64>>, u64) {
        let live = Live { batch: self.series, context: self.context, samples: self.samples };
        let (heads, head_dim, width) = (self.heads, self.head_dim, self.heads * self.head_dim);
        let mut plan = PlanBuilder::new(live, true);
        let context = Rows::fixed(1).times_context(0);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let cache = LayerCache::new(&mut plan, CacheShape { series, heads, head_dim, context, steps: STEPS });
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
                tokens: Tokens::All,
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
        let own: Vec<Tensor> = (0..STEPS).map(|_| plan.input(Element::F32, paths, 3 * width)).collect();
        let of_context = rotation(&mut plan, Rows::fixed(0), context);
        pass(&mut plan, shared, of_context, CachePart::Context);
        plan.begin_decode();
        let mut written = vec![shared];
        written.extend(cache.tensors());
        for (first, &input) in own.iter().enumerate() {
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
            written.extend([rotation.table, input, output]);
        }
        written.iter().for_each(|&tensor| plan.keep(tensor));
        let mut executable =
            device.load(WeightList::default()).unwrap().prepare(Arc::new(plan.finish().unwrap())).unwrap();
        for (salt, &tensor) in std::iter::once(&shared).chain(&own).enumerate() {
            let values: Vec<f32> = (0..tensor.rows.count(live) * tensor.width).map(|at| scattered(at, salt)).collect();
            executable.write(tensor, &values);
        }
        let launch = Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::default() };
        executable.run(Section::Prefill, &launch).unwrap();
        executable.run(Section::Decode, &launch).unwrap();
        let mut read = |tensor: &Tensor| {
            let mut values = vec![f64::NAN; tensor.rows.count(live) * tensor.width];
            executable.read(*tensor, &mut values);
            values.into_iter().map(f64::to_bits).collect()
        };
        let contents = written.iter().map(&mut read).collect();
        (contents, executable.activity().kernels_launched)
    }
}

/// A number between -1 and 1 that shows no pattern.
fn scattered(index: usize, salt: usize) -> f32 {
    let bits =
        (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (salt as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
    let bits = (bits ^ bits >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

fn compare(case: Case) {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let ((together, fewer), (apart, kernels)) = (case.run(&device, false), case.run(&device, true));
        // Two for each step, and one for the context.
        assert_eq!(kernels - fewer, 2 * STEPS as u64 + 1, "{}: attention appends along", device.describe());
        assert!(together.iter().flatten().all(|&bits| !f64::from_bits(bits).is_nan()), "something was not written");
        for (which, (one, several)) in together.iter().zip(&apart).enumerate() {
            let name = device.describe();
            let differs = one.iter().zip(several).position(|(one, several)| one != several);
            assert_eq!(differs, None, "{name}: one launch has other digits than several in tensor {which}");
        }
    }
}

const PATHS: Case = Case { heads: 2, head_dim: 52, series: 2, context: 130, samples: 40, pairing: Pairing::HalfSplit };

#[test]
fn paths_of_a_long_context() {
    compare(PATHS);
    compare(Case { heads: 5, series: 3, context: 100, ..PATHS });
}

/// So many blocks that each goes through one chunk at once.
#[test]
fn many_series_of_a_short_context() {
    compare(Case { heads: 15, head_dim: 8, series: 3, context: 20, samples: 70, pairing: Pairing::Interleaved });
}

/// Blocks of a cluster share the chunks, and one of them appends.
#[test]
fn few_paths() {
    compare(Case { series: 1, context: 201, samples: 1, ..PATHS });
    compare(Case { series: 1, context: 140, samples: 1, head_dim: 128, ..PATHS });
}

#[test]
fn wide_heads() {
    compare(Case { heads: 1, head_dim: 208, series: 1, context: 20, samples: 37, pairing: Pairing::Interleaved });
    compare(Case { heads: 1, head_dim: 104, series: 1, ..PATHS });
}
