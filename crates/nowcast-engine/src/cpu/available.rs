//! How much memory the machine, and the container or job we run in, can still give.

use std::path::Path;

/// Bytes that can still be had, where the system tells: of the machine, and of the container or job we run in.
pub fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = number_after(&text, "MemAvailable:")?.checked_mul(1024)?;
    Some(machine.min(control_groups().unwrap_or(usize::MAX)))
}

/// The memory limit of the process's control groups (version 2), where there is one: the least of its own and those
/// above it.
pub fn control_group_limit() -> Option<usize> {
    each_group(|group| read(group, "memory.max")?.trim().parse().ok())
}

/// What the memory limits of the process's control groups (version 2) leave: the least of its own and those above it.
fn control_groups() -> Option<usize> {
    each_group(|group| {
        rest_of_group(&read(group, "memory.max")?, &read(group, "memory.current")?, &read(group, "memory.stat")?)
    })
}

/// The least of what the process's group and those above it say.
fn each_group(of: impl Fn(&Path) -> Option<usize>) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Path::new(group).ancestors().filter_map(of).min()
}

fn read(group: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(name)).ok()
}

/// Pages of files that nobody has used lately count as taken, yet are given back on demand.
fn rest_of_group(most: &str, taken: &str, statistics: &str) -> Option<usize> {
    let most: usize = most.trim().parse().ok()?;
    let taken: usize = taken.trim().parse().ok()?;
    let files = number_after(statistics, "inactive_file").unwrap_or(0);
    Some(most.saturating_sub(taken.saturating_sub(files)))
}

/// The number behind a name at the start of a line.
fn number_after(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_leaves_what_it_has_not_given_away() {
        let statistics = "anon 300\nfile 250\ninactive_file 200\n";
        assert_eq!(rest_of_group("1000\n", "600\n", statistics), Some(600));
        assert_eq!(rest_of_group("1000\n", "1500\n", statistics), Some(0));
        assert_eq!(rest_of_group("max\n", "600\n", statistics), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_tells_what_it_can_give() {
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
