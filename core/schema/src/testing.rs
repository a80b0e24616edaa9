//! Synthetic runs for the tests of code that reads runs.

use std::collections::BTreeMap;

use crate::case::{Cost, DType};
use crate::device::*;
use crate::record::stats::Summary;
use crate::record::{
    Better, CheckResult, CounterFigures, Drift, EnergyFigure, EnergyState, Measured, Method, Outcome, Parts, Record,
    Run, Score, Spent, StageCounters, StopReason, Stretch, Suite, Timing,
};
use crate::spec::{Cache, Spec};
use crate::units::{Bytes, Flops, Nanos};

/// Returns `n` samples with the median `median`, spread evenly over `± width` of it, in an order that is not sorted.
pub fn spread(median: f64, width: f64, n: usize) -> Vec<f64> {
    let step = |i: usize| (i * 7 % n) as f64 / (n - 1).max(1) as f64 * 2.0 - 1.0;
    (0..n).map(|i| median * (1.0 + width * step(i))).collect()
}

/// Returns a timing of these samples, in nanoseconds.
pub fn timing(samples: &[f64]) -> Timing {
    Timing {
        method: Method::Batch,
        cache: Cache::Hot,
        launch: None,
        relaunched: None,
        sets: 1,
        repeats: 10,
        lead: 0,
        samples: samples.to_vec(),
        host_samples: samples.iter().map(|t| t + 100.0).collect(),
        conditions: Vec::new(),
        discarded: Vec::new(),
        caveat: None,
        slope: None,
        clock_error: 0.0,
        warm_up: 3,
        stopped: StopReason::Precise,
        summary: Summary::of(samples).expect("samples"),
        spent: Spent::default(),
    }
}

/// Returns an energy of `joules` per execution with an interval of ±1 %, at 500 W.
pub fn energy(joules: f64) -> EnergyFigure {
    let stretch = |i: u32| {
        let joules_at = joules * (0.99 + 0.004 * f64::from(i));
        let over = Nanos::from_secs(1000.0 * joules_at / 500.0);
        let wall = Nanos::from_secs(1000.0 * joules_at / 500.0);
        Stretch { executions: 1000, wall, joules: 1000.0 * joules_at, over, integrated: Some(1020.0 * joules_at) }
    };
    let state = EnergyState { source: EnergySource::Nvml, step: Nanos(20e6), idle_watts: 70.0, busy: 0.99 };
    EnergyFigure::of(state, (0..6).map(stretch).collect()).expect("power samples agree")
}

/// Returns hardware counters of stages by label, with the same values for each.
pub fn counters(stages: &[&str], values: &[(&str, f64)]) -> CounterFigures {
    let values: BTreeMap<String, f64> = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let stage = |label: &&str| StageCounters { stage: (*label).to_owned(), values: values.clone() };
    CounterFigures { passes: 7, took: Nanos(80e6), stages: stages.iter().map(stage).collect() }
}

/// Returns a score over a thousand items, with an interval of ±1 %.
pub fn score(name: &str, value: f64, better: Better) -> Score {
    Score { name: name.to_owned(), value, low: value * 0.99, high: value * 1.01, better, items: 1000 }
}

/// Readings of the reference kernel, a second apart.
pub fn drift(times: &[f64]) -> Vec<Drift> {
    let reading = |(i, time): (usize, &f64)| Drift {
        at: Nanos::from_secs(i as f64),
        reference_kernel: Nanos(*time),
        conditions: Conditions::default(),
    };
    times.iter().enumerate().map(reading).collect()
}

/// Returns a record of a case that passed. The case need not exist in the suite.
pub fn record(case: &str, timing: Timing) -> Record {
    let measured = Measured {
        compiled: Compiled::default(),
        check: exact(),
        timing: Some(timing),
        call: None,
        energy: None,
        counters: None,
        scores: Vec::new(),
        memory: MemoryStats::default(),
        launches: Vec::new(),
        analysis: None,
        trace: None,
        phases: Vec::new(),
    };
    let mut parts = case.split('/').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    let parts = Parts {
        workload: part(),
        direction: part(),
        shape: BTreeMap::new(),
        decimals: BTreeMap::new(),
        options: vec![part()],
        dtype: DType::F32,
        variant: case.rsplit('/').next().unwrap_or_default().to_owned(),
    };
    let cost = Cost { flops: Flops(2_000_000), read: Bytes(400_000), written: Bytes(100_000) };
    Record {
        case: case.to_owned(),
        parts,
        actual: None,
        device: 0,
        cost,
        items: None,
        outcome: Outcome::Pass(Box::new(measured)),
    }
}

/// Returns the measured part of the record of a case.
pub fn measured<'a>(run: &'a mut Run, case: &str) -> &'a mut Measured {
    let record = run.records.iter_mut().find(|r| r.case == case).expect("the case is there");
    match &mut record.outcome {
        Outcome::Pass(measured) => measured,
        other => panic!("{case} did not pass: {other:?}"),
    }
}

/// Returns a run without cases on a device with a given name; an empty name gives none.
pub fn called(target: &str, device: &str, name: &str) -> Run {
    let mut run = run(target, device, &[]);
    run.name_device(name);
    run
}

/// Returns a run of these cases, each with its samples in nanoseconds.
pub fn run(target: &str, device: &str, cases: &[(&str, Vec<f64>)]) -> Run {
    let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
    let mut run = Run::begin_on(target, suite, (&self::device(caps()), &clock()), &Spec::default(), Vec::new());
    // A GPU, because the usual resolution applies to its runs.
    run.devices[0].kind = crate::device::DeviceKind::Discrete;
    run.devices[0].name = device.to_owned();
    run.records = cases.iter().map(|(case, samples)| record(case, timing(samples))).collect();
    run.planned = run.records.iter().map(|r| r.case.clone()).collect();
    run
}

/// Launch capabilities of an H200.
pub const HOPPER: CudaCaps =
    CudaCaps { max_cluster: 8, max_block_shared_bytes: 232_448, tensor_maps: true, wgmma: true, half_headers: false };

/// Returns a check of one element that was exactly right.
pub fn exact() -> CheckResult {
    CheckResult {
        errors: None,
        passed: true,
        compared: 1,
        elements: 1,
        worst_error: 0.0,
        bound: 1.0,
        worst_ratio: 0.0,
        mismatch: None,
        repeatable: None,
        loops_end_after: None,
    }
}

/// Capabilities of an imaginary GPU of compute capability 9.0.
pub fn hopper() -> Caps {
    Caps {
        dialect: Dialect::Cuda,
        dtypes: vec![DType::F32, DType::F16, DType::BF16],
        shared_bytes: 49_152,
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 64],
        max_grid: [2_147_483_647, 65_535, 65_535],
        max_binding: Bytes(80_000_000_000),
        max_storage_buffers: None,
        memory: Some(Bytes(80_000_000_000)),
        compute_capability: Some((9, 0)),
        cuda: Some(HOPPER),
        ..caps()
    }
}

/// Capabilities of a small imaginary GPU.
pub fn caps() -> Caps {
    Caps {
        dialect: Dialect::Wgsl,
        dtypes: vec![DType::F32, DType::F16],
        subgroup: None,
        shared_bytes: 16_384,
        max_invocations: 256,
        max_workgroup: [256, 256, 64],
        max_grid: [65_535; 3],
        max_binding: Bytes(128 << 20),
        max_storage_buffers: Some(8),
        memory: None,
        compute_capability: None,
        ranks: 1,
        compute_units: None,
        matrices: Vec::new(),
        in_a_browser: false,
        matrix_units: false,
        cuda: None,
        cube: false,
        no_cube: None,
        tuning: Default::default(),
    }
}

/// Returns the description of an imaginary device.
pub fn device(caps: Caps) -> DeviceInfo {
    DeviceInfo {
        name: "imaginary".to_owned(),
        vendor: "imaginary".to_owned(),
        kind: DeviceKind::Software,
        api: "mock".to_owned(),
        driver: String::new(),
        identity: Default::default(),
        caps,
        ranks: 1,
        limits: Default::default(),
        features: Vec::new(),
    }
}

/// Returns the description of its clock: steps of a nanosecond.
pub fn clock() -> ClockInfo {
    ClockInfo {
        clock: Clock::GpuTimestamps,
        step: Nanos(1.0),
        host_step: Nanos(1.0),
        zero_share: 0.0,
        negative_share: 0.0,
        launch_jitter: Nanos(0.0),
        note: None,
    }
}
