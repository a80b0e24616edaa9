//! Progress: a bar on a terminal, a plain line every few seconds elsewhere.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parallax_core::report::escape;

use crate::console::errln;

/// Steps of a bar.
const PARTS: u64 = 1000;
/// Between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// One target's run.
pub struct Progress {
    target: String,
    bar: ProgressBar,
    /// For readers that are no terminal.
    plain: Option<Plain>,
}

struct Plain {
    /// When sampling began, and what was done by then: what comes before it is slower or quicker.
    began: Cell<Option<(Instant, f64)>>,
    told: Cell<Instant>,
    case: RefCell<String>,
}

impl Progress {
    /// Nothing done yet.
    pub fn new(target: &str) -> Progress {
        let bar = ProgressBar::new(PARTS);
        let style = ProgressStyle::with_template("{prefix:>8} {bar:28} {percent:>3} %  {eta} left  {wide_msg}")
            .expect("the template is a constant");
        bar.set_style(style.progress_chars("█▌░"));
        bar.set_prefix(target.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        let now = Instant::now();
        let plain = || Plain { began: Cell::new(None), told: Cell::new(now), case: RefCell::default() };
        Progress { target: target.to_owned(), bar, plain: (!std::io::stderr().is_terminal()).then(plain) }
    }

    /// A case begins.
    pub fn started(&self, case: &str) {
        self.bar.set_message(escape(case).into_owned());
        if let Some(plain) = &self.plain {
            *plain.case.borrow_mut() = case.to_owned();
        }
    }

    /// So much is done, from 0 to 1.
    pub fn at(&self, share: f64) {
        self.bar.set_position((share * PARTS as f64) as u64);
        let Some(plain) = &self.plain else { return };
        let (began, first) = plain.began.get().unwrap_or((Instant::now(), share));
        plain.began.set(Some((began, first)));
        if plain.told.get().elapsed() >= EVERY {
            plain.told.set(Instant::now());
            errln!("{}", line(&self.target, (first, share), began.elapsed(), &plain.case.borrow()));
        }
    }

    /// A line for the user, above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| errln!("{line}"));
    }

    /// Take the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far a run is, and about how long it will go on if it goes on like this. `spent` went into what is between the two shares.
fn line(target: &str, (first, share): (f64, f64), spent: Duration, case: &str) -> String {
    let left = (share > first).then(|| spent.as_secs_f64() * (1.0 - share) / (share - first));
    let left = left.map(|seconds| format!(", about {seconds:.0} s left")).unwrap_or_default();
    let case = if case.is_empty() { String::new() } else { format!(": {case}") };
    format!("{target} {:.0} %{left}{case}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_says_how_far_and_how_long() {
        let at = |share, case| line("cuda", (0.0, share), Duration::from_secs(10), case);
        assert_eq!(line("cuda", (0.5, 0.75), Duration::from_secs(10), ""), "cuda 75 %, about 10 s left");
        assert_eq!(at(0.25, "copy/fwd/n1/f32/scalar"), "cuda 25 %, about 30 s left: copy/fwd/n1/f32/scalar");
        assert_eq!((at(0.0, "").as_str(), at(1.0, "").as_str()), ("cuda 0 %", "cuda 100 %, about 0 s left"));
    }
}
