//! Races that the emulation finds where `NOWCAST_RACES` is set: accesses of kernels that nothing orders.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;

/// What races.cpp tells.
pub(super) struct Races {
    begin: unsafe extern "C" fn(bool, u32) -> u32,
    found: unsafe extern "C" fn() -> *const c_char,
    forget: unsafe extern "C" fn(u64, u64),
    /// Where the library is, for the lines of its code.
    path: PathBuf,
}

/// Whether races are looked for; ten times slower.
pub(super) fn are_looked_for() -> bool {
    std::env::var_os("NOWCAST_RACES").is_some_and(|value| !value.is_empty() && value != "0")
}

impl Races {
    /// Of a library that was built with them, which outlives this.
    pub(super) fn of(library: &Library, path: &Path) -> Self {
        // SAFETY: races.cpp declares the three symbols with these types.
        unsafe {
            Self {
                begin: *library.get("races_begin").expect("the library finds races"),
                found: *library.get("races_found").expect("the library finds races"),
                forget: *library.get("races_forget").expect("the library finds races"),
                path: path.to_owned(),
            }
        }
    }

    /// Before a launch, which may begin while kernels from that run on are not done; returns its own first run.
    pub(super) fn begin(&self, is_early: bool, may_still_run: u32) -> u32 {
        // SAFETY: the caller runs no grid meanwhile.
        unsafe { (self.begin)(is_early, may_still_run) }
    }

    /// Nobody has written or read that memory.
    pub(super) fn forget(&self, address: u64, bytes: usize) {
        // SAFETY: the caller runs no grid meanwhile.
        unsafe { (self.forget)(address, bytes as u64) };
    }

    /// What was found since the last call.
    pub(super) fn found(&self) -> String {
        // SAFETY: the text ends with 0 and stays until the next call.
        let found = unsafe { CStr::from_ptr((self.found)()) }.to_string_lossy().into_owned();
        found.lines().map(|line| format!("{line}{}\n", self.lines_of(line))).collect()
    }

    /// Panics if a launch had races.
    pub(super) fn report(&self, kernel: &str) {
        let found = self.found();
        assert!(found.is_empty(), "races in {kernel}:\n{found}");
    }

    /// Lines of the sources at the addresses that a text names, if they can be told.
    fn lines_of(&self, text: &str) -> String {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        let addresses: Vec<&str> = words.filter(|word| word.starts_with("0x")).collect();
        let output = Command::new("addr2line").args(["-s", "-e"]).arg(&self.path).args(&addresses).output();
        let lines = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        lines.lines().map(|line| format!(" {line}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;
    use crate::cuda::emulator::library::library;
    use crate::cuda::kernel::Source;

    const PLANTED: &[Source] = &[Source { name: "planted.cu", text: include_str!("planted.cu") }];
    const FLOATS: usize = 1024;

    /// As in planted.cu.
    #[repr(C)]
    struct Planted {
        memory: *mut f32,
        is_sound: i32,
    }

    type Entry = unsafe extern "C" fn(*const u32, u32, u32, *const Planted);

    /// The library runs one grid at a time.
    static RUNNING: Mutex<()> = Mutex::new(());

    struct Kernels {
        _running: MutexGuard<'static, ()>,
        library: Library,
        races: Races,
        memory: Vec<f32>,
    }

    impl Kernels {
        /// None without a compiler.
        fn build() -> Option<Self> {
            let running = RUNNING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let path = library(PLANTED, true).inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
            // SAFETY: the library was just built from our own sources; initialisers make empty containers.
            let library = unsafe { Library::new(&path) }.expect("the library was just built");
            let races = Races::of(&library, &path);
            Some(Self { _running: running, library, races, memory: vec![0.0; FLOATS] })
        }

        /// What is found in a launch, which begins while kernels from that run on may not be done, and its first run.
        fn launch(&mut self, name: &str, is_sound: bool, may_still_run: Option<u32>) -> (String, u32) {
            let blocks = if name.starts_with("cluster") || name == "blocks_apart" { 2 } else { 1 };
            let planted = Planted { memory: self.memory.as_mut_ptr(), is_sound: is_sound.into() };
            let first_run = self.races.begin(may_still_run.is_some(), may_still_run.unwrap_or(0));
            // SAFETY: the kernel takes this argument and stays within the memory, as planted.cu shows.
            unsafe {
                let threads = self.library.get::<*const u32>(format!("{name}_most_threads").as_str());
                let entry = self.library.get::<Entry>(name).expect("the kernel is there");
                entry([blocks, 1, 1].as_ptr(), **threads.expect("a kernel tells its sizes"), 4096, &planted);
            }
            (self.races.found(), first_run)
        }
    }

    const ALONE: [(&str, &str); 15] = [
        ("block_meets", "of shared memory, which thread"),
        ("block_meets_again", "of shared memory, which thread"),
        ("warp_meets", "in no order"),
        ("first_threads_meet", "in no order"),
        ("all_write_the_same", "writes otherwise"),
        ("all_count", "in no order"),
        ("fixed_memory", "fixed shared memory"),
        ("blocks_apart", "global memory that another block"),
        ("cluster_begins", "may not have begun"),
        ("cluster_ends", "may have left"),
        ("cluster_arrives", "in no order"),
        ("copies_arrive", "which a copy that a barrier counts writes"),
        ("copies_wait_for_room", "a copy that a barrier counts writes"),
        ("copies_ahead", "in no order"),
        ("products_read", "in no order"),
    ];

    #[test]
    fn planted_races_are_found_and_sound_kernels_have_none() {
        let Some(mut kernels) = Kernels::build() else { return };
        for (name, expected) in ALONE {
            assert_eq!(kernels.launch(name, true, None).0, "", "{name} is sound");
            let (found, _) = kernels.launch(name, false, None);
            assert!(found.contains(expected), "{name}: {found:?}");
            assert!(name == "cluster_ends" || found.contains("planted.cu:"), "{name} has lines: {found}");
        }
    }

    #[test]
    fn kernels_wait_for_the_one_before() {
        let Some(mut kernels) = Kernels::build() else { return };
        let expected = [
            ("looks_ahead", "reads, before it waits, global memory that a kernel writes which may still run"),
            ("writes_ahead", "writes global memory before it waits"),
            ("ends_ahead", "ends without having waited"),
        ];
        for (name, expected) in expected {
            let (found, leaves) = kernels.launch("leaves_values", true, None);
            assert_eq!(found, "");
            assert_eq!(kernels.launch(name, true, Some(leaves)).0, "", "{name} is sound");
            let (_, leaves) = kernels.launch("leaves_values", true, None);
            let (found, last) = kernels.launch(name, false, Some(leaves));
            assert!(found.contains(expected), "{name}: {found:?}");
            // What was done before the kernels that may still run, and where none may, is looked at freely.
            assert_eq!(kernels.launch("looks_ahead", false, Some(last)).0, "", "{name} before");
            assert_eq!(kernels.launch(name, false, None).0, "", "{name} where nothing runs");
        }
    }

    #[test]
    fn what_the_host_has_written_is_nobodys() {
        let Some(mut kernels) = Kernels::build() else { return };
        let (_, leaves) = kernels.launch("leaves_values", true, None);
        kernels.races.forget(kernels.memory.as_ptr().expose_provenance() as u64, FLOATS * 4);
        assert_eq!(kernels.launch("looks_ahead", false, Some(leaves)).0, "");
    }
}
