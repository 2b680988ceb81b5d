//! Products, and what unfused modes do around them.

use std::ops::Range;

use super::case::{Case, live, scattered};
use crate::extent::Rows;
use crate::operation::{self, Operation};
use crate::weights::Activation;

/// A product of `rows` rows, with everything that can be fused to it.
pub fn product<'a>(
    rows: usize,
    inputs: usize,
    outputs: usize,
    activation: Activation,
    columns: Range<usize>,
) -> Case<'a> {
    let mut case = Case::new(live(rows, 1, 1));
    let weight_rows = if activation == Activation::SwiGlu { 2 * outputs } else { outputs };
    let weight = case.linear(weight_rows, inputs, activation);
    let input = case.input(Rows::batch(), inputs, 1.5);
    let residual = case.input(Rows::batch(), columns.len(), 1.0);
    for (name, norm_epsilon, residual) in
        [("plain", None, None), ("normed", Some(1e-5), None), ("added", Some(1e-5), Some(residual))]
    {
        let output = case.plan.tensor(Rows::batch(), columns.len());
        let columns = columns.clone();
        case.plan.push(Operation::Linear(operation::Linear { weight, input, columns, output, norm_epsilon, residual }));
        case.output(name, output);
    }
    case
}

/// Norm and gate on their own.
pub fn unfused<'a>() -> Case<'a> {
    let mut case = Case::new(live(9, 1, 1));
    let input = case.input(Rows::batch(), 300, 2.0);
    let scale = case.list.vector((0..300).map(|i| scattered(i, 7)).collect());
    let output = case.plan.tensor(Rows::batch(), 300);
    case.plan.push(Operation::Norm(operation::Norm { input, output, scale, epsilon: 1e-5 }));
    case.output("norm", output);
    let gated = case.plan.swiglu(input);
    case.output("gated", gated);
    case
}
