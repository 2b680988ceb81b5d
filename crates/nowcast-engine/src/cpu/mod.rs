//! The CPU device: kernels chosen at run time by what the processor offers.

pub mod linear;
pub mod mixture;
pub mod pool;
