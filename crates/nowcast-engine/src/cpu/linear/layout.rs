//! What the columns of a packed matrix are, and in what numbers.

use super::PANEL;
use crate::cpu::detect::InstructionSet;
use crate::dtype::Dtype;

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

/// In what numbers a panel is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    Bf16,
    /// Scaled by a power of two for each column.
    F16,
    /// In a unit of its own for each column.
    Int8,
}

impl Format {
    /// What an instruction set wants for a dtype: bf16 is kept as f16 where that is multiplied as it is.
    pub(super) fn of(dtype: Dtype, set: InstructionSet) -> Self {
        match dtype {
            // A device that lacks TF32 keeps f32.
            Dtype::F32 | Dtype::Tf32 => Self::F32,
            Dtype::Bf16 if set.multiplies_half_floats() => Self::F16,
            Dtype::Bf16 => Self::Bf16,
            Dtype::Int8 => Self::Int8,
        }
    }

    /// Inputs that share a word.
    pub(super) fn inputs_per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 => 4,
        }
    }

    /// Whether sums are in units, one for each column.
    pub(super) fn has_units(self) -> bool {
        matches!(self, Self::F16 | Self::Int8)
    }
}
