//! The packed linear layer against a plain loop in `f64`, and against itself in other company.

use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cpu::linear::{Addend, GateHalf, Layout, LinearCall, Operand, PackedLinear, Shape, depth_block};
use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::dtype::Dtype;
use proptest::prelude::*;
use std::ops::Range;

/// What the CPU multiplies in.
const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::Bf16, Dtype::Int8];

/// Half a unit in the last place of 1: the relative error of one rounding.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// Reproducible values in -1..1.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(next).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Nothing,
    Output,
    Rows,
}

#[derive(Clone, Debug)]
struct Case {
    dtype: Dtype,
    layout: Layout,
    outputs: usize,
    inputs: usize,
    rows: usize,
    columns: Range<usize>,
    padding: usize,
    bias: bool,
    norm: bool,
    addend: Kind,
}

impl Case {
    fn new(outputs: usize, inputs: usize, rows: usize) -> Self {
        let columns = 0..outputs;
        let (layout, padding, bias, norm, addend) = (Layout::Plain, 0, false, false, Kind::Nothing);
        Self { dtype: Dtype::F32, layout, outputs, inputs, rows, columns, padding, bias, norm, addend }
    }

    fn shape(&self) -> Shape {
        Shape { layout: self.layout, outputs: self.outputs, inputs: self.inputs, dtype: self.dtype }
    }

    fn weight_rows(&self) -> usize {
        if self.layout == Layout::Plain { self.outputs } else { 2 * self.outputs }
    }

    fn weights(&self) -> Vec<f32> {
        noise(1, self.weight_rows() * self.inputs)
    }

    fn bias(&self) -> Option<Vec<f32>> {
        self.bias.then(|| noise(2, self.weight_rows()))
    }

    /// Whether a set keeps the weights as f16.
    fn is_half(&self, set: InstructionSet) -> bool {
        self.dtype == Dtype::Bf16 && set.name() == "avx512fp16"
    }

    /// The layer as a set wants it.
    fn linear(&self, set: InstructionSet, pool: &ThreadPool) -> PackedLinear {
        let weights = self.weights();
        let row =
            |row: usize, values: &mut [f32]| values.copy_from_slice(&weights[row * values.len()..][..values.len()]);
        PackedLinear::pack_for(set, self.shape(), row, self.bias().as_deref(), pool)
    }

    /// The input, with NaN wherever it must not be read.
    fn input(&self) -> Vec<f32> {
        let stride = self.inputs + self.padding;
        let mut input = noise(3, self.rows * stride);
        for row in input.chunks_mut(stride) {
            row[self.inputs..].fill(f32::NAN);
        }
        input
    }

    /// From one row of output and addend to the next; a row of no columns still has a place.
    fn stride(&self) -> usize {
        (self.columns.len() + self.padding).max(1)
    }

    /// One row for each row of the output: the same value for the same column, whatever the range of columns.
    fn addend(&self) -> Vec<f32> {
        let all = noise(4, self.rows * self.outputs);
        let mut rows = Vec::new();
        for row in all.chunks(self.outputs) {
            rows.extend_from_slice(&row[self.columns.clone()]);
            rows.resize(rows.len() + self.stride() - self.columns.len(), f32::NAN);
        }
        rows
    }

    /// Applies the layer, checks that nothing but the result was written, and returns it as `[rows, columns]`.
    fn apply(&self, linear: &PackedLinear, set: InstructionSet, pool: &ThreadPool) -> Vec<f32> {
        const SENTINEL: f32 = 12_345.678;
        let width = self.columns.len();
        let stride = self.stride();
        let (input, addend) = (self.input(), self.addend());
        let mut output = vec![SENTINEL; self.rows * stride];
        for (output, addend) in output.chunks_mut(stride).zip(addend.chunks(stride)) {
            match self.addend {
                Kind::Output => output[..width].copy_from_slice(&addend[..width]),
                _ => output[..width].fill(f32::NAN),
            }
        }
        let call = LinearCall {
            input: &input,
            input_stride: self.inputs + self.padding,
            rows: self.rows,
            columns: self.columns.clone(),
            output: &mut output,
            output_stride: stride,
            norm_epsilon: self.norm.then_some(1e-5),
            addend: match self.addend {
                Kind::Nothing => Addend::Nothing,
                Kind::Output => Addend::Output,
                Kind::Rows => Addend::Rows { values: &addend, stride },
            },
        };
        linear.apply_with(set, call, &mut Operand::default(), pool);
        let mut result = Vec::new();
        for row in output.chunks(stride) {
            for (column, value) in row.iter().enumerate() {
                assert!(column < width || *value == SENTINEL, "column {column} was touched");
            }
            result.extend_from_slice(&row[..width]);
        }
        result
    }

    /// The result in `f64` and a bound on the error of `f32`.
    ///
    /// Operands are rounded as the dtype asks, and multiplied exactly. A sum of n products rounded at every step is off
    /// by at most n roundings of the sum of their magnitudes (two per product where the product is rounded as well);
    /// sums of integers are exact, and rounded once. The epilogue adds one rounding for each of its few operations. In f16
    /// each sum of a chain of 64, and that of two chains, is off by 2^-11, or by half of the smallest number, 2^-24.
    fn twin(&self, half: bool) -> Vec<(f64, f64)> {
        let (bias, input, addend) = (self.bias(), self.input(), self.addend());
        let stride = self.inputs + self.padding;
        let weights: Vec<Vec<f64>> =
            self.weights().chunks(self.inputs).map(|weights| numbers(weights, self.dtype, half.then_some(4))).collect();
        let roundings = match self.dtype {
            Dtype::Int8 => 6.0,
            Dtype::Bf16 if half => 65.0 * 2f64.powi(24 - 11) * 1.04 + (self.inputs / 256) as f64 + 8.0,
            _ => 2.0 * (depth_block(self.inputs) + self.inputs / depth_block(self.inputs)) as f64 + 4.0,
        };
        let mut results = Vec::new();
        for row in 0..self.rows {
            let x = &input[row * stride..][..self.inputs];
            let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / self.inputs as f64;
            let scale = if self.norm { 1.0 / (mean + f64::from(1e-5f32)).sqrt() } else { 1.0 };
            let x = numbers(x, self.dtype, half.then_some(4));
            // Values are below 1: a unit of f16's smallest number is at most 2^-24 * 2^-4 * 2^-4.
            let smallest = if half { self.inputs as f64 * 2f64.powi(-25 - 8) * scale } else { 0.0 };
            let dot = |index: usize| {
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for (x, weight) in x.iter().zip(&weights[index]) {
                    sum += x * weight * scale;
                    magnitude += (x * weight * scale).abs();
                }
                let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[index]));
                (sum + bias, ROUNDING * roundings * (magnitude + bias.abs()) + smallest)
            };
            for column in self.columns.clone() {
                let (mut value, mut error) = match self.layout {
                    Layout::Plain => dot(column),
                    Layout::Gated(half) => {
                        let (first, second) = (dot(column), dot(self.outputs + column));
                        let (gate, value) = if half == GateHalf::First { (first, second) } else { (second, first) };
                        let silu = gate.0 / (1.0 + (-gate.0).exp());
                        // The slope of silu is below 1.1; its own error is 4 units, 8 roundings.
                        let error = (1.1 * gate.1 + 8.0 * ROUNDING * silu.abs()) * (value.0.abs() + value.1)
                            + silu.abs() * value.1;
                        (silu * value.0, error + ROUNDING * (silu * value.0).abs())
                    }
                };
                if self.addend != Kind::Nothing {
                    value += f64::from(addend[row * self.stride() + column - self.columns.start]);
                    error += ROUNDING * value.abs();
                }
                results.push((value, error * 1.01));
            }
        }
        results
    }

    fn check(&self, pool: &ThreadPool) {
        let mut twins = [None, None];
        let mut fused: [Option<(InstructionSet, Vec<f32>)>; 2] = [None, None];
        for set in InstructionSet::supported() {
            let half = self.is_half(set);
            let linear = self.linear(set, pool);
            let result = self.apply(&linear, set, pool);
            let twin = &*twins[usize::from(half)].get_or_insert_with(|| self.twin(half));
            for (index, (result, (exact, bound))) in result.iter().zip(twin).enumerate() {
                let error = (f64::from(*result) - exact).abs();
                assert!(error <= *bound, "{}: {self:?}, {index}: {result} for {exact}, bound {bound:e}", set.name());
            }
            // Products of bf16 and of integers are exact, fused or not; the gate's exponential is not.
            let exact = self.dtype != Dtype::F32 && self.layout == Layout::Plain;
            if set.is_fused() || exact {
                let (first, expected) = fused[usize::from(half)].get_or_insert_with(|| (set, result.clone()));
                assert!(bits(&result) == bits(expected), "{} differs from {}: {self:?}", set.name(), first.name());
            }
            if half && self.layout == Layout::Plain {
                let plain = self.apply(&linear, InstructionSet::PORTABLE, pool);
                assert!(bits(&result) == bits(&plain), "{} differs from plain f16: {self:?}", set.name());
            }
        }
    }
}

/// What a dtype makes of a row of weights or of inputs, plainly; in f16 scaled to below 2 to a power where that is given.
fn numbers(values: &[f32], dtype: Dtype, half: Option<i32>) -> Vec<f64> {
    let magnitude = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    if let Some(power) = half {
        let unit = 2f32.powi(magnitude.log2().floor() as i32 + 1 - power);
        return values.iter().map(|value| half::f16::from_f32(value / unit).to_f64() * f64::from(unit)).collect();
    }
    let unit = f64::from(magnitude / 127.0);
    let value = |value: &f32| match dtype {
        Dtype::F32 | Dtype::Tf32 => f64::from(*value),
        Dtype::Bf16 => half::bf16::from_f32(*value).to_f64(),
        Dtype::Int8 => f64::from((value * (127.0 / magnitude)).round_ties_even()) * unit,
    };
    values.iter().map(value).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn shapes_of_the_models_match_the_twin() {
    let pool = ThreadPool::new(2);
    for dtype in DTYPES {
        for (outputs, inputs, rows) in [(96, 64, 8), (97, 768, 9), (33, 3072, 3), (144, 257, 17), (40, 770, 50)] {
            Case { dtype, ..Case::new(outputs, inputs, rows) }.check(&pool);
        }
    }
}

#[test]
fn tiny_shapes_match_the_twin() {
    let pool = ThreadPool::new(2);
    for dtype in DTYPES {
        for (outputs, inputs, rows) in [(1, 1, 1), (60, 12, 5), (33, 3, 2)] {
            Case { dtype, norm: true, addend: Kind::Output, ..Case::new(outputs, inputs, rows) }.check(&pool);
        }
    }
}

#[test]
fn everything_at_once_matches_the_twin() {
    let pool = ThreadPool::new(3);
    for layout in [Layout::Plain, Layout::Gated(GateHalf::First), Layout::Gated(GateHalf::Second)] {
        for addend in [Kind::Nothing, Kind::Output, Kind::Rows] {
            let case =
                Case { layout, columns: 7..61, padding: 5, bias: true, norm: true, addend, ..Case::new(70, 300, 11) };
            for dtype in DTYPES {
                Case { dtype, ..case.clone() }.check(&pool);
            }
        }
    }
}

#[test]
fn the_digits_of_a_row_do_not_depend_on_its_company() {
    let (one, many) = (ThreadPool::new(1), ThreadPool::new(3));
    for dtype in DTYPES {
        for layout in [Layout::Plain, Layout::Gated(GateHalf::First)] {
            for set in InstructionSet::supported() {
                let all = Case { dtype, layout, bias: true, norm: true, addend: Kind::Rows, ..Case::new(75, 700, 300) };
                let linear = all.linear(set, &many);
                let expected = all.apply(&linear, set, &one);
                for rows in [1, 2, 3, 8, 9, 32, 256, 300] {
                    for columns in [0..75, 33..34, 16..75, 5..70] {
                        for pool in [&one, &many] {
                            let case = Case { rows, columns: columns.clone(), ..all.clone() };
                            let result = case.apply(&linear, set, pool);
                            for (result, expected) in result.chunks(columns.len()).zip(expected.chunks(75)) {
                                let expected = &expected[columns.clone()];
                                let same = bits(result) == bits(expected);
                                assert!(same, "{dtype} {} {rows} rows, columns {columns:?}", set.name());
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_digits_of_a_row_are_the_same_among_thousands() {
    let pool = ThreadPool::new(2);
    for dtype in DTYPES {
        for set in InstructionSet::supported() {
            let all = Case { dtype, norm: true, ..Case::new(33, 520, 2048) };
            let linear = all.linear(set, &pool);
            let expected = all.apply(&linear, set, &pool);
            for rows in [1, 8, 32, 256] {
                let result = Case { rows, ..all.clone() }.apply(&linear, set, &pool);
                assert!(bits(&result) == bits(&expected[..result.len()]), "{dtype} {} {rows} rows", set.name());
            }
        }
    }
}

#[test]
fn bf16_where_it_is_kept_is_the_f32_product_of_rounded_operands() {
    let pool = ThreadPool::new(2);
    for (layout, rows) in [(Layout::Plain, 3), (Layout::Plain, 60), (Layout::Gated(GateHalf::First), 20)] {
        let case = Case { dtype: Dtype::Bf16, layout, bias: true, ..Case::new(70, 259, rows) };
        let round = |value: &f32| half::bf16::from_f32(*value).to_f32();
        let weights: Vec<f32> = case.weights().iter().map(round).collect();
        let row =
            |row: usize, values: &mut [f32]| values.copy_from_slice(&weights[row * values.len()..][..values.len()]);
        let shape = Shape { dtype: Dtype::F32, ..case.shape() };
        let twin = PackedLinear::pack(shape, row, case.bias().as_deref(), &pool);
        let input: Vec<f32> = case.input().iter().map(round).collect();
        let linear = case.linear(InstructionSet::PORTABLE, &pool);
        for set in InstructionSet::supported() {
            let mut expected = vec![0.0; rows * case.outputs];
            let call = LinearCall {
                input: &input,
                input_stride: case.inputs,
                rows,
                columns: 0..case.outputs,
                output: &mut expected,
                output_stride: case.outputs,
                norm_epsilon: None,
                addend: Addend::Nothing,
            };
            twin.apply_with(set, call, &mut Operand::default(), &pool);
            assert_eq!(bits(&case.apply(&linear, set, &pool)), bits(&expected), "{}", set.name());
        }
    }
}

/// The instruction for pairs of bf16 takes subnormal sums for zero; what widened products keep of them is below 2^-126 at
/// each step. Operands that are subnormal are zero for both.
#[test]
fn bf16_of_the_smallest_numbers_differs_by_less_than_the_smallest_normal_number_a_step() {
    let pool = ThreadPool::new(2);
    let (outputs, inputs, rows) = (40, 130, 9);
    // Products from 2^-160 to 2^-120: some vanish, some are subnormal, some are not.
    let scale = |index: usize| 2f32.powi(-60 - (index % 21) as i32);
    let weights: Vec<f32> = noise(1, outputs * inputs).iter().enumerate().map(|(i, v)| v * scale(i)).collect();
    let input: Vec<f32> = noise(2, rows * inputs).iter().enumerate().map(|(i, v)| v * scale(i)).collect();
    let shape = Shape { layout: Layout::Plain, outputs, inputs, dtype: Dtype::Bf16 };
    let row = |row: usize, values: &mut [f32]| values.copy_from_slice(&weights[row * inputs..][..inputs]);
    let linear = PackedLinear::pack_for(InstructionSet::PORTABLE, shape, row, None, &pool);
    let results: Vec<Vec<f32>> = InstructionSet::supported()
        .map(|set| {
            let mut output = vec![f32::NAN; rows * outputs];
            let call = LinearCall {
                input: &input,
                input_stride: inputs,
                rows,
                columns: 0..outputs,
                output: &mut output,
                output_stride: outputs,
                norm_epsilon: None,
                addend: Addend::Nothing,
            };
            linear.apply_with(set, call, &mut Operand::default(), &pool);
            output
        })
        .collect();
    // A product, the sum it joins and the sum of its chain may each lose less than the smallest normal number, and each
    // sum is rounded on either side: in units of the last place, which here is that of subnormals or of 2^-116.
    let steps = (inputs + inputs.div_ceil(depth_block(inputs))) as f32;
    let bound = steps * (f32::MIN_POSITIVE + 2.0 * 2f32.powi(-116 - 24));
    for result in &results {
        for (index, (value, expected)) in result.iter().zip(&results[0]).enumerate() {
            assert!((value - expected).abs() <= bound, "{index}: {value:e} for {expected:e}");
        }
    }
    assert!(results[0].iter().any(|value| value.is_subnormal()), "the case has subnormals");
}

#[test]
fn what_is_no_number_stays_none() {
    let pool = ThreadPool::new(1);
    for (dtype, set) in DTYPES.into_iter().flat_map(|dtype| InstructionSet::supported().map(move |set| (dtype, set))) {
        for bad in [f32::NAN, f32::INFINITY] {
            let case = Case { dtype, ..Case::new(5, 300, 1) };
            let mut input = case.input();
            input[77] = bad;
            let mut output = vec![0.0; 5];
            let call = LinearCall {
                input: &input,
                input_stride: 300,
                rows: 1,
                columns: 0..5,
                output: &mut output,
                output_stride: 5,
                norm_epsilon: None,
                addend: Addend::Nothing,
            };
            case.linear(set, &pool).apply_with(set, call, &mut Operand::default(), &pool);
            assert!(output.iter().all(|value| !value.is_finite()), "{dtype} {} {bad}: {output:?}", set.name());
        }
    }
}

#[test]
fn the_place_of_a_row_does_not_matter() {
    let pool = ThreadPool::new(2);
    let case = Case { norm: true, ..Case::new(40, 520, 1) };
    let row = case.input();
    for set in InstructionSet::supported() {
        let linear = case.linear(set, &pool);
        let expected = case.apply(&linear, set, &pool);
        for rows in [7, 8, 9, 130] {
            let input = row.repeat(rows);
            let mut output = vec![0.0; rows * 40];
            let call = LinearCall {
                input: &input,
                input_stride: 520,
                rows,
                columns: 0..40,
                output: &mut output,
                output_stride: 40,
                norm_epsilon: Some(1e-5),
                addend: Addend::Nothing,
            };
            linear.apply_with(set, call, &mut Operand::default(), &pool);
            assert!(output.chunks(40).all(|result| bits(result) == bits(&expected)), "{} {rows} rows", set.name());
        }
    }
}

#[test]
#[should_panic(expected = "do not fit")]
fn a_short_output_is_refused() {
    let pool = ThreadPool::new(1);
    let case = Case::new(40, 20, 2);
    let mut output = vec![0.0; 79];
    let call = LinearCall {
        input: &case.input(),
        input_stride: 20,
        rows: 2,
        columns: 0..40,
        output: &mut output,
        output_stride: 40,
        norm_epsilon: None,
        addend: Addend::Nothing,
    };
    case.linear(InstructionSet::PORTABLE, &pool).apply(call, &mut Operand::default(), &pool);
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    prop_oneof![Just(Dtype::F32), Just(Dtype::Bf16), Just(Dtype::Int8)]
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Plain), Just(Layout::Gated(GateHalf::First)), Just(Layout::Gated(GateHalf::Second))]
}

fn cases() -> impl Strategy<Value = Case> {
    let addends = prop_oneof![Just(Kind::Nothing), Just(Kind::Output), Just(Kind::Rows)];
    (
        dtypes(),
        layouts(),
        1..100usize,
        1..600usize,
        0..20usize,
        0..9usize,
        any::<(bool, bool)>(),
        addends,
        any::<(u8, u8)>(),
    )
        .prop_map(|(dtype, layout, outputs, inputs, rows, padding, (bias, norm), addend, (start, length))| {
            let start = usize::from(start) % outputs;
            let columns = start..start + usize::from(length) % (outputs - start + 1);
            Case { dtype, layout, outputs, inputs, rows, columns, padding, bias, norm, addend }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_shape_matches_the_twin(case in cases(), threads in 1..4usize) {
        case.check(&ThreadPool::new(threads));
    }
}
