//! Large memory that is no longer needed goes back to the system; that of answers is used again.

/// Buffers above this many bytes have pages of their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES: libc::c_int = 1024 * 1024;

/// Bytes at the end of the heap that are kept: the paths of one forecast have the pages of those before. New pages would
/// cost as much as the forecast, where a GPU computes it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 16 * 1024 * 1024;

/// Keeps large freed buffers out of the heap. glibc raises its threshold with every large buffer that is freed, and what
/// loading a model needs for a moment would stay resident for good: the peak would exceed weights and plan.
pub(crate) fn give_back_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets parameters of the allocator; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}
