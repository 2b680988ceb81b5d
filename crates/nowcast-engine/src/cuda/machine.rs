//! What the device needs of a driver: memory, ordered work, and recordings of work.

use std::ptr::NonNull;
use std::sync::Arc;

use super::argument::Argument;
use super::kernel::Kernel;
use crate::error::Result;

/// One launch of a kernel.
#[derive(Debug, Clone)]
pub(super) struct KernelLaunch {
    pub(super) kernel: Kernel,
    /// Blocks in each direction.
    pub(super) grid: [u32; 3],
    /// Threads of a block.
    pub(super) threads: u32,
    /// Bytes of shared memory that the launch decides.
    pub(super) shared_bytes: u32,
    pub(super) argument: Argument,
    /// What it does, for errors.
    pub(super) operation: &'static str,
}

/// A matrix of words of 32 bits in device memory, and the boxes of it that are copied at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boxes {
    pub(super) address: u64,
    /// Words of a row of the matrix.
    pub(super) words: usize,
    /// Rows of the matrix.
    pub(super) rows: usize,
    /// Words of a row of a box, at most 256.
    pub(super) box_words: usize,
    /// Rows of a box, at most 256.
    pub(super) box_rows: usize,
}

/// Boxes as kernels take them, `Map` in pipeline.cuh.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map(pub(super) [u64; 16]);

/// A processor that runs our kernels.
pub(super) trait Machine: Send + Sync {
    /// The machine in words.
    fn describe(&self) -> String;

    /// What all machines have in common on which kernels take the same time.
    fn kind(&self) -> String;

    /// Shared memory that a block can have, in bytes.
    fn most_shared_bytes(&self) -> usize;

    /// Shared memory of a block with which at most so many of its kind share a multiprocessor, in bytes.
    fn spread_shared_bytes(&self, together: usize) -> usize;

    /// Clusters of so many blocks that run at the same time where each block has a multiprocessor for itself.
    fn lone_clusters(&self, blocks: usize) -> usize;

    /// Blocks that run at the same time where each fills a multiprocessor.
    fn multiprocessors(&self) -> usize;

    /// Whether four warps can multiply together (`wgmma`, architecture 9.0 alone).
    fn has_warpgroups(&self) -> bool;

    /// Whether blocks can run side by side and write to each other's shared memory (from architecture 9.0 on).
    fn has_clusters(&self) -> bool;

    /// Boxes for the copy engine that belongs to warpgroups.
    fn map(&self, boxes: Boxes) -> Result<Map>;

    /// Free and total bytes of device memory, whoever uses the rest.
    fn memory(&self) -> Result<(usize, usize)>;

    /// Bytes that are gone from the device's memory once as many are reserved.
    fn taken(&self, bytes: usize) -> usize {
        bytes
    }

    /// Bytes of device memory of a recording, about, by the operations in it.
    fn recording_bytes(&self, _operations: usize) -> usize {
        0
    }

    /// Reserves device memory, aligned to 256 bytes; contents are arbitrary.
    fn allocate(&self, bytes: usize, what: &'static str) -> Result<u64>;

    /// Gives device memory back.
    ///
    /// # Safety
    /// The address comes from `allocate`, once, and no queued work uses the memory.
    unsafe fn free(&self, address: u64);

    /// Reserves host memory that the device can reach at full speed; zeroed.
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Gives host memory back.
    ///
    /// # Safety
    /// As [`Machine::free`].
    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize);

    /// Copies to the device before it returns.
    ///
    /// # Safety
    /// The memory at `to` is allocated, and no queued work uses it.
    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()>;

    /// Fills device memory before it returns.
    ///
    /// # Safety
    /// As [`Machine::upload`].
    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()>;

    /// A new sequence of work.
    fn queue(self: Arc<Self>) -> Result<Box<dyn Queue>>;
}

/// Work in order. What is queued runs some time later.
pub(super) trait Queue: Send {
    /// Queues a launch.
    ///
    /// # Safety
    /// All memory that the argument names is allocated, large enough, and stays until the work is done.
    unsafe fn launch(&mut self, launch: &KernelLaunch) -> Result<()>;

    /// Queues a copy from host memory of [`Machine::allocate_host`] to the device.
    ///
    /// # Safety
    /// Both sides are allocated, large enough, and stay until the work is done; nobody writes `from` meanwhile.
    unsafe fn copy_in(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<()>;

    /// Queues a copy from the device to host memory of [`Machine::allocate_host`].
    ///
    /// # Safety
    /// As [`Queue::copy_in`], and nobody reads `to` before the work is done.
    unsafe fn copy_out(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<()>;

    /// Waits until everything queued is done.
    fn wait(&mut self) -> Result<()>;

    /// From here on work is recorded, not run.
    fn begin_recording(&mut self) -> Result<()>;

    /// Ends a recording; `keep` makes it ready to run and returns its number, otherwise it is thrown away.
    fn end_recording(&mut self, keep: bool) -> Result<Option<usize>>;

    /// Queues a recording.
    ///
    /// # Safety
    /// What its parts asked for still holds.
    unsafe fn replay(&mut self, recording: usize) -> Result<()>;
}

/// Device memory with an owner.
pub(super) struct DeviceMemory {
    machine: Arc<dyn Machine>,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    pub(super) fn new(machine: &Arc<dyn Machine>, bytes: usize, what: &'static str) -> Result<Self> {
        let bytes = bytes.max(1);
        let address = machine.allocate(bytes, what)?;
        Ok(Self { machine: Arc::clone(machine), address, bytes })
    }

    /// Copies contents to a place in it, before anything is queued that uses it, and returns the address.
    pub(super) fn upload(&mut self, start: usize, contents: &[u8]) -> Result<u64> {
        assert!(start <= self.bytes && contents.len() <= self.bytes - start, "contents lie within their memory");
        let address = self.address + start as u64;
        // SAFETY: the memory is ours alone, as long as nothing is queued, and has room as just asserted.
        unsafe { self.machine.upload(address, contents)? };
        Ok(address)
    }

    /// Fills it with one byte, before anything is queued that uses it.
    pub(super) fn fill(&mut self, byte: u8) -> Result<()> {
        // SAFETY: the memory is ours alone, as long as nothing is queued.
        unsafe { self.machine.fill(self.address, byte, self.bytes) }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; owners wait for their queue before they let go.
        unsafe { self.machine.free(self.address) };
    }
}

/// Host memory that the device copies from and to.
pub(super) struct HostMemory {
    machine: Arc<dyn Machine>,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory has one owner, and any thread may use it.
unsafe impl Send for HostMemory {}
// SAFETY: a shared borrow only reads.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(super) fn new(machine: &Arc<dyn Machine>, bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1);
        Ok(Self { machine: Arc::clone(machine), memory: machine.allocate_host(bytes)?, bytes })
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// The contents; nothing that writes them may be queued.
    pub(super) fn contents(&self) -> &[u8] {
        // SAFETY: allocated and zeroed in `new`; the caller keeps the device away.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }
    }

    /// The contents, to change; nothing that uses them may be queued.
    pub(super) fn contents_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `contents`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; owners wait for their queue before they let go.
        unsafe { self.machine.free_host(self.memory, self.bytes) };
    }
}
