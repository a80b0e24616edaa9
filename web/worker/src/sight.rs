//! Visibility of the tab. Browsers slow down hidden tabs, so samples taken meanwhile are less reliable.
//!
//! Only the page knows the visibility, and the worker measures elsewhere. The page sends messages. The profiler yields to waiting
//! messages after a sample, before it reads the sample's conditions, so they arrive in time.

use std::cell::Cell;

/// Visibility of the tab, as the page reported it.
#[derive(Debug, Default)]
pub struct Visibility {
    hidden: Cell<bool>,
    /// Whether the tab was hidden at any time since the last query.
    was_hidden: Cell<bool>,
}

impl Visibility {
    /// Sets the present visibility.
    pub fn tell(&self, hidden: bool) {
        self.hidden.set(hidden);
        self.was_hidden.set(self.was_hidden.get() || hidden);
    }

    /// Returns whether the tab was hidden at any time since the last call.
    pub fn was_hidden(&self) -> bool {
        // A tab that is hidden now was also hidden after this call.
        self.was_hidden.replace(self.hidden.get())
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
