//! Progress of a run, extrapolated between two events. It computes with seconds and has no clock.

/// Progress of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Finished fraction.
    part: f64,
    /// Expected seconds of the rest.
    left: f64,
    /// Time of the last update.
    at: f64,
}

/// Maximum fraction of the rest that the bar shows. The rest may take longer than expected.
const ALMOST: f64 = 0.97;

impl Progress {
    /// Returns the progress of a run that begins at `now` and takes an expected `guess` seconds.
    pub fn new(guess: f64, now: f64) -> Progress {
        Progress { part: 0.0, left: guess, at: now }
    }

    /// Updates the finished fraction and the expected seconds of the rest.
    pub fn told(&mut self, part: f64, left: f64, now: f64) {
        // The displayed fraction never decreases.
        *self = Progress { part: part.max(self.fraction(now)), left, at: now };
    }

    /// Fraction of the rest that has passed since the last update.
    fn passed(&self, now: f64) -> f64 {
        ((now - self.at) / self.left.max(1e-3)).clamp(0.0, ALMOST)
    }

    /// Finished fraction, from 0 to 1.
    pub fn fraction(&self, now: f64) -> f64 {
        self.part + (1.0 - self.part) * self.passed(now)
    }

    /// Seconds left.
    pub fn left(&self, now: f64) -> f64 {
        self.left * (1.0 - self.passed(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_the_run_says() {
        let mut progress = Progress::new(40.0, 100.0);
        assert_eq!((progress.fraction(100.0), progress.left(100.0)), (0.0, 40.0));
        assert_eq!((progress.fraction(110.0), progress.left(110.0)), (0.25, 30.0));
        assert!(progress.fraction(500.0) < 1.0, "it never pretends to be done");
        progress.told(0.5, 60.0, 110.0);
        assert_eq!((progress.fraction(110.0), progress.left(110.0)), (0.5, 60.0));
        assert_eq!((progress.fraction(140.0), progress.left(140.0)), (0.75, 30.0));
        progress.told(0.6, 60.0, 140.0);
        assert_eq!(progress.fraction(140.0), 0.75, "and never runs backwards");
        progress.told(1.0, 0.0, 200.0);
        assert_eq!((progress.fraction(200.0), progress.left(200.0)), (1.0, 0.0));
    }
}
