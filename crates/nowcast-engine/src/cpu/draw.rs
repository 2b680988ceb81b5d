//! The head's raw outputs on their way to distributions and paths.

use super::arena::Access;
use super::executor::Context;
use super::mixture::{self, Activated, Affine, Draws, HeadOutput, Output};
use super::rows::SharedRows;
use crate::operation::{ActivateMixture, DrawMixture, MixtureQuantiles};
use crate::student_t::HeadParameters;

/// Rows that one task draws: enough to be worth a thread.
const GRAIN: usize = 16;

pub(super) fn activate(op: &ActivateMixture, access: &Access<'_>) {
    let affine = Affine { location: &[0.0], scale: &[1.0], row_stride: 0, position_stride: 0 };
    let input = HeadOutput {
        head: op.head,
        raw: access.read(op.parameters),
        row_stride: op.parameters.width,
        positions: op.positions,
        affine,
    };
    let width = op.location.width;
    let degrees = access.write::<f32>(op.degrees_of_freedom);
    let locations = access.write::<f32>(op.location);
    let scales = access.write::<f32>(op.scale);
    let logits = access.write::<f32>(op.logits);
    for row in 0..access.rows(op.parameters) {
        let range = row * width..(row + 1) * width;
        let mut target = Activated {
            degrees_of_freedom: &mut degrees[range.clone()],
            locations: &mut locations[range.clone()],
            scales: &mut scales[range.clone()],
            logits: &mut logits[range],
        };
        mixture::activate(&input, row, &mut target).expect("the plan gives every row its room");
    }
}

pub(super) fn quantiles(op: &MixtureQuantiles, access: &Access<'_>, context: &mut Context<'_>) {
    let (positions, components) = (op.positions, op.head.components());
    let parameters = op.parameters.map(|tensor| access.read::<f32>(tensor));
    let affine = op.affine.map(|tensor| access.read::<f64>(tensor));
    let levels = access.read::<f64>(op.levels);
    let width = op.quantiles.width;
    let quantiles = SharedRows::new(access.write::<f64>(op.quantiles), width);
    context.weights.pool.for_each_chunk(access.rows(op.quantiles), 1, |range| {
        for row in range {
            // SAFETY: every row is visited once.
            let solved = unsafe { quantiles.row(row) };
            for position in 0..positions {
                let first = (row * positions + position) * components;
                let [degrees_of_freedom, locations, scales, logits] = parameters.map(|values| {
                    values[first..][..components].iter().map(|&value| value.into()).collect::<Vec<f64>>()
                });
                let own = HeadParameters {
                    degrees_of_freedom: &degrees_of_freedom,
                    locations: &locations,
                    scales: &scales,
                    logits: &logits,
                };
                let [location, scale] = affine.map(|values| values[row * op.affine[0].width + position]);
                let mixture = own.mixture(location, scale);
                for (level, of_level) in levels.iter().zip(solved.chunks_exact_mut(positions)) {
                    of_level[position] = mixture.as_ref().map_or(f64::NAN, |mixture| mixture.quantile(*level));
                }
            }
        }
    });
}

fn head_output<'a>(op: &DrawMixture, access: &'a Access<'_>) -> HeadOutput<'a> {
    let affine = Affine {
        location: access.read(op.location),
        scale: access.read(op.scale),
        row_stride: op.location.width,
        position_stride: 1,
    };
    HeadOutput {
        head: op.head,
        raw: access.read(op.parameters),
        row_stride: op.parameters.width,
        positions: op.positions,
        affine,
    }
}

pub(super) fn mean(op: &DrawMixture, access: &Access<'_>, context: &mut Context<'_>) {
    let input = head_output(op, access);
    let horizon = op.paths.width;
    let paths = SharedRows::new(access.write::<f64>(op.paths), horizon);
    context.weights.pool.for_each_chunk(access.rows(op.paths), GRAIN, |range| {
        for row in range {
            // SAFETY: every row is visited once.
            let path = unsafe { paths.row(row) };
            let mut output = Output { values: &mut path[op.column..], row_stride: op.positions };
            mixture::mean(&input, row..row + 1, &mut output).expect("the plan gives every path its room");
        }
    });
}

pub(super) fn sample(op: &DrawMixture, access: &Access<'_>, context: &mut Context<'_>) {
    let input = head_output(op, access);
    let horizon = op.paths.width;
    let draws = Draws {
        seed: context.launch.seed,
        step: op.step as u32,
        series_keys: access.read(op.streams),
        samples: access.live().samples,
        first_sample: context.launch.first_sample,
        shared: op.shared,
    };
    let rows = access.rows(op.paths);
    let paths = SharedRows::new(access.write::<f64>(op.paths), horizon);
    context.weights.pool.for_each_chunk(rows, GRAIN, |range| {
        // SAFETY: chunks do not overlap.
        let values = unsafe { paths.rows(range.clone()) };
        let mut output = Output { values: &mut values[op.column..], row_stride: horizon };
        mixture::sample(&input, &draws, range, &mut output).expect("the plan gives every path its room");
    });
}
