//! Named steps. A table of their seconds is printed at the end, after a failure too.

use std::time::Instant;

use anyhow::Result;

use crate::shell::say;

/// Steps that were done, with their seconds.
pub struct Steps {
    began: Instant,
    done: Vec<(u64, String)>,
}

impl Steps {
    /// Returns an empty list, from whose creation the seconds of all steps count.
    pub fn new() -> Steps {
        Steps { began: Instant::now(), done: Vec::new() }
    }

    /// Runs a step, and keeps its seconds.
    ///
    /// # Errors
    /// The step's own.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        say(name);
        let began = Instant::now();
        let result = work();
        let failed = if result.is_err() { " (failed)" } else { "" };
        self.done.push((began.elapsed().as_secs(), format!("{name}{failed}")));
        result
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        eprintln!("{:>8}  step", "seconds");
        for (seconds, name) in &self.done {
            eprintln!("{seconds:>8}  {name}");
        }
        eprintln!("{:>8}  in all", self.began.elapsed().as_secs());
    }
}
