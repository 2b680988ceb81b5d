//! What the columns of a packed matrix are.

use super::PANEL;

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
    pub(super) fn weight_row(self, panel: usize, column: usize, outputs: usize) -> Option<usize> {
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
