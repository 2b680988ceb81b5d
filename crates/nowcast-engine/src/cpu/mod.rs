//! The CPU device: kernels chosen at run time by what the processor offers.

mod arena;
mod attend;
pub mod attention;
mod available;
pub mod detect;
mod device;
mod disjoint;
mod draw;
mod elementwise;
mod executor;
pub mod linear;
mod math;
mod memory;
pub mod mixture;
#[cfg(target_arch = "x86_64")]
mod pairs;
pub mod pool;
pub mod roofline;
mod rotate;
mod rows;
mod scale;
mod tile;
mod tokens;
pub(crate) mod vector;

pub use available::{available, control_group_limit};
pub use device::CpuDevice;
pub use rotate::MOST_HEAD_DIM;
