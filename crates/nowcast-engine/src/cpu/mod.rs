//! The CPU device: kernels chosen at run time by what the processor offers.

pub mod attention;
pub mod detect;
mod disjoint;
pub mod linear;
mod math;
pub mod memory;
pub mod mixture;
pub mod pool;
mod tile;
mod vector;
