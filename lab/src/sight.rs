//! Whether the tab was out of sight: browsers slow hidden tabs down, and figures taken meanwhile are worth less.
//!
//! Only the page knows, and measuring is elsewhere. It is told by messages, which are in time because whoever takes a
//! sample lets those that wait come in before saying under which conditions it was taken.

use std::cell::Cell;
use std::rc::Rc;

use parallax_core::device::{Conditions, Profiler, SensorSource};

/// What the page has told.
#[derive(Debug, Default)]
pub struct Visibility {
    hidden: Cell<bool>,
    /// At any time since somebody asked.
    was_hidden: Cell<bool>,
}

impl Visibility {
    /// From now on the tab is hidden, or in sight.
    pub fn tell(&self, hidden: bool) {
        self.hidden.set(hidden);
        self.was_hidden.set(self.was_hidden.get() || hidden);
    }

    /// Whether it was hidden at any time since the last call.
    pub fn was_hidden(&self) -> bool {
        // What is hidden now was hidden after this call too.
        self.was_hidden.replace(self.hidden.get())
    }
}

/// A page that may be hidden, around a profiler.
pub struct VisibilitySensor(pub Rc<Visibility>);

impl SensorSource for VisibilitySensor {
    fn conditions(&mut self, inner: &mut dyn Profiler) -> Conditions {
        Conditions { hidden: self.0.was_hidden(), ..inner.conditions() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_hidden_between_two_looks_is_told_once_and_what_is_hidden_as_long_as_it_is() {
        let sight = Visibility::default();
        assert!(!sight.was_hidden());
        sight.tell(true);
        sight.tell(false);
        assert!(sight.was_hidden() && !sight.was_hidden());
        sight.tell(true);
        assert!(sight.was_hidden() && sight.was_hidden());
        sight.tell(false);
        assert!(sight.was_hidden(), "it was hidden after the last look");
        assert!(!sight.was_hidden());
    }
}
