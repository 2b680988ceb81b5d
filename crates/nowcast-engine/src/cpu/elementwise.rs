//! Operations that move or combine rows, and the call of the packed products.

use super::arena::{Access, Plain};
use super::executor::Context;
use super::linear::{Addend, LinearCall};
use super::rows::SharedRows;
use crate::operation::{
    Add, LastRow, Linear, Norm, OverwriteExogenous, PrependLabel, RepeatRows, Round, SortSamples, SwiGlu,
};
use crate::plan::Element;

/// Rows of fewer values than this together stay on one thread.
const GRAIN_VALUES: usize = 8192;

fn grain(width: usize) -> usize {
    GRAIN_VALUES.div_ceil(width.max(1))
}

pub(super) fn linear(op: &Linear, access: &Access<'_>, context: &mut Context<'_>) {
    let call = LinearCall {
        input: access.read(op.input),
        input_stride: op.input.width,
        rows: access.rows(op.input),
        columns: op.columns.clone(),
        norm_epsilon: op.norm_epsilon,
        addend: match op.residual {
            Some(residual) => Addend::Rows { values: access.read(residual), stride: residual.width },
            None => Addend::Nothing,
        },
        output: access.write(op.output),
        output_stride: op.output.width,
    };
    context.weights.linears[op.weight.index].apply(call, context.operand, &context.weights.pool);
}

pub(super) fn norm(op: &Norm, access: &Access<'_>, context: &mut Context<'_>) {
    let width = op.input.width;
    let input = access.read::<f32>(op.input);
    let scale = &context.weights.vectors[op.scale.index];
    let output = SharedRows::new(access.write::<f32>(op.output), width);
    context.weights.pool.for_each_chunk(access.rows(op.input), grain(width), |range| {
        for row in range {
            let values = &input[row * width..(row + 1) * width];
            let square: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
            let factor = 1.0 / (square / width as f64 + f64::from(op.epsilon)).sqrt();
            // SAFETY: every row is visited once.
            let output = unsafe { output.row(row) };
            for ((out, &value), &scale) in output.iter_mut().zip(values).zip(scale) {
                *out = (f64::from(value) * factor) as f32 * scale;
            }
        }
    });
}

pub(super) fn swiglu(op: &SwiGlu, access: &Access<'_>, context: &mut Context<'_>) {
    let hidden = op.output.width;
    let input = access.read::<f32>(op.input);
    let output = SharedRows::new(access.write::<f32>(op.output), hidden);
    context.weights.pool.for_each_chunk(access.rows(op.input), grain(hidden), |range| {
        for row in range {
            let (gate, value) = input[row * 2 * hidden..(row + 1) * 2 * hidden].split_at(hidden);
            // SAFETY: every row is visited once.
            let output = unsafe { output.row(row) };
            for ((out, &gate), &value) in output.iter_mut().zip(gate).zip(value) {
                *out = gate / (1.0 + (-gate).exp()) * value;
            }
        }
    });
}

pub(super) fn add(op: &Add, access: &Access<'_>, context: &mut Context<'_>) {
    let width = op.output.width;
    let (left, right) = (access.read::<f32>(op.left), access.read::<f32>(op.right));
    let output = SharedRows::new(access.write::<f32>(op.output), width);
    context.weights.pool.for_each_chunk(access.rows(op.output), grain(width), |range| {
        for row in range {
            let values = row * width..(row + 1) * width;
            // SAFETY: every row is visited once.
            let output = unsafe { output.row(row) };
            for ((out, &a), &b) in output.iter_mut().zip(&left[values.clone()]).zip(&right[values]) {
                *out = a + b;
            }
        }
    });
}

pub(super) fn round(op: &Round, access: &Access<'_>, context: &mut Context<'_>) {
    let width = op.output.width;
    let input = access.read::<f64>(op.input);
    let output = SharedRows::new(access.write::<f32>(op.output), width);
    context.weights.pool.for_each_chunk(access.rows(op.output), grain(width), |range| {
        for row in range {
            // SAFETY: every row is visited once.
            let output = unsafe { output.row(row) };
            output.iter_mut().zip(&input[row * width..]).for_each(|(out, &value)| *out = value as f32);
        }
    });
}

pub(super) fn sort_samples(op: &SortSamples, access: &Access<'_>, context: &mut Context<'_>) {
    let (samples, horizon) = (access.live().samples, op.paths.width);
    let paths = access.read::<f64>(op.paths);
    let sorted = SharedRows::new(access.write::<f32>(op.sorted), samples);
    context.weights.pool.for_each_chunk(op.series.count(access.live()) * horizon, grain(samples), |range| {
        for place in range {
            let of_series = &paths[place / horizon * samples * horizon..][..samples * horizon];
            // SAFETY: every step of a series is visited once.
            let sorted = unsafe { sorted.row(place) };
            let of_step = of_series[place % horizon..].iter().step_by(horizon);
            sorted.iter_mut().zip(of_step).for_each(|(out, &value)| *out = value as f32);
            sorted.sort_unstable_by(f32::total_cmp);
        }
    });
}

pub(super) fn prepend_label(op: &PrependLabel, access: &Access<'_>, context: &mut Context<'_>) {
    let series = op.series.count(access.live());
    let width = op.input.width;
    let input = access.read::<f32>(op.input);
    let output = access.write::<f32>(op.output);
    let length = input.len() / series.max(1);
    for (index, (row, tokens)) in output.chunks_mut(length + width).zip(input.chunks(length)).enumerate() {
        let is_exogenous = index % op.variates >= op.variates - op.exogenous_variates;
        let label = if is_exogenous { op.exogenous } else { op.target };
        row[..width].copy_from_slice(&context.weights.vectors[label.index]);
        row[width..].copy_from_slice(tokens);
    }
}

pub(super) fn last_row(op: &LastRow, access: &Access<'_>) {
    match op.input.element {
        Element::F64 => copy_last_rows::<f64>(op, access),
        Element::F32 => copy_last_rows::<f32>(op, access),
        Element::I32 => copy_last_rows::<i32>(op, access),
    }
}

fn copy_last_rows<T: Plain>(op: &LastRow, access: &Access<'_>) {
    let width = op.output.width;
    let series = op.series.count(access.live());
    let input = access.read::<T>(op.input);
    let output = access.write::<T>(op.output);
    let length = input.len() / series.max(1);
    for (row, tokens) in output.chunks_mut(width).zip(input.chunks(length)) {
        row.copy_from_slice(&tokens[length - width..]);
    }
}

pub(super) fn repeat_rows(op: &RepeatRows, access: &Access<'_>) {
    let width = op.input.width;
    let samples = access.live().samples;
    let input = access.read::<f32>(op.input);
    let output = access.write::<f32>(op.output);
    for (index, row) in output.chunks_mut(width).enumerate() {
        row.copy_from_slice(&input[index / samples * width..][..width]);
    }
}

pub(super) fn overwrite_exogenous(op: &OverwriteExogenous, access: &Access<'_>) {
    let samples = access.live().samples;
    let horizon = op.paths.width;
    let future = access.read::<f32>(op.future);
    let paths = access.write::<f64>(op.paths);
    for (index, series) in paths.chunks_mut(samples * horizon).enumerate() {
        let (item, variate) = (index / op.variates, index % op.variates);
        let Some(exogenous) = (variate + op.exogenous).checked_sub(op.variates) else { continue };
        let known = &future[(item * op.exogenous + exogenous) * op.future.width..][op.columns.clone()];
        for path in series.chunks_mut(horizon) {
            for (value, &known) in path[op.columns.clone()].iter_mut().zip(known) {
                *value = f64::from(known);
            }
        }
    }
}
