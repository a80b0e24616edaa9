//! Standard output and standard error: the only place that writes to them.
//!
//! A reader that goes away (`| head -1`) has had enough, and that is no failure: the rest of the text is dropped, files
//! are still written, and the exit code is the one that it would have been. Any other failure, such as a full disk, is
//! told when the program ends, with exit code 2.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use anyhow::anyhow;
use parallax_core::report::escape_lines;

/// The first failure of standard output. Nothing is written to it afterwards.
static FAILED: OnceLock<std::io::Error> = OnceLock::new();

/// A line on standard output, in the form of `println!`.
macro_rules! outln {
    ($($part:tt)*) => { $crate::console::line(format_args!($($part)*)) };
}

/// A line on standard error, in the form of `eprintln!`.
macro_rules! errln {
    ($($part:tt)*) => { $crate::console::tell(format_args!($($part)*)) };
}

pub(crate) use {errln, outln};

/// Standard output gets this as it is.
pub fn bytes(bytes: &[u8]) {
    attempt(|| std::io::stdout().write_all(bytes));
}

/// A line for programs on standard output, as it is.
pub fn raw(line: &str) {
    bytes(format!("{line}\n").as_bytes());
}

/// A line for people on standard output. It may hold lines of its own, and nothing that commands the terminal.
pub fn line(line: Arguments<'_>) {
    raw(&escape_lines(&line.to_string()));
}

/// A line for people on standard error. Where even that is closed there is nobody left to tell.
pub fn tell(line: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{}\n", escape_lines(&line.to_string())).as_bytes());
}

/// Something that writes to standard output by itself.
pub fn attempt(write: impl FnOnce() -> std::io::Result<()>) {
    if FAILED.get().is_none()
        && let Err(error) = write()
    {
        let _ = FAILED.set(error);
    }
}

/// Whether nobody reads any more: what would otherwise go on for ever should end.
pub fn gone() -> bool {
    FAILED.get().is_some()
}

/// Write what is still buffered, and say whether everything reached its reader.
///
/// # Errors
/// When standard output failed in another way than by being closed.
pub fn end() -> anyhow::Result<()> {
    attempt(|| std::io::stdout().flush());
    match FAILED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow!("cannot write to standard output: {error}; send it elsewhere, or make room there"))
        }
        _ => Ok(()),
    }
}
