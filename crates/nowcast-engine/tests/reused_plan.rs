//! A plan that has run once allocates nothing when it runs again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::device::{Device, Executable, Launch};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::head::Head;
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation};
use nowcast_engine::plan::{Element, Norm, Plan, PlanBuilder, Section, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::scaler::{STATE_WIDTH, Scaler};
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::{Activation, LinearId, LinearSource, WeightList};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PATCH: usize = 16;
const WIDTH: usize = 32;
const HEADS: usize = 2;
const HEAD: Head = Head::Mixture { components: 3 };

fn linear(list: &mut WeightList<'_>, rows: usize, inputs: usize, activation: Activation) -> LinearId {
    list.linear(LinearSource {
        rows,
        inputs,
        bias: Some(vec![0.1; rows]),
        activation,
        dtype: Dtype::F32,
        open: Box::new(|| {
            Box::new(|row, out| out.iter_mut().enumerate().for_each(|(i, x)| *x = ((row * 7 + i) as f32).sin() * 0.2))
        }),
        packed: Box::new(|| ()),
    })
}

/// One layer over a context, one decode step, and two draws: every kind of operation a forecast repeats.
fn forecast(list: &mut WeightList<'_>, capacity: Live) -> (Plan, [Tensor; 3], Tensor) {
    let embed = linear(list, WIDTH, PATCH, Activation::None);
    let qkv = linear(list, 3 * WIDTH, WIDTH, Activation::None);
    let hidden = linear(list, 2 * 48, WIDTH, Activation::SwiGlu);
    let down = linear(list, WIDTH, 48, Activation::None);
    let head = linear(list, PATCH * HEAD.values(), WIDTH, Activation::None);
    let norm = Norm { epsilon: 1e-8, scale: None };
    let scaler = Scaler::CausalPatch { stabilise_exponent: Some(10.0) };
    let rotary = Rotary { head_dim: WIDTH / HEADS, pairing: Pairing::Interleaved, xpos_scale_base: Some(512.0) };

    let mut plan = PlanBuilder::new(capacity, true);
    let (series, context) = (Rows::batch(), Rows::batch().times_context(0));
    let values = plan.input(Element::F32, context, PATCH);
    let mask = plan.input(Element::F32, context, PATCH);
    let streams = plan.input(Element::I32, series, 1);
    let scaled = plan.tensor(context, PATCH);
    let [location, scale] = [(); 2].map(|()| plan.tensor_of(Element::F64, context, PATCH));
    let last = [(); 2].map(|()| plan.tensor_of(Element::F64, series, PATCH));
    let state = plan.tensor_of(Element::F64, series, STATE_WIDTH);
    plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler,
        values,
        mask,
        scaled,
        location,
        scale,
        last,
        state,
        series,
    }));
    let shape = CacheShape {
        series,
        heads: HEADS,
        head_dim: WIDTH / HEADS,
        context: Rows::fixed(1).times_context(0),
        steps: 1,
    };
    let cache = LayerCache::new(&mut plan, shape);
    let x = plan.linear(embed, scaled);
    let table = plan.tensor(Rows::fixed(1).times_context(0), 4 * rotary.head_dim);
    let tokens = Rows::fixed(1).times_context(0);
    plan.push(Operation::RotaryTable(operation::RotaryTable {
        rotary,
        first: Rows::fixed(0),
        anchor_tokens: tokens,
        table,
    }));
    let layer = |plan: &mut PlanBuilder, x: Tensor, table: Tensor, step: Option<usize>| {
        let projected = plan.norm_linear(norm, qkv, x);
        plan.push(Operation::AppendCache(operation::AppendCache {
            rotation: Some(Rotation { rotary, table }),
            input: projected,
            key_column: WIDTH,
            value_column: 2 * WIDTH,
            cache,
            part: step.map_or(CachePart::Context, |first| CachePart::Suffix { first, tokens: 1 }),
        }));
        plan.push(Operation::RotateQuery(operation::RotateQuery {
            rotary,
            tensor: projected,
            column: 0,
            heads: HEADS,
            table,
        }));
        let output = plan.tensor(x.rows, WIDTH);
        plan.push(match step {
            None => {
                Operation::AttendContext(operation::AttendContext { query: projected, query_column: 0, cache, output })
            }
            Some(step) => Operation::AttendPaths(operation::AttendPaths {
                query: projected,
                query_column: 0,
                cache,
                output,
                tokens: 1,
                seen: step + 1,
                hidden: 0,
            }),
        });
        let hidden = plan.norm_linear(norm, hidden, output);
        plan.linear_add(down, hidden, x)
    };
    let x = layer(&mut plan, x, table, None);
    let last = plan.last_row(x, series);
    let (location, scale) = (plan.last_row(location, series), plan.last_row(scale, series));
    let parameters = plan.linear(head, last);

    plan.begin_decode();
    let rows = series.times_samples();
    let paths = plan.tensor_of(Element::F64, rows, 2 * PATCH);
    plan.keep(paths);
    let draw = |plan: &mut PlanBuilder, parameters, location, scale, step: usize| {
        plan.push(Operation::SampleMixture(operation::DrawMixture {
            parameters,
            location,
            scale,
            shared: step == 0,
            head: HEAD,
            positions: PATCH,
            streams,
            paths,
            column: step * PATCH,
            step,
            series,
        }));
    };
    draw(&mut plan, parameters, location, scale, 0);
    let scaled = plan.tensor(rows, PATCH);
    let [location, scale] = [(); 2].map(|()| plan.tensor_of(Element::F64, rows, PATCH));
    let path_state = plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    plan.push(Operation::ScaleStep(operation::ScaleStep {
        scaler,
        paths,
        column: 0,
        context_state: Some(state),
        state: path_state,
        scaled,
        location,
        scale,
    }));
    let table = plan.tensor(Rows::fixed(1), 4 * rotary.head_dim);
    plan.push(Operation::RotaryTable(operation::RotaryTable {
        rotary,
        first: tokens,
        anchor_tokens: Rows::fixed(1).times_context(1),
        table,
    }));
    let x = plan.linear(embed, scaled);
    let x = layer(&mut plan, x, table, Some(0));
    let parameters = plan.linear(head, x);
    draw(&mut plan, parameters, location, scale, 1);
    (plan.finish().unwrap(), [values, mask, streams], paths)
}

fn run(executable: &mut dyn Executable, live: Live) {
    let launch = Launch { live, seed: 5, first_sample: 0, token_sampling: TokenSampling::default() };
    for section in [Section::Prefill, Section::Decode] {
        executable.run(section, &launch).unwrap();
    }
}

#[test]
fn a_reused_plan_allocates_nothing() {
    let capacity = Live { batch: 2, context: 6, samples: 40 };
    let mut list = WeightList::default();
    let (plan, [values, mask, streams], paths) = forecast(&mut list, capacity);
    let resident = CpuDevice::new(Some(2)).with_poisoned_memory().load(list).unwrap();
    let mut executable = resident.prepare(Arc::new(plan)).unwrap();
    let points: Vec<f32> = (0..2 * 6 * PATCH).map(|point| 50.0 + (point as f32 * 0.3).sin()).collect();
    executable.write(values, &points);
    executable.write(mask, &vec![1.0; points.len()]);
    executable.write_integers(streams, &[1, 2]);
    // Scratch that belongs to a thread appears when the thread first meets it: which thread takes which task is chance.
    for _ in 0..50 {
        run(executable.as_mut(), capacity);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(executable.as_mut(), capacity);
    run(executable.as_mut(), Live { batch: 1, context: 3, samples: 7 });
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);

    let mut drawn = vec![f64::NAN; 7 * 2 * PATCH];
    executable.read(paths, &mut drawn);
    assert!(drawn.iter().all(|value| value.is_finite()), "no poisoned memory was read");
}
