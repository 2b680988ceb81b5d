//! Memory that is no longer needed goes back to the system.

/// Buffers above this many bytes have pages of their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES: libc::c_int = 128 * 1024;

/// Keeps large freed buffers out of the heap. glibc raises its threshold with every large buffer that is freed, and what
/// loading a model needs for a moment would stay resident for good: the peak would exceed weights and plan.
pub(crate) fn give_back_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a parameter of the allocator; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES);
    }
}
