//! A machine that fails where it is told to, and keeps count of what it holds: for tests.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::machine::{Boxes, KernelLaunch, Machine, Map, Queue};
use crate::error::{Error, Result};

/// Where a machine can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Site {
    /// Reserving device memory.
    Memory,
    /// Reserving host memory for copies.
    HostMemory,
    /// Copying weights or constants.
    Upload,
    /// Opening a sequence of work.
    Queue,
    /// Launching a kernel, also into a recording.
    Launch,
    /// Copying inputs, also into a recording.
    CopyIn,
    /// Copying outputs, also into a recording.
    CopyOut,
    /// Waiting for the work.
    Wait,
    /// Beginning a recording.
    Record,
    /// Making a recording ready to run.
    Instantiate,
    /// Running a recording.
    Replay,
}

impl Site {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::HostMemory,
        Self::Upload,
        Self::Queue,
        Self::Launch,
        Self::CopyIn,
        Self::CopyOut,
        Self::Wait,
        Self::Record,
        Self::Instantiate,
        Self::Replay,
    ];
}

/// The weak points of a machine, and what it holds. Clones speak of the same machine.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    calls: HashMap<Site, usize>,
    /// Site, first failing call, and how many fail from there on.
    failing: Option<(Site, usize, usize)>,
    capacity: Option<usize>,
    /// Bytes that another process holds: seen, and taken since anyone looked.
    others: (usize, usize),
    device: HashMap<u64, usize>,
    host: HashMap<usize, usize>,
    peak: usize,
    queues: usize,
    broken: Option<&'static str>,
}

impl State {
    fn held(&self) -> usize {
        self.device.values().sum()
    }

    fn call(&mut self, site: Site) -> Result<()> {
        let call = self.calls.entry(site).or_default();
        *call += 1;
        match self.failing {
            Some((failing, first, times)) if failing == site && (first..first.saturating_add(times)).contains(call) => {
                Err(Error::Device(format!("injected failure of {site:?}, call {call}")))
            }
            _ => Ok(()),
        }
    }
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets calls of a site fail: the `first`, counted from 1 and from now, and those after it, `times` altogether.
    pub fn fail(&self, site: Site, first: usize, times: usize) {
        let mut state = self.state();
        state.calls.clear();
        state.failing = Some((site, first, times));
    }

    /// Nothing fails from here on.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.failing, state.capacity, state.others, state.broken) = (None, None, (0, 0), None);
    }

    /// Calls of a site since [`Faults::fail`] or the beginning.
    pub fn calls(&self, site: Site) -> usize {
        self.state().calls.get(&site).copied().unwrap_or(0)
    }

    /// Gives the device this many bytes, of which others hold some: those that it tells of, and those it does not.
    pub fn limit(&self, capacity: usize, told: usize, untold: usize) {
        let mut state = self.state();
        (state.capacity, state.others) = (Some(capacity), (told, untold));
    }

    /// Launches of this kernel do nothing, as if it were wrong.
    pub fn break_kernel(&self, name: &'static str) {
        self.state().broken = Some(name);
    }

    /// Bytes of device memory that are held.
    pub fn held(&self) -> usize {
        self.state().held()
    }

    /// The most bytes of device memory that were held at a time.
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// Everything that is held: blocks of device memory, blocks of host memory, and queues.
    pub fn leaks(&self) -> (usize, usize, usize) {
        let state = self.state();
        (state.device.len(), state.host.len(), state.queues)
    }

    pub(super) fn over(&self, machine: Arc<dyn Machine>) -> Arc<dyn Machine> {
        Arc::new(FaultyMachine { machine, faults: self.clone() })
    }
}

struct FaultyMachine {
    machine: Arc<dyn Machine>,
    faults: Faults,
}

impl Machine for FaultyMachine {
    fn describe(&self) -> String {
        self.machine.describe()
    }

    fn kind(&self) -> String {
        self.machine.kind()
    }

    fn most_shared_bytes(&self) -> usize {
        self.machine.most_shared_bytes()
    }

    fn spread_shared_bytes(&self, together: usize) -> usize {
        self.machine.spread_shared_bytes(together)
    }

    fn lone_clusters(&self, blocks: usize) -> usize {
        self.machine.lone_clusters(blocks)
    }

    fn multiprocessors(&self) -> usize {
        self.machine.multiprocessors()
    }

    fn has_warpgroups(&self) -> bool {
        self.machine.has_warpgroups()
    }

    fn has_clusters(&self) -> bool {
        self.machine.has_clusters()
    }

    fn map(&self, boxes: Boxes) -> Result<Map> {
        self.machine.map(boxes)
    }

    fn memory(&self) -> Result<(usize, usize)> {
        let state = self.faults.state();
        match state.capacity {
            Some(capacity) => Ok((capacity.saturating_sub(state.held() + state.others.0), capacity)),
            None => self.machine.memory(),
        }
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<u64> {
        let mut state = self.faults.state();
        let full = |capacity| state.held() + state.others.0 + state.others.1 + bytes > capacity;
        if state.capacity.is_some_and(full) || state.call(Site::Memory).is_err() {
            return Err(Error::Memory { bytes, what });
        }
        let address = self.machine.allocate(bytes, what)?;
        state.device.insert(address, bytes);
        state.peak = state.peak.max(state.held());
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        self.faults.state().device.remove(&address).expect("memory is given back once");
        // SAFETY: as the caller promised.
        unsafe { self.machine.free(address) };
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let mut state = self.faults.state();
        state.call(Site::HostMemory).map_err(|_| Error::Memory { bytes, what: "copies to and from the GPU" })?;
        let memory = self.machine.allocate_host(bytes)?;
        state.host.insert(memory.as_ptr().addr(), bytes);
        Ok(memory)
    }

    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize) {
        let held = self.faults.state().host.remove(&memory.as_ptr().addr());
        assert_eq!(held, Some(bytes), "memory is given back once, and whole");
        // SAFETY: as the caller promised.
        unsafe { self.machine.free_host(memory, bytes) };
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.faults.state().call(Site::Upload)?;
        // SAFETY: as the caller promised.
        unsafe { self.machine.upload(to, bytes) }
    }

    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        // SAFETY: as the caller promised.
        unsafe { self.machine.fill(to, byte, bytes) }
    }

    fn queue(self: Arc<Self>) -> Result<Box<dyn Queue>> {
        self.faults.state().call(Site::Queue)?;
        let queue = Arc::clone(&self.machine).queue()?;
        self.faults.state().queues += 1;
        Ok(Box::new(FaultyQueue { queue, faults: self.faults.clone() }))
    }
}

struct FaultyQueue {
    queue: Box<dyn Queue>,
    faults: Faults,
}

impl Drop for FaultyQueue {
    fn drop(&mut self) {
        self.faults.state().queues -= 1;
    }
}

impl Queue for FaultyQueue {
    unsafe fn launch(&mut self, launch: &KernelLaunch) -> Result<()> {
        self.faults.state().call(Site::Launch)?;
        if self.faults.state().broken == Some(launch.kernel.name()) {
            return Ok(());
        }
        // SAFETY: as the caller promised.
        unsafe { self.queue.launch(launch) }
    }

    unsafe fn copy_in(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<()> {
        self.faults.state().call(Site::CopyIn)?;
        // SAFETY: as the caller promised.
        unsafe { self.queue.copy_in(to, from, bytes) }
    }

    unsafe fn copy_out(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        self.faults.state().call(Site::CopyOut)?;
        // SAFETY: as the caller promised.
        unsafe { self.queue.copy_out(to, from, bytes) }
    }

    fn wait(&mut self) -> Result<()> {
        self.faults.state().call(Site::Wait)?;
        self.queue.wait()
    }

    fn begin_recording(&mut self) -> Result<()> {
        self.faults.state().call(Site::Record)?;
        self.queue.begin_recording()
    }

    fn end_recording(&mut self, keep: bool) -> Result<Option<usize>> {
        let failed = if keep { self.faults.state().call(Site::Instantiate) } else { Ok(()) };
        // The recording ends either way.
        let recording = self.queue.end_recording(keep && failed.is_ok())?;
        failed.map(|()| recording)
    }

    unsafe fn replay(&mut self, recording: usize) -> Result<()> {
        self.faults.state().call(Site::Replay)?;
        // SAFETY: as the caller promised.
        unsafe { self.queue.replay(recording) }
    }
}
