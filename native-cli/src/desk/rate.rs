//! How often something may be done.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// So many times in any span of time.
pub struct Rate {
    most: usize,
    span: Duration,
    done: Mutex<VecDeque<Instant>>,
}

impl Rate {
    /// At most `most` times in any `span`.
    pub fn new(most: usize, span: Duration) -> Rate {
        Rate { most, span, done: Mutex::default() }
    }

    /// Whether it may be done now; then it counts.
    pub fn allows(&self, now: Instant) -> bool {
        let mut done = self.done.lock().expect("nothing panics with the lock");
        while done.front().is_some_and(|then| now.duration_since(*then) >= self.span) {
            done.pop_front();
        }
        let allowed = done.len() < self.most;
        if allowed {
            done.push_back(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_now_is_allowed_later() {
        let (rate, begun) = (Rate::new(2, Duration::from_secs(60)), Instant::now());
        let allowed = [0, 1, 2, 59, 60, 61, 62].map(|seconds| rate.allows(begun + Duration::from_secs(seconds)));
        assert_eq!(allowed, [true, true, false, false, true, true, false]);
    }
}
