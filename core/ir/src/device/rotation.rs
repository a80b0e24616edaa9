//! Choice of the buffer set of an execution.

/// Rotation of executions through the buffer sets, across calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    sets: u64,
    next: u64,
    last: u64,
}

impl Rotation {
    /// Starts a rotation through `sets` sets (at least one), before the first execution.
    pub fn new(sets: usize) -> Rotation {
        Rotation { sets: sets.max(1) as u64, next: 0, last: 0 }
    }

    /// Returns the set of the last execution; before any execution, the set of the first.
    pub fn last(self) -> usize {
        self.last as usize
    }

    /// Returns the set of the execution that is `executions` away.
    pub fn ahead(self, executions: u64) -> usize {
        ((self.next + executions) % self.sets) as usize
    }

    /// Records the submission of `executions` executions.
    pub fn advance(&mut self, executions: u64) {
        if executions > 0 {
            self.last = (self.next + executions - 1) % self.sets;
            self.next = (self.next + executions) % self.sets;
        }
    }

    /// Returns the set of one more execution, and records it.
    pub fn take(&mut self) -> usize {
        self.advance(1);
        self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_go_around_the_sets_across_calls() {
        let mut rotation = Rotation::new(3);
        assert_eq!((rotation.last(), rotation.ahead(0), rotation.ahead(4)), (0, 0, 1));
        rotation.advance(4);
        assert_eq!((rotation.last(), rotation.ahead(0)), (0, 1));
        rotation.advance(0);
        assert_eq!((rotation.last(), rotation.ahead(0)), (0, 1));
        rotation.advance(2);
        assert_eq!((rotation.last(), rotation.ahead(0)), (2, 0));
        assert_eq!([0; 4].map(|_| rotation.take()), [0, 1, 2, 0]);
        assert_eq!(rotation.last(), 0);
    }

    #[test]
    fn no_case_has_fewer_than_one_set() {
        for sets in [0, 1] {
            let mut rotation = Rotation::new(sets);
            rotation.advance(5);
            assert_eq!((rotation.last(), rotation.ahead(7), rotation.take()), (0, 0, 0));
        }
    }
}
