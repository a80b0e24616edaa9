//! Phases of a case: preparation, check, trace, and further ones.

use parallax_schema::record::Phase;
use parallax_schema::units::Nanos;

/// Phases of one case on the host.
pub struct Phases {
    since: Nanos,
    /// Phases so far, in order.
    pub list: Vec<Phase>,
}

impl Phases {
    /// Begins the first phase.
    pub fn begin(now: Nanos) -> Phases {
        Phases { since: now, list: Vec::new() }
    }

    /// Starts the next phase now rather than at the end of the last one, because other cases ran in between.
    pub fn begin_again(&mut self, now: Nanos) {
        self.since = now;
    }

    /// Ends the present phase, and begins the next.
    pub fn end(&mut self, name: &str, now: Nanos) {
        self.list.push(Phase { name: name.to_owned(), start: self.since, end: now });
        self.since = now;
    }
}
