//! Every operation on the CUDA device against the CPU device.
//!
//! The kernels run twice: compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.
//! Both devices sum in the same order with the same roundings, so digits must agree to the last; what differs (the
//! sine of a library, an unfused mode's sums) says by how much and why.

use std::ops::Range;
use std::sync::Arc;

use nowcast_engine::Error;
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cuda::CudaDevice;
use nowcast_engine::device::{Activity, Device, Launch};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::head::Head;
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, CachePart, Operation, Rotation, Tokens};
use nowcast_engine::plan::{Element, PlanBuilder, Section, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::scaler::{STATE_WIDTH, Scaler};
use nowcast_engine::token_sampling::{Filter, TokenSampling};
use nowcast_engine::weights::{Activation, LinearId, LinearSource, WeightList};

/// The devices to test; a missing compiler or GPU is said aloud.
fn devices() -> Vec<CudaDevice> {
    let mut devices = Vec::new();
    match CudaDevice::emulated() {
        Ok(device) => devices.push(device.with_poisoned_memory()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("cannot build"), "{message}");
            eprintln!("skipped on this processor: {message}");
        }
    }
    match CudaDevice::new(0) {
        Ok(device) => devices.push(device.with_poisoned_memory()),
        Err(error) => {
            assert_eq!(CudaDevice::count(), 0, "{error}");
            eprintln!("skipped on a GPU: {error}");
        }
    }
    devices
}

/// A plan with its inputs and the tensors to compare.
struct Case<'a> {
    list: WeightList<'a>,
    plan: PlanBuilder,
    floats: Vec<(Tensor, Vec<f32>)>,
    integers: Vec<(Tensor, Vec<i32>)>,
    outputs: Vec<(&'static str, Tensor)>,
}

impl<'a> Case<'a> {
    fn new(capacity: Live) -> Self {
        let plan = PlanBuilder::new(capacity, true);
        let (list, floats, integers, outputs) = Default::default();
        Self { list, plan, floats, integers, outputs }
    }

    /// An f32 input of scattered values between -1 and 1, times `size`.
    fn input(&mut self, rows: Rows, width: usize, size: f32) -> Tensor {
        let tensor = self.plan.input(Element::F32, rows, width);
        let count = rows.count(self.plan.capacity()) * width;
        let salt = self.floats.len();
        self.floats.push((tensor, (0..count).map(|index| scattered(index, salt) * size).collect()));
        tensor
    }

    fn integers(&mut self, rows: Rows, width: usize, values: impl Fn(usize) -> i32) -> Tensor {
        let tensor = self.plan.input(Element::I32, rows, width);
        let count = rows.count(self.plan.capacity()) * width;
        self.integers.push((tensor, (0..count).map(values).collect()));
        tensor
    }

    fn linear(&mut self, rows: usize, inputs: usize, activation: Activation) -> LinearId {
        let salt = self.list.linears.len() + 100;
        let size = 2.0 / (inputs as f32).sqrt();
        self.list.linear(LinearSource {
            rows,
            inputs,
            bias: Some((0..rows).map(|row| scattered(row, salt + 50)).collect()),
            activation,
            dtype: Dtype::F32,
            open: Box::new(move || {
                Box::new(move |row, out| {
                    out.iter_mut().enumerate().for_each(|(i, x)| *x = scattered(row * inputs + i, salt) * size);
                })
            }),
            packed: Box::new(|| ()),
        })
    }

    fn output(&mut self, name: &'static str, tensor: Tensor) {
        self.plan.keep(tensor);
        self.outputs.push((name, tensor));
    }

    fn run(self, device: &dyn Device, lives: &[Live]) -> (Vec<Vec<f64>>, Activity) {
        let mut executable = device.load(self.list).unwrap().prepare(Arc::new(self.plan.finish().unwrap())).unwrap();
        let mut results = Vec::new();
        for (run, &live) in lives.iter().enumerate() {
            for (tensor, values) in &self.floats {
                executable.write(*tensor, &values[..tensor.rows.count(live) * tensor.width]);
            }
            for (tensor, values) in &self.integers {
                executable.write_integers(*tensor, &values[..tensor.rows.count(live) * tensor.width]);
            }
            // Every run filters in another way.
            let token_sampling = match run % 4 {
                0 => TokenSampling::default(),
                1 => TokenSampling { temperature: 0.7, top_k: 9, ..TokenSampling::default() },
                2 => TokenSampling { temperature: 1.5, top_p: 0.8, ..TokenSampling::default() },
                _ => TokenSampling { temperature: 1.0, top_k: 30, top_p: 0.6, filter: Filter::Both },
            };
            let launch = Launch { live, seed: 0xFEDC_BA98_7654_3210 + run as u64, first_sample: 3, token_sampling };
            executable.run(Section::Prefill, &launch).unwrap();
            executable.run(Section::Decode, &launch).unwrap();
            for (_, tensor) in &self.outputs {
                let mut values = vec![f64::NAN; tensor.rows.count(live) * tensor.width];
                executable.read(*tensor, &mut values);
                results.push(values);
            }
        }
        (results, executable.activity())
    }
}

/// A number between -1 and 1 that shows no pattern.
fn scattered(index: usize, salt: usize) -> f32 {
    let mut bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (salt as u64 + 1).wrapping_mul(0xD1B5_4A32);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^= bits >> 32;
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// How far results may lie apart, in units of the last place of f32 of the larger value.
const EXACT: f64 = 0.0;

/// Runs a case on the CPU and on every CUDA device; with graphs and without, in several live extents of one plan.
fn compare<'a>(build: impl Fn() -> Case<'a>, lives: &[Live], units: f64) {
    let cpu = CpuDevice::new(Some(2)).with_poisoned_memory();
    // Without fused multiply-add the CPU rounds every product.
    let units = if InstructionSet::detected().is_fused() { units } else { units.max(4096.0) };
    let (expected, _) = build().run(&cpu, lives);
    for device in devices() {
        let name = device.describe();
        let case = build();
        let names: Vec<&str> = case.outputs.iter().map(|(name, _)| *name).collect();
        let (found, activity) = case.run(&device, lives);
        assert_eq!(activity.host_syncs, 0, "{name}: a wait in the middle of a forecast");
        assert_eq!((activity.graphs_captured, activity.graphs_replayed), (1, lives.len() as u64), "{name}");
        let (direct, _) = build().run(&device.with_graphs(false), lives);
        for (index, expected) in expected.iter().enumerate() {
            let tensor = format!("{name}: {} of run {}", names[index % names.len()], index / names.len());
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found[index]), bits(&direct[index]), "{tensor}: graphs change digits");
            let mut worst = (0.0, 0);
            for (place, (&x, &y)) in expected.iter().zip(&found[index]).enumerate() {
                assert!(x.is_finite(), "{tensor}: the CPU computes {x} at {place}");
                let unit = x.abs().max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
                let error = if x == y { 0.0 } else { (x - y).abs() / unit };
                worst = if error > worst.0 || error.is_nan() { (error, place) } else { worst };
            }
            let (error, place) = worst;
            assert!(
                error <= units,
                "{tensor}: {} instead of {} at {place}, {error} units",
                found[index][place],
                expected[place]
            );
        }
    }
}

fn live(batch: usize, context: usize, samples: usize) -> Live {
    Live { batch, context, samples }
}

/// A product of `rows` rows, with everything that can be fused to it.
fn product<'a>(rows: usize, inputs: usize, outputs: usize, activation: Activation, columns: Range<usize>) -> Case<'a> {
    let mut case = Case::new(live(rows, 1, 1));
    let weight_rows = if activation == Activation::SwiGlu { 2 * outputs } else { outputs };
    let weight = case.linear(weight_rows, inputs, activation);
    let input = case.input(Rows::batch(), inputs, 1.5);
    let residual = case.input(Rows::batch(), columns.len(), 1.0);
    for (name, norm_epsilon, residual) in
        [("plain", None, None), ("normed", Some(1e-5), None), ("added", Some(1e-5), Some(residual))]
    {
        let output = case.plan.tensor(Rows::batch(), columns.len());
        let columns = columns.clone();
        case.plan.push(Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual }));
        case.output(name, output);
    }
    case
}

#[test]
fn products_of_few_inputs() {
    for (rows, inputs) in [(1, 1), (3, 6), (17, 64), (40, 255), (2, 256)] {
        let lives = [live(rows, 1, 1), live(rows.div_ceil(2), 1, 1)];
        compare(|| product(rows, inputs, 70, Activation::None, 0..70), &lives, EXACT);
        compare(|| product(rows, inputs, 40, Activation::SwiGlu, 5..39), &lives, EXACT);
    }
}

#[test]
fn products_of_few_rows() {
    for (rows, inputs) in
        [(1, 768), (1, 3072), (2, 257), (4, 832), (5, 2048), (8, 300), (8, 3072), (13, 768), (64, 416)]
    {
        let lives = [live(rows, 1, 1), live(rows.div_ceil(2), 1, 1)];
        compare(|| product(rows, inputs, 100, Activation::None, 3..99), &lives, EXACT);
        compare(|| product(rows, inputs, 50, Activation::SwiGlu, 0..50), &lives, EXACT);
    }
    // Enough panels for the wider blocks.
    compare(|| product(3, 288, 2500, Activation::None, 33..2499), &[live(3, 1, 1)], EXACT);
    compare(|| product(8, 288, 1300, Activation::SwiGlu, 0..1300), &[live(7, 1, 1)], EXACT);
}

#[test]
fn products_of_many_rows() {
    for (rows, inputs) in [(17, 768), (65, 257), (130, 768), (200, 3072), (67, 832)] {
        let lives = [live(rows, 1, 1), live(rows / 3, 1, 1)];
        compare(|| product(rows, inputs, 100, Activation::None, 40..99), &lives, EXACT);
        compare(|| product(rows, inputs, 40, Activation::SwiGlu, 0..40), &lives, EXACT);
    }
}

#[test]
fn products_of_thousands_of_rows() {
    // Enough tiles for the kernel with large ones.
    let lives = [live(1500, 1, 1), live(1409, 1, 1)];
    compare(|| product(1500, 288, 950, Activation::None, 7..929), &lives, EXACT);
    compare(|| product(1500, 288, 450, Activation::SwiGlu, 0..450), &lives, EXACT);
}

const SCALERS: [Scaler; 4] = [
    Scaler::Global,
    Scaler::Causal,
    Scaler::CausalPatch { stabilise_exponent: None },
    Scaler::CausalPatch { stabilise_exponent: Some(10.0) },
];

/// The statistics of a context, continued over two patches of every path.
fn scaling<'a>(scaler: Scaler, patch: usize) -> Case<'a> {
    let mut case = Case::new(live(2, 9, 5));
    let (series, context) = (Rows::batch().times(3), Rows::batch().times(3).times_context(0));
    let values = case.input(context, patch, 1.0);
    let mask = case.input(context, patch, 1.0);
    let last = case.floats.len();
    case.floats[last - 2].1.iter_mut().for_each(|value| *value = 1000.0 + 20.0 * *value);
    case.floats[last - 1].1.iter_mut().for_each(|mask| *mask = f32::from(*mask > -0.7));
    let scaled = case.plan.tensor(context, patch);
    let [location, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, context, patch));
    let state = case.plan.tensor_of(Element::F64, series, STATE_WIDTH);
    case.plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler,
        values,
        mask,
        scaled,
        location,
        scale,
        state,
        series,
    }));
    for (name, tensor) in [("scaled", scaled), ("location", location), ("scale", scale)] {
        case.output(name, tensor);
    }
    let parameters = case.input(series, 2 * patch * 3, 1.0);
    let streams = case.integers(series, 1, |index| index as i32 * 77 - 5);
    let last = case.plan.last_row(location, series);
    let last_scale = case.plan.last_row(scale, series);
    case.plan.begin_decode();
    let rows = series.times_samples();
    let paths = case.plan.tensor_of(Element::F64, rows, 2 * patch);
    let path_state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    for step in 0..2 {
        case.plan.push(Operation::SampleMixture(operation::DrawMixture {
            parameters,
            location: last,
            scale: last_scale,
            shared: true,
            head: Head::StudentT,
            positions: patch,
            streams,
            paths,
            column: step * patch,
            step,
            series,
        }));
        let scaled = case.plan.tensor(rows, patch);
        let [location, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, patch));
        case.plan.push(Operation::ScaleStep(operation::ScaleStep {
            scaler,
            paths,
            column: step * patch,
            context_state: (step == 0).then_some(state),
            state: path_state,
            scaled,
            location,
            scale,
        }));
        for (name, tensor) in [("step scaled", scaled), ("step location", location), ("step scale", scale)] {
            case.output(name, tensor);
        }
    }
    case.output("paths", paths);
    case
}

#[test]
fn statistics_of_contexts_and_paths() {
    for scaler in SCALERS {
        // 64 points make more than one chunk of a block together, 5 less than a warp.
        for patch in [64, 5] {
            compare(|| scaling(scaler, patch), &[live(2, 9, 5), live(1, 2, 3)], EXACT);
        }
    }
}

/// Rotary positions, the cache, and attention of a context and of two decode passes.
fn attending<'a>(pairing: Pairing, tokens: usize, hidden: usize, capacity: Live) -> Case<'a> {
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
    let rotate = |case: &mut Case<'a>, tensor: Tensor, table: Tensor, tokens: Tokens| {
        case.plan.push(Operation::RotateQuery(operation::RotateQuery {
            rotary,
            tensor,
            column: 0,
            heads: HEADS,
            table,
            tokens,
        }));
    };
    let positions = table(&mut case, context, Rows::fixed(0), context);
    append(&mut case, qkv, positions, CachePart::Context);
    // Nothing between: short contexts do all three at once.
    rotate(&mut case, qkv, positions, Tokens::All);
    let output = case.plan.tensor(qkv.rows, WIDTH);
    let attend = operation::AttendContext { query: qkv, query_column: 0, cache, output, tokens: Tokens::All };
    case.plan.push(Operation::AttendContext(attend));
    case.output("at once", output);
    let again = case.input(series.times_context(1), 3 * WIDTH, 0.8);
    let last = case.plan.last_row(again, series);
    for (name, query, tokens) in [("all", again, Tokens::All), ("last", last, Tokens::Last)] {
        rotate(&mut case, query, positions, tokens);
        let output = case.plan.tensor(query.rows, WIDTH);
        let attend = operation::AttendContext { query, query_column: 0, cache, output, tokens };
        case.plan.push(Operation::AttendContext(attend));
        case.output(name, output);
    }
    let paths = series.times_samples();
    let own: Vec<Tensor> = (0..2).map(|_| case.input(paths.times(tokens), 3 * WIDTH, 0.8)).collect();
    case.plan.begin_decode();
    for (step, own) in own.into_iter().enumerate() {
        let first = context.plus(step * tokens);
        let positions = table(&mut case, Rows::fixed(tokens), first, context.plus((step + 1) * tokens));
        append(&mut case, own, positions, CachePart::Suffix { first: step * tokens, tokens });
        rotate(&mut case, own, positions, Tokens::All);
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

#[test]
fn attention_over_contexts_and_paths() {
    // Tables: an f64 sine, cosine or power of another library may differ by a unit of f64, and then round to another
    // f32; sums of up to 40 products pass that on.
    let units = 4096.0;
    for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
        for (tokens, hidden) in [(1, 0), (2, 0), (1, 3), (3, 2)] {
            let lives = [live(2, 7, 5), live(1, 3, 2)];
            compare(|| attending(pairing, tokens, hidden, live(2, 7, 5)), &lives, units);
        }
        let many = [live(1, 140, 19), live(1, 77, 9)];
        compare(|| attending(pairing, 1, 0, live(1, 140, 19)), &many, units);
    }
}

#[test]
fn attention_between_variates() {
    for (variates, heads, head_dim) in [(1, 2, 8), (7, 3, 20), (45, 1, 64)] {
        let build = || {
            let mut case = Case::new(live(2, 4, 3));
            let rows = Rows::batch().times(variates).times_context(0);
            let qkv = case.input(rows, 3 * heads * head_dim, 0.7);
            let groups = case.integers(Rows::batch().times(variates), 1, |index| (index * index % 3) as i32);
            let output = case.plan.tensor(rows, heads * head_dim);
            let inner = Rows::fixed(1).times_context(0);
            case.plan.push(Operation::AttendGroup(operation::AttendGroup {
                qkv,
                groups,
                output,
                variates,
                inner,
                heads,
            }));
            case.output("output", output);
            case
        };
        compare(build, &[live(2, 4, 3), live(1, 3, 1)], EXACT);
    }
}

/// Mixtures from wide and narrow distributions, with weights of every size.
fn drawing<'a>(head: Head, shared: bool) -> Case<'a> {
    const POSITIONS: usize = 7;
    let mut case = Case::new(live(3, 1, 37));
    let (series, paths_rows) = (Rows::batch(), Rows::batch().times_samples());
    let rows = if shared { series } else { paths_rows };
    let parameters = case.input(rows, POSITIONS * head.values(), 9.0);
    let streams = case.integers(series, 1, |index| index as i32 * 0x0123_4567 - 3);
    let location = case.input(rows, POSITIONS, 100.0);
    let mask = case.input(rows, POSITIONS, 1.0);
    let last = case.floats.len() - 1;
    case.floats[last].1.fill(1.0);
    if !shared {
        case.plan.begin_decode();
    }
    // Affine parameters are f64: those of a scaler.
    let scaled = case.plan.tensor(rows, POSITIONS);
    let [affine_location, affine_scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, POSITIONS));
    let state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    case.plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler: Scaler::Causal,
        values: location,
        mask,
        scaled,
        location: affine_location,
        scale: affine_scale,
        state,
        series: rows,
    }));
    let wide = POSITIONS * head.components();
    let [degrees_of_freedom, location, scale, logits] = [(); 4].map(|()| case.plan.tensor(rows, wide));
    case.plan.push(Operation::ActivateMixture(operation::ActivateMixture {
        parameters,
        head,
        positions: POSITIONS,
        degrees_of_freedom,
        location,
        scale,
        logits,
    }));
    for (name, tensor) in
        [("degrees of freedom", degrees_of_freedom), ("location", location), ("scale", scale), ("logits", logits)]
    {
        case.output(name, tensor);
    }
    if shared {
        case.plan.begin_decode();
    }
    let paths = case.plan.tensor_of(Element::F64, paths_rows, POSITIONS + 2);
    let draw = operation::DrawMixture {
        parameters,
        location: affine_location,
        scale: affine_scale,
        shared,
        head,
        positions: POSITIONS,
        streams,
        paths,
        column: 0,
        step: 5,
        series,
    };
    // The columns behind are drawn too, so that none is left unwritten.
    for column in [2, 0] {
        case.plan.push(Operation::SampleMixture(operation::DrawMixture { column, ..draw.clone() }));
    }
    case.output("samples", paths);
    if !shared {
        let means = case.plan.tensor_of(Element::F64, paths_rows, POSITIONS);
        case.plan.push(Operation::MeanMixture(operation::DrawMixture { paths: means, ..draw }));
        case.output("means", means);
    }
    case
}

#[test]
fn draws_have_the_digits_of_the_cpu() {
    for head in [Head::StudentT, Head::Mixture { components: 1 }, Head::Mixture { components: 24 }] {
        for shared in [true, false] {
            compare(|| drawing(head, shared), &[live(3, 1, 37), live(2, 1, 5)], EXACT);
        }
    }
}

#[test]
fn rows_that_move() {
    let build = || {
        let mut case = Case::new(live(2, 5, 4));
        let series = Rows::batch().times(3);
        let input = case.input(series.times_context(0), 6, 1.0);
        let output = case.plan.tensor(series.times_context(1), 6);
        let target = case.list.vector((0..6).map(|i| i as f32 + 0.5).collect());
        let exogenous = case.list.vector((0..6).map(|i| -(i as f32)).collect());
        case.plan.push(Operation::PrependLabel(operation::PrependLabel {
            input,
            output,
            target,
            exogenous,
            variates: 3,
            exogenous_variates: 1,
            series,
        }));
        case.output("labelled", output);
        let last = case.plan.last_row(output, series);
        case.output("last", last);
        let sum = case.plan.tensor(series, 6);
        case.plan.push(Operation::Add(operation::Add { left: last, right: last, output: sum }));
        case.output("sum", sum);

        let future = case.input(Rows::batch().times(1), 8, 3.0);
        let values = case.input(series.times_samples(), 8, 1.0);
        let mask = case.input(series.times_samples(), 8, 1.0);
        let last = case.floats.len() - 1;
        case.floats[last].1.fill(1.0);
        case.plan.begin_decode();
        let rows = series.times_samples();
        let scaled = case.plan.tensor(rows, 8);
        let [paths, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, 8));
        let state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
        let scaler = Scaler::Causal;
        case.plan.push(Operation::ScaleContext(operation::ScaleContext {
            scaler,
            values,
            mask,
            scaled,
            location: paths,
            scale,
            state,
            series: rows,
        }));
        case.plan.push(Operation::OverwriteExogenous(operation::OverwriteExogenous {
            paths,
            future,
            columns: 2..5,
            variates: 3,
            exogenous: 1,
        }));
        case.output("paths", paths);
        case
    };
    compare(build, &[live(2, 5, 4), live(1, 2, 3)], EXACT);
}

/// Everything between integers and integers, every draw under one filter.
fn tokens<'a>(shared: bool) -> Case<'a> {
    const BITS: usize = 7;
    let mut case = Case::new(live(2, 5, 11));
    let vocabulary = 1 << BITS;
    let tables: Vec<_> = (0..10)
        .map(|salt| {
            let width = if salt % 2 == 0 { 12 } else { 20 };
            case.list.table(width, (0..vocabulary * width).map(|i| scattered(i, salt)).collect())
        })
        .collect();
    let series = Rows::batch();
    let signs = case.input(series.times_context(0), 2 * BITS, 1.0);
    let pairs = case.plan.tensor_of(Element::I32, series.times_context(0), 2);
    case.plan.push(Operation::QuantiseBits(operation::QuantiseBits { input: signs, first_bits: BITS, output: pairs }));
    case.output("pairs", pairs);
    let stamps = case.integers(Rows::fixed(7).times_context(0), 3, |index| (index * 37 % 128) as i32);
    let embedded = case.plan.tensor(series.times_context(0), 32);
    let terms = tables.iter().enumerate().map(|(which, &table)| operation::EmbedTerm {
        table,
        index: if which < 5 { pairs } else { stamps },
        groups: if which < 5 { series } else { Rows::fixed(1) },
        first: if which < 5 { Rows::fixed(0) } else { Rows::fixed(2) },
        column: which % 2,
        output_column: if which % 2 == 0 { 0 } else { 12 },
    });
    let terms = terms.collect();
    let tokens = Rows::fixed(1).times_context(0);
    case.plan.push(Operation::Embed(operation::Embed { terms, tokens, output: embedded }));
    case.output("embedded", embedded);
    let last = case.plan.last_row(embedded, series);
    let streams = case.integers(series, 1, |index| index as i32 - 9);
    let paths = series.times_samples();
    let rows = if shared { series } else { paths };
    let logits = case.input(rows, vocabulary, 4.0);
    case.plan.begin_decode();
    let repeated = case.plan.tensor(paths, 32);
    case.plan.push(Operation::RepeatRows(operation::RepeatRows { input: last, output: repeated }));
    case.output("repeated", repeated);
    let weights = case.plan.tensor_of(Element::F64, rows, vocabulary);
    let tokens = case.plan.tensor_of(Element::I32, paths, 2);
    for position in 0..2 {
        case.plan.push(Operation::SampleToken(operation::SampleToken {
            logits,
            weights,
            shared,
            streams,
            tokens,
            column: position,
            step: 3,
            position,
        }));
    }
    case.output("weights", weights);
    case.output("tokens", tokens);
    // Ties, of which top-p keeps some.
    let logits = case.floats.last_mut().unwrap();
    logits.1.iter_mut().for_each(|logit| *logit = (*logit * 4.0).round() / 4.0);
    case
}

#[test]
fn tokens_are_embedded_and_drawn_as_on_the_cpu() {
    for shared in [true, false] {
        compare(|| tokens(shared), &[live(2, 5, 11), live(1, 2, 3), live(2, 1, 4), live(1, 5, 11)], EXACT);
    }
}

#[test]
fn unfused_operations() {
    let build = || {
        let mut case = Case::new(live(9, 1, 1));
        let input = case.input(Rows::batch(), 300, 2.0);
        let scale = case.list.vector((0..300).map(|i| scattered(i, 7)).collect());
        let output = case.plan.tensor(Rows::batch(), 300);
        case.plan.push(Operation::Norm(operation::Norm { input, output, scale, epsilon: 1e-5 }));
        case.output("norm", output);
        let gated = case.plan.swiglu(input);
        case.output("gated", gated);
        case
    };
    // The norm: an f64 sum in another order may round to the neighbour, before and after the scale. The gate: the CPU
    // takes an f32 exponential, one rounding each of exponential, sum, quotient and product.
    compare(build, &[live(9, 1, 1), live(4, 1, 1)], 4.0);
}

#[test]
fn a_decode_repeats_over_one_prefill_and_inputs_may_change_between() {
    for device in devices() {
        let (list, mut builder) = (WeightList::default(), PlanBuilder::new(live(1, 1, 4), true));
        let prefilled = builder.input(Element::F32, Rows::batch(), 4);
        let late = builder.input(Element::F32, Rows::batch(), 4);
        let [doubled, sum] = [(); 2].map(|()| builder.tensor(Rows::batch(), 4));
        builder.push(Operation::Add(operation::Add { left: prefilled, right: prefilled, output: doubled }));
        builder.begin_decode();
        builder.push(Operation::Add(operation::Add { left: doubled, right: late, output: sum }));
        builder.keep(sum);
        let mut executable = device.load(list).unwrap().prepare(Arc::new(builder.finish().unwrap())).unwrap();
        let token_sampling = TokenSampling::default();
        let launch = Launch { live: live(1, 1, 4), seed: 1, first_sample: 0, token_sampling };
        let read = |executable: &mut dyn nowcast_engine::device::Executable| {
            let mut values = [f64::NAN; 4];
            executable.run(Section::Decode, &launch).unwrap();
            executable.read(sum, &mut values);
            values
        };
        executable.write(prefilled, &[1.0, 2.0, 3.0, 4.0]);
        executable.write(late, &[10.0; 4]);
        executable.run(Section::Prefill, &launch).unwrap();
        assert_eq!(read(executable.as_mut()), [12.0, 14.0, 16.0, 18.0]);
        executable.write(late, &[20.0; 4]);
        assert_eq!(read(executable.as_mut()), [22.0, 24.0, 26.0, 28.0]);
        // The prefill that waits takes what stood there when it was asked for.
        executable.run(Section::Prefill, &launch).unwrap();
        executable.write(prefilled, &[0.0; 4]);
        assert_eq!(read(executable.as_mut()), [22.0, 24.0, 26.0, 28.0]);
    }
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    if CudaDevice::count() == 0 {
        let Err(Error::Device(message)) = CudaDevice::new(0) else { panic!("a device from nowhere") };
        assert!(message.contains("driver") || message.contains("GPU"), "{message}");
    }
}
