//! Wall time of a run by activity.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use parallax_schema::record::{Activities, Activity};
use parallax_schema::units::Nanos;

/// Stopwatch that attributes all time to exactly one activity.
pub(super) struct Watch {
    current: Cell<Activity>,
    since: Cell<Nanos>,
    totals: RefCell<BTreeMap<Activity, Nanos>>,
}

impl Watch {
    /// Starts with [`Activity::Rest`].
    pub(super) fn start(now: Nanos) -> Watch {
        Watch { current: Cell::new(Activity::Rest), since: Cell::new(now), totals: RefCell::default() }
    }

    /// Begins an activity, and returns the one that it ends.
    pub(super) fn begin(&self, activity: Activity, now: Nanos) -> Activity {
        let before = self.current.replace(activity);
        let took = now - self.since.replace(now);
        *self.totals.borrow_mut().entry(before).or_default() += took;
        before
    }

    /// Returns the times so far.
    pub(super) fn totals(&self, now: Nanos) -> Activities {
        self.begin(self.current.get(), now);
        self.totals.borrow().iter().map(|(activity, time)| (activity.to_string(), time.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_belongs_to_an_activity() {
        let watch = Watch::start(Nanos(10.0));
        assert_eq!(watch.begin(Activity::Samples, Nanos(11.0)), Activity::Rest);
        assert_eq!(watch.begin(Activity::Calls, Nanos(15.0)), Activity::Samples);
        watch.begin(Activity::Samples, Nanos(16.0));
        let times = [(Activity::Rest, 1.0), (Activity::Samples, 6.0), (Activity::Calls, 1.0)];
        assert_eq!(watch.totals(Nanos(18.0)), times.map(|(activity, time)| (activity.to_string(), time)).into());
    }
}
