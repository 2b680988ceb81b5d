//! A product with everything that can be fused to it, on a device and in f64.

use std::ops::Range;

use nowcast_engine::device::{Device, Executable};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::{Element, PlanBuilder, Tensor};
use nowcast_engine::weights::{Activation, LinearSource, WeightList};

use crate::numbers::scattered;
use crate::passes;

/// Up to so many, operands are not rounded.
const MOST_NARROW_INPUTS: usize = 128;

/// A product with everything that can be fused to it.
#[derive(Clone)]
pub(crate) struct Product {
    pub(crate) dtype: Dtype,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) activation: Activation,
    pub(crate) columns: Range<usize>,
    pub(crate) norm_epsilon: Option<f32>,
    pub(crate) has_residual: bool,
    /// Rows of the plan, of which fewer may be live.
    pub(crate) capacity: usize,
    /// All values are multiplied by it.
    pub(crate) size: f32,
    /// Whether the last inputs of a row are its largest.
    pub(crate) ends_large: bool,
}

impl Product {
    pub(crate) fn new(dtype: Dtype, inputs: usize, outputs: usize, capacity: usize) -> Self {
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
            ends_large: false,
        }
    }

    pub(crate) fn weight_rows(&self) -> usize {
        if self.activation == Activation::SwiGlu { 2 * self.outputs } else { self.outputs }
    }

    /// Rows differ a thousandfold in size, and so do the values of one.
    fn value(&self, row: usize, input: usize) -> f32 {
        let size = [1.0, 300.0, 0.01, 7.0][row % 4] * if input.is_multiple_of(5) { 30.0 } else { 1.0 };
        let size = if self.ends_large && input + 6 > self.inputs { 100.0 * size } else { size };
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

    pub(crate) fn run(&self, device: &dyn Device, live: usize) -> Vec<f64> {
        self.prepare(device).run(self, live)
    }

    /// A plan with nothing else.
    pub(crate) fn prepare(&self, device: &dyn Device) -> Prepared {
        let mut list = WeightList::default();
        let weight = list.linear(self.weights());
        let mut plan = PlanBuilder::new(extent(self.capacity), true);
        let input = plan.input(Element::F32, Rows::batch(), self.inputs);
        let residual = self.has_residual.then(|| plan.input(Element::F32, Rows::batch(), self.columns.len()));
        let output = plan.tensor(Rows::batch(), self.columns.len());
        let (columns, norm_epsilon) = (self.columns.clone(), self.norm_epsilon);
        plan.push(Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual }));
        plan.keep(output);
        Prepared { executable: passes::prepare(device, list, plan), input, residual, output }
    }

    /// The sum of a row's values and a weight row in f64, with bias, and by how much the device may miss it.
    fn truth(&self, values: &[f64], weight_row: usize) -> (f64, f64) {
        let (mut sum, mut sizes) = (0.0, 0.0);
        for (input, value) in values.iter().enumerate() {
            let product = value * f64::from(self.weight(weight_row, input));
            sum += product;
            sizes += product.abs();
        }
        let scale = self.norm_epsilon.map_or(1.0, |epsilon| {
            let mean_square = values.iter().map(|value| value * value).sum::<f64>() / self.inputs as f64;
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
    pub(crate) fn check(&self, name: &str, results: &[f64], live: usize) -> f64 {
        let mut worst = 0.0f64;
        let some =
            |count: usize, start: usize| (0..count).filter(move |at| *at < 9 || at % 7 == start % 7 || at + 2 > count);
        for row in some(live, live) {
            let values: Vec<f64> = (0..self.inputs).map(|input| f64::from(self.value(row, input))).collect();
            for place in some(self.columns.len(), row) {
                let column = self.columns.start + place;
                let (expected, allowed) = match self.activation {
                    Activation::None => self.truth(&values, column),
                    Activation::SwiGlu => {
                        let (gate, gate_error) = self.truth(&values, column);
                        let (value, value_error) = self.truth(&values, self.outputs + column);
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

/// A plan with one product on a device.
pub(crate) struct Prepared {
    executable: Box<dyn Executable>,
    input: Tensor,
    residual: Option<Tensor>,
    output: Tensor,
}

impl Prepared {
    /// The results for the values of a product of the same shape.
    pub(crate) fn run(&mut self, product: &Product, live: usize) -> Vec<f64> {
        let all = |width: usize, value: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
            (0..live * width).map(|place| value(place / width, place % width)).collect()
        };
        self.executable.write(self.input, &all(product.inputs, &|row, input| product.value(row, input)));
        if let Some(residual) = self.residual {
            let residuals = all(product.columns.len(), &|row, column| product.residual(row, column));
            self.executable.write(residual, &residuals);
        }
        passes::run(&mut *self.executable, extent(live));
        passes::read(&mut *self.executable, self.output, extent(live))
    }
}

fn extent(batch: usize) -> Live {
    Live { batch, context: 1, samples: 1 }
}

/// A gated product and the one behind it, which may cut its rows while nobody else reads them.
#[allow(dead_code, reason = "not all tests have two")]
pub(crate) fn run_pair(device: &dyn Device, products: [&Product; 2], live: usize, keeps_rows: bool) -> Vec<f64> {
    let [first, second] = products;
    let mut list = WeightList::default();
    let weights = products.map(|product| list.linear(product.weights()));
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
    let mut executable = passes::prepare(device, list, plan);
    let values: Vec<f32> =
        (0..live * first.inputs).map(|place| first.value(place / first.inputs, place % first.inputs)).collect();
    executable.write(input, &values);
    passes::run(&mut *executable, extent(live));
    passes::read(&mut *executable, output, extent(live))
}
