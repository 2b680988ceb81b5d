//! The CUDA device: every operation of a plan as a kernel of our own, a whole forecast as one graph.
//!
//! The driver and the compiler (NVRTC) are looked for at run time, so one binary runs with and without a GPU. Kernels
//! travel as sources, because one binary then serves every architecture the installed compiler knows; what it makes of
//! them is kept on disk. A plan becomes a list of launches whose arguments never change: what varies from run to run
//! is a small structure in the device's memory. Products run on tensor cores in an order of sums of their own, the same for
//! any number of rows; on request everything keeps the order of the CPU device, and its digits.
//!
//! | file | what it owns |
//! |---|---|
//! | `machine` | what the device needs of a driver |
//! | `driver` | the NVIDIA driver |
//! | `nvrtc`, `cubin_cache`, `modules` | from sources to machine code, once per architecture |
//! | `choices`, `stopwatch` | which of several kernels is the fastest, measured once per machine |
//! | `kernel`, `argument` | which kernels there are, and how their arguments lie in memory |
//! | `weights` | packing and uploading |
//! | `record` | from operations to launches |
//! | `layout` | the memory of a plan |
//! | `executable`, `staging`, `answers` | runs, graphs, and the host's side of them |
//! | [`probe`] | what is there, and where it was looked for |
//! | `emulator`, `faults` | the same kernels compiled for this processor, their races, and what can go wrong, for tests |

mod answers;
mod argument;
mod choices;
mod cubin_cache;
mod device;
mod driver;
#[cfg(feature = "emulation")]
mod emulator;
mod executable;
#[cfg(feature = "emulation")]
mod faults;
mod kernel;
mod layout;
mod machine;
mod modules;
mod nvrtc;
pub mod probe;
mod record;
mod staging;
mod stopwatch;
mod weights;

pub use device::CudaDevice;
#[cfg(feature = "emulation")]
pub use faults::{Faults, Site};
