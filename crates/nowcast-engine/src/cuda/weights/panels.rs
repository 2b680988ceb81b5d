//! Matrices of f32 for products without tensor cores, which sum in the order of the CPU.

use super::{WeightBlock, bytes_of};
use crate::cpu::linear::{MOST_NARROW_INPUTS, depth_block};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::weights::{Activation, LinearSource, ReadRow};

/// Columns of a panel; a gated one holds as many gates as values.
pub(in crate::cuda) const PANEL: usize = 32;
/// Inputs that lie together.
const GROUP: usize = 4;

/// A matrix as `[panels, padded / 4, 32, 4]`, then its bias as `[panels, 32]`.
pub(in crate::cuda) struct Panels {
    /// Where it lies, once it is packed.
    pub(super) address: u64,
    pub(in crate::cuda) inputs: usize,
    /// Inputs rounded up to whole blocks.
    pub(in crate::cuda) padded: usize,
    /// Inputs that one chain of multiply-adds covers.
    pub(in crate::cuda) depth: usize,
    pub(in crate::cuda) gated: bool,
    /// Whether operands of other products are rounded, so that nothing is gained by sums in f64.
    pub(in crate::cuda) is_short: bool,
    panels: usize,
    /// With the bias.
    pub(super) bytes: usize,
}

impl Panels {
    /// Whether a sum is one chain over all inputs: in f32 if it is short, else in f64.
    pub(in crate::cuda) fn is_narrow(&self) -> bool {
        self.inputs <= MOST_NARROW_INPUTS
    }

    pub(in crate::cuda) fn weight_bytes(&self) -> usize {
        self.panels * self.padded * PANEL * size_of::<f32>()
    }

    pub(in crate::cuda) fn bias_address(&self) -> u64 {
        self.address + self.weight_bytes() as u64
    }

    /// How a matrix will lie in memory.
    pub(super) fn of(source: &LinearSource<'_>) -> Result<Self> {
        let gated = source.activation == Activation::SwiGlu;
        let inputs = source.inputs;
        let panels = match gated {
            true => (source.rows / 2).div_ceil(PANEL / 2),
            false => source.rows.div_ceil(PANEL),
        };
        let depth = if inputs <= MOST_NARROW_INPUTS { GROUP } else { depth_block(inputs) };
        let padded = inputs.checked_next_multiple_of(depth).ok_or(Error::Overflow)?;
        let bytes = padded.checked_add(1).and_then(|each| each.checked_mul(PANEL * size_of::<f32>()));
        let bytes = bytes.and_then(|each| each.checked_mul(panels)).ok_or(Error::Overflow)?;
        let is_short = matches!(source.dtype, Dtype::Tf32 | Dtype::Bf16);
        Ok(Self { address: 0, bytes, inputs, padded, depth, gated, is_short, panels })
    }

    /// Reads a matrix row by row, packs it on all cores and uploads it.
    pub(super) fn pack(&mut self, source: LinearSource<'_>, block: &mut WeightBlock) -> Result<()> {
        let &mut Self { bytes, inputs, padded, gated, panels, .. } = self;
        let rows = source.rows;
        let outputs = if gated { rows / 2 } else { rows };
        let panel_values = padded * PANEL;
        let values = bytes / size_of::<f32>();
        let mut packed = Vec::new();
        packed.try_reserve_exact(values).map_err(|_| Error::Memory { bytes, what: "packing a matrix" })?;
        packed.resize(values, 0.0f32);
        let (weights, biases) = packed.split_at_mut(panels * panel_values);
        let row_of = |panel: usize, column: usize| {
            let row = match (gated, column < PANEL / 2) {
                (false, _) => panel * PANEL + column,
                (true, true) => panel * (PANEL / 2) + column,
                (true, false) => outputs + panel * (PANEL / 2) + column - PANEL / 2,
            };
            let end = if gated && column < PANEL / 2 { outputs } else { rows };
            (row < end).then_some(row)
        };
        let read = (source.open)();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(panels.max(1));
        let share = panels.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (index, part) in weights.chunks_mut(share * panel_values).enumerate() {
                let (read, row_of) = (&read, &row_of);
                scope.spawn(move || {
                    for (offset, panel) in part.chunks_mut(panel_values).enumerate() {
                        pack_panel(panel, inputs, read, &|column| row_of(index * share + offset, column));
                    }
                });
            }
        });
        drop(read);
        if let Some(bias) = &source.bias {
            for (index, value) in biases.iter_mut().enumerate() {
                *value = row_of(index / PANEL, index % PANEL).map_or(0.0, |row| bias[row]);
            }
        }
        (source.packed)();
        self.address = block.put(bytes_of(&packed))?;
        Ok(())
    }
}

fn pack_panel(panel: &mut [f32], inputs: usize, read: &ReadRow<'_>, row_of: &dyn Fn(usize) -> Option<usize>) {
    let mut values = vec![0.0; inputs];
    for column in 0..PANEL {
        let Some(row) = row_of(column) else { continue };
        read(row, &mut values);
        for (input, &value) in values.iter().enumerate() {
            panel[(input / GROUP * PANEL + column) * GROUP + input % GROUP] = value;
        }
    }
}
