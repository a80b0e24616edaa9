//! Progress display: a bar on terminals with cursor movement, else a plain line every few seconds.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use parallax_report::escape;
use parallax_schema::spec::LONGEST_BUDGET;
use parallax_schema::units::Nanos;

use crate::console::{errln, noteln};
use crate::{console, logging};

/// Number of steps of a bar.
const PARTS: u64 = 1000;
/// Interval between two plain lines.
const EVERY: Duration = Duration::from_secs(10);

/// Progress of one target's run.
pub struct Progress {
    target: String,
    bar: ProgressBar,
    case: RefCell<String>,
    left: Cell<Option<Nanos>>,
    /// Time of the last plain line, if there is no bar.
    plain: Option<Cell<Instant>>,
}

impl Progress {
    /// Returns the progress of a run at its start. Quiet mode hides it.
    pub fn new(target: &str) -> Progress {
        // Log lines would break a bar. The library hides it on outputs that are no terminal, and on dumb terminals.
        let drawn = !logging::is_on() && !console::is_quiet();
        let bar = if drawn { ProgressBar::new(PARTS) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix:>8} {bar:28} {percent:>3} %{wide_msg}")
            .expect("the template is a constant");
        bar.set_style(style.progress_chars("█▌░"));
        bar.set_prefix(target.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress {
            target: target.to_owned(),
            plain: bar.is_hidden().then(|| Cell::new(Instant::now())),
            bar,
            case: RefCell::default(),
            left: Cell::default(),
        }
    }

    /// Records the start of a case.
    pub fn started(&self, case: &str) {
        *self.case.borrow_mut() = escape(case).into_owned();
        self.bar.set_message(self.rest());
    }

    /// Sets the finished share, from 0 to 1, and the expected remaining time.
    pub fn at(&self, share: f64, left: Nanos) {
        self.left.set(Some(left));
        self.bar.set_position((share * PARTS as f64) as u64);
        self.bar.set_message(self.rest());
        if let Some(told) = &self.plain
            && told.get().elapsed() >= EVERY
        {
            told.set(Instant::now());
            noteln!("{} {:.0} %{}", self.target, 100.0 * share, self.rest());
        }
    }

    fn rest(&self) -> String {
        rest(self.left.get(), &self.case.borrow())
    }

    /// Prints a line for the user, above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| errln!("{line}"));
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the text behind the percentage: the expected remaining time, if known, and the case.
fn rest(left: Option<Nanos>, case: &str) -> String {
    let left = left.map(|left| format!(", about {} left", HumanDuration(whole_seconds(left))));
    let case = if case.is_empty() { String::new() } else { format!(": {case}") };
    left.unwrap_or_default() + &case
}

/// Returns the time in whole seconds, at most the longest budget of a run. A page may report any value.
fn whole_seconds(left: Nanos) -> Duration {
    Nanos::from_secs(left.secs().min(LONGEST_BUDGET).round()).duration()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_run_is_told_as_far_as_it_is_known() {
        for (left, case, want) in [
            (None, "", ""),
            (None, "a", ": a"),
            (Some(9.6e9), "", ", about 10 seconds left"),
            (Some(-1.0), "", ", about 0 seconds left"),
            (Some(f64::NAN), "", ", about 52 weeks left"),
            (Some(1e300), "", ", about 52 weeks left"),
            (Some(150e9), "copy/fwd/n1/f32/scalar", ", about 3 minutes left: copy/fwd/n1/f32/scalar"),
        ] {
            assert_eq!(rest(left.map(Nanos), case), want);
        }
    }
}
