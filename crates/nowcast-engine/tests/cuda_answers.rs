//! Large answers of the CUDA device: callers keep the memory they were written into.

mod devices;

use std::sync::Arc;

use nowcast_engine::check::live;
use nowcast_engine::cuda::{CudaDevice, Faults, Site};
use nowcast_engine::device::{Device, Executable, Kept, Launch};
use nowcast_engine::extent::Rows;
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::{Element, PlanBuilder, Section, Tensor};
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::WeightList;

/// Rows and columns of an answer that is too large to be copied along with others, its end in the middle of four values.
const ROWS: usize = 11;
const COLUMNS: usize = 9_001;

/// A plan that doubles what it is given.
struct Doubling {
    executable: Box<dyn Executable>,
    input: Tensor,
    doubled: Tensor,
}

impl Doubling {
    fn new(device: &dyn Device) -> Self {
        let (list, mut builder) = (WeightList::default(), PlanBuilder::new(live(ROWS, 1, 1), true));
        let input = builder.input(Element::F32, Rows::batch(), COLUMNS);
        let doubled = builder.tensor(Rows::batch(), COLUMNS);
        builder.begin_decode();
        builder.push(Operation::Add(operation::Add { left: input, right: input, output: doubled }));
        builder.keep(doubled);
        let executable = device.load(list).unwrap().prepare(Arc::new(builder.finish().unwrap())).unwrap();
        Self { executable, input, doubled }
    }

    fn run(&mut self, rows: usize, value: impl Fn(usize) -> f32) -> Vec<f32> {
        let values: Vec<f32> = (0..rows * COLUMNS).map(value).collect();
        let token_sampling = TokenSampling::default();
        let launch = Launch { live: live(rows, 1, 1), seed: 1, first_sample: 0, token_sampling };
        self.executable.write(self.input, &values);
        self.executable.run(Section::Prefill, &launch).unwrap();
        self.executable.run(Section::Decode, &launch).unwrap();
        values.iter().map(|value| value + value).collect()
    }

    fn keep(&mut self) -> Option<Kept> {
        self.executable.keep(self.doubled)
    }

    fn view(&mut self) -> &[f32] {
        self.executable.view(self.doubled)
    }
}

fn values(kept: &Kept) -> &[f32] {
    kept.values.as_ref().as_ref()
}

#[test]
fn what_a_caller_keeps_is_never_written_again() {
    for graphs in [true, false] {
        for device in devices::devices() {
            let mut plan = Doubling::new(&device.with_graphs(graphs));
            let mut kept: Vec<(Vec<f32>, Kept)> = Vec::new();
            let mut copied = 0;
            for run in 0..12 {
                let expected = plan.run(ROWS, |place| (place + run) as f32);
                assert_eq!(plan.view()[..expected.len()], expected, "run {run}");
                match plan.keep() {
                    Some(answer) => kept.push((expected, answer)),
                    None => copied += 1,
                }
                for (expected, answer) in &kept {
                    assert_eq!(values(answer)[..expected.len()], *expected, "after run {run}");
                }
                if run == 6 {
                    // What a caller lets go of is used again.
                    kept.truncate(1);
                }
            }
            assert!(copied > 0 && kept.len() > 2, "{copied} copied, {} kept", kept.len());
        }
    }
}

#[test]
fn the_device_says_whether_live_values_are_finite() {
    for device in devices::devices() {
        let mut plan = Doubling::new(&device);
        let mut is_finite = |rows: usize, bad: Option<(usize, f32)>| {
            plan.run(rows, |place| bad.filter(|(at, _)| *at == place).map_or(1.0, |(_, value)| value));
            plan.keep().expect("nobody keeps the others").is_finite
        };
        let last = ROWS * COLUMNS - 1;
        assert!(is_finite(ROWS, None));
        for (at, value) in [(0, f32::NAN), (last, f32::INFINITY), (last, f32::MAX), (last / 2, f32::NEG_INFINITY)] {
            assert!(!is_finite(ROWS, Some((at, value))), "{value} at {at}");
            assert!(is_finite(ROWS, None), "after {value} at {at}");
        }
        // Rows that are not live mean nothing: here those of the run before.
        assert!(!is_finite(ROWS, Some((last, f32::NAN))));
        assert!(is_finite(ROWS - 1, None));
    }
}

#[test]
fn where_there_is_no_memory_for_the_next_answer_this_one_is_copied() {
    let faults = Faults::default();
    let device = match CudaDevice::emulated_with(&faults) {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let mut plan = Doubling::new(&device);
    let expected = plan.run(ROWS, |place| place as f32);
    faults.fail(Site::HostMemory, 1, usize::MAX);
    assert!(plan.keep().is_none());
    assert_eq!(plan.view()[..expected.len()], expected);
    faults.heal();
    let kept = plan.keep().expect("there is memory again");
    drop(plan);
    assert_eq!(values(&kept)[..expected.len()], expected);
    drop((kept, device));
    assert_eq!((faults.leaks(), faults.held()), ((0, 0, 0), 0));
}
