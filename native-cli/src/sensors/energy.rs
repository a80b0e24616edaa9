//! Energy counters of devices: a board's, through NVML, and the processor's.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parallax_schema::device::{DeviceInfo, DeviceKind, EnergyReading, EnergySource};

use super::rapl::{POWERCAP, Packages};
use super::trail::Trail;

/// Time between two readings of a board's counter.
const EVERY: Duration = Duration::from_millis(2);
/// Time between two samples of its power.
const POWER_EVERY: Duration = Duration::from_millis(20);
/// Time after the last query at which the readings end. It exceeds the longest execution with an energy.
const LINGER: Duration = Duration::from_secs(8);
/// Time in which a counter must change once.
const PATIENCE: Duration = Duration::from_secs(3);

/// Environment variable with another folder of the powercap interface, as in a container that has the host's.
pub const POWERCAP_FOLDER: &str = "PARALLAX_POWERCAP";

/// Returns the folder of the powercap interface.
fn powercap() -> PathBuf {
    std::env::var_os(POWERCAP_FOLDER).map_or_else(|| POWERCAP.into(), PathBuf::from)
}

/// Energy counter of a device.
pub enum EnergyCounter {
    /// Counter of a board.
    Board(BoardCounter),
    /// Counters of the processor's packages.
    Packages(Packages),
}

impl EnergyCounter {
    /// Returns the counter of a device.
    ///
    /// # Errors
    /// The reason of its absence.
    pub fn of(device: &DeviceInfo) -> Result<EnergyCounter, String> {
        match device.kind {
            DeviceKind::Software => {
                Err(format!("{} is an emulation, and has no energy counter of its own", device.name))
            }
            DeviceKind::Cpu => Packages::open(&powercap()).map(EnergyCounter::Packages).map_err(|why| why.to_string()),
            _ => super::meter(device).map(|meter| EnergyCounter::Board(BoardCounter::new(meter))),
        }
    }

    /// Returns the reading at the latest update.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn read(&mut self) -> Result<EnergyReading, String> {
        match self {
            EnergyCounter::Board(board) => board.read(),
            EnergyCounter::Packages(packages) => packages.read().map_err(|why| why.to_string()),
        }
    }
}

/// Energy counter and sensor of the power of a board.
pub trait Meter: Send {
    /// Returns the counter in joules.
    fn joules(&self) -> Result<f64, String>;

    /// Returns the present power in watts; `None` without a sensor.
    fn watts(&self) -> Option<f64>;
}

/// Counter that a thread reads while it is asked for.
pub struct BoardCounter {
    shared: Arc<Shared>,
}

struct Shared {
    meter: Mutex<Box<dyn Meter>>,
    state: Mutex<State>,
    /// Signals the first update, and the end of the thread.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    trail: Trail,
    /// Reason of the thread's end.
    failure: Option<String>,
    /// Time at which the thread ends; `None` without a thread.
    until: Option<Instant>,
}

impl BoardCounter {
    /// Returns the counter of a meter.
    pub fn new(meter: Box<dyn Meter>) -> BoardCounter {
        let (meter, state, changed) = (Mutex::new(meter), Mutex::default(), Condvar::new());
        BoardCounter { shared: Arc::new(Shared { meter, state, changed }) }
    }

    /// Returns the reading at the latest update. The first query starts the thread, and waits for an update.
    fn read(&self) -> Result<EnergyReading, String> {
        let mut state = self.shared.state();
        let running = state.until.replace(Instant::now() + LINGER).is_some();
        if !running {
            (state.trail, state.failure) = (Trail::default(), None);
            let shared = self.shared.clone();
            std::thread::spawn(move || shared.follow());
        }
        let waits = |state: &mut State| state.failure.is_none() && state.trail.reading(EnergySource::Nvml).is_none();
        let waited = self.shared.changed.wait_timeout_while(state, PATIENCE, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&state.failure, state.trail.reading(EnergySource::Nvml)) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(reading)) => Ok(reading),
            (None, None) => Err(format!("the board's energy counter did not change for {} s", PATIENCE.as_secs())),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until the queries end.
    fn follow(&self) {
        let meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let mut sampled: Option<Instant> = None;
        loop {
            let watts = match sampled {
                Some(at) if at.elapsed() < POWER_EVERY => None,
                _ => {
                    sampled = Some(Instant::now());
                    meter.watts()
                }
            };
            let (joules, at) = (meter.joules(), began.elapsed());
            let mut state = self.state();
            match joules {
                Ok(joules) => state.trail.take(at, joules, watts),
                Err(why) => state.failure = Some(why),
            }
            let over = state.failure.is_some() || state.until.is_none_or(|until| until < Instant::now());
            if over {
                state.until = None;
            }
            drop(state);
            self.changed.notify_all();
            if over {
                return;
            }
            std::thread::sleep(EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::device::Profiler;
    use parallax_testing::mock::{Fault, Mock};

    /// Counter that gains 300 W, in steps of 20 ms.
    struct Steady(Instant);

    impl Meter for Steady {
        fn joules(&self) -> Result<f64, String> {
            Ok((self.0.elapsed().as_millis() / 20) as f64 * 6.0)
        }

        fn watts(&self) -> Option<f64> {
            Some(300.0)
        }
    }

    struct Broken(Result<f64, String>);

    impl Meter for Broken {
        fn joules(&self) -> Result<f64, String> {
            self.0.clone()
        }

        fn watts(&self) -> Option<f64> {
            None
        }
    }

    #[test]
    fn a_thread_follows_the_counter() {
        let counter = BoardCounter::new(Box::new(Steady(Instant::now())));
        let before = counter.read().expect("an update");
        std::thread::sleep(Duration::from_millis(600));
        let after = counter.read().expect("an update");
        let (over, joules) = ((after.at - before.at).secs(), after.joules - before.joules);
        // A busy machine delays readings, by some share of the time.
        assert!((0.4..5.0).contains(&over) && (joules / over / 300.0 - 1.0).abs() < 0.2, "{joules} J in {over} s");
        let integrated = after.integrated.zip(before.integrated).map(|(after, before)| after - before);
        assert!((integrated.expect("samples") / over - 300.0).abs() < 1.0, "{integrated:?}");
    }

    #[test]
    fn a_counter_that_fails_or_stands_still_is_a_reason() {
        let failing = BoardCounter::new(Box::new(Broken(Err("lost".to_owned()))));
        assert_eq!(failing.read().expect_err("fails"), "lost");
        let stuck = BoardCounter::new(Box::new(Broken(Ok(5.0))));
        assert!(stuck.read().expect_err("stuck").contains("did not change for 3 s"));
    }

    #[test]
    fn an_emulation_has_no_counter() {
        let mock = Mock::new(|_| 1.0, Fault::None);
        let why = EnergyCounter::of(mock.device()).err().expect("software");
        assert!(why.contains("emulation"), "{why}");
    }
}
