//! Mixtures and draws.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::error::Result;
use crate::head::Head;
use crate::operation::{ActivateMixture, DrawMixture, MixtureQuantiles, Operation};

argument! {
    /// `Activate` in mixture.cu.
    ActivateArgument {
        parameters: u64, degrees_of_freedom: u64, location: u64, scale: u64, logits: u64, live: u64, rows: KernelRows,
        positions: i32, components: i32, parameter_width: i32, has_logits: i32,
    }
}

argument! {
    /// `Draw` in mixture.cu.
    DrawArgument {
        parameters: u64, location: u64, scale: u64, streams: u64, paths: u64, rounded: u64, live: u64,
        rows: KernelRows, parameter_width: i32, affine_width: i32, positions: i32, components: i32, has_logits: i32, horizon: i32,
        column: i32, step: i32, shared: i32, staged: i32,
    }
}

argument! {
    /// `MixtureQuantiles` in mixture_quantiles.cu.
    QuantilesArgument {
        parameters: [u64; 4], affine: [u64; 2], levels: u64, quantiles: u64, live: u64, rows: KernelRows,
        positions: i32, components: i32, level_count: i32, affine_width: i32,
    }
}

/// Numbers of a component that the kernel keeps: `COMPONENT_NUMBERS` in student_t.cuh, and five at a point.
const COMPONENT_NUMBERS: usize = 33 + 5;
/// Sums that lanes leave for each other.
const LANE_SUMS: usize = 32;

/// Threads of a block that draws.
const DRAW_THREADS: usize = 128;
/// Shared memory for the logits of such a block; more would leave a multiprocessor few of them.
const MOST_STAGED_BYTES: usize = 24 * 1024;

/// Shared memory for the logits of a block's positions, each asked for once; 0 where a row serves all samples of a series,
/// logits are not made of whole groups of four or there is no room. `staged_stride` in mixture.cu.
fn staged_bytes(op: &DrawMixture) -> usize {
    let components = op.head.components();
    let are_fours = components.is_multiple_of(4) && op.parameters.width.is_multiple_of(4);
    let bytes = DRAW_THREADS * ((components / 4) | 1) * 4 * size_of::<f32>();
    let is_staged = has_logits(op.head) == 1 && !op.shared && are_fours && bytes <= MOST_STAGED_BYTES;
    if is_staged { bytes } else { 0 }
}

fn has_logits(head: Head) -> i32 {
    matches!(head, Head::Mixture { .. }).into()
}

impl Recorder<'_> {
    pub(super) fn activate_mixture(&mut self, op: &ActivateMixture) -> Result<()> {
        let components = op.head.components();
        let argument = ActivateArgument {
            parameters: self.at(op.parameters),
            degrees_of_freedom: self.at(op.degrees_of_freedom),
            location: self.at(op.location),
            scale: self.at(op.scale),
            logits: self.at(op.logits),
            live: self.live,
            rows: rows(op.parameters.rows)?,
            positions: int(op.positions)?,
            components: int(components)?,
            parameter_width: int(op.parameters.width)?,
            has_logits: has_logits(op.head),
        };
        let shape = Shape::flat(self.most(op.parameters.rows)? * op.positions * components, 256);
        self.launch("ActivateMixture", Kernel::ActivateMixture, shape, argument)
    }

    pub(super) fn mixture_quantiles(&mut self, op: &MixtureQuantiles) -> Result<()> {
        let (components, levels) = (op.head.components(), op.levels.width);
        let argument = QuantilesArgument {
            parameters: op.parameters.map(|tensor| self.at(tensor)),
            affine: op.affine.map(|tensor| self.at(tensor)),
            levels: self.at(op.levels),
            quantiles: self.at_host(op.quantiles),
            live: self.live,
            rows: rows(op.quantiles.rows)?,
            positions: int(op.positions)?,
            components: int(components)?,
            level_count: int(levels)?,
            affine_width: int(op.affine[0].width)?,
        };
        let shape = Shape {
            grid: [self.most(op.quantiles.rows)? * levels * op.positions, 1, 1],
            threads: 32,
            shared_bytes: (COMPONENT_NUMBERS * components + LANE_SUMS) * size_of::<f64>(),
        };
        self.launch("MixtureQuantiles", Kernel::MixtureQuantiles, shape, argument)
    }

    /// Draws paths, together with the rounding that follows if these are the only ones; how many operations that were.
    pub(super) fn sample(&mut self, op: &DrawMixture, following: &[Operation]) -> Result<usize> {
        let is_whole = op.column == 0 && op.positions == op.paths.width;
        match following.first() {
            Some(Operation::Round(round)) if is_whole && round.input == op.paths => {
                let rounded = self.at_host(round.output);
                self.draw(Kernel::SampleMixture, op, rounded).map(|()| 2)
            }
            _ => self.draw(Kernel::SampleMixture, op, 0).map(|()| 1),
        }
    }

    pub(super) fn draw(&mut self, kernel: Kernel, op: &DrawMixture, rounded: u64) -> Result<()> {
        let staged_bytes = if kernel == Kernel::SampleMixture { staged_bytes(op) } else { 0 };
        let argument = DrawArgument {
            parameters: self.at(op.parameters),
            location: self.at(op.location),
            scale: self.at(op.scale),
            streams: self.at(op.streams),
            paths: self.at(op.paths),
            rounded,
            live: self.live,
            rows: rows(op.paths.rows)?,
            parameter_width: int(op.parameters.width)?,
            affine_width: int(op.location.width)?,
            positions: int(op.positions)?,
            components: int(op.head.components())?,
            has_logits: has_logits(op.head),
            horizon: int(op.paths.width)?,
            column: int(op.column)?,
            step: int(op.step)?,
            shared: op.shared.into(),
            staged: (staged_bytes > 0).into(),
        };
        let flat = |rows: usize| Shape { shared_bytes: staged_bytes, ..Shape::flat(rows * op.positions, DRAW_THREADS) };
        let shape = match self.most(op.series)? {
            series if op.shared && series > 0 && kernel == Kernel::SampleMixture => {
                let [blocks, ..] = flat(self.most(op.paths.rows)?.div_ceil(series)).grid;
                let shared_bytes = op.positions * op.head.components() * size_of::<f64>();
                Shape { grid: [blocks, series, 1], threads: DRAW_THREADS, shared_bytes }
            }
            _ => flat(self.most(op.paths.rows)?),
        };
        let name = if kernel == Kernel::MeanMixture { "MeanMixture" } else { "SampleMixture" };
        self.launch(name, kernel, shape, argument)
    }
}
