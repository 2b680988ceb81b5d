//! Linear layers: `y = x * W^T + b` on packed weights, with what surrounds them fused in.
//!
//! The rows of a call are first rearranged (and rounded, for bf16 and int8) into an [`Operand`], then multiplied with
//! panels of 32 columns.
//!
//! - f32: an output element is the sum of blocks of [`depth_block`] inputs, each one chain of multiply-adds in order,
//!   and the blocks are added in order. So its digits do not depend on the number of rows, the range of columns, the
//!   number of threads, or the instruction set (the portable one apart, which rounds products).
//! - bf16: weights and rows are rounded, ties to even, and then multiplied as f32. Products of two bf16 are exact, so
//!   the sums have the same digits on every instruction set.
//!   Where the processor multiplies f16 twice as fast, bf16 is computed in those instead: weights and rows are scaled by
//!   powers of two and rounded to eleven bits, and short chains of multiply-adds in f16 are added up in f32. The digits are
//!   others, and nearer.
//! - int8: weights have one scale for each output, rows one each; sums of integers are exact.
//!
//! | file | what it owns |
//! |---|---|
//! | `call` | a call, and how it is cut into tasks |
//! | `layout`, `pack` | weights in the order in which the kernels read them |
//! | `rounding` | what bf16, f16 and int8 make of a value |
//! | `operand` | the rows of a call in the order in which the kernels read them |
//! | `block` | what one task multiplies |
//! | `float`, `tile`, `weights` | f32 and bf16 |
//! | `half_float` | bf16 in f16 |
//! | `integer` | int8 |
//! | `prefetch` | weights fetched before they are read |
//! | `narrow` | f32 layers of few inputs, in f64 |
//! | `norm`, `epilogue`, `output` | what surrounds a product |

mod block;
mod call;
mod epilogue;
mod float;
mod half_float;
mod integer;
mod layout;
mod narrow;
mod norm;
mod operand;
mod output;
mod pack;
mod prefetch;
mod rounding;
mod tile;
mod weights;

pub use call::LinearCall;
pub use layout::{GateHalf, Layout};
pub(crate) use narrow::MOST_INPUTS as MOST_NARROW_INPUTS;
pub use operand::Operand;
pub use output::Addend;
pub use pack::{PackedLinear, Shape};
pub use rounding::MOST_INT8_INPUTS;

/// Columns of a packed panel.
pub(crate) const PANEL: usize = 32;

/// Inputs that one chain of multiply-adds covers: the power of two next to twice the root of all inputs.
///
/// The root would keep the chains and the sum of their results shortest together, and so the rounding error least; twice
/// that adds a quarter to the length of both, and saves half of the additions between chains.
pub fn depth_block(inputs: usize) -> usize {
    (2 * inputs.isqrt()).next_power_of_two().clamp(8, 64)
}
