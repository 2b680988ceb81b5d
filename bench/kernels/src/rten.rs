//! `rten-gemm`, weights packed once.

use crate::contestant::{Contestant, Result, Turns, row_of};
use crate::problem::{Problem, Rounding};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::NdTensorView;
use std::time::Duration;

pub struct Floats {
    problem: Problem,
    executor: GemmExecutor<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
    weights: Turns<PackedBMatrix<f32>>,
}

impl Floats {
    pub fn new(problem: Problem, copies: usize) -> Self {
        let Problem { rows, inputs, outputs } = problem;
        let (executor, weights) = (GemmExecutor::<f32>::new(), problem.all_weights());
        let transposed = NdTensorView::from_data([outputs, inputs], &weights[..]).transposed();
        let weights = Turns::new(copies, || executor.prepack_b(transposed));
        Self { problem, executor, input: problem.all_inputs(), output: vec![0.0; rows * outputs], weights }
    }
}

impl Contestant for Floats {
    fn name(&self) -> String {
        format!("rten-gemm ({}), packed", self.executor.kernel_name())
    }

    fn dtype(&self) -> &'static str {
        "f32"
    }

    fn largest_error(&mut self) -> Result<f64> {
        self.time(1)?;
        Ok(self.problem.largest_error(Rounding::None, |row| row_of(&self.output, self.problem, row)))
    }

    fn time(&mut self, calls: usize) -> Result<Duration> {
        let Self { problem, executor, input, output, weights } = self;
        let input = NdTensorView::from_data([problem.rows, problem.inputs], &input[..]);
        let mut outcome = Ok(());
        let elapsed = weights.time(calls, |weights| {
            let (a, b) = (GemmInputA::Unpacked(input), GemmInputB::Packed(weights));
            outcome = executor.gemm(output, a, b, GemmOptions::default());
        });
        outcome.map(|()| elapsed).map_err(|error| format!("rten-gemm: {error:?}").into())
    }
}

/// Bytes times signed bytes as they are: what ours does besides (scales, rounding of the rows) is not in it.
pub struct Integers {
    problem: Problem,
    executor: GemmExecutor<u8, i8, i32>,
    input: Vec<u8>,
    bytes: Vec<i8>,
    output: Vec<i32>,
    weights: Turns<PackedBMatrix<i8>>,
}

impl Integers {
    pub fn new(problem: Problem, copies: usize) -> Self {
        let Problem { rows, inputs, outputs } = problem;
        let executor = GemmExecutor::<u8, i8, i32>::new();
        let input = problem.all_inputs().into_iter().map(|value| (value.abs() * 127.0) as u8).collect();
        let bytes: Vec<i8> = problem.all_weights().into_iter().map(|value| (value * 127.0) as i8).collect();
        let transposed = NdTensorView::from_data([outputs, inputs], &bytes[..]).transposed();
        let weights = Turns::new(copies, || executor.prepack_b(transposed));
        Self { problem, executor, input, bytes, output: vec![0; rows * outputs], weights }
    }
}

impl Contestant for Integers {
    fn name(&self) -> String {
        format!("rten-gemm ({}), packed, integers only", self.executor.kernel_name())
    }

    fn dtype(&self) -> &'static str {
        "int8"
    }

    fn largest_error(&mut self) -> Result<f64> {
        self.time(1)?;
        let Problem { inputs, outputs, .. } = self.problem;
        let exact = |row: usize, output: usize| -> i32 {
            let (x, w) = (&self.input[row * inputs..][..inputs], &self.bytes[output * inputs..][..inputs]);
            x.iter().zip(w).map(|(&x, &w)| i32::from(x) * i32::from(w)).sum()
        };
        let equal = |row| (0..outputs).all(|output| self.output[row * outputs + output] == exact(row, output));
        // Sums of integers are right or wrong.
        Ok(if self.problem.checked_rows().all(equal) { 0.0 } else { f64::INFINITY })
    }

    fn time(&mut self, calls: usize) -> Result<Duration> {
        let Self { problem, executor, input, output, weights, .. } = self;
        let input = NdTensorView::from_data([problem.rows, problem.inputs], &input[..]);
        let mut outcome = Ok(());
        let elapsed = weights.time(calls, |weights| {
            let (a, b) = (GemmInputA::Unpacked(input), GemmInputB::Packed(weights));
            outcome = executor.gemm(output, a, b, GemmOptions::default());
        });
        outcome.map(|()| elapsed).map_err(|error| format!("rten-gemm: {error:?}").into())
    }
}
