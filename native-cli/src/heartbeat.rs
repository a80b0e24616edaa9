//! Detection of pauses of this process: stopped by a signal (Ctrl-Z), or suspended with its machine.
//!
//! A thread reads the clock at short intervals. A long gap between two readings, without work in other threads, means
//! that the whole process was paused.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cpu_time::ProcessTime;
use parallax_schema::units::Nanos;

/// Interval between two readings of the clock.
const EVERY: Duration = Duration::from_millis(10);
/// Minimum length of a pause. Shorter gaps occur on any busy machine.
const PAUSE: Duration = Duration::from_millis(300);

/// Moment: time that also passes while the machine sleeps, and the processor time of all threads until then.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Duration,
    worked: Duration,
}

/// Last reading of the clock, and the total length of pauses until then.
#[derive(Debug, Clone, Copy)]
struct Beat {
    last: Moment,
    still: Duration,
}

impl Beat {
    /// Returns the total length of pauses until `now`, on a machine with this number of processors.
    fn still_by(&self, now: Moment, processors: u32) -> Duration {
        let gap = now.at.saturating_sub(self.last.at);
        let worked = now.worked.saturating_sub(self.last.worked);
        // Tolerates computation between the last reading and the pause, and after the pause.
        let idle = worked <= gap / 10 + EVERY * processors;
        if gap >= PAUSE && idle { self.still + (gap - EVERY) } else { self.still }
    }
}

/// Returns the total length of this process's pauses since the first call.
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
        // Without another thread, pauses stay undetected; everything else works.
        let _ = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(watch);
    });
    Nanos(look().as_nanos() as f64)
}

fn now() -> Option<Moment> {
    Some(Moment { at: awake_or_asleep()?, worked: ProcessTime::try_now().ok()?.as_duration() })
}

/// Returns the time since the start of the machine, including sleep.
#[cfg(target_os = "linux")]
fn awake_or_asleep() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the struct and does not keep the pointer.
    let known = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) } == 0;
    known.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns time on the system's clock. On systems other than Linux, it may or may not include sleep.
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
            // A reading in time, and one delayed by a busy machine.
            (1010, 420, 2, 50),
            (1200, 400, 2, 50),
            // Stopped for ten seconds, with two threads at work until then, and with 64.
            (11_000, 420, 2, 50 + 9990),
            (11_000, 1040, 64, 50 + 9990),
            // The thread was delayed while others worked.
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
