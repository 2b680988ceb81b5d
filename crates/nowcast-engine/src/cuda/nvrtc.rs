//! The run-time compiler of CUDA C++, found at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::kernel::{HEADERS, Source};
use crate::error::{Error, Result};

/// Names a library file to use instead of those looked for.
const ENVIRONMENT_VARIABLE: &str = "NOWCAST_NVRTC";

type Program = *mut c_void;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The compiler.
pub(super) struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Get,
    cubin_size: Size,
    cubin: Get,
    destroy: Destroy,
    version: Version,
    /// Where it was found.
    pub(super) origin: PathBuf,
    /// Keeps the functions above in memory.
    _library: Library,
}

impl Nvrtc {
    /// Looks in the places where toolkits, drivers and Python packages put it.
    pub(super) fn find() -> Result<Self> {
        let candidates = candidates();
        candidates.iter().find_map(|path| Self::open(path)).ok_or_else(|| {
            Error::Device(format!(
                "cannot find the CUDA compiler library (libnvrtc.so.13 or .12): install the CUDA toolkit or the Python \
                 package nvidia-cuda-nvrtc, or set {ENVIRONMENT_VARIABLE} to the library file"
            ))
        })
    }

    fn open(path: &Path) -> Option<Self> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which ask nothing of us.
        let library = unsafe { Library::new(path) }.ok()?;
        // SAFETY: the types are those of nvrtc.h, the same since CUDA 11.
        unsafe {
            Some(Self {
                create: *library.get(b"nvrtcCreateProgram\0").ok()?,
                compile: *library.get(b"nvrtcCompileProgram\0").ok()?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0").ok()?,
                log: *library.get(b"nvrtcGetProgramLog\0").ok()?,
                cubin_size: *library.get(b"nvrtcGetCUBINSize\0").ok()?,
                cubin: *library.get(b"nvrtcGetCUBIN\0").ok()?,
                destroy: *library.get(b"nvrtcDestroyProgram\0").ok()?,
                version: *library.get(b"nvrtcVersion\0").ok()?,
                origin: path.to_owned(),
                _library: library,
            })
        }
    }

    /// Major and minor version.
    pub(super) fn version(&self) -> Option<(i32, i32)> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is loaded, and writes two numbers.
        let status = unsafe { (self.version)(&mut major, &mut minor) };
        (status == 0).then_some((major, minor))
    }

    /// Machine code of one source.
    pub(super) fn compile(&self, source: &Source, options: &[String]) -> Result<Vec<u8>> {
        let text = |text: &str| CString::new(text).expect("sources and options hold no zero byte");
        let (name, code) = (text(source.name), text(source.text));
        let headers: Vec<CString> = HEADERS.iter().map(|header| text(header.text)).collect();
        let names: Vec<CString> = HEADERS.iter().map(|header| text(header.name)).collect();
        let options: Vec<CString> = options.iter().map(|option| text(option)).collect();
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let (headers, names, options) = (pointers(&headers), pointers(&names), pointers(&options));
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: all strings end with zero and outlive the calls; buffers are as large as the library asks for.
        unsafe {
            let count = headers.len() as c_int;
            let (code, name) = (code.as_ptr(), name.as_ptr());
            let created = (self.create)(&mut program, code, name, count, headers.as_ptr(), names.as_ptr());
            if created != 0 {
                return Err(Error::Device(format!("the CUDA compiler refused {} (error {created})", source.name)));
            }
            let status = (self.compile)(program, options.len() as c_int, options.as_ptr());
            let result = if status == 0 {
                Ok(self.fetch(program, self.cubin_size, self.cubin))
            } else {
                let log = self.fetch(program, self.log_size, self.log);
                let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
                let line = log.lines().find(|line| line.contains("error")).unwrap_or(log.trim());
                Err(Error::Device(format!("the CUDA compiler failed on {} (error {status}): {line}", source.name)))
            };
            (self.destroy)(&mut program);
            result
        }
    }

    /// # Safety
    /// `program` is alive, and `size` tells how much `get` writes.
    unsafe fn fetch(&self, program: Program, size: Size, get: Get) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: as the caller promised.
        unsafe {
            if size(program, &mut length) != 0 {
                return Vec::new();
            }
            let mut bytes = vec![0u8; length];
            get(program, bytes.as_mut_ptr().cast());
            bytes
        }
    }
}

/// Options for an architecture such as `sm_90`; contraction is off, so that digits are those we wrote.
pub(super) fn options(architecture: &str) -> Vec<String> {
    vec![format!("--gpu-architecture={architecture}"), "--fmad=false".into(), "--std=c++17".into()]
}

/// Files of the compiler, in the order in which they are tried.
pub(super) fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(ENVIRONMENT_VARIABLE) {
        return vec![path.into()];
    }
    let names: &[&str] = match cfg!(windows) {
        true => &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
        false => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    };
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(std::env::var_os(variable).map(|home| Path::new(&home).join("lib64")));
    }
    folders.push("/usr/local/cuda/lib64".into());
    folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::kernel::SOURCES;
    use super::*;

    /// Needs the compiler (`pip install nvidia-cuda-nvrtc`), no GPU; `.ci/run` sees to it.
    #[test]
    fn every_kernel_compiles_for_every_architecture() {
        let Ok(nvrtc) = Nvrtc::find() else {
            assert!(std::env::var_os(ENVIRONMENT_VARIABLE).is_none(), "the named compiler cannot be loaded");
            eprintln!(
                "skipped: there is no CUDA compiler here (pip install nvidia-cuda-nvrtc, set {ENVIRONMENT_VARIABLE})"
            );
            return;
        };
        std::thread::scope(|scope| {
            for architecture in ["sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"] {
                let nvrtc = &nvrtc;
                scope.spawn(move || {
                    for source in SOURCES {
                        let code = nvrtc.compile(source, &options(architecture));
                        let code = code.unwrap_or_else(|error| panic!("{architecture}: {error}"));
                        assert!(code.starts_with(b"\x7fELF"), "{} for {architecture}", source.name);
                    }
                });
            }
        });
    }

    #[test]
    fn a_broken_kernel_is_named_with_the_compilers_own_words() {
        let Ok(nvrtc) = Nvrtc::find() else { return };
        let broken = Source { name: "broken.cu", text: "__global__ void kernel( {" };
        let message = nvrtc.compile(&broken, &options("sm_90")).unwrap_err().to_string();
        assert!(message.contains("broken.cu") && message.contains("error"), "{message}");
    }
}
