//! Products on tensor cores against sums in f64, and against themselves in other company.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;

use std::ops::Range;
use std::sync::Arc;

use devices::devices;
use nowcast_engine::device::{Device, Launch};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::{Element, PlanBuilder, Section};
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::{Activation, LinearSource, WeightList};

/// Up to so many, operands are not rounded.
const MOST_NARROW_INPUTS: usize = 128;

/// A product with everything that can be fused to it.
#[derive(Clone)]
struct Product {
    dtype: Dtype,
    inputs: usize,
    outputs: usize,
    activation: Activation,
    columns: Range<usize>,
    norm_epsilon: Option<f32>,
    has_residual: bool,
    /// Rows of the plan, of which fewer may be live.
    capacity: usize,
    /// All values are multiplied by it.
    size: f32,
}

impl Product {
    fn new(dtype: Dtype, inputs: usize, outputs: usize, capacity: usize) -> Self {
        let (activation, columns) = (Activation::None, 0..outputs);
        Self {
            dtype,
            inputs,
            outputs,
            activation,
            columns,
            norm_epsilon: None,
            has_residual: false,
            capacity,
            size: 1.0,
        }
    }

    fn weight_rows(&self) -> usize {
        if self.activation == Activation::SwiGlu { 2 * self.outputs } else { self.outputs }
    }

    /// Rows differ a thousandfold in size, and so do the values of one.
    fn value(&self, row: usize, input: usize) -> f32 {
        let size = [1.0, 300.0, 0.01, 7.0][row % 4] * if input.is_multiple_of(5) { 30.0 } else { 1.0 };
        scattered(row * self.inputs + input, 1) * size * self.size
    }

    fn weight(&self, row: usize, input: usize) -> f32 {
        let size = [1.0, 1e-3, 40.0][row % 3] / (self.inputs as f32).sqrt();
        scattered(row * self.inputs + input, 2) * size
    }

    fn bias(row: usize) -> f32 {
        scattered(row, 3)
    }

    fn residual(&self, row: usize, column: usize) -> f32 {
        scattered(row * self.columns.len() + column, 4)
    }

    fn weights(&self) -> LinearSource<'static> {
        let (rows, inputs, product) = (self.weight_rows(), self.inputs, self.clone());
        LinearSource {
            rows,
            inputs,
            bias: Some((0..rows).map(Self::bias).collect()),
            activation: self.activation,
            dtype: self.dtype,
            open: Box::new(move || {
                Box::new(move |row, out| {
                    out.iter_mut().enumerate().for_each(|(input, weight)| *weight = product.weight(row, input));
                })
            }),
            packed: Box::new(|| ()),
        }
    }

    fn run(&self, device: &dyn Device, live: usize) -> Vec<f64> {
        let mut list = WeightList::default();
        let inputs = self.inputs;
        let weight = list.linear(self.weights());
        let extent = |batch| Live { batch, context: 1, samples: 1 };
        let mut plan = PlanBuilder::new(extent(self.capacity), true);
        let input = plan.input(Element::F32, Rows::batch(), inputs);
        let residual = self.has_residual.then(|| plan.input(Element::F32, Rows::batch(), self.columns.len()));
        let output = plan.tensor(Rows::batch(), self.columns.len());
        let (columns, norm_epsilon) = (self.columns.clone(), self.norm_epsilon);
        plan.push(Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual }));
        plan.keep(output);
        let mut executable = device.load(list).unwrap().prepare(Arc::new(plan.finish().unwrap())).unwrap();
        let all = |width: usize, value: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
            (0..live * width).map(|place| value(place / width, place % width)).collect()
        };
        executable.write(input, &all(inputs, &|row, input| self.value(row, input)));
        if let Some(residual) = residual {
            executable.write(residual, &all(self.columns.len(), &|row, column| self.residual(row, column)));
        }
        let token_sampling = TokenSampling::default();
        let launch = Launch { live: extent(live), seed: 0, first_sample: 0, token_sampling };
        executable.run(Section::Prefill, &launch).unwrap();
        executable.run(Section::Decode, &launch).unwrap();
        let mut results = vec![f64::NAN; live * self.columns.len()];
        executable.read(output, &mut results);
        results
    }

    /// The sum of a row and a weight row in f64, with bias, and by how much the device may miss it.
    fn truth(&self, row: usize, weight_row: usize) -> (f64, f64) {
        let values = || (0..self.inputs).map(|input| f64::from(self.value(row, input)));
        let (mut sum, mut sizes) = (0.0, 0.0);
        for (input, value) in values().enumerate() {
            let product = value * f64::from(self.weight(weight_row, input));
            sum += product;
            sizes += product.abs();
        }
        let scale = self.norm_epsilon.map_or(1.0, |epsilon| {
            let mean_square = values().map(|value| value * value).sum::<f64>() / self.inputs as f64;
            1.0 / (mean_square + f64::from(epsilon)).sqrt()
        });
        let bias = f64::from(Self::bias(weight_row));
        // The norm, two scales and the bias.
        let last = ((sum * scale).abs() + bias.abs()) * 6.0 * 2f64.powi(-24);
        if self.inputs <= MOST_NARROW_INPUTS {
            // One chain, which rounds once for every input and no operand before.
            let rounding = if self.dtype == Dtype::F32 { 2f64.powi(-53) } else { 2f64.powi(-24) };
            return (sum * scale + bias, sizes * scale * self.inputs as f64 * rounding * 1.01 + last);
        }
        // Two roundings of operands; f32 also drops the product of what both leave.
        let (operands, rounds) = match self.dtype {
            Dtype::F32 => (3.0 * 2f64.powi(-22), 6.0),
            Dtype::Tf32 => (2.0 * 2f64.powi(-11), 2.0),
            _ => (2.0 * 2f64.powi(-9), 2.0),
        };
        let links = self.inputs.div_ceil(32);
        // Links of a chain and of the largest part.
        let (chain, part) = match self.dtype {
            Dtype::F32 => (1, links.div_ceil(4)),
            _ => (8, links.div_ceil(8) * 2),
        };
        // A chain rounds towards zero in every round, a part once for every chain, the whole once for every part.
        let sums = rounds * chain.min(part) as f64 * 2f64.powi(-23)
            + (part.div_ceil(chain) as f64 + 1.0 + 4.0) * 2f64.powi(-24);
        (sum * scale + bias, sizes * scale * (operands * 1.01 + sums) + last)
    }

    /// Compares the first, some and the last rows and columns with their sums in f64; returns the largest part of what
    /// is allowed.
    fn check(&self, name: &str, results: &[f64], live: usize) -> f64 {
        let mut worst = 0.0f64;
        let some =
            |count: usize, start: usize| (0..count).filter(move |at| *at < 9 || at % 7 == start % 7 || at + 2 > count);
        for row in some(live, live) {
            for (place, column) in self
                .columns
                .clone()
                .enumerate()
                .filter(|(place, _)| some(self.columns.len(), row).any(|at| at == *place))
            {
                let (expected, allowed) = match self.activation {
                    Activation::None => self.truth(row, column),
                    Activation::SwiGlu => {
                        let (gate, gate_error) = self.truth(row, column);
                        let (value, value_error) = self.truth(row, self.outputs + column);
                        let unit = gate / (1.0 + (-gate).exp());
                        // The gate's slope is at most 1.1; exponential, sum, quotient and product round once each, the
                        // short ones of tf32 and bf16 within what is allowed for their operands.
                        let product = gate_error * 1.1 * value.abs() + unit.abs() * value_error;
                        (unit * value, product + gate_error * value_error + (unit * value).abs() * 8.0 * 2f64.powi(-24))
                    }
                };
                let residual = if self.has_residual { f64::from(self.residual(row, place)) } else { 0.0 };
                let (expected, allowed) = (
                    expected + residual,
                    allowed + (expected + residual).abs() * 2f64.powi(-24) + f64::from(f32::MIN_POSITIVE),
                );
                let found = results[row * self.columns.len() + place];
                let error = (found - expected).abs();
                assert!(
                    error <= allowed,
                    "{name}: {found} instead of {expected} at {row}, {column}: {error} > {allowed}"
                );
                worst = worst.max(error / allowed);
            }
        }
        worst
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

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::Tf32, Dtype::Bf16];

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

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

#[test]
fn thousands_of_rows() {
    for dtype in DTYPES {
        // Tiles of 128 rows and, for fewer columns, of 96.
        for (outputs, rows) in [(1400, 1500), (760, 1792)] {
            let product = Product { norm_epsilon: Some(1e-5), ..Product::new(dtype, 144, outputs, 1) };
            compare(&product, &[(7, 7), (rows, rows - 37)]);
        }
    }
    // Tiles of 176 rows; the parts of f32 wait in shared memory.
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

/// A gated product and the one behind it, which may cut its rows while nobody else reads them.
fn run_pair(device: &dyn Device, products: [&Product; 2], live: usize, keeps_rows: bool) -> Vec<f64> {
    let [first, second] = products;
    let mut list = WeightList::default();
    let weights = products.map(|product| list.linear(product.weights()));
    let extent = |batch| Live { batch, context: 1, samples: 1 };
    let mut plan = PlanBuilder::new(extent(first.capacity), true);
    let input = plan.input(Element::F32, Rows::batch(), first.inputs);
    let between = plan.tensor(Rows::batch(), second.inputs);
    let output = plan.tensor(Rows::batch(), second.outputs);
    for (product, weight, input, output) in [(first, weights[0], input, between), (second, weights[1], between, output)]
    {
        let (columns, norm_epsilon) = (product.columns.clone(), product.norm_epsilon);
        plan.push(Operation::Linear(operation::Linear {
            weight,
            input,
            columns,
            output,
            norm_epsilon,
            residual: None,
        }));
    }
    plan.keep(output);
    if keeps_rows {
        plan.keep(between);
    }
    let mut executable = device.load(list).unwrap().prepare(Arc::new(plan.finish().unwrap())).unwrap();
    let values: Vec<f32> =
        (0..live * first.inputs).map(|place| first.value(place / first.inputs, place % first.inputs)).collect();
    executable.write(input, &values);
    let launch = Launch { live: extent(live), seed: 0, first_sample: 0, token_sampling: TokenSampling::default() };
    executable.run(Section::Prefill, &launch).unwrap();
    executable.run(Section::Decode, &launch).unwrap();
    let mut results = vec![f64::NAN; live * second.outputs];
    executable.read(output, &mut results);
    results
}

#[test]
fn rows_cut_for_the_next_product_have_the_same_digits() {
    for dtype in [Dtype::Bf16, Dtype::Tf32] {
        // A ring whose last rows hang over and rings whose links four and two blocks share, as the test of tile.rs says, and
        // rows that weights stream past.
        for (capacity, live, inputs, hidden, outputs) in [
            (200, 197, 144, 2112, 640),
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
