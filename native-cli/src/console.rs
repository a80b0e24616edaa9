//! Standard output and standard error: the only place that writes to them.
//!
//! A reader that goes away (`| head -1`) has had enough, and that is no failure: the rest of the text is dropped, files
//! are still written, and the exit code is the one that it would have been. Any other failure, such as a full disk, is
//! told when the program ends, with exit code 2. So is output that was closed from the start.
//!
//! Colours are in the text until it leaves the program here: what is no terminal, and whoever asked for none, gets none.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anyhow::anyhow;
use parallax_core::report::escape_lines;
use parallax_core::units::brief;

/// Whether standard output was closed before the program began. What it writes then goes nowhere, without an error.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output was closed before the program began: writing to it fails.
pub fn closed() {
    CLOSED.store(true, Ordering::Relaxed);
}

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

/// A line on standard error that can be done without.
macro_rules! noteln {
    ($($part:tt)*) => { $crate::console::note(format_args!($($part)*)) };
}

pub(crate) use {errln, noteln, outln};

/// Whether only results, warnings and mistakes are told.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether only results, warnings and mistakes are told, from here on.
pub fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether only results, warnings and mistakes are told.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Lines for people whose control characters are colours and nothing else. Only `table` makes them, of what it escaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Painted(String);

impl Painted {
    /// Of text that was escaped before it was coloured.
    pub(crate) fn of_escaped(text: String) -> Painted {
        Painted(text)
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// With other lines below.
    pub fn above(self, below: &Painted) -> Painted {
        Painted(format!("{}\n{}", self.0, below.0))
    }

    /// The text alone.
    pub fn plain(&self) -> String {
        strip_str(&self.0).to_string()
    }

    /// The text with its colours.
    pub fn coloured(&self) -> &str {
        &self.0
    }
}

/// Who sees colours, from here on; where nobody says it, a terminal does, unless `NO_COLOR` is set.
pub fn colour(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// How many columns standard output has: what `COLUMNS` says, or the terminal, or as many as every terminal has.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|n| *n > 0);
    let terminal = || Some(usize::from(terminal_size::terminal_size()?.0.0));
    said.or_else(terminal).unwrap_or(80)
}

/// Painted lines on standard output.
pub fn show(lines: &Painted) {
    attempt(|| writeln!(AutoStream::auto(std::io::stdout()), "{}", lines.0));
}

/// Painted lines on standard error, beside results for programs.
pub fn show_beside(lines: &Painted) {
    if is_quiet() {
        return;
    }
    let _ = writeln!(AutoStream::auto(std::io::stderr()), "{}", lines.0);
}

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

/// Characters of the longest name that a mistake quotes.
const LONGEST_QUOTE: usize = 80;

/// A mistake in words: what happened, and then each cause that the words before do not have already. Of long names in backticks only
/// the ends are quoted.
pub fn mistake(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.contains(&cause) {
            said = if said.is_empty() { cause } else { format!("{said}: {cause}") };
        }
    }
    // Messages of compilers have lines, and backticks of their own.
    let part = |(i, part): (usize, &str)| match i % 2 == 1 && !part.contains('\n') {
        true => brief(part, LONGEST_QUOTE).into_owned(),
        false => part.to_owned(),
    };
    said.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// A line for people on standard error that can be done without.
pub fn note(line: Arguments<'_>) {
    if !is_quiet() {
        tell(line);
    }
}

/// Something that writes to standard output by itself.
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

/// Whether nobody reads any more: what would otherwise go on for ever should end.
pub fn gone() -> bool {
    FAILED.get().is_some()
}

/// Write what is still buffered, and say whether everything reached its reader.
///
/// # Errors
/// When standard output failed in another way than by being closed.
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
    use anyhow::Context;

    use super::*;

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
