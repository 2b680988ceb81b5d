//! A stream of the driver as a [`Queue`], with the graphs recorded on it.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaStream, result, sys};

use super::{Gpu, failure};
use crate::cuda::machine::{KernelLaunch, Queue};
use crate::error::Result;

/// A recording that is ready to run.
struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: a graph may be used by any thread, one at a time; its stream's owner sees to that.
unsafe impl Send for Graph {}

pub(super) struct Stream {
    graphs: Vec<Graph>,
    stream: Arc<CudaStream>,
    gpu: Arc<Gpu>,
    /// Whether the work queued last is a kernel.
    follows_kernel: bool,
}

impl Stream {
    pub(super) fn new(stream: Arc<CudaStream>, gpu: Arc<Gpu>) -> Self {
        Self { graphs: Vec::new(), stream, gpu, follows_kernel: false }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.stream.synchronize();
        for graph in &self.graphs {
            // SAFETY: both were made by `end_recording`, and nothing runs any more.
            unsafe {
                let _ = result::graph::exec_destroy(graph.executable);
                let _ = result::graph::destroy(graph.graph);
            }
        }
    }
}

impl Queue for Stream {
    unsafe fn launch(&mut self, launch: &KernelLaunch) -> Result<()> {
        self.gpu.bind()?;
        let function = self.gpu.functions[launch.kernel.index()];
        let mut parameters = [launch.argument.words.as_ptr().cast::<c_void>().cast_mut()];
        let [x, y, z] = launch.grid;
        // Kernels wait themselves for the one before; copies know nothing of that.
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared_bytes,
            hStream: self.stream.cu_stream(),
            attrs: &mut early,
            numAttrs: u32::from(self.gpu.is_hopper_or_later && self.follows_kernel),
        };
        self.follows_kernel = launch.kernel.lets_next_start();
        // SAFETY: the driver copies the argument during the call; the rest is as the caller promised.
        unsafe { sys::cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .map_err(|error| failure(&format!("{} ({})", launch.operation, launch.kernel.name()), error))
    }

    unsafe fn copy_in(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<()> {
        self.gpu.bind()?;
        self.follows_kernel = false;
        // SAFETY: as the caller promised.
        unsafe {
            result::memcpy_htod_async(to, std::slice::from_raw_parts(from, bytes), self.stream.cu_stream())
                .map_err(|error| failure("copying to the GPU", error))
        }
    }

    unsafe fn copy_out(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        self.gpu.bind()?;
        self.follows_kernel = false;
        // SAFETY: as the caller promised.
        unsafe {
            result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(to, bytes), from, self.stream.cu_stream())
                .map_err(|error| failure("copying from the GPU", error))
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronize().map_err(|error| failure("waiting for the GPU", error))
    }

    fn begin_recording(&mut self) -> Result<()> {
        // Calls of other threads do not end up in the recording and do not spoil it.
        self.follows_kernel = false;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(|error| failure("recording a graph", error))
    }

    fn end_recording(&mut self, keep: bool) -> Result<Option<usize>> {
        self.gpu.bind()?;
        self.follows_kernel = false;
        let error = |error| failure("recording a graph", error);
        // SAFETY: the stream is recording; a graph that is not kept is destroyed here, others when the stream is.
        unsafe {
            let graph = result::stream::end_capture(self.stream.cu_stream()).map_err(error)?;
            if !keep {
                let _ = result::graph::destroy(graph);
                return Ok(None);
            }
            let executable = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).map_err(|failed| {
                let _ = result::graph::destroy(graph);
                error(failed)
            })?;
            self.graphs.push(Graph { graph, executable });
            result::graph::upload(executable, self.stream.cu_stream()).map_err(error)?;
        }
        Ok(Some(self.graphs.len() - 1))
    }

    unsafe fn replay(&mut self, recording: usize) -> Result<()> {
        self.gpu.bind()?;
        self.follows_kernel = false;
        // SAFETY: the graph stays until the stream is dropped; the rest is as the caller promised.
        unsafe { result::graph::launch(self.graphs[recording].executable, self.stream.cu_stream()) }
            .map_err(|error| failure("replaying a graph", error))
    }
}
