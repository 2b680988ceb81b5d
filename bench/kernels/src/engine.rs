//! The engine's own products: weights packed once, rows rearranged (and rounded) in every call.

use crate::contestant::{Contestant, Result, Turns, row_of};
use crate::problem::{Problem, Rounding};
use nowcast_engine::cpu::linear::{Addend, Layout, LinearCall, Operand, PackedLinear, Shape};
use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::dtype::Dtype;
use std::sync::Arc;
use std::time::Duration;

pub struct Engine {
    problem: Problem,
    dtype: Dtype,
    pool: Arc<ThreadPool>,
    input: Vec<f32>,
    output: Vec<f32>,
    operand: Operand,
    weights: Turns<PackedLinear>,
}

impl Engine {
    pub fn new(problem: Problem, dtype: Dtype, copies: usize, pool: &Arc<ThreadPool>) -> Self {
        let Problem { rows, inputs, outputs } = problem;
        let source = problem.all_weights();
        let shape = Shape { layout: Layout::Plain, outputs, inputs, dtype };
        let fill = |row: usize, values: &mut [f32]| values.copy_from_slice(&source[row * inputs..][..inputs]);
        Self {
            problem,
            dtype,
            pool: Arc::clone(pool),
            input: problem.all_inputs(),
            output: vec![0.0; rows * outputs],
            operand: Operand::default(),
            weights: Turns::new(copies, || PackedLinear::pack(shape, fill, None, pool)),
        }
    }
}

impl Contestant for Engine {
    fn name(&self) -> String {
        "nowcast".into()
    }

    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    fn largest_error(&mut self) -> Result<f64> {
        self.time(1)?;
        let rounding = match self.dtype {
            Dtype::F32 | Dtype::Tf32 => Rounding::None,
            Dtype::Bf16 => Rounding::Operands,
            Dtype::Int8 => Rounding::Integers,
        };
        Ok(self.problem.largest_error(rounding, |row| row_of(&self.output, self.problem, row)))
    }

    fn time(&mut self, calls: usize) -> Result<Duration> {
        let Self { problem, pool, input, output, operand, weights, .. } = self;
        Ok(weights.time(calls, |weights| {
            let call = LinearCall {
                input,
                input_stride: problem.inputs,
                rows: problem.rows,
                columns: 0..problem.outputs,
                output,
                output_stride: problem.outputs,
                norm_epsilon: None,
                addend: Addend::Nothing,
            };
            weights.apply(call, operand, pool);
        }))
    }
}
