//! Step of a clock, always measured and never assumed. The clocks themselves belong to the backends.

use crate::units::{Nanos, gcd};

/// Returns the largest step of which every reading is a multiple, in the readings' own unit. It is the step of a clock with
/// masked low bits. `None` if all readings are zero. Readings are differences, so that the origin does not matter.
pub fn common_step(readings: impl IntoIterator<Item = u64>) -> Option<u64> {
    let step = readings.into_iter().fold(0, gcd);
    (step > 0).then_some(step)
}

/// Returns the smallest non-zero advance of a host clock over `tries` attempts; `now` reads the clock.
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
        // This clock is read more often than it advances.
        let readings = std::cell::Cell::new(0u32);
        let now = || {
            readings.set(readings.get() + 1);
            Nanos(f64::from(readings.get() / 3) * 5.0)
        };
        assert_eq!(smallest_move(10, now), Nanos(5.0));
    }
}
