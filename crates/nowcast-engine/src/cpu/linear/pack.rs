//! Weights rearranged once, in the order in which the kernel reads them.
//!
//! A panel holds 32 columns for every input, input by input: `panel[input][column]`. Panels follow each other without a
//! gap, so one forecast reads the weights as one stream. The last panel is filled up with zeros.

use super::PANEL;
use crate::cpu::memory::Pages;
use crate::cpu::pool::ThreadPool;
use std::sync::{Mutex, PoisonError};

/// Values in a cache line.
const LINE: usize = 16;

/// Which half of the weight rows is the gate of a gated layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateHalf {
    /// Rows `0..outputs` are the gate, rows `outputs..2 * outputs` the values.
    First,
    /// The other way round.
    Second,
}

/// What the columns of a panel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One weight row per output.
    Plain,
    /// Two weight rows per output, `silu(gate) * value`: a panel holds 16 gates, then their 16 values.
    Gated(GateHalf),
}

impl Layout {
    /// Outputs of one panel.
    pub(super) fn panel_outputs(self) -> usize {
        match self {
            Self::Plain => PANEL,
            Self::Gated(_) => PANEL / 2,
        }
    }

    /// The weight row behind a column of a panel, none for padding.
    fn weight_row(self, panel: usize, column: usize, outputs: usize) -> Option<usize> {
        let width = self.panel_outputs();
        let output = panel * width + column % width;
        let second_half = match self {
            Self::Plain => false,
            Self::Gated(GateHalf::First) => column >= width,
            Self::Gated(GateHalf::Second) => column < width,
        };
        (output < outputs).then_some(if second_half { outputs + output } else { output })
    }
}

/// The packed weights and bias of a linear layer, in `f32`.
pub struct PackedLinear {
    outputs: usize,
    inputs: usize,
    layout: Layout,
    /// The panels, from `start` on.
    weights: Pages,
    /// The bias in the order of the panels' columns.
    bias: Option<Vec<f32>>,
}

impl PackedLinear {
    /// Packs weights of `[outputs, inputs]`, or `[2 * outputs, inputs]` for [`Layout::Gated`].
    ///
    /// `weight_row(row, values)` fills in one row of `inputs` values; it may convert, permute and scale on the way, and
    /// is called once per row, from any thread. The bias has one value per weight row.
    ///
    /// # Panics
    /// If `inputs` or `outputs` is 0, or the bias has another length.
    pub fn pack(
        layout: Layout,
        outputs: usize,
        inputs: usize,
        weight_row: impl Fn(usize, &mut [f32]) + Sync,
        bias: Option<&[f32]>,
        pool: &ThreadPool,
    ) -> Self {
        assert!(inputs > 0 && outputs > 0, "a linear layer needs at least one input and one output");
        let rows = outputs * (PANEL / layout.panel_outputs());
        assert!(bias.is_none_or(|bias| bias.len() == rows), "the bias needs one value per weight row ({rows})");
        let panels = outputs.div_ceil(layout.panel_outputs());
        // The packing threads are the first to write these pages.
        let mut weights = Pages::streamed(panels * inputs * PANEL);
        let work = Mutex::new(weights.values_mut().chunks_exact_mut(inputs * PANEL).take(panels).enumerate());
        pool.run(|_| {
            // A line more than a row: columns at a distance of a power of two would share few cache sets.
            let stride = inputs + LINE;
            let mut columns = vec![0.0; PANEL * stride];
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((panel, packed)) = next else { break };
                for (index, column) in columns.chunks_exact_mut(stride).enumerate() {
                    match layout.weight_row(panel, index, outputs) {
                        Some(row) => weight_row(row, &mut column[..inputs]),
                        None => column.fill(0.0),
                    }
                }
                for (input, packed) in packed.chunks_exact_mut(PANEL).enumerate() {
                    for (column, packed) in packed.iter_mut().enumerate() {
                        *packed = columns[column * stride + input];
                    }
                }
            }
        });
        let columns = (0..panels * PANEL).map(|index| layout.weight_row(index / PANEL, index % PANEL, outputs));
        let bias = bias.map(|bias| columns.map(|row| row.map_or(0.0, |row| bias[row])).collect());
        Self { outputs, inputs, layout, weights, bias }
    }

    /// Outputs per row: half the weight rows for [`Layout::Gated`].
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Inputs per row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// What the columns of a panel are.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.weights.len() + self.bias.as_ref().map_or(0, Vec::len) * size_of::<f32>()
    }

    /// The panels in order, each `[inputs, 32]`.
    pub(super) fn panels(&self, panels: std::ops::Range<usize>) -> &[f32] {
        let size = self.inputs * PANEL;
        &self.weights.values()[panels.start * size..panels.end * size]
    }

    /// The bias of a panel's columns.
    pub(super) fn panel_bias(&self, panel: usize) -> Option<&[f32]> {
        self.bias.as_ref().map(|bias| &bias[panel * PANEL..][..PANEL])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(layout: Layout, outputs: usize, inputs: usize, threads: usize) -> PackedLinear {
        let fill = |row: usize, values: &mut [f32]| {
            assert_eq!(values.len(), inputs);
            for (input, value) in values.iter_mut().enumerate() {
                *value = (row * 1000 + input) as f32 + 1.0;
            }
        };
        PackedLinear::pack(layout, outputs, inputs, fill, None, &ThreadPool::new(threads))
    }

    #[test]
    fn a_plain_panel_holds_its_columns_input_by_input() {
        let linear = packed(Layout::Plain, 40, 3, 2);
        let panels = linear.panels(0..2);
        assert_eq!(panels.as_ptr() as usize % 64, 0);
        for (index, value) in panels.iter().enumerate() {
            let (panel, input, column) = (index / 96, index / 32 % 3, index % 32);
            let row = panel * 32 + column;
            assert_eq!(*value, if row < 40 { (row * 1000 + input) as f32 + 1.0 } else { 0.0 });
        }
    }

    #[test]
    fn a_gated_panel_holds_gates_then_values() {
        for (half, gate_row, value_row) in [(GateHalf::First, 0, 20), (GateHalf::Second, 20, 0)] {
            let linear = packed(Layout::Gated(half), 20, 2, 1);
            let panels = linear.panels(0..2);
            for (index, value) in panels.iter().enumerate() {
                let (panel, input, column) = (index / 64, index / 32 % 2, index % 32);
                let output = panel * 16 + column % 16;
                let row = output + if column < 16 { gate_row } else { value_row };
                assert_eq!(*value, if output < 20 { (row * 1000 + input) as f32 + 1.0 } else { 0.0 });
            }
        }
    }

    #[test]
    fn bytes_count_everything_held() {
        let pool = ThreadPool::new(1);
        let linear = PackedLinear::pack(Layout::Plain, 33, 5, |_, values| values.fill(1.0), Some(&[0.5; 33]), &pool);
        assert_eq!(linear.bytes(), 4 * (2 * 32 * 5 + 64));
    }
}
