//! Where models run: the engine's devices, by the names users need.

pub use nowcast_engine::cpu::CpuDevice;
pub use nowcast_engine::cpu::roofline;
pub use nowcast_engine::cuda::CudaDevice;
pub use nowcast_engine::device::Device;
pub use nowcast_engine::dtype::Dtype;
pub use nowcast_engine::profile::{Entry as ProfileEntry, Profile};
