//! Rate limit per sender.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::browser::address::Sender;

/// Maximum number of senders in memory.
const MOST_SENDERS: usize = 4096;

/// Maximum number of actions in any span of time, for each sender.
pub struct Rate {
    most: usize,
    span: Duration,
    done: Mutex<HashMap<Sender, VecDeque<Instant>>>,
}

impl Rate {
    /// Returns a limit of `most` actions in any `span`.
    pub fn new(most: usize, span: Duration) -> Rate {
        Rate { most, span, done: Mutex::default() }
    }

    /// Counts one more action of a sender.
    ///
    /// # Errors
    /// Time to wait, if the action exceeds the limit; it is not counted.
    pub fn take(&self, sender: Sender, now: Instant) -> Result<(), Duration> {
        let mut all = self.done.lock().unwrap_or_else(|broken| broken.into_inner());
        all.retain(|_, done| {
            while done.front().is_some_and(|then| now.duration_since(*then) >= self.span) {
                done.pop_front();
            }
            !done.is_empty()
        });
        if all.len() >= MOST_SENDERS && !all.contains_key(&sender) {
            return Err(self.span);
        }
        let done = all.entry(sender).or_default();
        match done.front() {
            Some(first) if done.len() >= self.most => Err(self.span.saturating_sub(now.duration_since(*first))),
            _ => {
                done.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(number: u32) -> Sender {
        Sender::new(std::net::Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn one_too_many_waits_until_the_first_is_over_and_others_do_not() {
        let (rate, begun, second) = (Rate::new(2, Duration::from_secs(60)), Instant::now(), Duration::from_secs(1));
        for (from, at, wait) in [
            (1, 0, None),
            (1, 1, None),
            (1, 2, Some(58)),
            (2, 2, None),
            (1, 59, Some(1)),
            (1, 60, None),
            (1, 61, None),
            (1, 62, Some(58)),
        ] {
            let taken = rate.take(sender(from), begun + at * second);
            assert_eq!(taken.err().map(|wait| wait.as_secs()), wait, "{from} at {at}");
        }
    }

    #[test]
    fn no_more_senders_are_known_than_memory_is_meant_for() {
        let (rate, now, span) = (Rate::new(1, Duration::from_secs(60)), Instant::now(), Duration::from_secs(60));
        let most = MOST_SENDERS as u32;
        assert!((0..most).all(|number| rate.take(sender(number), now).is_ok()));
        assert_eq!(rate.take(sender(most), now), Err(span));
        assert_eq!(rate.take(sender(most), now + span), Ok(()));
    }
}
