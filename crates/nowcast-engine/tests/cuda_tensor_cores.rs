//! Products on tensor cores against sums in f64, and against themselves in other company.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;
mod numbers;
mod passes;
mod products;

use devices::devices;
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::weights::Activation;
use numbers::bits;
use products::{Product, run_pair};

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::Tf32, Dtype::Bf16];

/// A product in several numbers of rows: all within their tolerance, and a row with the same digits in each.
fn compare(product: &Product, rows: &[(usize, usize)]) {
    for device in devices() {
        let mut device = device;
        let mut first: Option<Vec<f64>> = None;
        let runs = rows.iter().flat_map(|&rows| [(rows, true), (rows, false)]);
        for ((capacity, live), warpgroups) in runs {
            // Few rows do without warpgroups anyway.
            if !warpgroups && capacity < 64 {
                continue;
            }
            device = device.with_warpgroups(warpgroups);
            let product = Product { capacity, ..product.clone() };
            let name = format!(
                "{}: {} rows of {live} times {} x {} in {}",
                device.describe(),
                capacity,
                product.inputs,
                product.weight_rows(),
                product.dtype
            );
            let results = product.run(&device, live);
            let worst = product.check(&name, &results, live);
            eprintln!("{name}: {worst:.3} of what is allowed");
            let first = first.get_or_insert_with(|| results.clone());
            let common = first.len().min(results.len());
            assert_eq!(bits(&first[..common]), bits(&results[..common]), "{name}: company changes digits");
            if results.len() > first.len() {
                *first = results;
            }
        }
    }
}

/// Rows for each kernel: streamed alone and in company, small blocks, and blocks whose last rows hang over.
const FEW_ROWS: [(usize, usize); 6] = [(1, 1), (8, 8), (8, 3), (40, 33), (70, 70), (130, 121)];

#[test]
fn few_rows() {
    for dtype in DTYPES {
        compare(&Product::new(dtype, 768, 100, 1), &FEW_ROWS);
        compare(&Product { columns: 13..90, norm_epsilon: Some(1e-5), ..Product::new(dtype, 300, 100, 1) }, &FEW_ROWS);
        compare(&Product { has_residual: true, ..Product::new(dtype, 833, 36, 1) }, &FEW_ROWS);
    }
}

#[test]
fn few_inputs() {
    // 1,800 rows of so many columns are enough blocks for the kernel of many rows; the last block has one.
    let rows = [(1, 1), (5, 5), (100, 97), (1800, 1793)];
    for (dtype, inputs) in DTYPES.into_iter().flat_map(|dtype| [6, 64, 128].map(|inputs| (dtype, inputs))) {
        let plain = Product::new(dtype, inputs, 264, 1);
        let gated = Product { activation: Activation::SwiGlu, ..Product::new(dtype, inputs, 130, 1) };
        compare(&plain, &rows);
        compare(&Product { columns: 13..250, norm_epsilon: Some(1e-5), has_residual: true, ..plain }, &rows);
        compare(&gated, &rows);
        compare(&Product { columns: 9..129, norm_epsilon: Some(1e-6), has_residual: true, ..gated }, &rows);
    }
}

#[test]
fn gates_meet_their_values() {
    for dtype in DTYPES {
        let gated = Product { activation: Activation::SwiGlu, ..Product::new(dtype, 416, 52, 1) };
        compare(&gated, &FEW_ROWS);
        compare(&Product { columns: 9..51, norm_epsilon: Some(1e-6), ..gated }, &FEW_ROWS);
    }
}

#[test]
fn many_columns_for_few_rows() {
    // Wide enough for blocks of two and three bands, and of two and three pairs of bands.
    for outputs in [1500, 2500, 4400, 6200] {
        compare(&Product::new(Dtype::F32, 160, outputs, 1), &[(5, 5), (20, 11)]);
    }
    for outputs in [1000, 2000, 3000] {
        let gated = Product { activation: Activation::SwiGlu, ..Product::new(Dtype::Bf16, 160, outputs, 1) };
        compare(&gated, &[(3, 3), (20, 11)]);
    }
}

#[test]
fn many_inputs_for_few_rows() {
    // Blocks of a cluster share the links, here in unequal parts; up to three bands or one pair for each cluster.
    for dtype in DTYPES {
        let rows = [(8, 3), (8, 8), (20, 11)];
        compare(&Product { has_residual: true, ..Product::new(dtype, 1632, 540, 1) }, &rows);
        let gated = Product { activation: Activation::SwiGlu, ..Product::new(dtype, 1568, 140, 1) };
        compare(&Product { columns: 9..139, ..gated }, &rows);
    }
}

/// A thread keeps eight steps of a row, and goes through the others once for the largest value and once to cut them.
#[test]
fn few_rows_of_more_inputs_than_threads_keep() {
    for dtype in DTYPES {
        let bare = Product { ends_large: true, ..Product::new(dtype, 2112, 36, 1) };
        let normed = Product { norm_epsilon: Some(1e-5), ends_large: true, ..Product::new(dtype, 1120, 36, 1) };
        compare(&bare, &[(7, 7), (40, 33)]);
        compare(&normed, &[(7, 7), (40, 33)]);
        // Clusters of four, as the test of tile.rs says, want rows in another order.
        if dtype == Dtype::F32 {
            compare(&Product { outputs: 640, columns: 0..640, ..bare }, &[(7, 7), (200, 197)]);
            compare(&Product { outputs: 640, columns: 0..640, ..normed }, &[(200, 197)]);
        }
    }
}

#[test]
fn thousands_of_rows() {
    for dtype in DTYPES {
        // Tiles of 128 rows (176 but for f32) and, for fewer columns, of 96.
        for (outputs, rows) in [(1400, 1500), (760, 1792)] {
            let product = Product { norm_epsilon: Some(1e-5), ..Product::new(dtype, 144, outputs, 1) };
            compare(&product, &[(7, 7), (rows, rows - 37)]);
        }
    }
    // Blocks that do several tiles, of 96 rows.
    for dtype in [Dtype::F32, Dtype::Tf32] {
        compare(&Product { has_residual: true, ..Product::new(dtype, 144, 4200, 1) }, &[(7, 7), (760, 755)]);
    }
    // Parts of several chains, the last shorter than the others, and a link without a neighbour.
    for dtype in [Dtype::Tf32, Dtype::Bf16] {
        compare(
            &Product { has_residual: true, ..Product::new(dtype, 1250, 190, 1) },
            &[(7, 7), (130, 121), (1500, 1490)],
        );
    }
    // Blocks that do several tiles; rows with scales, so that a third tile's follow the first one's.
    let gated = Product { activation: Activation::SwiGlu, ..Product::new(Dtype::Bf16, 160, 1130, 1) };
    compare(&gated, &[(3, 3), (1500, 1499)]);
    compare(&Product { norm_epsilon: Some(1e-5), ..Product::new(Dtype::Tf32, 160, 2260, 1) }, &[(3, 3), (2800, 2799)]);
}

/// The test of tile.rs says which.
#[test]
fn tiles_that_only_some_extents_have() {
    // 176 rows; the parts of f32 wait in shared memory.
    for dtype in [Dtype::F32, Dtype::Tf32] {
        compare(&Product { has_residual: true, ..Product::new(dtype, 144, 5700, 1) }, &[(7, 7), (260, 255)]);
    }
    for dtype in [Dtype::Tf32, Dtype::Bf16] {
        // Parts of several chains in tiles of 128 rows and of 96, the last shorter than the others.
        for (outputs, rows) in [(5700, (204, 201)), (4290, (108, 101))] {
            compare(&Product { has_residual: true, ..Product::new(dtype, 1070, outputs, 1) }, &[(7, 7), rows]);
        }
        // 64 rows by 64 columns, without warpgroups.
        compare(&Product { norm_epsilon: Some(1e-5), ..Product::new(dtype, 144, 3200, 1) }, &[(7, 7), (110, 105)]);
    }
}

#[test]
fn blocks_share_out_the_links_of_many_columns() {
    // Clusters of two, whose parts are unequal; rows that fill no tile.
    for (dtype, inputs, outputs, rows) in
        [(Dtype::F32, 192, 5700, (70, 66)), (Dtype::Tf32, 640, 2690, (100, 98)), (Dtype::Bf16, 640, 2690, (100, 98))]
    {
        let product =
            Product { norm_epsilon: Some(1e-5), has_residual: true, ..Product::new(dtype, inputs, outputs, 1) };
        compare(&product, &[(7, 7), rows]);
    }
    // Clusters of four, with a gate and columns that begin and end within a band, and a stage of the ring used twice.
    let gated = Product { activation: Activation::SwiGlu, ..Product::new(Dtype::F32, 830, 1150, 1) };
    compare(&Product { columns: 9..1141, ..gated }, &[(7, 7), (40, 33)]);
    // Clusters of four, each of whose blocks has rows to finish.
    for dtype in DTYPES {
        compare(&Product { has_residual: true, ..Product::new(dtype, 512, 640, 1) }, &[(200, 197)]);
    }
}

#[test]
fn rows_cut_for_the_next_product_have_the_same_digits() {
    for dtype in DTYPES {
        // Rings whose last rows hang over and rings whose links four and two blocks share, as the tests of tile.rs say, and
        // rows that weights stream past.
        for (capacity, live, inputs, hidden, outputs) in [
            (200, 197, 144, 2112, 640),
            (130, 123, 144, 2848, 640),
            (60, 47, 512, 2112, 2144),
            (70, 66, 640, 2144, 2144),
            (8, 8, 144, 2112, 72),
            (6, 5, 144, 2112, 72),
            (1, 1, 144, 2112, 72),
        ] {
            let gated = Product { activation: Activation::SwiGlu, ..Product::new(dtype, inputs, hidden, capacity) };
            let gated = Product { norm_epsilon: Some(1e-5), ..gated };
            let next = Product::new(dtype, hidden, outputs, capacity);
            for device in devices() {
                let [cut, read] = [false, true].map(|keeps| run_pair(&device, [&gated, &next], live, keeps));
                assert!(cut.iter().all(|value| value.is_finite()));
                assert_eq!(bits(&cut), bits(&read), "{dtype}, {live} rows");
            }
        }
    }
}

#[test]
fn sizes_at_the_ends_of_f32() {
    for dtype in [Dtype::F32, Dtype::Tf32] {
        for size in [1e-30, 1e30] {
            compare(&Product { size, ..Product::new(dtype, 320, 24, 1) }, &[(4, 4), (20, 20)]);
            let normed = Product { size, norm_epsilon: Some(0.0), ..Product::new(dtype, 320, 24, 1) };
            compare(&normed, &[(4, 4), (20, 20)]);
        }
    }
    // Without powers of two for rows, sums times 2^12, which weights have, must be within f32.
    for size in [1e-30, 1e28] {
        compare(&Product { size, ..Product::new(Dtype::Bf16, 320, 24, 1) }, &[(4, 4), (20, 20)]);
    }
}

/// f32 has to hold the squares that a norm of bf16 sums as well.
#[test]
fn squares_beyond_f32_are_no_zeros_in_bf16() {
    let normed =
        |size, capacity| Product { size, norm_epsilon: Some(0.0), ..Product::new(Dtype::Bf16, 320, 24, capacity) };
    for size in [1e-14, 1e14] {
        compare(&normed(size, 1), &[(4, 4), (20, 20)]);
    }
    for rows in [4, 20] {
        for device in devices() {
            let results = normed(1e30, rows).run(&device, rows);
            assert!(results.iter().all(|result| !result.is_finite()), "{rows} rows: {results:?}");
        }
    }
}

/// Every candidate runs on the plan's memory before the plan does: nothing of that may be left.
#[test]
fn measured_choices_change_no_digit() {
    for dtype in DTYPES {
        let product = Product { norm_epsilon: Some(1e-5), has_residual: true, ..Product::new(dtype, 160, 100, 40) };
        for device in devices() {
            let plain = product.run(&device, 33);
            let measured = product.run(&device.with_measured_choices(true), 33);
            assert_eq!(bits(&plain), bits(&measured), "{dtype}");
        }
    }
}

#[test]
fn exact_products_have_the_digits_of_the_cpu() {
    let product = Product { norm_epsilon: Some(1e-5), ..Product::new(Dtype::F32, 320, 48, 20) };
    let cpu = product.run(&nowcast_engine::cpu::CpuDevice::new(Some(1)), 20);
    for device in devices() {
        if nowcast_engine::cpu::detect::InstructionSet::detected().is_fused() {
            let exact = product.run(&device.with_exact_sums(true), 20);
            assert_eq!(bits(&cpu), bits(&exact));
        }
    }
}
