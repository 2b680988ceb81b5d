//! Every operation on the CUDA device against the CPU device.
//!
//! The kernels run twice: compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.
//! Both devices sum in the same order with the same roundings, so digits must agree to the last; what differs (the
//! sine of a library, an unfused mode's sums) says by how much and why.

mod devices;

use std::sync::Arc;

use nowcast_engine::Error;
use nowcast_engine::check::{
    Case, SCALERS, attending, attending_group, drawing, live, moving, product, scaling, tokens, unfused,
};
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cuda::CudaDevice;
use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::head::Head;
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::{Element, PlanBuilder, Section};
use nowcast_engine::rotary::Pairing;
use nowcast_engine::token_sampling::{NO_TOKEN, TokenSampling};
use nowcast_engine::weights::{Activation, WeightList};

/// The devices to test, with the sums of the CPU.
fn exact_devices() -> impl Iterator<Item = CudaDevice> {
    devices::devices().into_iter().map(|device| device.with_exact_sums(true))
}

/// How far results may lie apart, in units of the last place of f32 of the larger value.
const EXACT: f64 = 0.0;

/// Runs a case on the CPU and on every CUDA device; with graphs and without, in several live extents of one plan.
fn compare<'a>(build: impl Fn() -> Case<'a>, lives: &[Live], units: f64) {
    let cpu = CpuDevice::new(Some(2)).with_poisoned_memory();
    // Without fused multiply-add the CPU rounds every product.
    let units = if InstructionSet::detected().is_fused() { units } else { units.max(4096.0) };
    let (expected, _) = build().run(&cpu, lives).unwrap();
    for device in exact_devices() {
        let name = device.describe();
        let case = build();
        let names: Vec<&str> = case.outputs.iter().map(|(name, _)| *name).collect();
        let (found, activity) = case.run(&device, lives).unwrap();
        assert_eq!(activity.host_syncs, 0, "{name}: a wait in the middle of a forecast");
        assert_eq!((activity.graphs_captured, activity.graphs_replayed), (1, lives.len() as u64), "{name}");
        let (direct, _) = build().run(&device.with_graphs(false), lives).unwrap();
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

#[test]
fn products_of_few_inputs() {
    for (rows, inputs) in [(1, 1), (3, 6), (17, 64), (40, 255), (2, 256)] {
        let lives = [live(rows, 1, 1), live(rows.div_ceil(2), 1, 1)];
        compare(|| product(rows, inputs, 70, Activation::None, 0..70), &lives, EXACT);
        compare(|| product(rows, inputs, 40, Activation::SwiGlu, 5..39), &lives, EXACT);
    }
    // Enough blocks for the kernel of many rows.
    for (rows, inputs) in [(450, 17), (330, 64)] {
        let lives = [live(rows, 1, 1), live(rows - 63, 1, 1), live(1, 1, 1)];
        compare(|| product(rows, inputs, 1000, Activation::None, 7..999), &lives, EXACT);
        compare(|| product(rows, inputs, 500, Activation::SwiGlu, 3..499), &lives, EXACT);
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

#[test]
fn statistics_of_contexts_and_paths() {
    for scaler in SCALERS {
        // 64 points make more than one chunk of a block together, 5 less than a warp.
        for patch in [64, 5] {
            compare(|| scaling(scaler, patch), &[live(2, 9, 5), live(1, 2, 3)], EXACT);
        }
    }
}

/// Sums of n points of one sign are off by n roundings at most on either side. Second moments are sums of products of two
/// differences of about 20 between values of about 1,000, which makes roundings 4 x 1,020 x 20 / 133 times larger, where
/// 133 is the variance; a scale is off by half of what its square is. Paths are drawn with such a scale: their differences
/// are off by twice its bound, and products of two by four times; sums over two patches add as much. Half of that for a scale.
#[test]
fn statistics_in_the_order_of_warps_are_as_close_as_their_sums() {
    // More than 64 points of a path are continued by a block instead of a warp; of a context, more than 512 are summed by
    // eights, and more than 4,096 in several turns.
    for (scaler, patch) in SCALERS.into_iter().flat_map(|scaler| [64, 5, 40, 130, 520].map(|patch| (scaler, patch))) {
        let lives = [live(2, 9, 5), live(1, 2, 3)];
        let names: Vec<&str> = scaling(scaler, patch).outputs.iter().map(|(name, _)| *name).collect();
        let (expected, _) = scaling(scaler, patch).run(&CpuDevice::new(Some(1)), &lives).unwrap();
        let roundings = 2.0 * (11 * patch) as f64 * f64::EPSILON;
        let scale = roundings * 4.0 * 1020.0 * 20.0 / 133.0 / 2.0;
        for device in devices::devices() {
            let (found, _) = scaling(scaler, patch).run(&device.with_exact_sums(false), &lives).unwrap();
            for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let bound = match names[index % names.len()] {
                    "location" => roundings,
                    "scale" => scale,
                    "step location" | "step scale" => 4.0 * scale,
                    _ => continue,
                };
                for (x, y) in expected.iter().zip(found) {
                    assert!((x - y).abs() <= bound * x.abs(), "{scaler:?}, patch {patch}, {index}: {y} instead of {x}");
                }
            }
        }
    }
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
    // Heads of whole sixteens are staged unless there are too many variates: two inner rows to a block, one in the last.
    let staged = [(1, 2, 16), (7, 2, 64), (45, 1, 48)];
    for (variates, heads, head_dim) in staged.into_iter().chain([(1, 2, 8), (7, 3, 20), (70, 1, 64)]) {
        compare(|| attending_group(variates, heads, head_dim), &[live(2, 4, 3), live(1, 3, 1)], EXACT);
    }
}

#[test]
fn draws_have_the_digits_of_the_cpu() {
    // Logits of one's own are staged: one four, an odd and an even number of them. No whole fours and too many are not.
    let mixtures = [4, 20, 24, 1, 6, 48].map(|components| Head::Mixture { components });
    for head in [Head::StudentT].into_iter().chain(mixtures) {
        for shared in [true, false] {
            compare(|| drawing(head, shared), &[live(3, 1, 37), live(2, 1, 5)], EXACT);
        }
    }
}

#[test]
fn rows_that_move() {
    compare(|| moving(4), &[live(2, 5, 4), live(1, 2, 3)], EXACT);
}

#[test]
fn samples_in_order() {
    // More samples than threads, and numbers of them around a power of two.
    compare(|| moving(1100), &[live(1, 1, 1100)], EXACT);
    compare(|| moving(65), &[65, 64, 63, 2, 1].map(|samples| live(2, 1, samples)), EXACT);
}

#[test]
fn tokens_are_embedded_and_drawn_as_on_the_cpu() {
    // Few tokens for each thread of a block, and many.
    for (shared, bits) in [(true, 7), (false, 7), (true, 11), (false, 11)] {
        compare(|| tokens(shared, bits), &[live(2, 5, 11), live(1, 2, 3), live(2, 1, 4), live(1, 5, 11)], EXACT);
    }
}

/// A token of each path from logits of its own: most near `offset`, some up to `spread` away from it.
fn filtering<'a>(vocabulary: usize, spread: f32, offset: f32) -> Case<'a> {
    let mut case = Case::new(live(3, 1, 13));
    let paths = Rows::batch().times_samples();
    let streams = case.integers(Rows::batch(), 1, |index| index as i32);
    let logits = case.input(paths, vocabulary, 1.0);
    case.floats[0].1.iter_mut().for_each(|logit| *logit = offset + spread * logit.powi(3));
    case.plan.begin_decode();
    let weights = case.plan.tensor_of(Element::F64, paths, vocabulary);
    let tokens = case.plan.tensor_of(Element::I32, paths, 1);
    case.plan.push(Operation::SampleToken(operation::SampleToken {
        logits,
        weights,
        shared: false,
        streams,
        tokens,
        column: 0,
        step: 1,
        position: 0,
    }));
    case.output("weights", weights);
    case.output("tokens", tokens);
    case
}

#[test]
fn filters_keep_the_tokens_of_the_cpu() {
    // Flat and steep; far from zero, where all logits begin with the same bits; all the same.
    for (spread, offset) in [(0.02, 0.0), (4.0, 0.0), (40.0, 0.0), (0.5, 7.0), (0.0, -3.0)] {
        for vocabulary in [1024, 3000, 77] {
            let lives = [live(1, 1, 2), live(3, 1, 13), live(3, 1, 13), live(2, 1, 5)];
            compare(|| filtering(vocabulary, spread, offset), &lives, EXACT);
        }
    }
}

#[test]
fn a_vocabulary_that_no_block_holds_is_refused() {
    for device in devices::devices() {
        let error = filtering(13_000, 1.0, 0.0).run(&device, &[live(1, 1, 1)]).unwrap_err();
        assert!(error.to_string().contains("12288") && error.to_string().contains("use the CPU"), "{error}");
    }
}

#[test]
fn what_is_not_a_number_is_no_token_and_embeds_as_none() {
    let cpu: Box<dyn Device> = Box::new(CpuDevice::new(Some(2)));
    for device in std::iter::once(cpu).chain(exact_devices().map(|device| Box::new(device) as Box<dyn Device>)) {
        let (mut list, mut builder) = (WeightList::default(), PlanBuilder::new(live(2, 1, 3), true));
        let table = list.table(1, vec![5.0, 6.0, 7.0, 8.0]);
        let (series, paths) = (Rows::batch(), Rows::batch().times_samples());
        let bits = builder.input(Element::F32, series, 4);
        let pairs = builder.tensor_of(Element::I32, series, 2);
        builder.push(Operation::QuantiseBits(operation::QuantiseBits { input: bits, first_bits: 2, output: pairs }));
        let embedded = builder.tensor(series, 1);
        let term = |column| operation::EmbedTerm {
            table,
            index: pairs,
            groups: series,
            first: Rows::fixed(0),
            column,
            output_column: 0,
        };
        let terms = vec![term(0), term(1)];
        builder.push(Operation::Embed(operation::Embed { terms, tokens: Rows::fixed(1), output: embedded }));
        let streams = builder.input(Element::I32, series, 1);
        let tokens = builder.tensor_of(Element::I32, paths, 2);
        let inputs = [(0, series, true), (1, paths, false)].map(|(column, rows, shared)| {
            let logits = builder.input(Element::F32, rows, 4);
            let weights = builder.tensor_of(Element::F64, rows, 4);
            let (step, position) = (0, 0);
            builder.push(Operation::SampleToken(operation::SampleToken {
                logits,
                weights,
                shared,
                streams,
                tokens,
                column,
                step,
                position,
            }));
            logits
        });
        for output in [pairs, embedded, tokens] {
            builder.keep(output);
        }
        let mut executable = device.load(list).unwrap().prepare(Arc::new(builder.finish().unwrap())).unwrap();
        for top_p in [1.0, 0.9] {
            executable.write(bits, &[1.0, -1.0, f32::NAN, 1.0, 1.0, 1.0, -1.0, 1.0]);
            executable.write_integers(streams, &[0, 1]);
            let (fine, nan, infinite) = ([-1e30, 0.0, -1e30, -1e30], [0.0, f32::NAN, 1.0, 2.0], [f32::INFINITY; 4]);
            executable.write(inputs[0], &[infinite, fine].concat());
            executable.write(inputs[1], &[fine, nan, infinite, fine, fine, nan].concat());
            let token_sampling = TokenSampling { top_p, ..TokenSampling::default() };
            let launch = Launch { live: live(2, 1, 3), seed: 1, first_sample: 0, token_sampling };
            executable.run(Section::Prefill, &launch).unwrap();
            let mut read = |tensor, length| {
                let mut values = vec![0.0; length];
                executable.read(tensor, &mut values);
                values
            };
            let (name, none) = (device.describe(), f64::from(NO_TOKEN));
            assert_eq!(read(pairs, 4), [1.0, none, 3.0, 2.0], "{name}");
            let embedded = read(embedded, 2);
            assert!(embedded[0].is_nan() && embedded[1] == 15.0, "{name}: {embedded:?}");
            let expected = [none, 1.0, none, none, none, none, 1.0, 1.0, 1.0, 1.0, 1.0, none];
            assert_eq!(read(tokens, 12), expected, "{name}, top-p {top_p}");
        }
    }
}

#[test]
fn unfused_operations() {
    // The norm: an f64 sum in another order may round to the neighbour, before and after the scale. The gate: the CPU
    // takes an f32 exponential, one rounding each of exponential, sum, quotient and product.
    compare(unfused, &[live(9, 1, 1), live(4, 1, 1)], 4.0);
}

#[test]
fn a_decode_repeats_over_one_prefill_and_inputs_may_change_between() {
    for device in exact_devices() {
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
