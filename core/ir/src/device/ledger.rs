//! Accounts of device memory.

use std::cell::Cell;
use std::rc::Rc;

use parallax_schema::units::Bytes;

/// Counter of the bytes of one case, or of the memory that serves the whole device.
#[derive(Debug, Default)]
pub struct Ledger {
    current: Cell<u64>,
    peak: Cell<u64>,
}

impl Ledger {
    /// Returns the current size.
    pub fn current(&self) -> Bytes {
        Bytes(self.current.get())
    }

    /// Returns the largest size so far.
    pub fn peak(&self) -> Bytes {
        Bytes(self.peak.get())
    }

    /// Adds an entry of `bytes` bytes, which ends when it is dropped.
    pub fn enter(self: &Rc<Ledger>, bytes: u64) -> Entry {
        self.current.set(self.current.get() + bytes);
        self.peak.set(self.peak.get().max(self.current.get()));
        Entry { ledger: self.clone(), bytes }
    }
}

/// Entry of a [`Ledger`]: bytes that count until it is dropped.
#[derive(Debug)]
pub struct Entry {
    ledger: Rc<Ledger>,
    bytes: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.current.set(self.ledger.current.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_and_the_most_of_it_are_known() {
        let ledger = Rc::<Ledger>::default();
        let first = ledger.enter(10);
        drop(ledger.enter(5));
        let _second = ledger.enter(3);
        drop(first);
        assert_eq!((ledger.current(), ledger.peak()), (Bytes(3), Bytes(15)));
    }
}
