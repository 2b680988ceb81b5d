//! The CPU device: kernels chosen at run time by what the processor offers.

mod arena;
mod attend;
mod device;
mod draw;
mod elementwise;
mod executor;
mod rotate;
mod rows;
mod scale;

pub mod linear;
pub mod mixture;
pub mod pool;

pub use device::CpuDevice;
pub use rotate::MOST_HEAD_DIM;
