//! What is there: processor, memory, GPU, compiled kernels, checkpoints. Looked up, never changed.

use std::path::PathBuf;

use nowcast_engine::cpu::detect::InstructionSet;
use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::cpu::{available, control_group_limit};
use nowcast_engine::cuda::probe;
use serde::Serialize;

use crate::checkpoint::HubOptions;

/// See the [module documentation](self).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// Version of this library.
    pub version: &'static str,
    /// Operating system and architecture.
    pub platform: String,
    /// The processor.
    pub cpu: Cpu,
    /// The host's memory.
    pub memory: Memory,
    /// NVIDIA's driver.
    pub driver: Library,
    /// The compiler of CUDA kernels.
    pub compiler: Library,
    /// GPUs.
    pub gpus: Vec<Gpu>,
    /// Compiled kernels on disk.
    pub kernel_cache: KernelCache,
    /// Checkpoints and the way to them.
    pub checkpoints: Checkpoints,
}

/// The processor.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Cpu {
    /// Cores the process may use.
    pub threads: usize,
    /// The instruction set that kernels use.
    pub instruction_set: &'static str,
    /// Those that the processor has, the slowest first.
    pub supported: Vec<&'static str>,
}

/// The host's memory in bytes, where the system tells.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// What can still be had.
    pub available_bytes: Option<usize>,
    /// The limit of the container or job.
    pub limit_bytes: Option<usize>,
}

/// A library that is loaded at run time.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Library {
    /// The file, if it was found.
    pub loaded: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Files that were tried, in order; names without a folder are looked for where the system does.
    pub looked_for: Vec<PathBuf>,
}

impl From<probe::Library> for Library {
    fn from(library: probe::Library) -> Self {
        let probe::Library { looked_for, loaded, version } = library;
        Self { loaded, version: version.map(|(major, minor)| format!("{major}.{minor}")), looked_for }
    }
}

/// A GPU.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Gpu {
    /// Its name for `--device`.
    pub device: String,
    /// What NVIDIA calls it.
    pub name: String,
    /// Such as `sm_90`.
    pub architecture: String,
    /// Bytes that nobody uses.
    pub free_bytes: usize,
    /// Bytes it has.
    pub total_bytes: usize,
    /// Files of kernels that are compiled for it.
    pub kernels_compiled: usize,
    /// Files of kernels.
    pub kernels: usize,
}

/// Compiled kernels on disk.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct KernelCache {
    /// The folder.
    pub folder: Option<PathBuf>,
    /// Entries that are whole.
    pub entries: usize,
    /// Entries that will be compiled again.
    pub damaged: usize,
    /// Bytes of all.
    pub bytes: u64,
}

/// Checkpoints and the way to them.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Checkpoints {
    /// The Hugging Face cache.
    pub cache: Option<PathBuf>,
    /// Models in it.
    pub cached_models: usize,
    /// Where models are downloaded from.
    pub endpoint: String,
    /// Whether nothing is downloaded.
    pub offline: bool,
    /// Whether there is an access token.
    pub has_token: bool,
    /// Whether this build can download at all.
    pub downloads: bool,
}

impl Facts {
    /// Looks everything up.
    pub fn gather(hub: &HubOptions) -> Self {
        let findings = probe::probe();
        let gpus = findings.gpus.into_iter().map(|gpu| Gpu {
            device: format!("cuda:{}", gpu.ordinal),
            name: gpu.name,
            architecture: gpu.architecture,
            free_bytes: gpu.free_bytes,
            total_bytes: gpu.total_bytes,
            kernels_compiled: gpu.compiled,
            kernels: gpu.kernels,
        });
        let probe::KernelCache { folder, entries, damaged, bytes } = findings.kernels;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: Cpu {
                threads: ThreadPool::available_threads(),
                instruction_set: InstructionSet::detected().name(),
                supported: InstructionSet::supported().map(InstructionSet::name).collect(),
            },
            memory: Memory { available_bytes: available(), limit_bytes: control_group_limit() },
            gpus: gpus.collect(),
            driver: findings.driver.into(),
            compiler: findings.compiler.into(),
            kernel_cache: KernelCache { folder, entries, damaged, bytes },
            checkpoints: Checkpoints {
                cached_models: hub.cache.as_deref().map_or(0, models_in),
                cache: hub.cache.clone(),
                endpoint: hub.endpoint.clone(),
                offline: hub.offline,
                has_token: hub.token.is_some(),
                downloads: cfg!(feature = "hub"),
            },
        }
    }
}

/// Models in a Hugging Face cache.
fn models_in(cache: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("models--")).count()
}
