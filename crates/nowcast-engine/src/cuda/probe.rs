//! What is there to run on a GPU: driver, compiler, devices, compiled kernels; and where it was looked for.

use std::path::{Path, PathBuf};

use super::cubin_cache::CubinCache;
use super::driver;
use super::kernel::SOURCES;
use super::nvrtc::{self, Nvrtc};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Findings {
    /// NVIDIA's driver, libcuda.
    pub driver: Library,
    /// The compiler of kernels, NVRTC.
    pub compiler: Library,
    /// Every GPU the driver tells of.
    pub gpus: Vec<Gpu>,
    /// Compiled kernels on disk.
    pub kernels: KernelCache,
}

/// A library that is loaded at run time.
#[derive(Debug)]
pub struct Library {
    /// Files that were tried, in order; names without a folder are looked for where the system does.
    pub looked_for: Vec<PathBuf>,
    /// The file that was loaded.
    pub loaded: Option<PathBuf>,
    /// Major and minor version.
    pub version: Option<(i32, i32)>,
}

/// A GPU.
#[derive(Debug)]
pub struct Gpu {
    /// Its number, for `cuda:N`.
    pub ordinal: usize,
    /// What NVIDIA calls it.
    pub name: String,
    /// Such as `sm_90`.
    pub architecture: String,
    /// Bytes that nobody uses.
    pub free_bytes: usize,
    /// Bytes it has.
    pub total_bytes: usize,
    /// How many files of kernels are compiled for it, of [`Gpu::kernels`].
    pub compiled: usize,
    /// How many files of kernels there are.
    pub kernels: usize,
}

/// Compiled kernels on disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KernelCache {
    /// The folder, where the user has one; it need not exist.
    pub folder: Option<PathBuf>,
    /// Entries that are whole.
    pub entries: usize,
    /// Entries that are not: they are compiled again when they are needed.
    pub damaged: usize,
    /// Bytes of all entries.
    pub bytes: u64,
}

/// Looks around; starts nothing on a GPU but a context, and fails nowhere.
pub fn probe() -> Findings {
    let cache = CubinCache::of_user();
    let compiled = |architecture: &str| {
        let options = nvrtc::options(architecture);
        SOURCES.iter().filter(|source| cache.holds(source, &options)).count()
    };
    let gpus = (0..driver::count()).filter_map(|ordinal| driver::ask(ordinal).ok()).map(|told| Gpu {
        ordinal: told.ordinal,
        compiled: compiled(&told.architecture),
        kernels: SOURCES.len(),
        name: told.name,
        architecture: told.architecture,
        free_bytes: told.free_bytes,
        total_bytes: told.total_bytes,
    });
    let nvrtc = Nvrtc::find().ok();
    Findings {
        gpus: gpus.collect(),
        compiler: Library {
            looked_for: nvrtc::candidates(),
            version: nvrtc.as_ref().and_then(Nvrtc::version),
            loaded: nvrtc.map(|found| mapped("libnvrtc.so").unwrap_or(found.origin)),
        },
        driver: Library {
            looked_for: driver::candidates(),
            version: driver::version(),
            loaded: driver::is_present().then(|| mapped("libcuda.so").unwrap_or_else(|| "libcuda".into())),
        },
        kernels: cache.state(),
    }
}

/// The file behind a library that is loaded, where the system tells.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..]))).find_map(|path| {
        let file = path.file_name()?.to_str()?;
        file.starts_with(name).then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_places_where_it_was_looked_for() {
        let findings = probe();
        assert!(findings.driver.looked_for.iter().any(|name| name.to_string_lossy().contains("cuda")));
        assert!(findings.compiler.looked_for.iter().any(|name| name.to_string_lossy().contains("nvrtc")));
        assert_eq!(findings.driver.loaded.is_some(), findings.driver.version.is_some());
        if findings.driver.loaded.is_none() {
            assert!(findings.gpus.is_empty());
        }
        for gpu in findings.gpus {
            assert!(gpu.architecture.starts_with("sm_") && gpu.free_bytes <= gpu.total_bytes);
            assert!(gpu.compiled <= gpu.kernels);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_loaded_library_is_found_by_name() {
        assert!(mapped("libc.so").is_some_and(|path| path.is_absolute()));
        assert_eq!(mapped("libnothing.so"), None);
    }
}
