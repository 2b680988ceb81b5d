//! The kernels compiled by a C++ compiler for this processor, as a [`Machine`]: everything but the driver is tested
//! where no GPU is.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use libloading::Library;
use sha2::{Digest, Sha256};

use super::kernel::{HEADERS, Kernel, SOURCES, Source};
use super::machine::{Boxes, KernelLaunch, Machine, Map, Queue};
use crate::error::{Error, Result};

const SHIM: &[Source] = &[
    Source { name: "shim/shim.h", text: include_str!("kernels/shim/shim.h") },
    Source { name: "shim/warp.h", text: include_str!("kernels/shim/warp.h") },
    Source { name: "shim/tensor_cores.h", text: include_str!("kernels/shim/tensor_cores.h") },
    Source { name: "shim/shim.cpp", text: include_str!("kernels/shim/shim.cpp") },
    Source { name: "shim/tensor_cores.cpp", text: include_str!("kernels/shim/tensor_cores.cpp") },
];

/// As much as the largest blocks of any GPU may have.
const MOST_SHARED_BYTES: usize = 227 * 1024;
const ALIGNMENT: usize = 256;

type Entry = unsafe extern "C" fn(*const u32, u32, u32, *const u64);

/// This processor in the place of a GPU.
pub(super) fn open() -> Result<Arc<dyn Machine>> {
    static LIBRARY: OnceLock<std::result::Result<Arc<Emulator>, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| Emulator::build().map(Arc::new));
    library.clone().map(|emulator| emulator as Arc<dyn Machine>).map_err(Error::Device)
}

struct Emulator {
    entries: Vec<(Entry, usize, u32)>,
    allocations: Mutex<HashMap<u64, Layout>>,
    /// The shim runs one grid at a time.
    running: Mutex<()>,
    _library: Library,
}

impl Emulator {
    fn build() -> std::result::Result<Self, String> {
        let path = library()?;
        // SAFETY: the library was just built from our own sources; it has no initialisers.
        let library = unsafe { Library::new(&path) }.expect("the library was just built");
        let mut entries = Vec::new();
        for kernel in Kernel::ALL {
            // SAFETY: `KERNEL` in shim.h declares the three symbols with these types.
            unsafe {
                let entry = library.get::<Entry>(kernel.name()).expect("the library has every kernel");
                let number = |what: &str| {
                    let number = library.get::<*const u32>(format!("{}_{what}", kernel.name()).as_str());
                    **number.expect("a kernel tells its sizes")
                };
                entries.push((*entry, number("call_size") as usize, number("most_threads")));
            }
        }
        let (allocations, running) = Default::default();
        Ok(Self { entries, allocations, running, _library: library })
    }
}

/// Builds the library, or finds it from an earlier run.
fn library() -> std::result::Result<PathBuf, String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let portable = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-Wno-unknown-pragmas", "-DNOWCAST_SHIM"];
    let flags: Vec<&str> = portable.into_iter().chain(detected_features().iter().copied()).collect();
    let mut digest = Sha256::new();
    HEADERS.iter().chain(SOURCES).chain(SHIM).for_each(|source| digest.update(source.text));
    flags.iter().for_each(|flag| digest.update(flag));
    let name: String = digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let folder = std::env::temp_dir();
    let path = folder.join(format!("nowcast-emulator-{name}.so"));
    if path.is_file() {
        return Ok(path);
    }
    let folder = folder.join(format!("nowcast-emulator-{name}-{}", std::process::id()));
    let built = build(&compiler, &flags, &folder, &path);
    let _ = fs::remove_dir_all(&folder);
    built.map(|()| path)
}

/// What makes a fused multiply-add one instruction instead of a call.
fn detected_features() -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        return &["-mavx2", "-mfma", "-mf16c"];
    }
    &[]
}

fn build(compiler: &str, flags: &[&str], folder: &Path, path: &Path) -> std::result::Result<(), String> {
    let text = |error: std::io::Error| format!("cannot build the kernels with {compiler}: {error}");
    fs::create_dir_all(folder.join("shim")).map_err(text)?;
    for source in HEADERS.iter().chain(SOURCES).chain(SHIM) {
        fs::write(folder.join(source.name), source.text).map_err(text)?;
    }
    let units = SOURCES.iter().chain(SHIM).map(|source| source.name).filter(|name| !name.ends_with(".h"));
    let units: Vec<(PathBuf, PathBuf)> =
        units.map(|name| (folder.join(name), folder.join(format!("{}.o", name.replace('/', "_"))))).collect();
    let run = |command: &mut Command| -> std::result::Result<(), String> {
        let output = command.output().map_err(text)?;
        // Tests are skipped where there is no compiler, never where kernels do not compile.
        assert!(
            output.status.success(),
            "{compiler} fails on the kernels: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    };
    std::thread::scope(|scope| {
        let tasks: Vec<_> = units
            .iter()
            .map(|(unit, object)| {
                scope.spawn(move || {
                    let mut command = Command::new(compiler);
                    command.args(flags).arg("-I").arg(folder).args(["-x", "c++", "-c"]).arg(unit).arg("-o").arg(object);
                    run(&mut command)
                })
            })
            .collect();
        tasks.into_iter().try_for_each(|task| task.join().expect("a compiler's thread does not panic"))
    })?;
    let finished = folder.join("library.so");
    run(Command::new(compiler).arg("-shared").arg("-o").arg(&finished).args(units.iter().map(|(_, object)| object)))?;
    fs::rename(&finished, path).map_err(text)
}

impl Machine for Emulator {
    fn describe(&self) -> String {
        "CUDA kernels emulated on this processor".into()
    }

    fn kind(&self) -> String {
        self.describe()
    }

    fn most_shared_bytes(&self) -> usize {
        MOST_SHARED_BYTES
    }

    fn spread_shared_bytes(&self, together: usize) -> usize {
        MOST_SHARED_BYTES / (together + 1)
    }

    fn lone_clusters(&self, blocks: usize) -> usize {
        self.multiprocessors() / blocks
    }

    fn multiprocessors(&self) -> usize {
        132
    }

    fn has_warpgroups(&self) -> bool {
        true
    }

    fn has_clusters(&self) -> bool {
        true
    }

    fn map(&self, boxes: Boxes) -> Result<Map> {
        let mut map = [0; 16];
        map[0] = boxes.address;
        let sizes = [boxes.words, boxes.rows, boxes.box_words, boxes.box_rows];
        map[1..5].iter_mut().zip(sizes).for_each(|(word, size)| *word = size as u64);
        Ok(Map(map))
    }

    fn memory(&self) -> Result<(usize, usize)> {
        let free = crate::cpu::available().unwrap_or(usize::MAX);
        Ok((free, free))
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<u64> {
        let error = Error::Memory { bytes, what };
        let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGNMENT) else { return Err(error) };
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(error)?;
        let address = memory.as_ptr().expose_provenance() as u64;
        self.allocations.lock().expect("no panic while locked").insert(address, layout);
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        let layout = self.allocations.lock().expect("no panic while locked").remove(&address);
        let layout = layout.expect("the address was allocated here");
        // SAFETY: allocated with this layout, and nobody uses it any more, as the caller promised.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address as usize), layout) };
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let address = self.allocate(bytes, "copies")?;
        Ok(NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize)).expect("allocated"))
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, _bytes: usize) {
        // SAFETY: as the caller promised.
        unsafe { self.free(memory.as_ptr().expose_provenance() as u64) };
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
        // SAFETY: as the caller promised.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
        // SAFETY: as the caller promised.
        unsafe { to.write_bytes(byte, bytes) };
        Ok(())
    }

    fn queue(self: Arc<Self>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(EmulatedQueue { emulator: self, recordings: Vec::new(), open: None }))
    }
}

/// A piece of queued work; addresses as numbers, so that it may be sent.
#[derive(Clone)]
enum Work {
    Launch(KernelLaunch),
    Copy { to: u64, from: u64, bytes: usize },
}

struct EmulatedQueue {
    emulator: Arc<Emulator>,
    recordings: Vec<Vec<Work>>,
    /// The recording under way.
    open: Option<Vec<Work>>,
}

impl EmulatedQueue {
    /// # Safety
    /// As the functions of [`Queue`].
    unsafe fn submit(&mut self, work: Work) {
        match &mut self.open {
            Some(recording) => recording.push(work),
            // SAFETY: as the caller promised.
            None => unsafe { self.run(&work) },
        }
    }

    /// # Safety
    /// As the functions of [`Queue`].
    unsafe fn run(&self, work: &Work) {
        match work {
            Work::Copy { to, from, bytes } => {
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(*to as usize);
                let from: *const u8 = std::ptr::with_exposed_provenance(*from as usize);
                // SAFETY: as the caller promised.
                unsafe { to.copy_from_nonoverlapping(from, *bytes) };
            }
            Work::Launch(launch) => {
                let (entry, size, most_threads) = self.emulator.entries[launch.kernel.index()];
                let name = launch.kernel.name();
                assert_eq!(launch.argument.length, size, "the argument of {name} is not what the kernel declares");
                assert!(launch.threads <= most_threads, "{name} takes at most {most_threads} threads");
                assert!(launch.shared_bytes as usize <= MOST_SHARED_BYTES, "{name} asks for too much shared memory");
                let _running = self.emulator.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // SAFETY: the argument has the size of the kernel's; the rest is as the caller promised.
                unsafe {
                    let words = launch.argument.words.as_ptr();
                    entry(launch.grid.as_ptr(), launch.threads, launch.shared_bytes, words);
                }
            }
        }
    }
}

impl Queue for EmulatedQueue {
    unsafe fn launch(&mut self, launch: &KernelLaunch) -> Result<()> {
        // SAFETY: as the caller promised.
        unsafe { self.submit(Work::Launch(launch.clone())) };
        Ok(())
    }

    unsafe fn copy_in(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promised.
        unsafe { self.submit(Work::Copy { to, from: from.expose_provenance() as u64, bytes }) };
        Ok(())
    }

    unsafe fn copy_out(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promised.
        unsafe { self.submit(Work::Copy { to: to.expose_provenance() as u64, from, bytes }) };
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn begin_recording(&mut self) -> Result<()> {
        self.open = Some(Vec::new());
        Ok(())
    }

    fn end_recording(&mut self, keep: bool) -> Result<Option<usize>> {
        let recording = self.open.take().expect("a recording is under way");
        if !keep {
            return Ok(None);
        }
        self.recordings.push(recording);
        Ok(Some(self.recordings.len() - 1))
    }

    unsafe fn replay(&mut self, recording: usize) -> Result<()> {
        // SAFETY: as the caller promised.
        self.recordings[recording].iter().for_each(|work| unsafe { self.run(work) });
        Ok(())
    }
}
