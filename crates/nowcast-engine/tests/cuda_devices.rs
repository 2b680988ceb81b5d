//! Devices of one process that take turns on one thread, and that run at once on threads of their own: every one has the
//! digits that it has without the others in between, and those of all others of its kind.
//!
//! The kernels run compiled for this processor, twice (everywhere a C++ compiler is), and on all GPUs that there are.

mod devices;
mod numbers;
mod passes;
mod products;

use std::collections::BTreeMap;
use std::thread;

use devices::devices;
use nowcast_engine::cuda::CudaDevice;
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use numbers::bits;
use products::{Prepared, Product};

const ROUNDS: usize = 3;
/// Rows of each round, so that live extents change, too.
const LIVE: [usize; ROUNDS] = [130, 7, 121];

/// One device of each, and a second one.
fn all_devices() -> Vec<CudaDevice> {
    let all = devices().into_iter().chain(devices());
    all.map(CudaDevice::with_strict_graphs).collect()
}

/// What a device is, whatever its number.
fn kind(device: &CudaDevice) -> String {
    let description = device.describe();
    description.split_once(", ").map_or(description.clone(), |(_, kind)| kind.to_owned())
}

fn product(dtype: Dtype, round: usize) -> Product {
    let size = [1.0, 0.25, 8.0][round];
    Product { norm_epsilon: Some(1e-5), has_residual: true, size, ..Product::new(dtype, 320, 640, LIVE[0]) }
}

/// The digits of every round, from a plan of its own.
fn digits_of_rounds(device: &CudaDevice, dtype: Dtype) -> Vec<Vec<u64>> {
    let mut prepared = product(dtype, 0).prepare(device);
    (0..ROUNDS).map(|round| run(&mut prepared, dtype, round)).collect()
}

fn run(prepared: &mut Prepared, dtype: Dtype, round: usize) -> Vec<u64> {
    bits(&prepared.run(&product(dtype, round), LIVE[round]))
}

/// For each kind of device the digits that all of that kind have.
fn digits_of_kinds(all: &[CudaDevice], dtype: Dtype) -> BTreeMap<String, Vec<Vec<u64>>> {
    let mut kinds = BTreeMap::new();
    for device in all {
        let digits = digits_of_rounds(device, dtype);
        let (first, name) = (product(dtype, 0), device.describe());
        let results = first.run(device, LIVE[0]);
        first.check(&name, &results, LIVE[0]);
        assert_eq!(bits(&results), digits[0], "{name}");
        assert_eq!(*kinds.entry(kind(device)).or_insert_with(|| digits.clone()), digits, "{}", device.describe());
    }
    kinds
}

#[test]
fn devices_take_turns() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let all = all_devices();
        let kinds = digits_of_kinds(&all, dtype);
        let mut plans: Vec<(&CudaDevice, Prepared)> =
            all.iter().map(|device| (device, product(dtype, 0).prepare(device))).collect();
        // A plan less in each round: what goes must not take along what another one needs.
        for (round, live) in LIVE.into_iter().enumerate() {
            for (device, prepared) in &mut plans {
                let digits = run(prepared, dtype, round);
                assert_eq!(digits, kinds[&kind(device)][round], "{}, {live} rows", device.describe());
            }
            if plans.len() > 1 {
                plans.remove(0);
            }
        }
    }
}

#[test]
fn devices_run_at_once() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let all = all_devices();
        let kinds = digits_of_kinds(&all, dtype);
        thread::scope(|scope| {
            for device in &all {
                let expected = &kinds[&kind(device)];
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        assert_eq!(digits_of_rounds(device, dtype), *expected, "{}", device.describe());
                    }
                });
            }
        });
    }
}
