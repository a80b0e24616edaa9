//! Ceilings of a device, measured through the same interface as the cases, and what they say about a case.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan;
use crate::suite::{Caps, Cost, DType};
use crate::units::{Bytes, Nanos};

/// What a device can do at best, as far as our own probes reach it.
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
    /// Bytes per second from host to device.
    pub upload: Option<f64>,
    /// Bytes per second from device to host.
    pub download: Option<f64>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
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
    /// Whether the driver told it; otherwise it is the working set beyond which throughput falls.
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

/// What binds a case.
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
    /// One word for tables; with `-bound` after it, an adjective.
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
    /// What binds it.
    pub bound: Bound,
}

/// A time may be this much below its floor before it is called impossible: ceilings are measured too, each with an
/// error, and by probes that may miss the best by a little.
pub const MARGIN: f64 = 0.10;
/// A kernel shorter than so many dispatches of nearly nothing is bound by launching.
const LAUNCHES: f64 = 3.0;
/// Below this share of both ceilings, neither of them binds.
const NEAR: f64 = 0.25;

impl Ceilings {
    /// Bytes per second that memory can move for a working set, at least as much as any set of its size has shown.
    ///
    /// In cold caches all that counts is the largest set. In hot ones, smaller sets that were measured faster are held
    /// against a case too when they are at least half its size: caches are not used up to the last byte.
    pub fn bandwidth_at(&self, working_set: Bytes, cache: plan::Cache) -> Option<f64> {
        let largest = self.bandwidth.last()?;
        let near = |p: &&Bandwidth| p.working_set.0 >= working_set.0 / 2;
        match cache {
            plan::Cache::Cold => Some(largest.rate),
            plan::Cache::Hot => self.bandwidth.iter().filter(near).chain([largest]).map(|p| p.rate).reduce(f64::max),
        }
    }

    /// Operations per second that arithmetic can do in an element type, matrix units included. `None` where matrix units
    /// exist that were not measured: then nothing is known of the top.
    pub fn flops_of(&self, dtype: DType, caps: &Caps) -> Option<f64> {
        let of = |matrix: bool| self.arithmetic.iter().find(|a| a.dtype == dtype && a.matrix == matrix).map(|a| a.rate);
        match (of(false), of(true)) {
            (_, None) if caps.matrix_units && dtype != DType::F32 => None,
            (scalar, matrix) => scalar.into_iter().chain(matrix).reduce(f64::max),
        }
    }
}

/// Put a time under the roofline. `None` where no ceiling is known.
pub fn analyse(
    ceilings: &Ceilings,
    caps: &Caps,
    dtype: DType,
    cost: Cost,
    (working_set, cache): (Bytes, plan::Cache),
    (median, launches): (Nanos, usize),
) -> Option<Analysis> {
    let peak_bandwidth = ceilings.bandwidth_at(working_set, cache);
    let peak_flops = ceilings.flops_of(dtype, caps);
    let time = |amount: u64, peak: Option<f64>| peak.map_or(0.0, |rate| amount as f64 / rate * 1e9);
    let (bytes, flops) = (time(cost.moved().0, peak_bandwidth), time(cost.flops.0, peak_flops));
    let floor = bytes.max(flops);
    if floor <= 0.0 {
        return None;
    }
    let utilisation = floor / median.0;
    let launching = ceilings.dispatch.map_or(0.0, |d| d.0 * launches.max(1) as f64);
    let bound = if median.0 < LAUNCHES * launching {
        Bound::Launch
    } else if utilisation < NEAR {
        Bound::Latency
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
        bound,
    })
}

/// Why a time cannot be, if it cannot.
pub fn impossible(analysis: &Analysis, cost: Cost, median: Nanos) -> Option<String> {
    (median.0 < analysis.floor.0 * (1.0 - MARGIN)).then(|| {
        let rate = |amount: u64, unit| crate::units::scaled(amount as f64 / median.secs(), unit);
        let peak = |rate: Option<f64>, unit| rate.map_or("unknown".to_owned(), |r| crate::units::scaled(r, unit));
        format!(
            "{median} is below the floor of {}: it would mean {} of measured {}, and {} of measured {}",
            analysis.floor,
            rate(cost.moved().0, "B/s"),
            peak(analysis.peak_bandwidth, "B/s"),
            rate(cost.flops.0, "FLOP/s"),
            peak(analysis.peak_flops, "FLOP/s"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mock::caps;
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
        analyse(&ceilings(), &caps(), DType::F32, cost, set, (Nanos(median), 1)).expect("ceilings")
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
        let said = |median| impossible(&at(1_000_000_000, 0, median), cost, Nanos(median));
        assert_eq!(said(95_000.0), None, "within the margin of error");
        assert!(said(50_000.0).expect("impossible").contains("below the floor of 100 µs"));
    }
}
