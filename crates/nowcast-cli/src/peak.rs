//! How much memory the process took.

/// The most memory the process had resident, where the system tells.
pub(crate) fn peak_bytes() -> Option<u64> {
    status("VmHWM:")
}

/// Begins a new peak, and tells what is resident now; `None` where the system keeps no peak of that kind.
pub(crate) fn restart_peak() -> Option<u64> {
    // 5 resets the peak of resident memory, see proc(5).
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

/// A line of the kernel's account of this process, in bytes.
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
