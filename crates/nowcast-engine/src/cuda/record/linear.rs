//! Products without tensor cores: which kernel, which tile.

use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::cuda::weights::{DeviceLinear, PANEL, Panels};
use crate::error::Result;
use crate::operation::Linear;

argument! {
    /// `Linear` in linear.cuh.
    LinearArgument {
        weight: u64, bias: u64, input: u64, residual: u64, output: u64, row_scale: u64, live: u64,
        rows: KernelRows,
        inputs: i32, padded: i32, depth: i32, first_column: i32, columns: i32, first_panel: i32, gated: i32,
        has_norm: i32, epsilon: f32, depth_shift: i32, next: u64, next_bytes: u64,
    }
}

argument! {
    /// `RowScale` in linear_tiled.cu.
    RowScaleArgument { input: u64, row_scale: u64, live: u64, rows: KernelRows, inputs: i32, epsilon: f32 }
}

/// Rows up to which weights are streamed rather than tiled.
const MOST_SKINNY_ROWS: usize = 16;
/// Rows of a block of the narrow kernels, for few rows and for many: `ROWS` and `MANY_ROWS` in linear_narrow.cu.
const NARROW_ROWS: usize = 16;
const MANY_NARROW_ROWS: usize = 64;
/// Values between rows in the narrow kernels in f32: `ROW_GAP` in linear_narrow.cu.
const NARROW_GAP: usize = 4;
/// Rows and panels of a tile.
const TILE: (usize, usize) = (64, 2);
/// Rows of a tile of one panel whose depth is shared out.
const SPLIT_ROWS: usize = 32;
/// Shared memory of such a tile: four groups' two buffers each of 16 inputs of its rows (with a gap) and columns.
const SPLIT_BYTES: usize = 4 * 2 * (16 * PANEL + 20 * SPLIT_ROWS) * 4;
/// Threads that a skinny block may have, by its lanes.
const MOST_SKINNY_THREADS: [(usize, usize); 2] = [(8, 320), (4, 512)];

impl Recorder<'_> {
    pub(super) fn linear(&mut self, op: &Linear) -> Result<()> {
        let weights = self.weights;
        let most = self.most(op.input.rows)?;
        if op.columns.is_empty() || most == 0 {
            return Ok(());
        }
        let stored = &weights.linears[op.weight.index];
        let (address, linear) = match stored {
            DeviceLinear::Panels(panels) => (stored.weight_address(), panels),
            DeviceLinear::Fragments(fragments) => {
                return self.fragment_product(op, stored.weight_address(), fragments, most);
            }
        };
        let per_panel = if linear.gated { PANEL / 2 } else { PANEL };
        let first_panel = op.columns.start / per_panel;
        let panels = (op.columns.end - 1) / per_panel - first_panel + 1;
        let argument = LinearArgument {
            weight: address,
            bias: linear.bias_address(),
            input: self.at(op.input),
            residual: op.residual.map_or(0, |residual| self.at(residual)),
            output: self.at(op.output),
            row_scale: self.row_scale,
            live: self.live,
            rows: rows(op.input.rows)?,
            inputs: int(linear.inputs)?,
            padded: int(linear.padded)?,
            depth: int(linear.depth)?,
            first_column: int(op.columns.start)?,
            columns: int(op.columns.len())?,
            first_panel: int(first_panel)?,
            gated: linear.gated.into(),
            has_norm: op.norm_epsilon.is_some().into(),
            epsilon: op.norm_epsilon.unwrap_or(0.0),
            depth_shift: linear.depth.trailing_zeros() as i32,
            next: self.next.0,
            next_bytes: self.next.1,
        };
        const NAME: &str = "Linear";
        if linear.is_narrow() {
            let (kernel, shape) = self.narrow(linear, most, panels);
            return self.launch(NAME, kernel, shape, argument);
        }
        if let Some((kernel, shape)) = self.skinny(linear, most, panels, op.norm_epsilon.is_some()) {
            return self.launch(NAME, kernel, shape, argument);
        }
        if let Some(epsilon) = op.norm_epsilon {
            let scale = RowScaleArgument {
                input: argument.input,
                row_scale: self.row_scale,
                live: self.live,
                rows: argument.rows,
                inputs: argument.inputs,
                epsilon,
            };
            let shape = Shape { grid: [most.div_ceil(8), 1, 1], threads: 128, shared_bytes: 0 };
            self.launch(NAME, Kernel::RowScale, shape, scale)?;
        }
        let grid = [most.div_ceil(TILE.0), panels.div_ceil(TILE.1), 1];
        // Large tiles do more with what they read; too few of them leave multiprocessors idle.
        if grid[0] * grid[1] < 2 * weights.machine.multiprocessors() {
            let grid = [most.div_ceil(SPLIT_ROWS), panels, 1];
            let shape = Shape { grid, threads: 256, shared_bytes: SPLIT_BYTES };
            return self.launch(NAME, Kernel::LinearSplit, shape, argument);
        }
        self.launch(NAME, Kernel::LinearTiled, Shape { grid, threads: 128, shared_bytes: 0 }, argument)
    }

    /// The kernel that sums all inputs of a row in one chain. No choice here changes a digit.
    fn narrow(&self, linear: &Panels, most: usize, panels: usize) -> (Kernel, Shape) {
        let machine = &self.weights.machine;
        let shape = |rows: usize, threads, shared_bytes| Shape {
            grid: [most.div_ceil(rows), panels, 1],
            threads,
            shared_bytes,
        };
        let staged = |rows: usize, gap| rows * ((linear.padded + gap) * 4 + 17 * 8) + 16 + linear.padded * PANEL * 4;
        let fills = most.div_ceil(MANY_NARROW_ROWS) * panels >= machine.multiprocessors();
        if linear.is_short {
            return match fills {
                true => {
                    (Kernel::LinearNarrowManyShort, shape(MANY_NARROW_ROWS, 128, staged(MANY_NARROW_ROWS, NARROW_GAP)))
                }
                false => (Kernel::LinearNarrowShort, shape(NARROW_ROWS, 256, staged(NARROW_ROWS, NARROW_GAP))),
            };
        }
        let many = MANY_NARROW_ROWS * (linear.padded + 17) * 8 + linear.padded * PANEL * 8;
        if fills && many <= machine.most_shared_bytes() {
            return (Kernel::LinearNarrowMany, shape(MANY_NARROW_ROWS, 256, many));
        }
        (Kernel::LinearNarrow, shape(NARROW_ROWS, 256, staged(NARROW_ROWS, 0)))
    }

    /// The kernel that streams weights past few rows, if it suits. No choice here changes a digit.
    fn skinny(&self, linear: &Panels, most: usize, panels: usize, has_norm: bool) -> Option<(Kernel, Shape)> {
        if most > MOST_SKINNY_ROWS {
            return None;
        }
        let blocks = linear.padded / linear.depth;
        let tile = match most {
            0..=1 => 1,
            2..=4 => 4,
            _ => 8,
        };
        MOST_SKINNY_THREADS.into_iter().find_map(|(lanes, most_threads)| {
            // Wider blocks read the rows less often, narrower ones fill more multiprocessors.
            let grid = panels * (PANEL / 2 / lanes);
            let fills = lanes == 4 || grid >= self.weights.machine.multiprocessors();
            let kernel = match (tile, lanes) {
                (1, 4) => Kernel::LinearSkinny1By4,
                (4, 4) => Kernel::LinearSkinny4By4,
                (8, 4) => Kernel::LinearSkinny8By4,
                (1, _) => Kernel::LinearSkinny1By8,
                (4, _) => Kernel::LinearSkinny4By8,
                _ => Kernel::LinearSkinny8By8,
            };
            // The norm has threads of its own, sixteen for each row where there is room.
            let workers = blocks * 2 * lanes;
            let least = workers + if has_norm { 32 } else { 0 };
            let threads = if has_norm { (workers + 16 * tile).min(most_threads).max(least) } else { workers };
            // The first threads finish one pair of columns of one row each.
            let threads = threads.max(tile * lanes).next_multiple_of(32);
            let staged = (tile * blocks * (linear.depth + 4)).max(blocks * tile * 2 * lanes);
            let shared_bytes = staged * 4 + tile * (17 * 8 + 2 * lanes * 4);
            let fits = threads <= most_threads && shared_bytes <= self.weights.machine.most_shared_bytes();
            let shape = Shape { grid: [grid, 1, 1], threads, shared_bytes };
            (fills && fits).then_some((kernel, shape))
        })
    }
}
