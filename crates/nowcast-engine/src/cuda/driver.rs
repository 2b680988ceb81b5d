//! The NVIDIA driver as a [`Machine`].

mod stream;

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUfunction_attribute_enum as FunctionAttribute};

use super::cubin_cache::CubinCache;
use super::kernel::{Kernel, SOURCES, Source};
use super::machine::{Boxes, Machine, Map, Queue};
use super::modules::Codes;
use super::nvrtc::{self, Nvrtc};
use super::weights::Format;
use crate::error::{Error, Result};
use stream::Stream;

/// Files of the driver, in the order in which they are tried.
pub(super) fn candidates() -> Vec<PathBuf> {
    ["cuda", "nvcuda"].into_iter().flat_map(cudarc::get_lib_name_candidates).map(PathBuf::from).collect()
}

/// Version of CUDA that the driver knows, major and minor; none without a driver.
pub(super) fn version() -> Option<(i32, i32)> {
    if !is_present() {
        return None;
    }
    let mut version = 0;
    // SAFETY: the library is there, and writes one number.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().ok()?;
    Some((version / 1000, version % 1000 / 10))
}

/// What a GPU says of itself.
pub(super) struct Told {
    pub(super) ordinal: usize,
    pub(super) name: String,
    pub(super) architecture: String,
    pub(super) free_bytes: usize,
    pub(super) total_bytes: usize,
}

/// Asks a GPU without loading kernels.
pub(super) fn ask(ordinal: usize) -> Result<Told> {
    let asking = |error| failure("asking the GPU", error);
    let context = CudaContext::new(ordinal).map_err(|error| failure("opening the GPU", error))?;
    let (major, minor) = context.compute_capability().map_err(asking)?;
    context.bind_to_thread().map_err(asking)?;
    let (free_bytes, total_bytes) = result::mem_get_info().map_err(asking)?;
    let name = context.name().map_err(asking)?;
    Ok(Told { ordinal, name, architecture: architecture(major, minor), free_bytes, total_bytes })
}

/// What kernels are compiled for. Warpgroups belong to the one architecture that has them, and to no later one.
fn architecture(major: i32, minor: i32) -> String {
    format!("sm_{major}{minor}{}", if has_warpgroups(major) { "a" } else { "" })
}

fn has_warpgroups(major: i32) -> bool {
    major == 9
}

/// Number of GPUs; 0 without a driver.
pub(super) fn count() -> usize {
    if !is_present() {
        return 0;
    }
    CudaContext::device_count().map_or(0, |count| usize::try_from(count).unwrap_or(0))
}

/// Whether there is a driver.
pub(super) fn is_present() -> bool {
    // SAFETY: loading the driver's library runs its initialisers, which ask nothing of us.
    unsafe { sys::is_culib_present() }
}

/// The GPU of a number, its kernels loaded.
pub(super) fn open(ordinal: usize) -> Result<Arc<dyn Machine>> {
    if !is_present() {
        return Err(Error::Device("there is no NVIDIA driver (libcuda): install it".into()));
    }
    let count = count();
    if ordinal >= count {
        return Err(Error::Device(format!("there is no GPU {ordinal}: this machine has {count}")));
    }
    let context = CudaContext::new(ordinal).map_err(|error| failure("opening the GPU", error))?;
    // SAFETY: nothing was allocated yet; order between streams is ours to keep, and every plan has one stream.
    unsafe { context.disable_event_tracking() };
    let attribute = |attribute| {
        context.attribute(attribute).map(|value| value as usize).map_err(|error| failure("asking the GPU", error))
    };
    let shared_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let all_shared_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
    let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let (major, minor) = context.compute_capability().map_err(|error| failure("asking the GPU", error))?;
    let name = context.name().map_err(|error| failure("asking the GPU", error))?;
    let architecture = architecture(major, minor);
    let mut gpu = Gpu {
        ordinal,
        kind: format!("{name}, {architecture}"),
        modules: Vec::new(),
        functions: Vec::new(),
        most_shared_bytes: shared_bytes - STATIC_SHARED_BYTES,
        all_shared_bytes,
        lone_clusters: Vec::new(),
        multiprocessors,
        is_hopper_or_later: major >= 9,
        has_warpgroups: has_warpgroups(major),
        context,
    };
    gpu.load(&architecture)?;
    Ok(Arc::new(gpu))
}

/// The driver reserves memory in blocks of this size.
const BLOCK_BYTES: usize = 2 << 20;
/// Device memory of a graph for each operation, beside one block, as free memory tells: within 2 MiB of what graphs of 55
/// to 5,500 kernels took with driver 580.
const RECORDED_OPERATION_BYTES: usize = 2_860;
/// Shared memory set aside for the fixed part of kernels; one whose part is larger has less for the launch to decide.
const STATIC_SHARED_BYTES: usize = 4096;

/// Compiles a source by whatever compiler is found; it is looked for once.
fn compile(source: &Source, options: &[String]) -> Result<Vec<u8>> {
    static COMPILER: OnceLock<std::result::Result<Nvrtc, String>> = OnceLock::new();
    match COMPILER.get_or_init(|| Nvrtc::find().map_err(|error| error.to_string())) {
        Ok(compiler) => {
            tracing::debug!("compiling {} with {}", source.name, compiler.origin.display());
            compiler.compile(source, options)
        }
        Err(message) => Err(Error::Device(message.clone())),
    }
}

fn failure(what: &str, error: DriverError) -> Error {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => Error::Device(format!("{what}: the GPU driver answers {name}, {text}")),
        _ => Error::Device(format!("{what}: the GPU driver answers {error:?}")),
    }
}

/// Kernels whose blocks form clusters of two and of four.
const CLUSTERED: [(Kernel, u32); 2] = [(Kernel::SplitRing2(Format::Brain), 2), (Kernel::SplitRing4(Format::Brain), 4)];

struct Gpu {
    ordinal: usize,
    kind: String,
    modules: Vec<sys::CUmodule>,
    /// In the order of [`Kernel::ALL`].
    functions: Vec<sys::CUfunction>,
    most_shared_bytes: usize,
    /// Of a multiprocessor.
    all_shared_bytes: usize,
    /// Of the kernels in [`CLUSTERED`].
    lone_clusters: Vec<usize>,
    multiprocessors: usize,
    /// Whether a kernel may start while the one before it ends, and blocks may form clusters (architecture 9.0).
    is_hopper_or_later: bool,
    has_warpgroups: bool,
    context: Arc<CudaContext>,
}

// SAFETY: handles of modules and functions belong to the context, and the driver lets any thread use them.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    fn load(&mut self, architecture: &str) -> Result<()> {
        let codes = Codes::new(nvrtc::options(architecture), CubinCache::of_user(), compile);
        let all = codes.all(SOURCES)?;
        self.bind()?;
        for (source, code) in SOURCES.iter().zip(&all) {
            let module = codes.load(source, code, |code| {
                // SAFETY: the code is a whole cubin, from the compiler or from the checked cache.
                let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
                module.map_err(|error| match error.0 {
                    sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::Memory { bytes: code.len(), what: "kernels" },
                    _ => failure("loading kernels", error),
                })
            });
            self.modules.push(module?);
        }
        for kernel in Kernel::ALL {
            let index = SOURCES.iter().position(|source| source.name == kernel.source()).expect("a listed source");
            let name = CString::new(kernel.name()).expect("a name without zero bytes");
            let what = format!("loading the kernel {}", kernel.name());
            // SAFETY: the module was just loaded, and the function is used while it stays loaded.
            unsafe {
                let function = result::module::get_function(self.modules[index], name);
                let function = function.map_err(|error| failure(&what, error))?;
                let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let fixed = FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
                let fixed = result::function::get_function_attribute(function, fixed);
                let beyond =
                    (fixed.map_err(|error| failure(&what, error))? as usize).saturating_sub(STATIC_SHARED_BYTES);
                result::function::set_function_attribute(function, most, (self.most_shared_bytes - beyond) as i32)
                    .map_err(|error| failure(&what, error))?;
                self.functions.push(function);
            }
        }
        self.lone_clusters = CLUSTERED.iter().map(|&(kernel, blocks)| self.clusters_at_once(kernel, blocks)).collect();
        Ok(())
    }

    /// Clusters of a kernel that run at once where each block has a multiprocessor for itself; none where there are no
    /// clusters or the driver does not tell.
    fn clusters_at_once(&self, kernel: Kernel, blocks: u32) -> usize {
        if !self.is_hopper_or_later {
            return 0;
        }
        let mut cluster = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: Default::default(),
            value: sys::CUlaunchAttributeValue {
                clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: blocks, y: 1, z: 1 },
            },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            // Any that fit: shared memory keeps a second block out.
            blockDimX: 128,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.spread_shared_bytes(1) as u32,
            hStream: std::ptr::null_mut(),
            attrs: &mut cluster,
            numAttrs: 1,
        };
        let mut clusters = 0;
        // SAFETY: the function is loaded, and the driver writes one number.
        let asked = unsafe {
            sys::cuOccupancyMaxActiveClusters(&mut clusters, self.functions[kernel.index()], &config).result()
        };
        tracing::debug!("{blocks} blocks: {clusters} clusters at once ({asked:?})");
        asked.map_or(0, |()| clusters as usize)
    }

    /// Makes the context that of this thread, before any call of the driver.
    fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|error| failure("choosing the GPU", error))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        for &module in &self.modules {
            // SAFETY: whoever launches its functions holds an `Arc` of this, so nothing runs any more.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}

impl Machine for Gpu {
    fn describe(&self) -> String {
        format!("cuda:{}, {}", self.ordinal, self.kind)
    }

    fn kind(&self) -> String {
        self.kind.clone()
    }

    fn most_shared_bytes(&self) -> usize {
        self.most_shared_bytes
    }

    fn spread_shared_bytes(&self, together: usize) -> usize {
        // With what the driver takes for each block, one more finds no room.
        self.all_shared_bytes / (together + 1)
    }

    fn lone_clusters(&self, blocks: usize) -> usize {
        let place = CLUSTERED.iter().position(|&(_, size)| size as usize == blocks);
        place.map_or(0, |place| self.lone_clusters[place])
    }

    fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    fn has_warpgroups(&self) -> bool {
        self.has_warpgroups
    }

    fn has_clusters(&self) -> bool {
        self.is_hopper_or_later
    }

    fn map(&self, boxes: Boxes) -> Result<Map> {
        self.bind()?;
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let sizes = [boxes.words as u64, boxes.rows as u64];
        let row_bytes = [boxes.words as u64 * 4];
        let box_sizes = [boxes.box_words as u32, boxes.box_rows as u32];
        let steps = [1, 1];
        // SAFETY: every array has as many numbers as a matrix has directions; the call only describes memory.
        let described = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
                sizes.len() as u32,
                boxes.address as *mut c_void,
                sizes.as_ptr(),
                row_bytes.as_ptr(),
                box_sizes.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        described.result().map_err(|error| failure("describing a matrix to the GPU", error))?;
        Ok(Map(map.opaque))
    }

    fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(|error| failure("asking for free memory", error))
    }

    fn taken(&self, bytes: usize) -> usize {
        bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(bytes)
    }

    fn recording_bytes(&self, operations: usize) -> usize {
        BLOCK_BYTES + operations * RECORDED_OPERATION_BYTES
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<u64> {
        self.bind()?;
        // SAFETY: an allocation asks nothing.
        unsafe { result::malloc_sync(bytes) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::Memory { bytes, what },
            _ => failure("reserving memory", error),
        })
    }

    unsafe fn free(&self, address: u64) {
        let _ = self.context.bind_to_thread();
        // SAFETY: as the caller promised.
        let _ = unsafe { result::free_sync(address) };
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.bind()?;
        let error = Error::Memory { bytes, what: "copies to and from the GPU" };
        // SAFETY: as `allocate`; the bytes written are those just reserved.
        unsafe {
            let memory = result::malloc_host(bytes, 0).ok().and_then(|memory| NonNull::new(memory.cast::<u8>()));
            let memory = memory.ok_or(error)?;
            memory.as_ptr().write_bytes(0, bytes);
            Ok(memory)
        }
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, _bytes: usize) {
        let _ = self.context.bind_to_thread();
        // SAFETY: as the caller promised.
        let _ = unsafe { result::free_host(memory.as_ptr().cast()) };
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.bind()?;
        // SAFETY: as the caller promised.
        unsafe { result::memcpy_htod_sync(to, bytes) }.map_err(|error| failure("copying to the GPU", error))
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        // On a stream of its own: the whole context cannot be waited for while another thread records a graph.
        let stream = self.context.new_stream().map_err(|error| failure("opening a stream", error))?;
        // SAFETY: as the caller promised.
        let filled = unsafe { result::memset_d8_async(to, byte, bytes, stream.cu_stream()) };
        filled.and_then(|()| stream.synchronize()).map_err(|error| failure("filling memory", error))
    }

    fn queue(self: Arc<Self>) -> Result<Box<dyn Queue>> {
        let stream = self.context.new_stream().map_err(|error| failure("opening a stream", error))?;
        Ok(Box::new(Stream::new(stream, self)))
    }
}
