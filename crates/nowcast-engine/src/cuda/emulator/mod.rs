//! The kernels compiled by a C++ compiler for this processor, as a [`Machine`]: everything but the driver is tested
//! where no GPU is.

mod library;
mod races;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use libloading::Library;

use self::races::Races;
use super::kernel::{Kernel, SOURCES};
use super::machine::{Boxes, KernelLaunch, Machine, Map, Queue};
use crate::error::{Error, Result};

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
    /// Looks for races, if it was asked to.
    races: Option<Races>,
    _library: Library,
}

impl Emulator {
    fn build() -> std::result::Result<Self, String> {
        let finds_races = races::are_looked_for();
        let path = library::library(SOURCES, finds_races)?;
        // SAFETY: the library was just built from our own sources; initialisers make empty containers.
        let library = unsafe { Library::new(&path) }.expect("the library was just built");
        let races = finds_races.then(|| Races::of(&library, &path));
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
        Ok(Self { entries, allocations, running, races, _library: library })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The host has written there, or does not know what is there.
    fn forget(&self, address: u64, bytes: usize) {
        if let Some(races) = &self.races {
            let _running = self.lock();
            races.forget(address, bytes);
        }
    }
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
        self.forget(address, bytes);
        self.allocations.lock().expect("no panic while locked").insert(address, layout);
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        let layout = self.allocations.lock().expect("no panic while locked").remove(&address);
        let layout = layout.expect("the address was allocated here");
        self.forget(address, layout.size());
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
        self.forget(to.addr() as u64, bytes.len());
        // SAFETY: as the caller promised.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
        self.forget(to.addr() as u64, bytes);
        // SAFETY: as the caller promised.
        unsafe { to.write_bytes(byte, bytes) };
        Ok(())
    }

    fn queue(self: Arc<Self>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(EmulatedQueue {
            emulator: self,
            recordings: Vec::new(),
            open: None,
            follows_kernel: false,
            may_still_run: 0,
        }))
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
    /// Whether a kernel begins before what was queued last is done, as on a GPU.
    follows_kernel: bool,
    /// The first run of kernels that may not be done when such a kernel begins.
    may_still_run: u32,
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

    /// Tells the detector of races of a launch.
    fn begin(&mut self, kernel: Kernel) {
        if let Some(races) = &self.emulator.races {
            let first_run = races.begin(self.follows_kernel, self.may_still_run);
            if !self.follows_kernel {
                self.may_still_run = first_run;
            }
            self.follows_kernel = kernel.lets_next_start();
        }
    }

    /// # Safety
    /// As the functions of [`Queue`].
    unsafe fn run(&mut self, work: &Work) {
        match work {
            Work::Copy { to, from, bytes } => {
                self.emulator.forget(*to, *bytes);
                self.follows_kernel = false;
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
                let emulator = Arc::clone(&self.emulator);
                let _running = emulator.lock();
                self.begin(launch.kernel);
                // SAFETY: the argument has the size of the kernel's; the rest is as the caller promised.
                unsafe {
                    let words = launch.argument.words.as_ptr();
                    entry(launch.grid.as_ptr(), launch.threads, launch.shared_bytes, words);
                }
                if let Some(races) = &emulator.races {
                    races.report(name);
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
        self.follows_kernel = false;
        for index in 0..self.recordings[recording].len() {
            let work = self.recordings[recording][index].clone();
            // SAFETY: as the caller promised.
            unsafe { self.run(&work) };
        }
        self.follows_kernel = false;
        Ok(())
    }
}
