//! Ceilings of a device, measured through the same interface as the cases, and the analysis of a case under them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Cost, DType, HostTransfer};
use crate::device::{Caps, DeviceInfo, DeviceKind, Dialect};
use crate::spec as plan;
use crate::units::{Bytes, Nanos};

/// Best rates of a device that our own probes reach.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ceilings {
    /// Bytes per second by working set, smallest set first: caches answer the small ones, device memory the large.
    pub bandwidth: Vec<Bandwidth>,
    /// Capacity of the last cache before device memory.
    pub cache: Option<Cache>,
    /// Operations per second by element type and unit.
    pub arithmetic: Vec<Arithmetic>,
    /// One more dispatch of nearly nothing in a submission, on the run's clock.
    pub dispatch: Option<Nanos>,
    /// The link between host and device, as work on the device's queues sees it: the ceiling of cases that cross
    /// it. Empty where there is none, and in files from before it was measured.
    #[serde(skip_serializing_if = "Link::is_empty")]
    pub link: Link,
    /// Bytes per second from host to device, until the host hears that they are there.
    pub upload: Option<f64>,
    /// Bytes per second from device to host, until the host can read them.
    pub download: Option<f64>,
    /// Ceilings that could not be measured, with reasons.
    pub missing: Vec<String>,
}

/// Best throughput of the link between host and device, smallest pieces first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Link {
    /// From the host's pinned memory to the device. A working set crosses in one piece.
    pub up: Vec<Bandwidth>,
    /// From the device to the host's pinned memory.
    pub down: Vec<Bandwidth>,
    /// Bytes per second of uploads that crossed no link; `up` is then empty. See [`Link::withdraw`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_up: Option<f64>,
}

/// Bytes per second, one way, of the fastest link to a device with its own memory: PCIe 6.0 ×16. Only links inside one package
/// exceed it, and WebGPU shows none of these.
pub const FASTEST_LINK: f64 = 121e9;

impl Link {
    /// Whether no measurement of the link exists.
    pub fn is_empty(&self) -> bool {
        self.up.is_empty() && self.down.is_empty() && self.local_up.is_none()
    }

    /// Withdraws uploads through WebGPU that are faster than any link, and returns the reason.
    ///
    /// A driver may keep the buffers that the host writes in the device's memory. A timed upload is then a copy on the device:
    /// 420 GB/s on an H200 with a link of 55 GB/s.
    pub fn withdraw(&mut self, device: &DeviceInfo) -> Option<String> {
        let fastest = self.up.iter().map(|point| point.rate).fold(0.0, f64::max);
        let own_memory = !device.kind.is_emulated() && device.kind != DeviceKind::Integrated;
        if device.caps.dialect == Dialect::Wgsl && own_memory && fastest > FASTEST_LINK {
            self.up.clear();
            self.local_up = Some(fastest);
        }
        self.local()
    }

    /// Returns the reason why uploads have no figure; `None` where they cross the link.
    pub fn local(&self) -> Option<String> {
        let [rate, fastest] = [self.local_up?, FASTEST_LINK].map(|rate| crate::units::scaled(rate, "B/s"));
        Some(format!(
            "uploads cross no link here: their rate was {rate}, and no link is faster than {fastest}; the driver keeps buffers that the \
             host writes in the device's memory, so that a copy on the device is timed"
        ))
    }
}

/// Best throughput at one working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    /// Bytes that one execution touches.
    pub working_set: Bytes,
    /// Bytes per second, read and written together.
    pub rate: f64,
    /// The probe that reached it.
    pub probe: String,
}

/// The last cache before device memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Its capacity.
    pub capacity: Bytes,
    /// Whether the driver reported it; otherwise it is the working set beyond which throughput falls.
    pub from_driver: bool,
}

/// Best rate of arithmetic for one element type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arithmetic {
    /// Element type.
    pub dtype: DType,
    /// Whether matrix units did it, rather than the ordinary arithmetic units.
    pub matrix: bool,
    /// Operations per second; a fused multiply-add counts as two.
    pub rate: f64,
    /// The probe that reached it.
    pub probe: String,
}

/// Bound of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Moving bytes.
    Memory,
    /// Arithmetic.
    Compute,
    /// Launching: the kernel is shorter than a few empty dispatches.
    Launch,
    /// Moving data between host and device.
    Transfer,
    /// Neither ceiling is near: waiting for results, or too little work to fill the device.
    Latency,
}

impl Bound {
    /// Returns one word for tables; with `-bound` after it, an adjective.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Compute => "compute",
            Bound::Launch => "launch",
            Bound::Transfer => "transfer",
            Bound::Latency => "latency",
        }
    }
}

/// A case under the roofline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// Operations per byte that must move.
    pub intensity: f64,
    /// The shortest time that the ceilings allow.
    pub floor: Nanos,
    /// Share of the binding ceiling that is reached: floor over median.
    pub utilisation: f64,
    /// Operations per second that the binding arithmetic unit could do; absent where none was measured.
    pub peak_flops: Option<f64>,
    /// Bytes per second that memory could move at this working set.
    pub peak_bandwidth: Option<f64>,
    /// Bytes per second that the link between host and device could move, the way that takes longer; absent where nothing
    /// crosses it or it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_link: Option<f64>,
    /// Its bound.
    pub bound: Bound,
}

/// Relative distance below the floor beyond which a time is impossible. Ceilings are measured with an error too, and their probes
/// may miss the best by a little.
pub const MARGIN: f64 = 0.10;
/// Number of nearly empty dispatches; a shorter kernel is bound by launching.
const LAUNCHES: f64 = 3.0;
/// Share of both ceilings below which neither binds.
const NEAR: f64 = 0.25;

impl Ceilings {
    /// Returns bytes per second of memory for a working set: at least the rate of any measured set of its size.
    ///
    /// In cold caches only the largest set counts. In hot ones, faster sets of at least half the size count too: caches are not
    /// used up to the last byte.
    pub fn bandwidth_at(&self, working_set: Bytes, cache: plan::Cache) -> Option<f64> {
        best_at(&self.bandwidth, working_set, cache)
    }

    /// Returns the longer of the two transfers over the link: its time in nanoseconds, and its bytes per second. Both directions
    /// may run at the same time. `None` without a transfer or a measured link.
    fn link_at(&self, crossing: HostTransfer, cache: plan::Cache) -> Option<(f64, f64)> {
        let ways = [(crossing.up, &self.link.up), (crossing.down, &self.link.down)];
        let one = |(bytes, points): (Bytes, &Vec<Bandwidth>)| {
            let rate = best_at(points, bytes, cache).filter(|_| bytes.0 > 0)?;
            Some((bytes.0 as f64 / rate * 1e9, rate))
        };
        ways.into_iter().filter_map(one).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns operations per second in an element type, matrix units included. `None` where matrix units exist and were not
    /// measured, because the maximum is then unknown.
    pub fn flops_of(&self, dtype: DType, caps: &Caps) -> Option<f64> {
        let of = |matrix: bool| self.arithmetic.iter().find(|a| a.dtype == dtype && a.matrix == matrix).map(|a| a.rate);
        match (of(false), of(true)) {
            (_, None) if caps.matrix_units && dtype != DType::F32 => None,
            (scalar, matrix) => scalar.into_iter().chain(matrix).reduce(f64::max),
        }
    }
}

/// Returns the best rate of the points that count for a working set.
fn best_at(points: &[Bandwidth], working_set: Bytes, cache: plan::Cache) -> Option<f64> {
    let largest = points.last()?;
    let near = |p: &&Bandwidth| p.working_set.0 >= working_set.0 / 2;
    match cache {
        plan::Cache::Cold => Some(largest.rate),
        plan::Cache::Hot => points.iter().filter(near).chain([largest]).map(|p| p.rate).reduce(f64::max),
    }
}

/// Analyses a time under the roofline. `None` where no ceiling is known.
pub fn analyse(
    ceilings: &Ceilings,
    caps: &Caps,
    dtype: DType,
    (cost, crossing): (Cost, HostTransfer),
    (working_set, cache): (Bytes, plan::Cache),
    (median, launches): (Nanos, usize),
) -> Option<Analysis> {
    let peak_bandwidth = ceilings.bandwidth_at(working_set, cache);
    let peak_flops = ceilings.flops_of(dtype, caps);
    let time = |amount: u64, peak: Option<f64>| peak.map_or(0.0, |rate| amount as f64 / rate * 1e9);
    let (bytes, flops) = (time(cost.moved().0, peak_bandwidth), time(cost.flops.0, peak_flops));
    let (link, peak_link) = ceilings.link_at(crossing, cache).map_or((0.0, None), |(time, rate)| (time, Some(rate)));
    let floor = bytes.max(flops).max(link);
    if floor <= 0.0 {
        return None;
    }
    let utilisation = floor / median.0;
    let launching = ceilings.dispatch.map_or(0.0, |d| d.0 * launches.max(1) as f64);
    let bound = if median.0 < LAUNCHES * launching {
        Bound::Launch
    } else if utilisation < NEAR {
        Bound::Latency
    } else if link >= flops.max(bytes) {
        Bound::Transfer
    } else if flops > bytes {
        Bound::Compute
    } else {
        Bound::Memory
    };
    Some(Analysis {
        intensity: cost.flops.0 as f64 / cost.moved().0.max(1) as f64,
        floor: Nanos(floor),
        utilisation,
        peak_flops,
        peak_bandwidth,
        peak_link,
        bound,
    })
}

/// Returns the reason why a time is impossible; `None` for a possible one.
pub fn impossible(analysis: &Analysis, (cost, crossing): (Cost, HostTransfer), median: Nanos) -> Option<String> {
    (median.0 < analysis.floor.0 * (1.0 - MARGIN)).then(|| {
        let rate = |amount: u64, unit| crate::units::scaled(amount as f64 / median.secs(), unit);
        let peak = |rate: Option<f64>, unit| rate.map_or("unknown".to_owned(), |r| crate::units::scaled(r, unit));
        let crossed = analysis.peak_link.map(|link| {
            let most = crossing.up.0.max(crossing.down.0);
            format!(", and {} of a link of {}", rate(most, "B/s"), peak(Some(link), "B/s"))
        });
        format!(
            "{median} is below the floor of {}: it would mean {} of measured {}, and {} of measured {}{}",
            analysis.floor,
            rate(cost.moved().0, "B/s"),
            peak(analysis.peak_bandwidth, "B/s"),
            rate(cost.flops.0, "FLOP/s"),
            peak(analysis.peak_flops, "FLOP/s"),
            crossed.unwrap_or_default(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{caps, run};
    use crate::units::Flops;

    fn ceilings() -> Ceilings {
        let point = |working_set, rate| Bandwidth { working_set: Bytes(working_set), rate, probe: String::new() };
        Ceilings {
            bandwidth: vec![point(1 << 20, 2e12), point(1 << 24, 4e12), point(1 << 28, 1e12)],
            arithmetic: vec![Arithmetic { dtype: DType::F32, matrix: false, rate: 1e13, probe: String::new() }],
            dispatch: Some(Nanos(1000.0)),
            ..Ceilings::default()
        }
    }

    fn at(flops: u64, bytes: u64, median: f64) -> Analysis {
        let cost = Cost { flops: Flops(flops), read: Bytes(bytes), written: Bytes(0) };
        let set = (Bytes(1 << 28), plan::Cache::Hot);
        let work = (cost, HostTransfer::default());
        analyse(&ceilings(), &caps(), DType::F32, work, set, (Nanos(median), 1)).expect("ceilings")
    }

    #[test]
    fn uploads_faster_than_any_link_are_withdrawn() {
        let point = |rate| vec![Bandwidth { working_set: Bytes(1 << 26), rate, probe: String::new() }];
        let withdrawn = |kind, dialect, rate| {
            let mut device = run("wgpu", "X", &[]).devices.remove(0);
            device.kind = kind;
            device.caps.dialect = dialect;
            let mut link = Link { up: point(rate), down: point(5e10), local_up: None };
            let why = link.withdraw(&device);
            assert_eq!((link.up.is_empty(), link.down.len()), (why.is_some(), 1));
            assert_eq!(link.withdraw(&device), why, "once is enough");
            why
        };
        let why = withdrawn(DeviceKind::Discrete, Dialect::Wgsl, 4.2e11).expect("no link");
        assert!(why.contains("420 GB/s") && why.contains("121 GB/s"), "{why}");
        for (kind, dialect, rate) in [
            (DeviceKind::Discrete, Dialect::Wgsl, 5.5e10),
            (DeviceKind::Integrated, Dialect::Wgsl, 4e11),
            (DeviceKind::Software, Dialect::Wgsl, 4e11),
            (DeviceKind::Discrete, Dialect::Cuda, 4e11),
        ] {
            assert_eq!(withdrawn(kind, dialect, rate), None, "{kind:?} {rate}");
        }
    }

    #[test]
    fn the_nearer_ceiling_binds() {
        // 1 MB at 1 TB/s is 1 µs, 1 GFLOP at 10 TFLOP/s is 100 µs.
        let compute = at(1_000_000_000, 1_000_000, 200_000.0);
        assert_eq!((compute.bound, compute.utilisation, compute.floor), (Bound::Compute, 0.5, Nanos(100_000.0)));
        assert_eq!(compute.intensity, 1000.0);
        assert_eq!(at(1_000_000, 100_000_000, 200_000.0).bound, Bound::Memory);
        assert_eq!(at(1_000_000, 1_000_000, 2_900.0).bound, Bound::Launch);
        assert_eq!(at(1_000_000, 1_000_000, 200_000.0).bound, Bound::Latency);
    }

    #[test]
    fn what_crosses_the_link_is_held_against_the_link() {
        // 1 MB over a link of 10 GB/s is 100 µs, through memory 1 µs.
        let point = |rate| vec![Bandwidth { working_set: Bytes(1 << 26), rate, probe: String::new() }];
        let linked = Ceilings { link: Link { up: point(1e10), down: point(2e10), local_up: None }, ..ceilings() };
        let cost = Cost { flops: Flops(100_000_000), read: Bytes(1_000_000), written: Bytes(0) };
        let analysis = |ceilings: &Ceilings, up, down, median| {
            let work = (cost, HostTransfer { up: Bytes(up), down: Bytes(down) });
            let set = (Bytes(1 << 28), plan::Cache::Hot);
            let found = analyse(ceilings, &caps(), DType::F32, work, set, (Nanos(median), 1)).expect("ceilings");
            (found.bound, found.floor, found.peak_link, impossible(&found, work, Nanos(median)))
        };
        let up = (Bound::Transfer, Nanos(100_000.0), Some(1e10), None);
        assert_eq!(analysis(&linked, 1_000_000, 0, 125_000.0), up);
        assert_eq!(analysis(&linked, 1_000_000, 1_000_000, 125_000.0), up, "both ways at the same time");
        assert_eq!(analysis(&linked, 0, 4_000_000, 250_000.0).2, Some(2e10));
        assert_eq!(analysis(&linked, 10_000, 0, 12_500.0).0, Bound::Compute, "few bytes");
        // Files from before the link was measured, and cases without transfers.
        let compute = (Bound::Compute, Nanos(10_000.0), None, None);
        assert_eq!(analysis(&ceilings(), 1_000_000, 0, 12_500.0), compute);
        assert_eq!(analysis(&linked, 0, 0, 12_500.0), compute);
        let refused = analysis(&linked, 1_000_000, 0, 50_000.0).3.expect("twice the link");
        assert!(refused.contains("20.0 GB/s of a link of 10.0 GB/s"), "{refused}");
    }

    #[test]
    fn caches_raise_the_ceiling_of_small_sets_only() {
        let at = |set, cache| ceilings().bandwidth_at(Bytes(set), cache).expect("points");
        assert_eq!(at(1 << 18, plan::Cache::Hot), 4e12);
        assert_eq!(at(1 << 25, plan::Cache::Hot), 4e12, "twice a measured set is still near it");
        assert_eq!(at(1 << 26, plan::Cache::Hot), 1e12);
        assert_eq!(at(1 << 18, plan::Cache::Cold), 1e12);
    }

    #[test]
    fn unmeasured_matrix_units_leave_the_top_open() {
        let units = Caps { matrix_units: true, ..caps() };
        assert_eq!(ceilings().flops_of(DType::F16, &units), None);
        assert_eq!(ceilings().flops_of(DType::F32, &units), Some(1e13));
    }

    #[test]
    fn faster_than_the_floor_is_impossible_beyond_the_margin() {
        let cost = Cost { flops: Flops(1_000_000_000), read: Bytes(0), written: Bytes(0) };
        let work = (cost, HostTransfer::default());
        let said = |median| impossible(&at(1_000_000_000, 0, median), work, Nanos(median));
        assert_eq!(said(95_000.0), None, "within the margin of error");
        assert!(said(50_000.0).expect("impossible").contains("below the floor of 100 µs"));
    }
}
