//! The CUDA devices that tests run on: the kernels compiled for this processor, and every GPU that there is.

use nowcast_engine::cuda::CudaDevice;

/// The devices to test; a missing compiler or GPU is said aloud.
pub(crate) fn devices() -> Vec<CudaDevice> {
    // Without one, the first tells why.
    let gpus = (0..CudaDevice::count().max(1)).map(CudaDevice::new);
    let opened = std::iter::once(CudaDevice::emulated()).chain(gpus).filter_map(|device| match device {
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
