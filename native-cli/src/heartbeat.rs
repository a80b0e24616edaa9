//! Notices that this process stood still: stopped by a signal (Ctrl-Z), or asleep with its machine.
//!
//! A thread looks at the clock all the time. Where it was kept from that for long, and no other thread worked meanwhile, nothing of
//! the process ran.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cpu_time::ProcessTime;
use parallax_core::units::Nanos;

/// Between two looks at the clock.
const EVERY: Duration = Duration::from_millis(10);
/// A pause is at least so long; shorter ones are those of any busy machine.
const PAUSE: Duration = Duration::from_millis(300);

/// A moment: time that also passes while the machine sleeps, and the work of all threads until then.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Duration,
    worked: Duration,
}

/// The last look at the clock, and how long the process had stood still by then.
#[derive(Debug, Clone, Copy)]
struct Beat {
    last: Moment,
    still: Duration,
}

impl Beat {
    /// How long the process has stood still by now, on a machine of so many processors.
    fn still_by(&self, now: Moment, processors: u32) -> Duration {
        let gap = now.at.saturating_sub(self.last.at);
        let worked = now.worked.saturating_sub(self.last.worked);
        // What was computed between the last look and the pause, and after it until now.
        let idle = worked <= gap / 10 + EVERY * processors;
        if gap >= PAUSE && idle { self.still + (gap - EVERY) } else { self.still }
    }
}

/// How long this process has stood still since this was first asked.
pub fn stood_still() -> Nanos {
    static BEAT: OnceLock<Option<Mutex<Beat>>> = OnceLock::new();
    static WATCH: OnceLock<()> = OnceLock::new();
    let Some(beat) = BEAT.get_or_init(|| Some(Mutex::new(Beat { last: now()?, still: Duration::ZERO }))) else {
        return Nanos(0.0);
    };
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let look = move || {
        let mut beat = beat.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = now() {
            *beat = Beat { still: beat.still_by(now, processors), last: now };
        }
        beat.still
    };
    WATCH.get_or_init(|| {
        let watch = move || {
            loop {
                std::thread::sleep(EVERY);
                look();
            }
        };
        // Without a thread to spare nothing is noticed, and everything else goes on.
        let _ = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(watch);
    });
    Nanos(look().as_nanos() as f64)
}

fn now() -> Option<Moment> {
    Some(Moment { at: awake_or_asleep()?, worked: ProcessTime::try_now().ok()?.as_duration() })
}

/// Time since the machine was started, its sleep included.
#[cfg(target_os = "linux")]
fn awake_or_asleep() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to and not kept.
    let known = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) } == 0;
    known.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Time on the system's own clock, which elsewhere may or may not pass while the machine sleeps.
#[cfg(not(target_os = "linux"))]
fn awake_or_asleep() -> Option<Duration> {
    static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();
    Some(BEGAN.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_in_which_nothing_worked_is_a_pause() {
        let ms = Duration::from_millis;
        let begun = Beat { last: Moment { at: ms(1000), worked: ms(400) }, still: ms(50) };
        for (at, worked, processors, still) in [
            // A look in time, and one that a busy machine kept back.
            (1010, 420, 2, 50),
            (1200, 400, 2, 50),
            // Stopped for ten seconds, with two threads at work until then, and with 64.
            (11_000, 420, 2, 50 + 9990),
            (11_000, 1040, 64, 50 + 9990),
            // The thread was kept back while others worked.
            (3000, 2400, 2, 50),
            (1400, 800, 2, 50),
        ] {
            assert_eq!(
                begun.still_by(Moment { at: ms(at), worked: ms(worked) }, processors),
                ms(still),
                "{at} {worked}"
            );
        }
    }

    #[test]
    fn a_process_that_runs_does_not_stand_still() {
        let before = stood_still();
        std::thread::sleep(Duration::from_millis(30));
        assert!(stood_still() >= before);
    }
}
