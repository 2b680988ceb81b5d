//! The CUDA devices that tests run on: the kernels compiled for this processor, and a GPU where there is one.

use nowcast_engine::cuda::CudaDevice;

/// The devices to test; a missing compiler or GPU is said aloud.
pub(crate) fn devices() -> Vec<CudaDevice> {
    let found = [CudaDevice::emulated(), CudaDevice::new(0)];
    let opened = found.into_iter().filter_map(|device| match device {
        Ok(device) => Some(device.with_poisoned_memory()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("cannot build") || CudaDevice::count() == 0, "{message}");
            eprintln!("skipped: {message}");
            None
        }
    });
    opened.collect()
}
