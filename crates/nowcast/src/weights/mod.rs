//! Tensors of a checkpoint on their way to a device: stacked, permuted, folded.
//!
//! | file | what it owns |
//! |---|---|
//! | `loader` | matrices whose rows come from stored tensors |
//! | `dtype` | which dtypes a device and a mode allow |
//! | `folding` | products of weights, taken once in f64 |

mod dtype;
pub(crate) mod folding;
mod loader;

pub(crate) use dtype::check_dtype;
pub(crate) use loader::{Loader, Matrix, NormLinear, Stored, plain_rows};
