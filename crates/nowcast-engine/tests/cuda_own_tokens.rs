//! Paths' own keys and values, which a product of bf16 leaves as bf16: against the same roundings on the host and attention
//! in f64, and against themselves in other company.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;
mod numbers;
mod own_tokens;
mod passes;
mod softmax;

use std::sync::Arc;

use devices::devices;
use nowcast_engine::cuda::{CudaDevice, Faults};
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::rotary::Pairing;
use own_tokens::{Case, Parts};

/// One case in several companies, series and samples of each.
fn in_company(case: Case, companies: &[[usize; 2]]) {
    for device in devices() {
        let device = device.with_exact_sums(false);
        let fewest = companies.iter().map(|company| company[1]).min().expect("some company");
        let mut first: Option<Vec<u64>> = None;
        for &[series, samples] in companies {
            let case = Case { series, samples, ..case };
            let name = format!("{}: {series} series, {samples} paths, {} hidden", device.describe(), case.hidden);
            let answers = case.run(&device);
            case.check(&name, &answers);
            let digits = case.first_paths(&answers, fewest);
            let same = *first.get_or_insert_with(|| digits.clone()) == digits;
            assert!(same, "{name}: company changes digits");
        }
    }
}

/// With the context and without.
fn compare(case: Case, companies: &[[usize; 2]]) {
    [0, case.context].into_iter().for_each(|hidden| in_company(Case { hidden, ..case }, companies));
}

const PLAIN: Case = Case {
    heads: 2,
    head_dim: 64,
    series: 2,
    context: 70,
    samples: 1,
    pairing: Pairing::HalfSplit,
    rotates: true,
    steps: 3,
    tokens: 1,
    hidden: 0,
    slide: 0,
    dtype: Dtype::Bf16,
};

const FEW_AND_MANY: &[[usize; 2]] = &[[2, 1], [2, 12], [1, 70]];

/// Blocks that go through several chunks at once, and paths whose context was cut before.
#[test]
fn contexts_of_several_chunks() {
    compare(PLAIN, FEW_AND_MANY);
    compare(Case { head_dim: 36, steps: 10, pairing: Pairing::Interleaved, ..PLAIN }, FEW_AND_MANY);
    // So many blocks that each goes through two chunks at once.
    compare(Case { heads: 15, head_dim: 4, ..PLAIN }, &[[1, 2], [9, 2]]);
    // Clusters for few paths.
    compare(Case { heads: 1, head_dim: 36, context: 330, steps: 5, ..PLAIN }, FEW_AND_MANY);
}

/// Some own chunks of few paths wait in the cluster's first block, the others are gone through by it.
#[test]
fn many_own_tokens_of_few_paths() {
    let few = Case { heads: 1, head_dim: 36, context: 140, steps: 20, ..PLAIN };
    compare(few, FEW_AND_MANY);
    compare(Case { dtype: Dtype::F32, ..few }, &[[1, 1], [1, 12], [1, 70]]);
    compare(Case { head_dim: 132, ..few }, &[[1, 1], [1, 12], [1, 40]]);
}

/// Blocks of one chunk, and warps that have sixteen rows by themselves.
#[test]
fn contexts_of_one_chunk() {
    let many = Case { heads: 12, context: 50, ..PLAIN };
    compare(Case { steps: 4, ..many }, &[[1, 3], [22, 3], [9, 40]]);
    let pairing = Pairing::Interleaved;
    compare(Case { head_dim: 36, context: 5, steps: 8, pairing, ..many }, &[[1, 2], [22, 2]]);
    // More blocks than find room at once.
    compare(Case { heads: 15, head_dim: 4, ..many }, &[[1, 2], [12, 70]]);
}

/// So many rows that the product hands its results over as operands.
#[test]
fn queries_that_the_product_cuts() {
    let many = Case { heads: 12, context: 50, steps: 2, pairing: Pairing::Interleaved, ..PLAIN };
    in_company(many, &[[1, 3], [22, 39]]);
}

#[test]
fn wide_heads_and_heads_of_odd_size() {
    for head_dim in [68, 132, 208] {
        compare(Case { heads: 1, head_dim, context: 140, ..PLAIN }, &[[1, 1], [1, 40]]);
    }
    compare(Case { heads: 8, head_dim: 68, context: 140, ..PLAIN }, &[[1, 1], [1, 70]]);
    for head_dim in [104, 208] {
        compare(Case { heads: 1, head_dim, context: 20, ..PLAIN }, &[[1, 1], [1, 40]]);
    }
    compare(Case { heads: 3, head_dim: 10, context: 20, steps: 4, ..PLAIN }, &[[2, 1], [2, 9]]);
}

/// Windows that slide over own tokens too.
#[test]
fn hidden_own_tokens() {
    let slides = Case { context: 20, hidden: 18, slide: 1, steps: 6, ..PLAIN };
    in_company(slides, &[[2, 1], [2, 12]]);
    in_company(Case { context: 70, hidden: 68, steps: 10, ..slides }, FEW_AND_MANY);
    in_company(Case { heads: 12, ..slides }, &[[1, 2], [22, 2]]);
    in_company(Case { heads: 3, head_dim: 10, ..slides }, &[[2, 1], [2, 9]]);
}

#[test]
fn several_queries_of_a_path() {
    compare(Case { steps: 2, tokens: 5, ..PLAIN }, FEW_AND_MANY);
    compare(Case { heads: 3, head_dim: 10, context: 20, steps: 2, tokens: 3, ..PLAIN }, &[[2, 1], [2, 9]]);
}

/// Queries that nobody rotates are asked as they are.
#[test]
fn tokens_without_positions() {
    compare(Case { rotates: false, ..PLAIN }, FEW_AND_MANY);
    compare(Case { rotates: false, head_dim: 132, heads: 1, context: 140, ..PLAIN }, &[[1, 1], [1, 40]]);
}

/// Other dtypes keep f32.
#[test]
fn own_tokens_of_tf32_and_f32() {
    for dtype in [Dtype::Tf32, Dtype::F32] {
        compare(Case { dtype, ..PLAIN }, &[[1, 2], [1, 70]]);
        compare(Case { dtype, heads: 12, pairing: Pairing::Interleaved, context: 50, ..PLAIN }, &[[1, 2], [22, 2]]);
    }
}

/// The digits of a case, the bytes its plan is said to take, and those that it takes.
fn digits_and_bytes(case: Case, checked: bool) -> (Vec<u64>, [usize; 2]) {
    let faults = Faults::default();
    let device = CudaDevice::emulated_with(&faults).expect("the kernels were built before");
    let device = device.with_checked_operations(checked).with_poisoned_memory();
    let digits = Case::digits(&case.run(&device));
    let Parts { list, plan, .. } = case.plan();
    let (resident, plan) = (device.load(list).unwrap(), Arc::new(plan.finish().unwrap()));
    let (before, announced) = (faults.held(), resident.plan_bytes(&plan).unwrap());
    let _executable = resident.prepare(plan).unwrap();
    (digits, [announced, faults.held() - before])
}

/// Where operations are checked, every tensor has a place of its own.
#[test]
fn values_in_the_words_of_keys_take_no_memory() {
    // Without a compiler there is no emulation, and `devices` says so.
    if CudaDevice::emulated().is_err() {
        return;
    }
    for case in [
        Case { samples: 12, ..PLAIN },
        Case { samples: 12, rotates: false, ..PLAIN },
        // Heads that are no whole groups, several queries, and warps that have their rows by themselves; contexts so short
        // that values would find no room in what the prefill leaves.
        Case { heads: 3, head_dim: 10, context: 20, samples: 16, steps: 4, tokens: 2, ..PLAIN },
        Case { heads: 12, context: 5, series: 22, samples: 4, ..PLAIN },
    ] {
        for dtype in [Dtype::Bf16, Dtype::Tf32] {
            let case = Case { dtype, ..case };
            let [(digits, [announced, held]), (apart, [all_announced, all_held])] =
                [false, true].map(|checked| digits_and_bytes(case, checked));
            let spared = if dtype == Dtype::Bf16 { case.value_bytes() } else { 0 };
            assert_eq!((held, all_held), (announced, all_announced), "{dtype}: what is announced is what is taken");
            assert_eq!(all_held - held, spared, "{dtype}: {held} bytes instead of {all_held}");
            assert!(digits == apart, "{dtype}: digits depend on places");
        }
    }
}
