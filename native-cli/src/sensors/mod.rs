//! Profiler decorator with data of the operating system and of NVIDIA's management library (NVML).
//!
//! Processor time is always available. Clocks, temperature, power and throttling require NVML and a device with the
//! profiler's name. Otherwise there are no sensors, and no message reports their absence.

mod energy;
mod fixed_clock;
mod rapl;
mod trail;

pub use energy::{EnergyCounter, POWERCAP_FOLDER};

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cpu_time::ProcessTime;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT;
use parallax_ir::device::{Profiler, SensorSource, WithSensors};
use parallax_schema::device::identity::{Identity, pci_address};
use parallax_schema::device::{Conditions, DeviceInfo, EnergyReading};
use parallax_schema::units::Nanos;

use crate::burn_in::MemoryErrors;
use crate::heartbeat;
use fixed_clock::FixedClock;

/// Returns a profiler with the available sensors of its device, and with the clock of its multiprocessors fixed, if a clock is given
/// in MHz.
///
/// # Errors
/// A clock that cannot be fixed.
pub fn instrumented(inner: Box<dyn Profiler>, clock: Option<u32>) -> Result<WithSensors<Sensors>, String> {
    let device = inner.device();
    let fixed = clock.map(|mhz| fixed_clock(device, mhz)).transpose()?;
    let board = if device.kind.is_emulated() { None } else { Board::of(device) };
    Ok(WithSensors::new(inner, Sensors { board, energy: None, _fixed: fixed }))
}

/// Fixes the clock of the multiprocessors of the profiler's device.
fn fixed_clock(info: &DeviceInfo, mhz: u32) -> Result<FixedClock<nvml_wrapper::Device<'static>>, String> {
    if info.ranks > 1 {
        return Err(format!("--lock-clocks: {} is several boards, and the clock of one is fixed at a time", info.name));
    }
    let none = || format!("--lock-clocks: {} is no board whose clocks NVML, of NVIDIA's driver, can fix", info.name);
    let board = board_of(info).filter(|_| !info.kind.is_emulated() && !is_slice(&info.name)).ok_or_else(none)?;
    FixedClock::new(board, &info.name, mhz)
}

/// Sensors of a device and of this process.
pub struct Sensors {
    board: Option<Board>,
    /// Energy counter of the device, or the reason of its absence; `None` before the first query.
    energy: Option<Result<EnergyCounter, String>>,
    /// Fixed clock, which is reset with the sensors.
    _fixed: Option<FixedClock<nvml_wrapper::Device<'static>>>,
}

#[async_trait(?Send)]
impl SensorSource for Sensors {
    fn conditions(&mut self, inner: &mut dyn Profiler) -> Conditions {
        match &mut self.board {
            Some(board) => board.conditions(Instant::now()),
            None => inner.conditions(),
        }
    }

    fn cpu_time(&self, _: &dyn Profiler) -> Option<Nanos> {
        let spent = ProcessTime::try_now().ok()?;
        Some(Nanos::from_secs(spent.as_duration().as_secs_f64()))
    }

    fn stood_still(&self, _: &dyn Profiler) -> Nanos {
        heartbeat::stood_still()
    }

    async fn energy(&mut self, inner: &mut dyn Profiler, after: Nanos) -> Result<EnergyReading, String> {
        std::thread::sleep(after.duration());
        let counter = self.energy.get_or_insert_with(|| EnergyCounter::of(inner.device()));
        counter.as_mut().map_err(|why| why.clone())?.read()
    }
}

/// Sensors of one board.
struct Board {
    device: nvml_wrapper::Device<'static>,
    memory_clock: Paced<Option<u32>>,
    temperature: Paced<Option<u32>>,
    /// Power in milliwatts.
    power: Paced<Option<u32>>,
}

impl Board {
    /// Returns the board of the profiler's device, by its PCI address or UUID if the interface reports one. Otherwise
    /// returns the only board of its name.
    fn of(info: &DeviceInfo) -> Option<Board> {
        let device = board_of(info)?;
        Some(Board { device, memory_clock: Paced::new(), temperature: Paced::new(), power: Paced::new() })
    }

    /// Reads the conditions. The clock and the reasons for throttling are read every time, because they may discard a
    /// sample. The other values change slowly, and are read as often as is cheap.
    fn conditions(&mut self, now: Instant) -> Conditions {
        let device = &self.device;
        let sm_clock = device.clock_info(Clock::SM).ok();
        let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
        let memory_clock = self.memory_clock.get(now, || device.clock_info(Clock::Memory).ok());
        let temperature = self.temperature.get(now, || device.temperature(TemperatureSensor::Gpu).ok());
        let power = self.power.get(now, || device.power_usage().ok());
        Conditions {
            sm_clock_mhz: sm_clock.map(f64::from),
            memory_clock_mhz: memory_clock.map(f64::from),
            temperature_c: temperature.map(f64::from),
            power_w: power.map(|milliwatts| f64::from(milliwatts) / 1e3),
            throttle: words(reasons),
            hidden: false,
        }
    }
}

/// Returns NVML's handle of the profiler's device, as [`Board::of`].
fn board_of(info: &DeviceInfo) -> Option<nvml_wrapper::Device<'static>> {
    let nvml = nvml()?;
    let boards = (0..nvml.device_count().ok()?).filter_map(|index| nvml.device_by_index(index).ok());
    let described = |board: &nvml_wrapper::Device<'_>| {
        let identity = Identity {
            pci: board.pci_info().ok().and_then(|pci| pci_address(&pci.bus_id)),
            uuid: board.uuid().ok(),
            model: None,
        };
        (board.name().unwrap_or_default(), identity)
    };
    let (boards, known): (Vec<_>, Vec<_>) = boards.map(|board| (described(&board), board)).map(|(t, b)| (b, t)).unzip();
    boards.into_iter().nth(which(info, &known)?)
}

/// Returns the energy meter of the profiler's device, or the reason of its absence.
fn meter(info: &DeviceInfo) -> Result<Box<dyn energy::Meter>, String> {
    let name = &info.name;
    let absent = || match nvml() {
        None => format!("no energy counter of {name}: NVML, of NVIDIA's driver, is not on this machine"),
        Some(_) => format!("no energy counter of {name}: NVML has no board that must be this one"),
    };
    if info.ranks > 1 {
        return Err(format!("no energy counter of {name}: it is {} boards, and each has its own", info.ranks));
    }
    if is_slice(name) {
        return Err(format!("no energy counter of {name}: NVML counts the whole board, not its slices"));
    }
    let board = board_of(info).ok_or_else(absent)?;
    board.total_energy_consumption().map_err(|why| format!("NVML has no energy counter of {name}: {why}"))?;
    Ok(Box::new(board))
}

impl energy::Meter for nvml_wrapper::Device<'static> {
    fn joules(&self) -> Result<f64, String> {
        let millijoules = self.total_energy_consumption();
        millijoules.map(|millijoules| millijoules as f64 * 1e-3).map_err(|why| format!("NVML's energy counter: {why}"))
    }

    fn watts(&self) -> Option<f64> {
        // Since Ampere, the usual reading is an average over a second.
        let instant =
            self.field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)]).ok().and_then(|values| {
                match values.into_iter().next()?.ok()?.value.ok()? {
                    SampleValue::U32(milliwatts) if milliwatts > 0 => Some(milliwatts),
                    _ => None,
                }
            });
        instant.or_else(|| self.power_usage().ok()).map(|milliwatts| f64::from(milliwatts) * 1e-3)
    }
}

/// Returns the memory errors that a device has counted since its driver was loaded; `None` where nothing counts them.
pub fn memory_errors(info: &DeviceInfo) -> Option<MemoryErrors> {
    let board = board_of(info).filter(|_| !info.kind.is_emulated())?;
    let count = |error| board.total_ecc_errors(error, EccCounter::Volatile).ok();
    Some(MemoryErrors { corrected: count(MemoryError::Corrected)?, uncorrected: count(MemoryError::Uncorrected)? })
}

/// Activity of a board before a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuActivity {
    /// Name of the board.
    pub name: String,
    /// Reasons for throttling.
    pub held: Vec<String>,
    /// Number of compute processes on the board.
    pub processes: usize,
}

/// Returns the activity of every visible board.
pub fn boards() -> Vec<GpuActivity> {
    let Some(nvml) = nvml() else { return Vec::new() };
    let boards = (0..nvml.device_count().unwrap_or(0)).filter_map(|index| nvml.device_by_index(index).ok());
    let doing = |board: nvml_wrapper::Device<'_>| GpuActivity {
        name: board.name().unwrap_or_else(|_| "a board without a name".to_owned()),
        held: words(board.current_throttle_reasons().unwrap_or(ThrottleReasons::empty())),
        processes: board.running_compute_processes().map_or(0, |processes| processes.len()),
    };
    boards.map(doing).collect()
}

/// Returns NVML. It is loaded once and kept until the process ends.
fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    // The name without a version exists only with development files.
    let load = || match cfg!(windows) {
        true => Nvml::init().ok(),
        false => Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().or_else(|_| Nvml::init()).ok(),
    };
    NVML.get_or_init(load).as_ref()
}

/// Returns the index of a device among the boards, by identity and name.
fn which(info: &DeviceInfo, boards: &[(String, Identity)]) -> Option<usize> {
    if let Some(at) = boards.iter().position(|(_, board)| info.identity.is_on(board) == Some(true)) {
        return Some(at);
    }
    // Sensors of another board would be worse than none.
    let may_be = |(_, (name, board)): &(usize, &(String, Identity))| {
        is_named(&info.name, name) && info.identity.is_on(board) != Some(false)
    };
    let mut named = boards.iter().enumerate().filter(may_be);
    let (at, _) = named.next()?;
    named.next().is_none().then_some(at)
}

/// Text between the name of a board and that of its slice.
const SLICE: &str = " MIG ";

/// Returns whether a device is a slice of a board (MIG).
fn is_slice(device: &str) -> bool {
    device.contains(SLICE)
}

/// Returns whether a device of this name is that board, or a slice of it (MIG). OpenGL appends to the board's name. The
/// name is compared as a whole: an `RTX 4080 Ti` is no `RTX 4080`.
fn is_named(device: &str, board: &str) -> bool {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with('/') || rest.starts_with(SLICE);
    !board.is_empty() && device.strip_prefix(board).is_some_and(ends)
}

/// Reasons for throttling. Idle devices, and devices with clocks set by the owner, do not count as throttled.
const THROTTLING: [(ThrottleReasons, &str); 7] = [
    (ThrottleReasons::SW_POWER_CAP, "sw power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw thermal slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw thermal slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw power brake slowdown"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clock setting"),
];

fn words(reasons: ThrottleReasons) -> Vec<String> {
    let held = THROTTLING.iter().filter(|(reason, _)| reasons.contains(*reason));
    held.map(|(_, word)| (*word).to_owned()).collect()
}

/// Maximum duration of a reading that is taken every time.
const CHEAP: Duration = Duration::from_micros(30);
/// Interval between readings of a slower sensor.
const PACE: Duration = Duration::from_millis(50);

/// Sensor reading that is repeated only if it is cheap or due.
struct Paced<T> {
    last: Option<Reading<T>>,
}

struct Reading<T> {
    value: T,
    at: Instant,
    cost: Duration,
}

impl<T: Copy> Paced<T> {
    fn new() -> Paced<T> {
        Paced { last: None }
    }

    fn get(&mut self, now: Instant, read: impl FnOnce() -> T) -> T {
        self.get_costing(now, || {
            let began = Instant::now();
            (read(), began.elapsed())
        })
    }

    /// Returns a reading; `read` returns the value and its cost.
    fn get_costing(&mut self, now: Instant, read: impl FnOnce() -> (T, Duration)) -> T {
        match &self.last {
            Some(last) if last.cost > CHEAP && now.duration_since(last.at) < PACE => last.value,
            _ => {
                let (value, cost) = read();
                self.last = Some(Reading { value, at: now, cost });
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_testing::mock::{Fault, Mock};

    #[test]
    fn a_dear_reading_is_taken_again_only_when_due() {
        let began = Instant::now();
        let mut paced = Paced::new();
        let mut at = |ms: u64, value: u32, micros: u64| {
            paced.get_costing(began + Duration::from_millis(ms), || (value, Duration::from_micros(micros)))
        };
        assert_eq!(at(0, 1, 500), 1, "the first is always taken");
        assert_eq!(at(49, 2, 500), 1);
        assert_eq!(at(50, 3, 10), 3);
        assert_eq!(at(51, 4, 10), 4, "the last one was cheap");
    }

    #[test]
    fn only_what_holds_clocks_down_is_throttling() {
        let idle = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(words(idle), Vec::<String>::new());
        let hot = idle | ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(words(hot), ["hw slowdown", "hw thermal slowdown"]);
        let named = THROTTLING.iter().fold(idle, |all, (reason, _)| all | *reason);
        assert_eq!(named, ThrottleReasons::all(), "every reason is either named or no throttling");
    }

    #[test]
    fn a_device_has_the_sensors_of_its_own_board() {
        let board = |pci: &str, uuid: &str| {
            ("NVIDIA H200".to_owned(), Identity { pci: pci_address(pci), uuid: Some(uuid.to_owned()), model: None })
        };
        let two = [board("00000000:65:00.0", "GPU-1"), board("00000000:66:00.0", "GPU-2")];
        let at = |pci: &str, uuid: Option<&str>| {
            let identity = Identity { pci: pci_address(pci), uuid: uuid.map(str::to_owned), model: None };
            let info = Mock::new(|_| 1.0, Fault::None).device().clone();
            DeviceInfo { name: "NVIDIA H200".to_owned(), identity, ..info }
        };
        for (device, boards, want) in [
            (at("0000:66:00.0", None), &two[..], Some(1)),
            (at("", Some("GPU-2")), &two[..], Some(1)),
            (at("0000:66:00.0", Some("MIG-3")), &two[..], Some(1)),
            (at("0000:67:00.0", None), &two[..], None),
            (at("", None), &two[..], None),
            (at("", None), &two[..1], Some(0)),
            (at("0000:67:00.0", None), &two[..1], None),
        ] {
            assert_eq!(which(&device, boards), want, "{:?}", device.identity);
        }
    }

    #[test]
    fn boards_are_found_by_their_whole_name() {
        assert!(is_named("NVIDIA H200", "NVIDIA H200"));
        assert!(is_named("NVIDIA GeForce RTX 4080/PCIe/SSE2", "NVIDIA GeForce RTX 4080"));
        assert!(is_named("NVIDIA H200 MIG 1g.18gb", "NVIDIA H200"));
        assert!(!is_named("NVIDIA GeForce RTX 4080 Ti", "NVIDIA GeForce RTX 4080"));
        assert!(!is_named("NVIDIA H20", "NVIDIA H200"));
        assert!(!is_named("llvmpipe (LLVM 19.1.7, 256 bits)", "NVIDIA H200"));
        assert!(!is_named("anything", ""));
    }

    #[test]
    fn processor_time_grows_with_work_on_every_thread() {
        let sensors = instrumented(Box::new(Mock::new(|_| 1.0, Fault::None)), None).expect("no clock to fix");
        let before = sensors.cpu_time().expect("known on every system that this is built for");
        let busy = || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        };
        std::thread::spawn(busy).join().expect("no panic");
        assert!(sensors.cpu_time().expect("known") > before);
    }

    #[test]
    fn the_clock_of_a_device_that_is_no_board_cannot_be_fixed() {
        let refused = instrumented(Box::new(Mock::new(|_| 1.0, Fault::None)), Some(1410)).err().expect("no board");
        assert_eq!(refused, "--lock-clocks: imaginary is no board whose clocks NVML, of NVIDIA's driver, can fix");
    }

    #[test]
    fn a_device_that_is_no_board_has_no_sensors_and_everything_else() {
        let mut sensors = instrumented(Box::new(Mock::new(|_| 1.0, Fault::None)), None).expect("no clock to fix");
        assert_eq!(sensors.conditions(), Conditions::default());
        assert_eq!(sensors.device().name, "imaginary");
        assert_eq!(pollster::block_on(sensors.empty()), Ok(Nanos(1000.0)));
    }
}
