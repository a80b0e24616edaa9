//! What the operating system is asked beside files: signals, locks and limits. Elsewhere than on Unix it has no answer.

#[cfg(unix)]
pub use unix::*;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{Error, ErrorKind};
    use std::os::fd::AsRawFd;

    /// Whether a signal is ignored, as `nohup` has it of SIGHUP.
    pub fn is_ignored(signal: i32) -> bool {
        // SAFETY: the struct is plain data, and a null pointer changes nothing.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
        }
    }

    /// A file that grows beyond its limit is an error of the write, as a full disk is, and no signal that ends the program.
    pub fn ignore_file_limits() {
        // SAFETY: no handler runs.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }

    /// Lock a file for as long as it is open, so that a lock dies with its owner. Whether it was free; where files cannot be locked,
    /// it is.
    pub fn lock(file: &File) -> bool {
        // SAFETY: the descriptor is open as long as the file is borrowed.
        let done = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        done == 0 || Error::last_os_error().kind() != ErrorKind::WouldBlock
    }

    /// Bytes that this process may map and allocate at most, where it is limited.
    pub fn memory_limit() -> Option<u64> {
        let limit = |which| {
            let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: it is written to and not kept.
            let known = unsafe { libc::getrlimit(which, &mut limit) } == 0;
            #[allow(clippy::unnecessary_cast, reason = "its width differs between systems")]
            (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
        };
        limit(libc::RLIMIT_AS).into_iter().chain(limit(libc::RLIMIT_DATA)).min()
    }
}

#[cfg(not(unix))]
pub use other::*;

#[cfg(not(unix))]
mod other {
    use std::fs::File;

    /// Nothing to ignore.
    pub fn ignore_file_limits() {}

    /// Files are not locked: readers could not read them.
    pub fn lock(_file: &File) -> bool {
        true
    }

    /// Nothing is known of limits.
    pub fn memory_limit() -> Option<u64> {
        None
    }
}
