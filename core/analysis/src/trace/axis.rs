//! Time axis of a file. A run that lost its device continues with a fresh profiler and a clock that starts at zero again. Its
//! events are placed after all earlier ones.

/// Place of a profiler's clock on the axis.
#[derive(Debug, Default)]
pub(super) struct Axis {
    /// Shift of each profiler's times, without the first one's (zero).
    restarts: Vec<i64>,
    /// End of the last record, on its own clock.
    ended: i64,
    /// Latest time on the axis.
    latest: i64,
    /// Occupied stretches of host time.
    taken: Vec<(i64, i64)>,
}

impl Axis {
    /// Returns the shift of a record with these stretches of host time, on its own clock and in order. Records arrive in the
    /// order of their ends, and their stretches never overlap. If they do, the clock has restarted.
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

    /// Records that events lie on the axis up to `at`.
    pub fn reach(&mut self, at: i64) {
        self.latest = self.latest.max(at);
    }

    fn shift(&self) -> i64 {
        self.restarts.last().copied().unwrap_or(0)
    }

    /// Returns the shift after `restarts` restarts.
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
