//! Services of the operating system beside files: signals, locks and limits. On systems other than Unix they are
//! unavailable.

#[cfg(unix)]
pub use unix::*;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{Error, ErrorKind};
    use std::os::fd::AsRawFd;

    /// Returns whether a signal is ignored, as SIGHUP is under `nohup`.
    pub fn is_ignored(signal: i32) -> bool {
        // SAFETY: the struct is plain data, and a null pointer changes nothing.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
        }
    }

    /// Makes a file beyond its size limit an error of the write, as on a full disk, in place of a fatal signal.
    pub fn ignore_file_limits() {
        // SAFETY: no handler runs.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }

    /// Locks a file until it is closed, so that the lock ends with its owner. Returns whether it was free; true if the
    /// file cannot be locked.
    pub fn lock(file: &File) -> bool {
        // SAFETY: the descriptor is open as long as the file is borrowed.
        let done = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        done == 0 || Error::last_os_error().kind() != ErrorKind::WouldBlock
    }

    /// Ends the process without the exit handlers of libraries. Those of a GPU's driver wait for its work, which may never end.
    pub fn end_at_once(code: i32) -> ! {
        // SAFETY: the call does not return, and runs no code of this process.
        unsafe { libc::_exit(code) }
    }

    /// Returns the maximum number of bytes that this process may map and allocate, if limited.
    pub fn memory_limit() -> Option<u64> {
        let limit = |which| {
            let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the call writes to the struct and does not keep the pointer.
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

    /// Does nothing: there is no such signal.
    pub fn ignore_file_limits() {}

    /// Ends the process.
    pub fn end_at_once(code: i32) -> ! {
        std::process::exit(code)
    }

    /// Returns true without a lock, because readers could not read a locked file.
    pub fn lock(_file: &File) -> bool {
        true
    }

    /// Returns no limit: it is unknown on this system.
    pub fn memory_limit() -> Option<u64> {
        None
    }
}
