//! A plan with its inputs, and what a device makes of it.

use std::sync::Arc;

use crate::device::{Activity, Device, Launch};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::extent::{Live, Rows};
use crate::plan::{Element, PlanBuilder, Section, Tensor};
use crate::token_sampling::{Filter, TokenSampling};
use crate::weights::{Activation, LinearId, LinearSource, WeightList};

/// A plan with its inputs and the tensors to compare.
pub struct Case<'a> {
    /// The weights.
    pub list: WeightList<'a>,
    /// The plan.
    pub plan: PlanBuilder,
    /// Inputs in f32, at full capacity.
    pub floats: Vec<(Tensor, Vec<f32>)>,
    /// Inputs in i32, at full capacity.
    pub integers: Vec<(Tensor, Vec<i32>)>,
    /// Inputs in f64.
    pub doubles: Vec<(Tensor, Vec<f64>)>,
    /// What is compared, by name.
    pub outputs: Vec<(&'static str, Tensor)>,
}

impl<'a> Case<'a> {
    /// An empty plan of this capacity.
    pub fn new(capacity: Live) -> Self {
        let plan = PlanBuilder::new(capacity, true);
        let (list, floats, integers, doubles, outputs) = Default::default();
        Self { list, plan, floats, integers, doubles, outputs }
    }

    /// An f32 input of scattered values between -1 and 1, times `size`.
    pub fn input(&mut self, rows: Rows, width: usize, size: f32) -> Tensor {
        let tensor = self.plan.input(Element::F32, rows, width);
        let count = rows.count(self.plan.capacity()) * width;
        let salt = self.floats.len();
        self.floats.push((tensor, (0..count).map(|index| scattered(index, salt) * size).collect()));
        tensor
    }

    /// An i32 input.
    pub fn integers(&mut self, rows: Rows, width: usize, values: impl Fn(usize) -> i32) -> Tensor {
        let tensor = self.plan.input(Element::I32, rows, width);
        let count = rows.count(self.plan.capacity()) * width;
        self.integers.push((tensor, (0..count).map(values).collect()));
        tensor
    }

    /// One row of f64.
    pub fn doubles(&mut self, values: &[f64]) -> Tensor {
        let tensor = self.plan.input(Element::F64, Rows::fixed(1), values.len());
        self.doubles.push((tensor, values.to_vec()));
        tensor
    }

    /// A matrix of scattered weights that keep the size of a row, and a bias.
    pub fn linear(&mut self, rows: usize, inputs: usize, activation: Activation) -> LinearId {
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

    /// Names a tensor to compare.
    pub fn output(&mut self, name: &'static str, tensor: Tensor) {
        self.plan.keep(tensor);
        self.outputs.push((name, tensor));
    }

    /// Runs the plan once for each of these extents. The outputs of all runs, in order, and what the device did.
    ///
    /// # Errors
    /// The device has no room, or fails.
    pub fn run(self, device: &dyn Device, lives: &[Live]) -> Result<(Vec<Vec<f64>>, Activity)> {
        let mut executable = device.load(self.list)?.prepare(Arc::new(self.plan.finish()?))?;
        let mut results = Vec::new();
        for (run, &live) in lives.iter().enumerate() {
            for (tensor, values) in &self.floats {
                executable.write(*tensor, &values[..tensor.rows.count(live) * tensor.width]);
            }
            for (tensor, values) in &self.integers {
                executable.write_integers(*tensor, &values[..tensor.rows.count(live) * tensor.width]);
            }
            self.doubles.iter().for_each(|(tensor, values)| executable.write_doubles(*tensor, values));
            // Every run filters in another way.
            let token_sampling = match run % 4 {
                0 => TokenSampling::default(),
                1 => TokenSampling { temperature: 0.7, top_k: 9, ..TokenSampling::default() },
                2 => TokenSampling { temperature: 1.5, top_p: 0.8, ..TokenSampling::default() },
                _ => TokenSampling { temperature: 1.0, top_k: 30, top_p: 0.6, filter: Filter::Both },
            };
            let launch = Launch { live, seed: 0xFEDC_BA98_7654_3210 + run as u64, first_sample: 3, token_sampling };
            executable.run(Section::Prefill, &launch)?;
            executable.run(Section::Decode, &launch)?;
            for (_, tensor) in &self.outputs {
                let mut values = vec![f64::NAN; tensor.rows.count(live) * tensor.width];
                executable.read(*tensor, &mut values);
                results.push(values);
            }
        }
        Ok((results, executable.activity()))
    }
}

/// Extents in short.
pub const fn live(batch: usize, context: usize, samples: usize) -> Live {
    Live { batch, context, samples }
}

/// A number between -1 and 1 that shows no pattern.
pub(super) fn scattered(index: usize, salt: usize) -> f32 {
    let mut bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (salt as u64 + 1).wrapping_mul(0xD1B5_4A32);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^= bits >> 32;
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}
