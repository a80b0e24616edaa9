//! Progress on the terminal; nothing where there is none.

use parallax_core::report::escape;

use crate::console::errln;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a bar.
const PARTS: u64 = 1000;

/// One bar for one target's run.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// An empty bar.
    pub fn new(target: &str) -> Progress {
        let bar = ProgressBar::new(PARTS);
        let style = ProgressStyle::with_template("{prefix:>8} {bar:28} {percent:>3} %  {eta} left  {wide_msg}")
            .expect("the template is a constant");
        bar.set_style(style.progress_chars("█▌░"));
        bar.set_prefix(target.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        Progress { bar }
    }

    /// A case begins.
    pub fn started(&self, case: &str) {
        self.bar.set_message(escape(case).into_owned());
    }

    /// So much is done, from 0 to 1.
    pub fn at(&self, share: f64) {
        self.bar.set_position((share * PARTS as f64) as u64);
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
