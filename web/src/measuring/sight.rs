//! Whether the tab was out of sight: browsers slow hidden tabs down, and figures taken meanwhile are worth less.
//!
//! Only the page knows, and measuring is elsewhere. It is told by messages, which are in time because whoever takes a
//! sample lets those that wait come in before saying under which conditions it was taken.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_core::device::{BackendError, ClockInfo, Conditions, DeviceInfo, Prepared, Profiler, Transfer};
use parallax_core::suite::{Case, Inputs, Tuning};
use parallax_core::units::Nanos;

/// What the page has told.
#[derive(Debug, Default)]
pub struct Sight {
    hidden: Cell<bool>,
    /// At any time since somebody asked.
    was_hidden: Cell<bool>,
}

impl Sight {
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

/// A profiler in a page that may be hidden.
pub struct Watched {
    /// What measures.
    pub inner: Box<dyn Profiler>,
    /// What is known of the page.
    pub sight: Rc<Sight>,
}

#[async_trait(?Send)]
impl Profiler for Watched {
    fn device(&self) -> &DeviceInfo {
        self.inner.device()
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.inner.set_tuning(tuning);
    }

    fn clock(&self) -> &ClockInfo {
        self.inner.clock()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn conditions(&mut self) -> Conditions {
        Conditions { hidden: self.sight.was_hidden(), ..self.inner.conditions() }
    }

    async fn breathe(&self) {
        self.inner.breathe().await;
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        self.inner.empty().await
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        self.inner.transfer(way, bytes).await
    }

    async fn expect(&mut self, cases: &[Case]) {
        self.inner.expect(cases).await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        self.inner.prepare(case, inputs, sets).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_hidden_between_two_looks_is_told_once_and_what_is_hidden_as_long_as_it_is() {
        let sight = Sight::default();
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
