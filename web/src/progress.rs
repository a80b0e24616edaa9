//! How far a run is and how long it will take: arithmetic on seconds, without a clock.

/// Progress of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Cases that will be measured.
    total: usize,
    /// Cases that ended.
    done: usize,
    /// When the first case began.
    began: f64,
    /// When the case at hand began.
    case_began: f64,
    /// Seconds a case is thought to take as long as none has ended.
    guess: f64,
}

/// A case may take longer than the average; its part of the bar then waits here.
const ALMOST: f64 = 0.95;

impl Progress {
    /// A run of `total` cases that begins `now`, each expected to take `guess` seconds.
    pub fn new(total: usize, guess: f64, now: f64) -> Progress {
        Progress { total, done: 0, began: now, case_began: now, guess }
    }

    /// A case ended.
    pub fn finished(&mut self, now: f64) {
        self.done += 1;
        self.case_began = now;
    }

    /// Cases that ended, and all.
    pub fn count(&self) -> (usize, usize) {
        (self.done, self.total)
    }

    /// Seconds per case.
    fn pace(&self) -> f64 {
        let seen = (self.case_began - self.began) / self.done as f64;
        if self.done > 0 { seen.max(1e-3) } else { self.guess.max(1e-3) }
    }

    /// Part that is done, from 0 to 1.
    pub fn fraction(&self, now: f64) -> f64 {
        let within = ((now - self.case_began) / self.pace()).clamp(0.0, ALMOST);
        let part = (self.done as f64 + within) / self.total.max(1) as f64;
        part.min(1.0)
    }

    /// Seconds left.
    pub fn left(&self, now: f64) -> f64 {
        let within = (now - self.case_began).clamp(0.0, self.pace());
        self.pace() * self.total.saturating_sub(self.done) as f64 - within
    }
}

/// Seconds in words, rounded as befits an estimate.
pub fn rough(seconds: f64) -> String {
    match seconds {
        s if s < 2.0 => "a second".to_owned(),
        s if s < 20.0 => format!("{} s", s.ceil()),
        s if s < 100.0 => format!("{} s", (s / 5.0).ceil() * 5.0),
        s => format!("{} min", (s / 60.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_cases_seen() {
        let mut progress = Progress::new(4, 10.0, 100.0);
        assert_eq!((progress.fraction(100.0), progress.left(100.0)), (0.0, 40.0));
        assert_eq!((progress.fraction(105.0), progress.left(105.0)), (0.125, 35.0));
        // A slow first case neither runs past its part of the bar nor below the time of the others.
        assert!(progress.fraction(130.0) < 0.25);
        assert_eq!(progress.left(130.0), 30.0);
        progress.finished(102.0);
        assert_eq!((progress.fraction(102.0), progress.left(102.0)), (0.25, 6.0));
        for _ in 0..3 {
            progress.finished(108.0);
        }
        assert_eq!((progress.fraction(108.0), progress.left(108.0)), (1.0, 0.0));
        assert_eq!(progress.count(), (4, 4));
    }

    #[test]
    fn estimates_are_round() {
        for (seconds, words) in [(0.3, "a second"), (7.2, "8 s"), (41.0, "45 s"), (99.0, "100 s"), (130.0, "3 min")] {
            assert_eq!(rough(seconds), words);
        }
    }
}
