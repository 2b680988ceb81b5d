//! What the CUDA device does when something fails: the same digits or one clear error, and nothing left behind.
//!
//! The kernels run on this processor, on a machine that fails where the test says.

mod devices;

use std::sync::Arc;

use nowcast_engine::check::{self, Case, attending, live, product};
use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::cuda::{CudaDevice, Faults, Site};
use nowcast_engine::device::{Device, Executable, Launch};
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::operation::{Add, Operation, Round};
use nowcast_engine::plan::{Element, Plan, PlanBuilder, Section, Tensor};
use nowcast_engine::rotary::Pairing;
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::{Activation, WeightList};

/// A device with weak points, or a word about why there is none.
fn device() -> Option<(CudaDevice, Faults)> {
    let faults = Faults::default();
    match CudaDevice::emulated_with(&faults) {
        Ok(device) => Some((device, faults)),
        Err(error) => {
            assert!(error.to_string().contains("cannot build"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

const LIVES: [Live; 2] = [live(2, 7, 5), live(1, 3, 2)];

/// Small tensors, which a kernel takes over, a large one, which is copied, and an answer with memory of its own.
fn case<'a>() -> Case<'a> {
    let mut case = attending(Pairing::Interleaved, 1, 0, LIVES[0]);
    let values: Vec<f64> = (0..20_000).map(|place| f64::from(place).sqrt()).collect();
    let (input, output) = (case.doubles(&values), case.plan.tensor(Rows::fixed(1), values.len()));
    case.plan.push(Operation::Round(Round { input, output }));
    case.output("copied", input);
    case.output("answer", output);
    case
}

fn digits(tensors: &[Vec<f64>]) -> Vec<u64> {
    tensors.iter().flatten().map(|value| value.to_bits()).collect()
}

fn every_failure(make: impl Fn(CudaDevice) -> CudaDevice, graph_failures_are_errors: bool) {
    let Some((device, faults)) = device() else { return };
    let device = make(device);
    let expected = digits(&case().run(&device, &LIVES).unwrap().0);
    let calls = Site::ALL.map(|site| (site, faults.calls(site)));
    assert_eq!(faults.leaks(), (0, 0, 0), "before anything failed");
    for (site, calls) in calls {
        assert!(
            calls > 0 || matches!(site, Site::Record | Site::Instantiate | Site::Replay),
            "{site:?} is not reached"
        );
        for (first, times) in (1..=calls).flat_map(|first| [(first, 1), (first, usize::MAX)]) {
            let what = format!("{site:?} fails from call {first} of {calls} on, {times} times");
            faults.fail(site, first, times);
            match case().run(&device, &LIVES) {
                Ok((found, activity)) => {
                    assert_eq!(digits(&found), expected, "{what}");
                    // The last wait is that before memory is given back: no result depends on it.
                    let harmless = site == Site::Wait && first == calls;
                    assert!(harmless || !graph_failures_are_errors, "{what}");
                    assert!(harmless || activity.graph_fallbacks == 1, "{what}: only a recording can be done without");
                }
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains("injected") || message.contains("cannot reserve"), "{what}: {message}");
                    assert!(!message.contains('\n'), "{what}: {message}");
                    let in_recording = matches!(site, Site::Record | Site::Instantiate);
                    assert!(!in_recording || graph_failures_are_errors, "{what}: {message}");
                    assert!(site != Site::Launch || message.contains(", kernel "), "{what}: {message}");
                }
            }
            assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0), "{what}");
            faults.heal();
        }
        assert_eq!(digits(&case().run(&device, &LIVES).unwrap().0), expected, "after {site:?} failed");
    }
}

#[test]
fn a_failure_anywhere_changes_no_digit_and_leaves_nothing_behind() {
    every_failure(|device| device, false);
}

#[test]
fn without_graphs_too() {
    every_failure(|device| device.with_graphs(false), false);
}

#[test]
fn strict_devices_refuse_what_cannot_be_recorded() {
    every_failure(CudaDevice::with_strict_graphs, true);
}

/// Timing kernels takes memory, a queue and many launches of its own: of those the first few fail.
#[test]
fn a_failure_while_kernels_are_timed_leaves_nothing_behind() {
    const FIRST: usize = 3;
    let Some((device, faults)) = device() else { return };
    let device = device.with_measured_choices(true);
    let lives = [live(12, 1, 1)];
    let run = || product(12, 160, 8, Activation::None, 0..8).run(&device, &lives);
    let expected = digits(&run().unwrap().0);
    for site in [Site::Upload, Site::Queue, Site::Launch, Site::Wait] {
        for first in 1..=faults.calls(site).min(FIRST) {
            let what = format!("{site:?} fails from call {first} on");
            faults.fail(site, first, usize::MAX);
            match run() {
                Ok((found, _)) => assert_eq!(digits(&found), expected, "{what}"),
                Err(error) => assert!(error.to_string().contains("injected"), "{what}: {error}"),
            }
            assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0), "{what}");
            faults.heal();
        }
    }
}

/// A plan whose decode takes an input that may change between runs: `2 first + late`.
fn late_input() -> (Plan, [Tensor; 3]) {
    let mut builder = PlanBuilder::new(live(1, 1, 4), true);
    let [first, late] = [(); 2].map(|()| builder.input(Element::F32, Rows::batch(), 4));
    let [doubled, sum] = [(); 2].map(|()| builder.tensor(Rows::batch(), 4));
    builder.push(Operation::Add(Add { left: first, right: first, output: doubled }));
    builder.begin_decode();
    builder.push(Operation::Add(Add { left: doubled, right: late, output: sum }));
    builder.keep(sum);
    (builder.finish().unwrap(), [first, late, sum])
}

fn launch() -> Launch {
    Launch { live: live(1, 1, 4), seed: 1, first_sample: 0, token_sampling: TokenSampling::default() }
}

fn read(executable: &mut dyn Executable, tensor: Tensor) -> [f64; 4] {
    let mut values = [f64::NAN; 4];
    executable.read(tensor, &mut values);
    values
}

#[test]
fn a_decode_that_cannot_be_recorded_still_takes_new_inputs() {
    for site in [Site::Record, Site::Instantiate] {
        let Some((device, faults)) = device() else { return };
        let (plan, [first, late, sum]) = late_input();
        let mut executable = device.load(WeightList::default()).unwrap().prepare(Arc::new(plan)).unwrap();
        executable.write(first, &[1.0; 4]);
        executable.write(late, &[10.0; 4]);
        executable.run(Section::Prefill, &launch()).unwrap();
        executable.run(Section::Decode, &launch()).unwrap();
        assert_eq!(read(executable.as_mut(), sum), [12.0; 4]);
        // The graph of the decode alone is recorded now.
        faults.fail(site, 1, 1);
        executable.write(late, &[20.0; 4]);
        executable.run(Section::Decode, &launch()).unwrap();
        assert_eq!(read(executable.as_mut(), sum), [22.0; 4], "{site:?}");
        assert_eq!(executable.activity().graph_fallbacks, 1);
    }
}

#[test]
fn a_prefill_that_failed_while_inputs_were_written_is_not_forgotten() {
    let Some((device, faults)) = device() else { return };
    let (plan, [first, late, sum]) = late_input();
    let mut executable = device.load(WeightList::default()).unwrap().prepare(Arc::new(plan)).unwrap();
    executable.write(first, &[1.0; 4]);
    executable.run(Section::Prefill, &launch()).unwrap();
    faults.fail(Site::Launch, 1, 1);
    executable.write(late, &[10.0; 4]);
    let message = executable.run(Section::Decode, &launch()).unwrap_err().to_string();
    assert!(message.contains("injected"), "{message}");
    executable.write(first, &[3.0; 4]);
    executable.run(Section::Prefill, &launch()).unwrap();
    executable.run(Section::Decode, &launch()).unwrap();
    assert_eq!(read(executable.as_mut(), sum), [16.0; 4]);
}

#[test]
fn a_failed_decode_may_be_asked_for_again() {
    let Some((device, faults)) = device() else { return };
    let (plan, [first, late, sum]) = late_input();
    let mut executable = device.load(WeightList::default()).unwrap().prepare(Arc::new(plan)).unwrap();
    executable.write(first, &[1.0; 4]);
    executable.write(late, &[10.0; 4]);
    executable.run(Section::Prefill, &launch()).unwrap();
    faults.fail(Site::Wait, 1, 1);
    executable.run(Section::Decode, &launch()).unwrap_err();
    executable.run(Section::Decode, &launch()).unwrap();
    assert_eq!(read(executable.as_mut(), sum), [12.0; 4]);
}

#[test]
fn two_forecasts_in_flight_have_buffers_of_their_own() {
    for device in devices::devices() {
        let resident = device.load(WeightList::default()).unwrap();
        let (plan, [first, late, sum]) = late_input();
        let plan = Arc::new(plan);
        let mut both = [1.0, 100.0].map(|value| {
            let mut executable = Arc::clone(&resident).prepare(Arc::clone(&plan)).unwrap();
            executable.write(first, &[value; 4]);
            executable.write(late, &[10.0; 4]);
            executable
        });
        for section in [Section::Prefill, Section::Decode] {
            both.iter_mut().for_each(|executable| executable.run(section, &launch()).unwrap());
        }
        // The first is read after the second ran, and again after it ran once more.
        assert_eq!(read(both[0].as_mut(), sum), [12.0; 4]);
        both[1].run(Section::Decode, &launch()).unwrap();
        assert_eq!(both.each_mut().map(|executable| read(executable.as_mut(), sum)), [[12.0; 4], [210.0; 4]]);
        // At the same time.
        std::thread::scope(|scope| {
            for (executable, value) in both.iter_mut().zip([1.0f32, 100.0]) {
                scope.spawn(move || {
                    for round in 0..50 {
                        let value = value + round as f32;
                        executable.write(first, &[value; 4]);
                        executable.run(Section::Prefill, &launch()).unwrap();
                        executable.run(Section::Decode, &launch()).unwrap();
                        assert_eq!(read(executable.as_mut(), sum), [f64::from(2.0 * value + 10.0); 4]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_plan_takes_the_memory_that_was_announced_in_one_block() {
    let Some((device, faults)) = device() else { return };
    let case = case();
    let plan = Arc::new(case.plan.finish().unwrap());
    let resident = device.load(case.list).unwrap();
    let (before, calls) = (faults.held(), faults.calls(Site::Memory));
    let announced = resident.plan_bytes(&plan).unwrap();
    assert!(announced > plan.bytes());
    let executable = Arc::clone(&resident).prepare(plan).unwrap();
    assert_eq!((faults.held() - before, faults.calls(Site::Memory) - calls), (announced, 1));
    drop(executable);
    assert_eq!(faults.held(), before);
}

#[test]
fn what_others_hold_is_not_available() {
    let Some((device, faults)) = device() else { return };
    faults.limit(1000 << 20, 300 << 20, 0);
    assert_eq!(device.available(), Some(700 << 20));
    let resident = device.load(WeightList::default()).unwrap();
    assert_eq!(resident.available(), Some(700 << 20));
}

/// Two products, the second of which makes NaN.
fn poisoned<'a>() -> Case<'a> {
    let mut case = product(3, 40, 20, Activation::None, 0..20);
    let weight = case.linear(20, 40, Activation::None);
    case.list.linears.last_mut().unwrap().bias.as_mut().unwrap()[7] = f32::NAN;
    case.plan.stage("layer 3");
    let input = case.floats[0].0;
    let output = case.plan.linear(weight, input);
    case.output("not a number", output);
    case
}

#[test]
fn the_operation_that_first_makes_nan_is_named() {
    let cpu: Box<dyn Device> = Box::new(CpuDevice::new(Some(1)).with_checked_operations(true));
    let emulated = device().map(|(device, _)| Box::new(device.with_checked_operations(true)) as Box<dyn Device>);
    for device in [Some(cpu), emulated].into_iter().flatten() {
        product(3, 40, 20, Activation::None, 0..20).run(device.as_ref(), &[live(3, 1, 1)]).unwrap();
        let message = poisoned().run(device.as_ref(), &[live(3, 1, 1)]).unwrap_err().to_string();
        assert_eq!(
            message,
            "layer 3, Linear (operation 4 of 4 of the prefill): it makes NaN in row 0 and column 7 of a tensor 20 wide"
        );
    }
}

#[test]
fn checked_operations_change_no_digit_and_take_no_graph() {
    let Some((device, faults)) = device() else { return };
    let (expected, _) = case().run(&device, &LIVES).unwrap();
    let device = device.with_checked_operations(true);
    let (found, activity) = case().run(&device, &LIVES).unwrap();
    assert_eq!(digits(&found), digits(&expected));
    assert_eq!((activity.graphs_captured, activity.graphs_replayed), (0, 0));
    // A kernel that fails is named with its operation, whichever it is.
    let launches = faults.calls(Site::Launch);
    for first in 1..=launches {
        faults.fail(Site::Launch, first, 1);
        if let Err(error) = case().run(&device, &LIVES) {
            let message = error.to_string();
            let named = message.contains(" (operation ") || message.starts_with("copying inputs and outputs");
            assert!(named && message.contains(", kernel "), "{message}");
        }
    }
}

#[test]
fn a_machine_that_checks_itself_names_what_is_broken() {
    let Some((device, faults)) = device() else { return };
    let (device, cpu) = (device.with_poisoned_memory(), CpuDevice::new(Some(1)));
    let first_failure = || check::operations().iter().find_map(|check| check.compare(&device, &cpu).err());
    assert!(first_failure().is_none());
    for (kernel, name) in [
        ("scale_context", "scaling of a context"),
        ("linear_narrow", "product"),
        ("norm_rows", "norm and gate"),
        ("rotary_table", "rotary positions"),
        ("attention", "rotary positions and attention"),
        ("attend_fresh", "rotary positions and attention"),
        ("project_and_attend_f32", "projections and attention"),
        ("group_attention", "attention between variates"),
        ("group_attention_staged", "attention between variates of whole sixteens"),
        ("prepend_label", "rows that move"),
        ("activate_mixture", "mixture parameters"),
        ("mean_mixture", "mixture parameters"),
        ("embed", "token embedding"),
        ("weigh_tokens", "token embedding"),
    ] {
        faults.break_kernel(kernel);
        let message = first_failure().unwrap_or_else(|| panic!("a broken {kernel} is not seen")).to_string();
        assert!(message.starts_with(name), "{kernel}: {message}");
        faults.heal();
    }
}
