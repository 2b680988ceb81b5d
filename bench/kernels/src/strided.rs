//! Crates that take matrices as they lie in memory: `gemm`, `matrixmultiply` and `faer`.

use crate::contestant::{Contestant, Result, Turns, row_of};
use crate::problem::{Problem, Rounding};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Gemm,
    MatrixMultiply,
    Faer,
}

/// Which values of the weights are neighbours in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The inputs of one output, as a checkpoint holds them.
    Outputs,
    /// The outputs of one input.
    Inputs,
}

pub struct Strided {
    problem: Problem,
    library: Library,
    order: Order,
    threads: usize,
    input: Vec<f32>,
    output: Vec<f32>,
    weights: Turns<Vec<f32>>,
}

impl Strided {
    pub fn new(problem: Problem, library: Library, order: Order, copies: usize, threads: usize) -> Self {
        let Problem { rows, inputs, outputs } = problem;
        let weights: Vec<f32> = match order {
            Order::Outputs => problem.all_weights(),
            Order::Inputs => {
                let of_input = |input| (0..outputs).map(move |output| problem.weight(output, input));
                (0..inputs).flat_map(of_input).collect()
            }
        };
        Self {
            problem,
            library,
            order,
            threads,
            input: problem.all_inputs(),
            output: vec![0.0; rows * outputs],
            weights: Turns::new(copies, || weights.clone()),
        }
    }
}

impl Contestant for Strided {
    fn name(&self) -> String {
        let library = match self.library {
            Library::Gemm => "gemm",
            Library::MatrixMultiply => "matrixmultiply",
            Library::Faer => "faer",
        };
        match self.order {
            Order::Outputs => format!("{library}, [outputs, inputs]"),
            Order::Inputs => format!("{library}, [inputs, outputs]"),
        }
    }

    fn dtype(&self) -> &'static str {
        "f32"
    }

    fn largest_error(&mut self) -> Result<f64> {
        self.time(1)?;
        Ok(self.problem.largest_error(Rounding::None, |row| row_of(&self.output, self.problem, row)))
    }

    fn time(&mut self, calls: usize) -> Result<Duration> {
        let Self { problem, library, order, threads, input, output, weights } = self;
        let Problem { rows, inputs, outputs } = *problem;
        // From one input, and from one output, to the next.
        let (by_input, by_output) = match order {
            Order::Outputs => (1, inputs),
            Order::Inputs => (outputs, 1),
        };
        let [rows_stride, results_stride, by_input, by_output] =
            [inputs, outputs, by_input, by_output].map(|stride| stride as isize);
        Ok(weights.time(calls, |weights| {
            let (left, right, target) = (input.as_ptr(), weights.as_ptr(), output.as_mut_ptr());
            match library {
                Library::Gemm => {
                    let threads = gemm::Parallelism::Rayon(*threads);
                    // SAFETY: the three matrices hold what their strides reach, and the target overlaps neither other.
                    unsafe {
                        gemm::gemm(
                            rows,
                            outputs,
                            inputs,
                            target,
                            1,
                            results_stride,
                            false,
                            left,
                            1,
                            rows_stride,
                            right,
                            by_output,
                            by_input,
                            0.0,
                            1.0,
                            false,
                            false,
                            false,
                            threads,
                        );
                    }
                }
                Library::MatrixMultiply => {
                    // SAFETY: as above.
                    unsafe {
                        matrixmultiply::sgemm(
                            rows,
                            inputs,
                            outputs,
                            1.0,
                            left,
                            rows_stride,
                            1,
                            right,
                            by_input,
                            by_output,
                            0.0,
                            target,
                            results_stride,
                            1,
                        );
                    }
                }
                Library::Faer => {
                    let left = MatRef::from_row_major_slice(input, rows, inputs);
                    let right = match order {
                        Order::Outputs => MatRef::from_column_major_slice(weights, inputs, outputs),
                        Order::Inputs => MatRef::from_row_major_slice(weights, inputs, outputs),
                    };
                    let target = MatMut::from_row_major_slice_mut(output, rows, outputs);
                    matmul(target, Accum::Replace, left, right, 1.0, Par::rayon(*threads));
                }
            }
        }))
    }
}
