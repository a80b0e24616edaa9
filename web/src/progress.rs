//! How far a run is and how long it will take: arithmetic on seconds, without a clock.

/// Progress of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// When it began.
    began: f64,
    /// Seconds that the whole is thought to take at first.
    guess: f64,
    /// Part that is done as the run itself says, and when it said so.
    told: (f64, f64),
}

/// A run may take longer than thought; the bar then waits here.
const ALMOST: f64 = 0.97;

impl Progress {
    /// A run that begins `now` and is thought to take `guess` seconds.
    pub fn new(guess: f64, now: f64) -> Progress {
        Progress { began: now, guess, told: (0.0, now) }
    }

    /// The run says that a part of it is done.
    pub fn told(&mut self, part: f64, now: f64) {
        self.told = (part.max(self.told.0), now);
    }

    /// Seconds that the whole takes, by what has been seen; the more is done, the more that counts.
    fn whole(&self) -> f64 {
        let (part, at) = self.told;
        let seen = if part > 0.0 { (at - self.began) / part } else { self.guess };
        (part * seen + (1.0 - part) * self.guess.max(at - self.began)).max(1e-3)
    }

    /// Part that is done, from 0 to 1.
    pub fn fraction(&self, now: f64) -> f64 {
        let (part, at) = self.told;
        (part + (now - at) / self.whole()).clamp(0.0, ALMOST.max(part)).min(1.0)
    }

    /// Seconds left.
    pub fn left(&self, now: f64) -> f64 {
        (1.0 - self.fraction(now)) * self.whole()
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
        // Half of it took a minute: the other half is expected to take one too, more or less.
        progress.told(0.5, 160.0);
        assert_eq!(progress.fraction(160.0), 0.5);
        assert!((30.0..=60.0).contains(&progress.left(160.0)), "{}", progress.left(160.0));
        progress.told(0.4, 161.0);
        assert!(progress.fraction(161.0) >= 0.5, "and never runs backwards");
        progress.told(1.0, 200.0);
        assert_eq!((progress.fraction(200.0), progress.left(200.0)), (1.0, 0.0));
    }
}
