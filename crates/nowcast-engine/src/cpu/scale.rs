//! Scaling of the context and of each predicted patch.

use super::arena::Access;
use super::executor::Context;
use super::rows::SharedRows;
use crate::operation::{ScaleContext, ScaleStep};
use crate::scaler::{STATE_WIDTH, ScaledPatch, Statistics, scale_patch};

pub(super) fn context(op: &ScaleContext, access: &Access<'_>, context: &mut Context<'_>) {
    let series = op.series.count(access.live());
    let (values, mask) = (access.read::<f32>(op.values), access.read::<f32>(op.mask));
    let length = values.len() / series.max(1);
    let patch = op.values.width;
    let scaled = SharedRows::new(access.write::<f32>(op.scaled), length);
    let location = SharedRows::new(access.write::<f64>(op.location), length);
    let scale = SharedRows::new(access.write::<f64>(op.scale), length);
    let last = op.last.map(|last| SharedRows::new(access.write::<f64>(last), patch));
    let state = SharedRows::new(access.write::<f64>(op.state), STATE_WIDTH);
    context.weights.pool.for_each_chunk(series, 1, |range| {
        for index in range {
            // SAFETY: every series is visited once.
            let (scaled, location, scale, state) =
                unsafe { (scaled.row(index), location.row(index), scale.row(index), state.row(index)) };
            let points = index * length..(index + 1) * length;
            let (values, mask) = (&values[points.clone()], &mask[points]);
            let mut statistics = Statistics::before(op.scaler, values, mask);
            for start in (0..length).step_by(patch) {
                let points = start..start + patch;
                let out = ScaledPatch {
                    scaled: &mut scaled[points.clone()],
                    location: &mut location[points.clone()],
                    scale: &mut scale[points.clone()],
                };
                scale_patch(op.scaler, &mut statistics, &values[points.clone()], &mask[points], out);
            }
            for (last, all) in last.iter().zip([&*location, &*scale]) {
                // SAFETY: as above.
                unsafe { last.row(index) }.copy_from_slice(&all[length - patch..]);
            }
            state.copy_from_slice(&statistics.to_state());
        }
    });
}

pub(super) fn step(op: &ScaleStep, access: &Access<'_>, context: &mut Context<'_>) {
    let paths = access.read::<f64>(op.paths);
    let (horizon, patch) = (op.paths.width, op.scaled.width);
    let rows = access.rows(op.paths);
    let samples = access.live().samples;
    let before = op.context_state.map(|state| access.read::<f64>(state));
    let scaled = SharedRows::new(access.write::<f32>(op.scaled), patch);
    let location = SharedRows::new(access.write::<f64>(op.location), patch);
    let scale = SharedRows::new(access.write::<f64>(op.scale), patch);
    let state = SharedRows::new(access.write::<f64>(op.state), STATE_WIDTH);
    context.weights.pool.for_each_chunk(rows, 16, |range| {
        for row in range {
            // SAFETY: every row is visited once.
            let (scaled, location, scale, state) =
                unsafe { (scaled.row(row), location.row(row), scale.row(row), state.row(row)) };
            let mut statistics = match before {
                Some(before) => Statistics::from_state(&before[row / samples * STATE_WIDTH..][..STATE_WIDTH]),
                None => Statistics::from_state(state),
            };
            let values = &paths[row * horizon + op.column..][..patch];
            scale_patch(op.scaler, &mut statistics, values, &[], ScaledPatch { scaled, location, scale });
            state.copy_from_slice(&statistics.to_state());
        }
    });
}
