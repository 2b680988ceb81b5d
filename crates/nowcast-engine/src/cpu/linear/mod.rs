//! Linear layers: `y = x * W^T + b` on packed weights, with what surrounds them fused in.
//!
//! An output element is the sum of blocks of [`depth_block`] inputs, each one chain of multiply-adds in order, and the
//! blocks are added in order. So its digits do not depend on the number of rows, the range of columns, the number of
//! threads, or the instruction set (the portable one apart, which rounds products).

mod call;
mod epilogue;
mod narrow;
mod norm;
mod pack;

pub use call::{Addend, LinearCall};
pub(crate) use narrow::MOST_INPUTS as MOST_NARROW_INPUTS;
pub use pack::{GateHalf, Layout, PackedLinear};

/// Columns of a packed panel.
pub(crate) const PANEL: usize = 32;

/// Inputs that one chain of multiply-adds covers: the power of two next to twice the root of all inputs.
///
/// The root would keep the chains and the sum of their results shortest together, and so the rounding error least; twice
/// that adds a quarter to the length of both, and saves half of the additions between chains.
pub fn depth_block(inputs: usize) -> usize {
    (2 * inputs.isqrt()).next_power_of_two().clamp(8, 64)
}
