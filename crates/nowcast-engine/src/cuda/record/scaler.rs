//! Running statistics.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::error::{Error, Result};
use crate::operation::{ScaleContext, ScaleStep};
use crate::plan::Tensor;
use crate::scaler::Scaler;

argument! {
    /// `ScaleContext` in scaler.cu.
    ScaleContextArgument {
        values: u64, mask: u64, scaled: u64, location: u64, scale: u64, last_location: u64, last_scale: u64, state: u64,
        live: u64,
        series: KernelRows, rows: KernelRows, patch: i32, kind: i32, exact: i32, reserved: i32, least_factor: f64,
        greatest_factor: f64,
    }
}

argument! {
    /// `ScaleStep` in scaler.cu.
    ScaleStepArgument {
        paths: u64, context_state: u64, state: u64, scaled: u64, location: u64, scale: u64, live: u64,
        rows: KernelRows, horizon: i32, column: i32, patch: i32, kind: i32, exact: i32, reserved: i32,
    }
}

/// Threads of a block: as many as points are handled together.
const CONTEXT_THREADS: usize = 512;
const STEP_THREADS: usize = 64;
/// Points of a path that one warp continues; 32 `LANE_POINTS` in scaler.cu.
const WARP_POINTS: usize = 64;

fn kind(scaler: Scaler) -> i32 {
    match scaler {
        Scaler::Global => 0,
        Scaler::Causal => 1,
        Scaler::CausalPatch { .. } => 2,
    }
}

impl Recorder<'_> {
    pub(super) fn scale_context(&mut self, op: &ScaleContext) -> Result<()> {
        // The kernel reads them before those ahead of it are done.
        let is_input = |tensor: &Tensor| self.plan.inputs().iter().any(|input| input.index == tensor.index);
        if ![op.values, op.mask].iter().all(is_input) {
            return Err(Error::Device("ScaleContext: values and mask must be inputs of the plan".into()));
        }
        let factors = match op.scaler {
            Scaler::CausalPatch { stabilise_exponent: Some(exponent) } => [10f64.powf(-exponent), 10f64.powf(exponent)],
            _ => [0.0; 2],
        };
        let argument = ScaleContextArgument {
            values: self.at(op.values),
            mask: self.at(op.mask),
            scaled: self.at(op.scaled),
            location: self.at(op.location),
            scale: self.at(op.scale),
            last_location: self.at(op.last[0]),
            last_scale: self.at(op.last[1]),
            state: self.at(op.state),
            live: self.live,
            series: rows(op.series)?,
            rows: rows(op.values.rows)?,
            patch: int(op.values.width)?,
            kind: kind(op.scaler),
            exact: self.weights.settings.exact.into(),
            reserved: 0,
            least_factor: factors[0],
            greatest_factor: factors[1],
        };
        let shape = Shape { grid: [self.most(op.series)?, 1, 1], threads: CONTEXT_THREADS, shared_bytes: 0 };
        self.launch("ScaleContext", Kernel::ScaleContext, shape, argument)
    }

    pub(super) fn scale_step(&mut self, op: &ScaleStep) -> Result<()> {
        let argument = ScaleStepArgument {
            paths: self.at(op.paths),
            context_state: op.context_state.map_or(0, |state| self.at(state)),
            state: self.at(op.state),
            scaled: self.at(op.scaled),
            location: self.at(op.location),
            scale: self.at(op.scale),
            live: self.live,
            rows: rows(op.paths.rows)?,
            horizon: int(op.paths.width)?,
            column: int(op.column)?,
            patch: int(op.scaled.width)?,
            kind: kind(op.scaler),
            exact: self.weights.settings.exact.into(),
            reserved: 0,
        };
        let paths = self.most(op.paths.rows)?;
        let (kernel, shape) = match self.weights.settings.exact || op.scaled.width > WARP_POINTS {
            true => (Kernel::ScaleStep, Shape { grid: [paths, 1, 1], threads: STEP_THREADS, shared_bytes: 0 }),
            false => (Kernel::ScaleStepOfWarp, Shape::flat(paths * 32, 128)),
        };
        self.launch("ScaleStep", kernel, shape, argument)
    }
}
