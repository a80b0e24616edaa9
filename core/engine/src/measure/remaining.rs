//! Progress of a run and its remaining time: arithmetic on times, without a clock.
//!
//! A run tests clocks, measures ceilings, prepares cases, samples them and completes them. The duration of each kind of step is
//! guessed first, and learned during the run.

use parallax_schema::record::Event;
use parallax_schema::units::Nanos;

/// Assumed time of the clock test and the ceilings, before any of it is done.
const BASELINE: Nanos = Nanos(5e9);

/// Steps of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Steps {
    /// Number of steps.
    of: f64,
    done: f64,
    /// Time of the finished steps together.
    took: f64,
}

impl Steps {
    fn left(&self, guess: f64) -> f64 {
        let each = if self.done > 0.0 { self.took / self.done } else { guess };
        (self.of - self.done).max(0.0) * each
    }
}

/// Finished and remaining steps of a run.
#[derive(Debug, Clone, Default)]
pub struct Remaining {
    began: Nanos,
    /// Moment up to which all time is counted.
    until: Nanos,
    /// Assumed sampling time of a case.
    sample: f64,
    baseline: Steps,
    prepare: Steps,
    sampling: Steps,
    complete: Steps,
    /// Number of cases of earlier groups, which are sampled.
    sampled: f64,
    told: f64,
}

impl Remaining {
    /// Progress of a run that checks each case once.
    pub fn for_checks(now: Nanos, cases: usize) -> Remaining {
        let prepare = Steps { of: cases as f64, ..Steps::default() };
        Remaining { began: now, until: now, prepare, ..Remaining::default() }
    }

    /// Progress of a run that measures each case for `sampling`.
    pub fn for_measuring(now: Nanos, cases: usize, sampling: Nanos) -> Remaining {
        let each = Steps { of: cases as f64, ..Steps::default() };
        let baseline = Steps { of: 1.0, ..Steps::default() };
        Remaining { sample: sampling.0, baseline, sampling: each, complete: each, ..Remaining::for_checks(now, cases) }
    }

    fn since(&mut self, now: Nanos) -> f64 {
        (now - std::mem::replace(&mut self.until, now)).0
    }

    /// Records the finished share of the work before the cases, from 0 to 1.
    pub fn baseline(&mut self, now: Nanos, share: f64) -> Event {
        self.baseline.took += self.since(now);
        self.baseline.done = share;
        self.event()
    }

    /// Records that a case is prepared; `goes_on` is false if the case ended there.
    pub fn prepared(&mut self, now: Nanos, goes_on: bool) -> Event {
        self.prepare.took += self.since(now);
        self.prepare.done += 1.0;
        if !goes_on {
            self.sampling.of -= 1.0;
            self.complete.of -= 1.0;
        }
        self.event()
    }

    /// Records the end of a round. `cases` is the finished sampling of the group, in cases.
    pub fn sampled(&mut self, now: Nanos, cases: f64) -> Event {
        self.sampling.took += self.since(now);
        self.sampling.done = self.sampled + cases;
        self.event()
    }

    /// Records that all `cases` of a group are sampled.
    pub fn group_sampled(&mut self, now: Nanos, cases: usize) {
        self.sampling.took += self.since(now);
        self.sampled += cases as f64;
        self.sampling.done = self.sampled;
    }

    /// Records that a case is complete.
    pub fn completed(&mut self, now: Nanos) -> Event {
        self.complete.took += self.since(now);
        self.complete.done += 1.0;
        self.event()
    }

    fn event(&mut self) -> Event {
        let prepare = if self.prepare.done > 0.0 { self.prepare.took / self.prepare.done } else { self.sample };
        let left = self.baseline.left(BASELINE.0)
            + self.prepare.left(prepare)
            + self.sampling.left(self.sample)
            + self.complete.left(prepare);
        let spent = (self.until - self.began).0;
        let share = if left > 0.0 { spent / (spent + left) } else { 1.0 };
        // The reported share never falls: only the remaining time may grow.
        self.told = self.told.max(share);
        Event::Progress { share: self.told, left: Nanos(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1e9;

    fn told(event: Event) -> (f64, f64) {
        match event {
            Event::Progress { share, left } => (share, left.0 / SECOND),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_time_left_covers_everything_that_is_still_to_come() {
        let at = |seconds: f64| Nanos(seconds * SECOND);
        let mut run = Remaining::for_measuring(at(0.0), 2, at(3.0));
        // Half of the ceilings took 4 s; two cases are assumed to take 3 s each for preparing, sampling and completing.
        assert_eq!(told(run.baseline(at(4.0), 0.5)), (4.0 / 26.0, 22.0));
        assert_eq!(told(run.baseline(at(8.0), 1.0)).1, 18.0);
        // Preparing takes a second, and completing is assumed to take as long.
        assert_eq!(told(run.prepared(at(9.0), true)).1, 1.0 + 6.0 + 2.0);
        // The second case ends at its preparation.
        assert_eq!(told(run.prepared(at(10.0), false)).1, 3.0 + 1.0);
        // Sampling takes twice its budget.
        assert_eq!(told(run.sampled(at(13.0), 0.5)).1, 3.0 + 1.0);
        run.group_sampled(at(16.0), 1);
        assert_eq!(told(run.completed(at(17.0))), (1.0, 0.0));
    }

    #[test]
    fn progress_never_runs_backwards() {
        let mut run = Remaining::for_checks(Nanos(0.0), 3);
        let (first, left) = told(run.prepared(Nanos(SECOND), true));
        assert_eq!((first, left), (1.0 / 3.0, 2.0));
        // The second case takes longer than the assumed rest of the run.
        let (second, left) = told(run.prepared(Nanos(9.0 * SECOND), true));
        assert!(second >= first && left > 4.0, "{second} {left}");
        assert_eq!(told(run.prepared(Nanos(10.0 * SECOND), true)).0, 1.0);
    }
}
