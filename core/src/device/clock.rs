//! What a clock's step is: measured, never assumed. The clocks themselves belong to the backends.

use crate::units::{Nanos, gcd};

/// The largest step of which every reading is a multiple, in the readings' own unit: what is left of a clock whose low
/// bits are masked. `None` when the readings are all zero. Readings are differences, so that the origin is no matter.
pub fn common_step(readings: impl IntoIterator<Item = u64>) -> Option<u64> {
    let step = readings.into_iter().fold(0, gcd);
    (step > 0).then_some(step)
}

/// How far a host clock moves at least when it moves; `now` reads it.
pub fn smallest_move(tries: u32, now: impl Fn() -> Nanos) -> Nanos {
    let one = |_| {
        let start = now().0;
        loop {
            let passed = now().0 - start;
            if passed > 0.0 {
                return passed;
            }
        }
    };
    Nanos((0..tries).map(one).fold(f64::INFINITY, f64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_divides_every_reading() {
        assert_eq!(common_step([0, 0, 131_072, 196_608, 327_680]), Some(65_536));
        assert_eq!(common_step([1_248, 1_280, 2_560]), Some(32));
        assert_eq!(common_step([0, 1_000, 1_001]), Some(1));
        assert_eq!(common_step([0, 0]), None);
    }

    #[test]
    fn the_smallest_move_is_the_clocks_step() {
        // A clock that is read more often than it moves.
        let readings = std::cell::Cell::new(0u32);
        let now = || {
            readings.set(readings.get() + 1);
            Nanos(f64::from(readings.get() / 3) * 5.0)
        };
        assert_eq!(smallest_move(10, now), Nanos(5.0));
    }
}
