//! The time axis of a file. A run that lost its device goes on with a fresh profiler, whose clock begins at zero again;
//! what it did comes behind everything before.

/// Where on the axis a profiler's clock is.
#[derive(Debug, Default)]
pub(super) struct Axis {
    /// What each profiler's times are shifted by, the first one's (zero) left out.
    restarts: Vec<i64>,
    /// End of the record before, on its own clock.
    ended: i64,
    /// The last moment that anything was laid at.
    latest: i64,
    /// Stretches of the host's time that are taken.
    taken: Vec<(i64, i64)>,
}

impl Axis {
    /// The shift of a record whose host time is these stretches, on its own clock and in order. Records end in the order
    /// in which they come, and the host does one thing at a time; if not so, the clock has begun anew.
    pub fn place(&mut self, stretches: &[(i64, i64)]) -> i64 {
        let Some(&(_, end)) = stretches.last() else { return self.shift() };
        let shift = self.shift();
        let overlap =
            |(start, end): &(i64, i64)| self.taken.iter().any(|(from, to)| start + shift < *to && *from < end + shift);
        if end < self.ended || stretches.iter().any(overlap) {
            self.restarts.push(self.latest);
            self.taken.clear();
        }
        self.ended = end;
        let shift = self.shift();
        self.taken.extend(stretches.iter().map(|(from, to)| (from + shift, to + shift)));
        self.reach(end + shift);
        shift
    }

    /// Something lies on the axis until here.
    pub fn reach(&mut self, at: i64) {
        self.latest = self.latest.max(at);
    }

    fn shift(&self) -> i64 {
        self.restarts.last().copied().unwrap_or(0)
    }

    /// The shift after so many restarts.
    pub fn shift_after(&self, restarts: usize) -> i64 {
        match restarts {
            0 => 0,
            n => self.restarts.get(n - 1).copied().unwrap_or_else(|| self.shift()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_begins_anew_comes_behind() {
        let mut axis = Axis::default();
        assert_eq!(axis.place(&[(0, 10), (50, 60)]), 0);
        assert_eq!(axis.place(&[(10, 20), (60, 70)]), 0, "others' time lies between, touching is no overlap");
        axis.reach(75);
        assert_eq!(axis.place(&[(0, 10), (12, 30)]), 75, "it ends before the last one did");
        assert_eq!(axis.place(&[(30, 40)]), 75);
        assert_eq!(axis.place(&[(35, 80)]), 115, "two things at once");
        assert_eq!([0, 1, 2, 3].map(|n| axis.shift_after(n)), [0, 75, 115, 115]);
    }
}
