//! Progress on the terminal; nothing where there is none.

use indicatif::{ProgressBar, ProgressStyle};

/// One bar for one target's run.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for so many cases.
    pub fn new(target: &str, cases: usize) -> Progress {
        let bar = ProgressBar::new(cases as u64);
        let style = ProgressStyle::with_template("{prefix:>8} {bar:28} {pos}/{len}  {eta} left  {wide_msg}")
            .expect("the template is a constant");
        bar.set_style(style.progress_chars("█▌░"));
        bar.set_prefix(target.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        Progress { bar }
    }

    /// A case begins.
    pub fn started(&self, case: &str) {
        self.bar.set_message(case.to_owned());
    }

    /// A case ended.
    pub fn finished(&self) {
        self.bar.inc(1);
    }

    /// Take the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
