//! Memory available to this process: the minimum of the machine's memory, the limits of its control groups, and its own
//! limits.

use std::path::{Path, PathBuf};

use parallax_schema::units::Bytes;

use crate::system;

/// Folder of control groups on Linux.
const GROUPS: &str = "/sys/fs/cgroup";
/// Smallest value that means no limit. Unlimited groups report the maximum number of pages.
const UNLIMITED: u64 = 1 << 60;

/// Granularity of the result in bytes; the result is rounded down.
const STEP: u64 = 16 << 20;

/// Returns the memory of the machine, where the system reports it.
pub fn installed() -> Option<Bytes> {
    proc_kib("/proc/meminfo", "MemTotal:").map(Bytes)
}

/// Returns the smallest bound less the present use of this process; `None` if no bound is known.
pub fn available() -> Option<Bytes> {
    let (mapped, resident) = taken().unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let machine = proc_kib("/proc/meminfo", "MemTotal:");
    let group = group_limit(Path::new(GROUPS), &groups).map(|limit| limit.saturating_sub(resident));
    let own = system::memory_limit().map(|limit| limit.saturating_sub(mapped));
    // Whole steps make two runs in one environment report the same value.
    machine.into_iter().chain(group).chain(own).min().map(|bytes| Bytes(bytes / STEP * STEP))
}

/// Returns the largest resident size of this process so far, where the system reports it.
pub fn peak() -> Option<Bytes> {
    proc_kib("/proc/self/status", "VmHWM:").map(Bytes)
}

/// Returns the mapped bytes of this process, and the resident ones.
fn taken() -> Option<(u64, u64)> {
    let file = "/proc/self/status";
    Some((proc_kib(file, "VmSize:")?, proc_kib(file, "VmRSS:")?))
}

/// Returns the value of a line in kibibytes, in bytes.
fn proc_kib(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the smallest limit of a process's control groups and of their ancestors, for versions 1 and 2 of control
/// groups. `groups` is the process's own list, a line each: number, controllers and path.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("/"));
        let (mounts, file) = match controllers {
            "" => (vec![root.to_owned(), root.join("unified")], "memory.max"),
            some if some.split(',').any(|name| name == "memory") => {
                (vec![root.join("memory")], "memory.limit_in_bytes")
            }
            _ => (Vec::new(), ""),
        };
        mounts.into_iter().flat_map(move |mount| limits_above(&mount, path, file)).collect::<Vec<_>>()
    });
    limits.min()
}

/// Returns the limits of a group and of its ancestors. A container sees its own group as the root of the mount.
fn limits_above(mount: &Path, path: &str, file: &str) -> Vec<u64> {
    let inner: PathBuf = path.trim_start_matches('/').into();
    let folders = inner.ancestors().map(|folder| mount.join(folder).join(file));
    let limit = |file: PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    folders.filter_map(limit).filter(|limit| *limit < UNLIMITED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_all_groups_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |file: &str, text: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            std::fs::write(path, text).expect("writable");
        };
        let limit = |groups: &str| group_limit(dir.path(), groups);
        assert_eq!((limit("0::/"), limit(""), limit("nonsense")), (None, None, None));
        put("memory.max", "max\n");
        put("a/memory.max", "400000000\n");
        put("a/b/memory.max", "700000000\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/docker/x/memory.limit_in_bytes", "300000000\n");
        for (groups, want) in [
            ("0::/\n", None),
            ("0::/a\n", Some(400_000_000)),
            ("0::/a/b\n", Some(400_000_000)),
            ("0::/absent\n", None),
            ("3:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n", Some(300_000_000)),
            ("5:memory:/elsewhere\n", None),
            ("5:memory:/docker/x\n0::/a\n", Some(300_000_000)),
        ] {
            assert_eq!(limit(groups), want, "{groups}");
        }
        // A container with version 1 that sees its group as the mount itself.
        put("memory/memory.limit_in_bytes", "200000000\n");
        assert_eq!(limit("5:memory:/docker/unseen\n"), Some(200_000_000));
    }
}
