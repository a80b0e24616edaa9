//! Measures the ceilings of a device with probes, through the interface that the cases use.
//!
//! Probes are ordinary workloads, and their [`parallax_ir::Probe`] names the ceiling that each finds. The ceiling is the best
//! sample of the best variant. It is the rate that the device reached, not the rate under a limit of power or heat.
//! Outputs of at most 16 MiB are checked against the reference. A probe with wrong results gives no ceiling.

use parallax_ir::device::{BackendError, Batch, Profiler, Transfer};
use parallax_ir::{Case, Finds, Problem, Role, Scale};
use parallax_schema::case::DType;
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::record::Timing;
use parallax_schema::record::roofline::{Arithmetic, Bandwidth, Cache, Ceilings};
use parallax_schema::units::{Bytes, Nanos};
use parallax_workloads::probes;

use crate::measure::check::{Expected, check};
use crate::measure::sampler::{Sampler, TrustedClock, Unsized};
use crate::measure::stopping_criterion::Limits;
use crate::plan;

/// Limits of one probe.
const FIRST: Limits = Limits {
    precision: 0.02,
    budget: Nanos(60e6),
    warm_up: Nanos(5e6),
    least: Nanos(0.0),
    min_samples: 6,
    max_samples: 40,
};
/// Limits of a probe that decides on a case. Beside other load many samples are taken, because one undisturbed sample is enough.
const AGAIN: Limits = Limits { precision: 0.005, budget: Nanos(240e6), max_samples: 200, ..FIRST };

/// Clock and limits of probes.
#[derive(Clone, Copy)]
struct Timed<'a> {
    clock: &'a TrustedClock,
    limits: Limits,
}

/// Largest number of output bytes that are compared with the reference.
const CHECKED: u64 = 16 << 20;
/// Multiply-adds of reference work for one probe.
const WORK: u64 = 2_000_000;
/// Smallest ratio of a cache's throughput to that of the memory behind it.
const KNEE: f64 = 1.25;

/// Sizes of the probes. Emulated devices get few, because they are slow and have no caches of their own.
struct Sizes {
    emulated: bool,
    working_sets: &'static [u64],
    /// Bytes that cross the link in one piece.
    pieces: &'static [u64],
    transfer: u64,
}

const MIB: u64 = 1 << 20;
/// Smallest working set in bytes; below it a probe would show launches only.
const SMALLEST: u64 = 1 << 12;

fn sizes(profiler: &dyn Profiler) -> Sizes {
    // Browsers do not report the kind of a GPU, except for an emulation.
    match profiler.device().kind.is_emulated() {
        true => Sizes {
            emulated: true,
            working_sets: &[MIB / 4, MIB, 4 * MIB, 16 * MIB, 64 * MIB],
            pieces: &[MIB / 4, 2 * MIB, 16 * MIB],
            transfer: 8 * MIB,
        },
        false => Sizes {
            emulated: false,
            working_sets: &[MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB],
            pieces: &[MIB, 8 * MIB, 64 * MIB],
            transfer: 64 * MIB,
        },
    }
}

/// Measures every ceiling of the device. The callback receives the time and the finished share after each step.
///
/// # Errors
/// A lost device only; [`Ceilings::missing`] names a probe that cannot run.
pub async fn measure(
    profiler: &mut dyn Profiler,
    clock: &TrustedClock,
    mut told: impl FnMut(Nanos, f64),
) -> Result<Ceilings, BackendError> {
    let mut found = Ceilings::default();
    let by = Timed { clock, limits: FIRST };
    let sizes = sizes(profiler);
    let Caps { dialect, dtypes, .. } = profiler.device().caps.clone();
    // The steps besides throughput and arithmetic are dispatch and transfers.
    let (steps, mut done) = (sizes.working_sets.len() + dtypes.len() + 2, 0);
    let mut step = |profiler: &dyn Profiler| {
        done += 1;
        told(profiler.now(), done as f64 / steps as f64);
    };
    bandwidth(profiler, by, &sizes, &mut found, &mut step).await?;
    for dtype in dtypes {
        found.arithmetic.extend(arithmetic(profiler, by, sizes.emulated, &mut found.missing, dtype).await?);
        step(profiler);
    }
    let usual = Scale::usual(sizes.emulated);
    let dispatch = probes(Finds::Dispatch, usual, DType::F32, dialect);
    if let Some((timing, _)) = best(profiler, by, &mut found.missing, dispatch).await? {
        found.dispatch = timing.slope.map(|s| s.execution).filter(|t| t.0 > 0.0).or(Some(timing.summary.median));
    }
    step(profiler);
    // The host has no link to itself.
    if dialect != Dialect::Cpu {
        let pieces = (sizes.emulated, sizes.pieces);
        found.link.up = link(profiler, by, pieces, &mut found.missing, Finds::Upload).await?;
        found.link.down = link(profiler, by, pieces, &mut found.missing, Finds::Download).await?;
        found.missing.extend(found.link.withdraw(profiler.device()));
    }
    for way in [Transfer::Upload, Transfer::Download] {
        let mut times = Vec::new();
        for _ in 0..4 {
            match profiler.transfer(way, sizes.transfer).await {
                Ok(Some(time)) => times.push(time.0),
                Ok(None) => break,
                Err(BackendError::Lost(why)) => return Err(BackendError::Lost(why)),
                Err(error) => {
                    found.missing.push(format!("{way:?} of {}: {error}", Bytes(sizes.transfer)));
                    break;
                }
            }
        }
        let fastest = times.into_iter().reduce(f64::min).map(|t| Bytes(sizes.transfer).per(Nanos(t)));
        match way {
            Transfer::Upload => found.upload = fastest,
            Transfer::Download => found.download = fastest,
        }
    }
    step(profiler);
    Ok(found)
}

/// Measures again the ceilings of a case that seems too fast. They are the throughput at its working set, the rates of its
/// element type, and the link at its transfer size. The results raise the ceilings and never lower one.
///
/// Other load on the machine, or a distant working set, may have lowered the first measurement.
///
/// # Errors
/// A lost device only; a probe that cannot run raises nothing.
pub async fn again(
    profiler: &mut dyn Profiler,
    clock: &TrustedClock,
    found: &mut Ceilings,
    problem: &Problem,
    working_set: Bytes,
) -> Result<(), BackendError> {
    let sizes = sizes(profiler);
    let by = Timed { clock, limits: AGAIN };
    // The first measurement has reported the missing probes.
    let mut missing = Vec::new();
    let near = |set: u64, sizes: &[u64]| set.clamp(SMALLEST, sizes.iter().copied().fold(SMALLEST, u64::max));
    let (emulated, set) = (sizes.emulated, near(working_set.0, sizes.working_sets));
    let top = bandwidth_at(profiler, by, (emulated, set), &mut missing, &mut Good::new()).await?;
    top.into_iter().for_each(|point| raise(&mut found.bandwidth, point));
    for rate in arithmetic(profiler, by, emulated, &mut missing, problem.dtype).await? {
        match found.arithmetic.iter_mut().find(|a| (a.dtype, a.matrix) == (rate.dtype, rate.matrix)) {
            Some(known) if known.rate >= rate.rate => {}
            Some(known) => *known = rate,
            None => found.arithmetic.push(rate),
        }
    }
    let crossing = problem.crossing();
    let up_crosses = found.link.local_up.is_none();
    let ways =
        [(crossing.up, Finds::Upload, &mut found.link.up), (crossing.down, Finds::Download, &mut found.link.down)];
    for (bytes, finds, points) in
        ways.into_iter().filter(|(bytes, finds, _)| bytes.0 > 0 && (up_crosses || *finds != Finds::Upload))
    {
        let piece = [near(bytes.0, sizes.pieces)];
        let reached = link(profiler, by, (emulated, &piece), &mut missing, finds).await?;
        reached.into_iter().for_each(|point| raise(points, point));
    }
    Ok(())
}

/// Inserts a point among points that ascend by working set; of two at the same set, the better stays.
fn raise(points: &mut Vec<Bandwidth>, point: Bandwidth) {
    match points.binary_search_by_key(&point.working_set, |p| p.working_set) {
        Ok(at) if points[at].rate >= point.rate => {}
        Ok(at) => points[at] = point,
        Err(at) => points.insert(at, point),
    }
}

/// Measures throughput by working set. The largest set selects the best variants; smaller sets run only those.
async fn bandwidth(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    sizes: &Sizes,
    found: &mut Ceilings,
    step: &mut impl FnMut(&dyn Profiler),
) -> Result<(), BackendError> {
    let mut good = Good::default();
    for set in sizes.working_sets.iter().rev() {
        let top = bandwidth_at(profiler, by, (sizes.emulated, *set), &mut found.missing, &mut good).await?;
        found.bandwidth.extend(top);
        step(profiler);
    }
    found.bandwidth.reverse();
    let told = profiler.device().limits.get("l2_cache_bytes").copied().filter(|b| *b > 0);
    found.cache = match told {
        Some(bytes) => Some(Cache { capacity: Bytes(bytes), from_driver: true }),
        None => knee(&found.bandwidth).map(|capacity| Cache { capacity, from_driver: false }),
    };
    Ok(())
}

/// Fastest variant of each workload, by name.
type Good = Vec<(&'static str, &'static str)>;

/// Returns the best throughput at one working set.
async fn bandwidth_at(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    (emulated, set): (bool, u64),
    missing: &mut Vec<String>,
    good: &mut Good,
) -> Result<Option<Bandwidth>, BackendError> {
    let scale = Scale { working_set: set, ..Scale::usual(emulated) };
    let all = probes(Finds::Bandwidth, scale, DType::F32, profiler.device().caps.dialect);
    let mut top: Option<Bandwidth> = None;
    for cases in all.chunk_by(|a, b| a.problem.workload.name == b.problem.workload.name) {
        let name = cases[0].problem.workload.name;
        let known = good.iter().find(|(workload, _)| *workload == name).map(|(_, variant)| *variant);
        let wanted = cases.iter().filter(|c| known.is_none_or(|v| v == c.variant)).cloned().collect();
        let Some((timing, case)) = best(profiler, by, missing, wanted).await? else { continue };
        if known.is_none() {
            good.push((name, case.variant));
        }
        let rate = case.problem.cost().moved().per(timing.summary.min);
        if top.as_ref().is_none_or(|t| rate > t.rate) {
            top = Some(Bandwidth { working_set: Bytes(set), rate, probe: case.to_string() });
        }
    }
    Ok(top)
}

/// Returns throughput of the link in one direction, by bytes per transfer.
async fn link(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    (emulated, pieces): (bool, &[u64]),
    missing: &mut Vec<String>,
    finds: Finds,
) -> Result<Vec<Bandwidth>, BackendError> {
    let dialect = profiler.device().caps.dialect;
    let mut points = Vec::new();
    for piece in pieces {
        let scale = Scale { working_set: *piece, ..Scale::usual(emulated) };
        let reached = best(profiler, by, missing, probes(finds, scale, DType::F32, dialect)).await?;
        points.extend(reached.map(|(timing, case)| {
            let crossing = case.problem.crossing();
            let bytes = Bytes(crossing.up.0 + crossing.down.0);
            Bandwidth { working_set: bytes, rate: bytes.per(timing.summary.min), probe: case.to_string() }
        }));
    }
    Ok(points)
}

/// Returns the largest working set whose throughput is clearly above that of the largest set.
fn knee(points: &[Bandwidth]) -> Option<Bytes> {
    let floor = points.last()?.rate;
    // Small sets are slow because of launching, which does not count against the cache.
    points.iter().rev().find(|p| p.rate > KNEE * floor).map(|p| p.working_set)
}

/// Returns the rates of an element type, of arithmetic and of matrix units.
async fn arithmetic(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    emulated: bool,
    missing: &mut Vec<String>,
    dtype: DType,
) -> Result<Vec<Arithmetic>, BackendError> {
    let caps = profiler.device().caps.clone();
    let mut rates = Vec::new();
    for (finds, matrix) in [(Finds::Arithmetic, false), (Finds::Matrix, true)] {
        // The absence of matrix units is not reported as missing, and the host has none.
        let runs = |case: &Case| !matrix || caps.dialect != Dialect::Cpu && plan::runs_as_asked(case, &caps).is_ok();
        let cases: Vec<Case> =
            probes(finds, Scale::usual(emulated), dtype, caps.dialect).into_iter().filter(runs).collect();
        let mut top: Option<Arithmetic> = None;
        for cases in cases.chunk_by(|a, b| a.problem.workload.name == b.problem.workload.name) {
            let Some((timing, case)) = best(profiler, by, missing, cases.to_vec()).await? else { continue };
            let rate = case.problem.cost().flops.per(timing.summary.min);
            if top.as_ref().is_none_or(|t| rate > t.rate) {
                top = Some(Arithmetic { dtype, matrix, rate, probe: case.to_string() });
            }
        }
        rates.extend(top);
    }
    Ok(rates)
}

/// Returns the fastest of several probes.
async fn best(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    missing: &mut Vec<String>,
    cases: Vec<Case>,
) -> Result<Option<(Timing, Case)>, BackendError> {
    let caps = profiler.device().caps.clone();
    let mut top: Option<(Timing, Case)> = None;
    let mut why_not = None;
    for case in cases {
        if let Err(why) = plan::runs_as_asked(&case, &caps) {
            why_not = Some(format!("{case}: {why}"));
            continue;
        }
        why_not = None;
        let Some((timing, case)) = probe(profiler, by, missing, &case).await? else { continue };
        if top.as_ref().is_none_or(|(t, _)| timing.summary.min.0 < t.summary.min.0) {
            top = Some((timing, case));
        }
    }
    missing.extend(why_not.filter(|_| top.is_none()));
    Ok(top)
}

/// Times one probe; on failure, adds the reason to `missing`.
async fn probe(
    profiler: &mut dyn Profiler,
    by: Timed<'_>,
    missing: &mut Vec<String>,
    case: &Case,
) -> Result<Option<(Timing, Case)>, BackendError> {
    match timed(profiler, by, case).await {
        Ok(timing) => Ok(Some((timing, case.clone()))),
        Err(Unsized::Backend(BackendError::Lost(why))) => Err(BackendError::Lost(why)),
        Err(Unsized::Backend(error)) => {
            missing.push(format!("{case}: {error}"));
            Ok(None)
        }
        Err(Unsized::Unresolvable(why)) => {
            missing.push(format!("{case}: {why}"));
            Ok(None)
        }
    }
}

async fn timed(profiler: &mut dyn Profiler, by: Timed<'_>, case: &Case) -> Result<Timing, Unsized> {
    profiler.yield_now().await;
    let problem = &case.problem;
    let inputs = problem.repeated_inputs(1);
    let mut prepared = profiler.prepare(case, &inputs, 1).await?;
    prepared.measure(Batch::new(1)).await?;
    if problem.bytes(|b| matches!(b.role, Role::Output { .. })).0 <= CHECKED {
        let expected = Expected::new(profiler, problem, &inputs, WORK).await;
        let verdict = check(profiler, &mut *prepared, problem, &expected).await?;
        if !verdict.passed {
            let what = format!("gives wrong results: {}", verdict.sentence());
            return Err(Unsized::Backend(BackendError::Device(what)));
        }
    }
    let mut sampler = Sampler::size(&mut *prepared, by.clock, by.limits, plan::Cache::Hot, 1).await?;
    let stopped = sampler.sample_all(&mut *prepared, profiler).await?;
    sampler.finish(stopped).map_err(|why| Unsized::Backend(BackendError::Device(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_last_set_that_a_cache_serves() {
        let points = |rates: &[f64]| -> Vec<Bandwidth> {
            let point =
                |(i, rate): (usize, &f64)| Bandwidth { working_set: Bytes(1 << i), rate: *rate, probe: String::new() };
            rates.iter().enumerate().map(point).collect()
        };
        assert_eq!(knee(&points(&[0.5, 6.0, 6.1, 5.9, 3.2, 3.0])), Some(Bytes(8)), "small sets are slow to launch");
        assert_eq!(knee(&points(&[3.0, 3.1, 3.0])), None, "no cache to be seen");
        assert_eq!(knee(&[]), None);
    }
}
