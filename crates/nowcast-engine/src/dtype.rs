//! In what numbers a device keeps a matrix and multiplies it.

use std::fmt;

/// The numbers of a matrix and of the rows it is multiplied with; sums, and all that lies between products, are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dtype {
    /// 32-bit floats: exact up to their rounding.
    #[default]
    F32,
    /// Eleven bits of mantissa, as the TF32 of GPUs; half the bytes of f32.
    Tf32,
    /// The upper half of an f32: eight bits of mantissa, the same range. Half the bytes of f32. A processor that multiplies
    /// f16 faster computes in those, scaled: eleven bits.
    Bf16,
    /// Integers of 8 bits: one scale for each output of the matrix, and one for each row, found as it comes. A quarter
    /// of the bytes of f32.
    Int8,
}

impl Dtype {
    /// Every dtype, the most exact first.
    pub const ALL: [Self; 4] = [Self::F32, Self::Tf32, Self::Bf16, Self::Int8];

    /// The name users give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
