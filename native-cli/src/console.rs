//! Standard output and standard error. No other module writes to them.
//!
//! A reader that closes the pipe early (`| head -1`) is no failure. The rest of the output is dropped, files are still
//! written, and the exit code does not change. Any other failure, such as a full disk, is reported at the end of the
//! program, with exit code 2. The same applies to an output that was closed from the start.
//!
//! Text keeps its colours until its output here. Destinations that are no terminal, and users without colours, get
//! plain text.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anyhow::anyhow;
use parallax_report::escape_lines;
use parallax_schema::units::brief;

/// Whether standard output was closed before the start of the program. Output to it is lost without an error.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Records that standard output was closed before the start of the program, which makes every write to it fail.
pub fn closed() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// First failure of standard output. No write follows it.
static FAILED: OnceLock<std::io::Error> = OnceLock::new();

/// Prints a line on standard output, in the form of `println!`.
macro_rules! outln {
    ($($part:tt)*) => { $crate::console::line(format_args!($($part)*)) };
}

/// Prints a line on standard error, in the form of `eprintln!`.
macro_rules! errln {
    ($($part:tt)*) => { $crate::console::tell(format_args!($($part)*)) };
}

/// Prints an optional line on standard error.
macro_rules! noteln {
    ($($part:tt)*) => { $crate::console::note(format_args!($($part)*)) };
}

pub(crate) use {errln, noteln, outln};

/// Whether only results, warnings and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets whether only results, warnings and errors are printed from now on.
pub fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Returns whether only results, warnings and errors are printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Lines for people, whose only control characters are colours. Only `table` makes them, from escaped text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Painted(String);

impl Painted {
    /// Returns lines from text that was escaped before it was coloured.
    pub(crate) fn of_escaped(text: String) -> Painted {
        Painted(text)
    }

    /// Returns whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these lines with others below.
    pub fn above(self, below: &Painted) -> Painted {
        Painted(format!("{}\n{}", self.0, below.0))
    }

    /// Returns the text without colours.
    pub fn plain(&self) -> String {
        strip_str(&self.0).to_string()
    }

    /// Returns the text with its colours.
    pub fn coloured(&self) -> &str {
        &self.0
    }
}

/// Sets the use of colours from now on. By default, terminals get colours unless `NO_COLOR` is set.
pub fn colour(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns the width of standard output in columns: `COLUMNS`, else the terminal's width, else 80.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|n| *n > 0);
    let terminal = || Some(usize::from(terminal_size::terminal_size()?.0.0));
    said.or_else(terminal).unwrap_or(80)
}

/// Prints painted lines on standard output.
pub fn show(lines: &Painted) {
    attempt(|| writeln!(AutoStream::auto(std::io::stdout()), "{}", lines.0));
}

/// Prints painted lines on standard error, beside machine-readable results.
pub fn show_beside(lines: &Painted) {
    if is_quiet() {
        return;
    }
    let _ = writeln!(AutoStream::auto(std::io::stderr()), "{}", lines.0);
}

/// Writes bytes to standard output unchanged.
pub fn bytes(bytes: &[u8]) {
    attempt(|| std::io::stdout().write_all(bytes));
}

/// Prints a machine-readable line on standard output, unchanged.
pub fn raw(line: &str) {
    bytes(format!("{line}\n").as_bytes());
}

/// Prints a line for people on standard output. It may contain line breaks; terminal control characters are escaped.
pub fn line(line: Arguments<'_>) {
    raw(&escape_lines(&line.to_string()));
}

/// Prints a line for people on standard error. A closed standard error is ignored.
pub fn tell(line: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{}\n", escape_lines(&line.to_string())).as_bytes());
}

/// Maximum number of characters of a quoted name in an error message.
const LONGEST_QUOTE: usize = 80;

/// Returns the message of an error: the event, then each cause that the text does not contain yet. Long names in
/// backticks are shortened to their ends.
pub fn mistake(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.contains(&cause) {
            said = if said.is_empty() { cause } else { format!("{said}: {cause}") };
        }
    }
    // Messages of compilers have line breaks, and backticks of their own.
    let part = |(i, part): (usize, &str)| match i % 2 == 1 && !part.contains('\n') {
        true => brief(part, LONGEST_QUOTE).into_owned(),
        false => part.to_owned(),
    };
    said.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// Prints an optional line for people on standard error.
pub fn note(line: Arguments<'_>) {
    if !is_quiet() {
        tell(line);
    }
}

/// Runs a function that writes to standard output by itself.
pub fn attempt(write: impl FnOnce() -> std::io::Result<()>) {
    if FAILED.get().is_some() {
        return;
    }
    let written = match CLOSED.load(Ordering::Relaxed) {
        true => Err(std::io::Error::other("it is closed")),
        false => write(),
    };
    if let Err(error) = written {
        let _ = FAILED.set(error);
    }
}

/// Returns whether standard output has failed. Endless loops then end.
pub fn gone() -> bool {
    FAILED.get().is_some()
}

/// Flushes standard output, and reports whether everything reached its reader.
///
/// # Errors
/// A failure of standard output other than a closed pipe.
pub fn end() -> anyhow::Result<()> {
    if !CLOSED.load(Ordering::Relaxed) {
        attempt(|| std::io::stdout().flush());
    }
    match FAILED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow!("cannot write to standard output: {error}; send it elsewhere, or make room there"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_mistake_says_each_cause_once_and_quotes_little() {
        let said = |outer: &str, inner: &str| {
            let error: anyhow::Result<()> = Err(anyhow!(inner.to_owned()));
            mistake(&error.context(outer.to_owned()).expect_err("an error"))
        };
        assert_eq!(said("cannot read x", "no such file"), "cannot read x: no such file");
        assert_eq!(said("x does not start: no such file", "no such file"), "x does not start: no such file");
        let long = "é".repeat(16 << 10);
        let half = "é".repeat(LONGEST_QUOTE / 2);
        assert_eq!(said(&format!("unknown `{long}`"), "choose `a`"), format!("unknown `{half} … {half}`: choose `a`"));
        let log = format!("it has ` here:\n{long}\n` there");
        assert_eq!(said("no kernel", &log), format!("no kernel: {log}"));
    }
}
