//! Comparison of runs: cases paired by their canonical string, a verdict for each pair, and the cases without a pair, with a
//! reason.

use std::collections::HashSet;

use parallax_schema::case::meant;
use parallax_schema::device::Launching;
use parallax_schema::record::{NamedRun, Record, Run, Timing};

use crate::compare::comparison::{Comparison, Figure, Pair, RunHead, Unpaired};
use crate::compare::identity::same_device;
use crate::compare::losses::{failed, losses};
use crate::compare::scores;
use crate::compare::verdict::{
    Ratio, VerdictInputs, drift_between, drift_within, launch_resolution, reference_spread, resolution_between,
};

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Position of the base among the runs.
    pub base: usize,
    /// Smallest difference that counts, as a share of the time; by default, [`resolution_between`] of each pair.
    pub resolution: Option<f64>,
}

/// Error of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two runs.
    #[error("comparing takes at least two runs, not {0}")]
    TooFew(usize),
    /// The base is none of the runs.
    #[error("no run `{wanted}` to compare with: give a number from 1 to {count}, or one of {names}")]
    NoSuchBase {
        /// Requested base.
        wanted: String,
        /// Number of runs.
        count: usize,
        /// Names of the runs.
        names: String,
    },
    /// No common case.
    #[error(
        "{base} and {others} have no timed case and no score in common; {}run both with the same --preset and --cache, or --filter for \
         cases that both targets have",
        .nearest.as_ref().map_or_else(String::new, |nearest| format!("the nearest: {nearest}; "))
    )]
    NothingInCommon {
        /// Name of the base.
        base: String,
        /// Names of the other runs.
        others: String,
        /// Description of the pair of cases with the smallest difference.
        nearest: Option<String>,
    },
}

/// Returns the position of a run by its name, or by a number counted from one.
///
/// # Errors
/// [`CompareError::NoSuchBase`] for any other string.
pub fn find_base(names: &[String], wanted: &str) -> Result<usize, CompareError> {
    let by_number = || wanted.parse::<usize>().ok()?.checked_sub(1).filter(|i| *i < names.len());
    names.iter().position(|name| name == wanted).or_else(by_number).ok_or_else(|| CompareError::NoSuchBase {
        wanted: wanted.to_owned(),
        count: names.len(),
        names: names.join(", "),
    })
}

/// Compares named runs.
///
/// # Errors
/// Fewer than two runs, a base that is none of them, or no case with a pair.
pub fn compare(runs: &[NamedRun], options: &Options) -> Result<Comparison, CompareError> {
    if runs.len() < 2 {
        return Err(CompareError::TooFew(runs.len()));
    }
    let names = || runs.iter().map(|NamedRun { name, .. }| name.clone());
    let Some(NamedRun { name: base_name, run: base }) = runs.get(options.base) else {
        return Err(find_base(&names().collect::<Vec<_>>(), &(options.base + 1).to_string()).expect_err("out of range"));
    };
    let finest = |run: &Run| options.resolution.unwrap_or_else(|| resolution_between(base, run));
    let head = |NamedRun { name, run }: &NamedRun| head(name, run, base, finest(run));
    let heads: Vec<RunHead> = runs.iter().map(head).collect();
    let mut pairs = Vec::new();
    for record in base.as_planned().into_iter().filter(|r| r.timing().is_some()) {
        let ratio = |(i, NamedRun { run, .. }): (usize, &NamedRun)| {
            let other = timed(run, &record.case).filter(|_| i != options.base)?;
            judge((base, record), (run, other), heads[i].resolution, heads[i].drift)
        };
        let ratios: Vec<Option<Ratio>> = runs.iter().enumerate().map(ratio).collect();
        if ratios.iter().any(Option::is_some) {
            let figures = runs.iter().map(|NamedRun { run, .. }| timed(run, &record.case).and_then(figure)).collect();
            pairs.push(Pair { case: record.case.clone(), figures, ratios });
        }
    }
    let scores = scores::pair(runs, options.base, finest);
    // A run in which every case failed is still compared with the base, because a gate must catch it.
    if pairs.is_empty() && scores.is_empty() && !all_broke(runs, options.base) {
        let others = names().enumerate().filter(|(i, _)| *i != options.base).map(|(_, name)| name);
        let others = others.collect::<Vec<_>>().join(", ");
        let nearest = nearest(runs, options.base);
        return Err(CompareError::NothingInCommon { base: base_name.clone(), others, nearest });
    }
    let unpaired = unpaired(runs, options.base, &pairs);
    let lost = losses(runs, options.base, &pairs, &scores);
    let notes = renamed(runs, pairs.iter().map(|pair| pair.case.as_str()));
    Ok(Comparison { base: options.base, runs: heads, pairs, scores, unpaired, lost, notes })
}

/// Returns whether a case with a figure in the base failed in another run.
fn all_broke(runs: &[NamedRun], base: usize) -> bool {
    let figure = |r: &&Record| r.timing().is_some() || !r.scores().is_empty();
    let cases: HashSet<&str> = runs[base].run.records.iter().filter(figure).map(|r| r.case.as_str()).collect();
    let others = runs.iter().enumerate().filter(|(i, _)| *i != base);
    others.flat_map(|(_, NamedRun { run, .. })| &run.records).any(|r| failed(r) && cases.contains(r.case.as_str()))
}

fn head(name: &str, run: &Run, base: &Run, resolution: f64) -> RunHead {
    RunHead {
        name: name.to_owned(),
        target: run.target.clone(),
        reach: run.reach,
        device: run.called(),
        started: run.started,
        commit: run.suite.commit.clone(),
        resolution,
        drift: device_drift(base, run),
    }
}

/// Returns whether two runs had the same reference kernel on the same device.
fn one_kernel(a: &Run, b: &Run) -> bool {
    a.target == b.target && same_device(a, b)
}

/// Returns the drift of the reference kernels of two runs. It includes their difference if both runs had the same kernel on the
/// same device.
pub(crate) fn device_drift(a: &Run, b: &Run) -> f64 {
    let apart = if one_kernel(a, b) { drift_between(&a.drift, &b.drift) } else { 0.0 };
    apart.max(drift_within(&a.drift)).max(drift_within(&b.drift))
}

/// Returns the ratio and verdict of two records of one case; `None` if they are no pair.
pub fn judge(
    (base_run, base): (&Run, &Record),
    (other_run, other): (&Run, &Record),
    asked: f64,
    drift: f64,
) -> Option<Ratio> {
    let (a, b) = (base.timing()?, other.timing()?);
    let launch = launch_resolution(&base_run.clock, base).max(launch_resolution(&other_run.clock, other));
    let emulated = [base_run, other_run].iter().any(|run| run.device().kind.is_emulated());
    (a.cache == b.cache).then(|| {
        let reference_spread =
            emulated.then(|| reference_spread(&base_run.drift, &other_run.drift, one_kernel(base_run, other_run)));
        let ratio = Ratio::of(a, b, VerdictInputs { asked, drift, launch, reference_spread });
        Ratio { notes: ratio.notes.iter().cloned().chain(launched_otherwise(a, b)).collect(), ..ratio }
    })
}

/// Returns a remark if two figures differ in the way of launching stages, beyond the difference of the interfaces.
fn launched_otherwise(base: &Timing, other: &Timing) -> Option<String> {
    let unusual = |timing: &Timing| timing.launch.filter(|launch| !launch.is_usual());
    let name = |timing: &Timing| timing.launch.map_or("the usual way", Launching::name);
    (unusual(base) != unusual(other))
        .then(|| format!("launched otherwise: {} against {} in the base", name(other), name(base)))
}

/// Returns the first record of a case that has a time.
pub fn timed<'a>(run: &'a Run, case: &str) -> Option<&'a Record> {
    run.records.iter().find(|r| r.case == case && r.timing().is_some())
}

/// Returns a sentence for each run and case with a file older than the meaning of the case's variant.
pub(crate) fn renamed<'a>(runs: &[NamedRun], cases: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut notes = Vec::new();
    for NamedRun { name, run } in runs.iter().filter(|NamedRun { run, .. }| run.version < SPLIT) {
        for case in cases.clone() {
            if let Some(now) = timed(run, case).and_then(|_| meant(case, run.device().caps.dialect)) {
                notes.push(format!("{case}: in {name}, an older file, this name stood for today's {now}"));
            }
        }
    }
    notes
}

/// First schema version with today's names of variants.
pub(crate) const SPLIT: u32 = 3;

fn figure(record: &Record) -> Option<Figure> {
    let summary = record.timing()?.summary;
    let measured = record.measured()?;
    let analysis = measured.analysis.as_ref();
    Some(Figure {
        median: summary.median,
        low: summary.low,
        high: summary.high,
        n: summary.n,
        utilisation: analysis.map(|a| a.utilisation),
        bound: analysis.map(|a| a.bound),
        errors: measured.check.errors,
    })
}

fn unpaired(runs: &[NamedRun], base: usize, pairs: &[Pair]) -> Vec<Unpaired> {
    let mut found = Vec::new();
    for (i, NamedRun { run, .. }) in runs.iter().enumerate() {
        for record in run.as_planned().into_iter().filter(|r| r.timing().is_some()) {
            let paired = pairs.iter().find(|p| p.case == record.case);
            if paired.is_some_and(|p| i == base || p.ratios[i].is_some()) {
                continue;
            }
            let others = runs.iter().enumerate().filter(|(j, _)| if i == base { *j != base } else { *j == base });
            let reason = no_pair(record, others.map(|(_, NamedRun { name, run })| (name.as_str(), run)));
            found.push(Unpaired { run: i, case: record.case.clone(), reason });
        }
    }
    found
}

/// Returns the reason for a record without a partner among the others.
pub(super) fn no_pair<'a>(record: &Record, others: impl Iterator<Item = (&'a str, &'a Run)>) -> String {
    let cache = |r: &Record| r.timing().map_or("", |t| t.cache.name());
    let others: Vec<(&str, &Run)> = others.collect();
    match others.iter().find_map(|(name, run)| Some((name, timed(run, &record.case)?))) {
        Some((name, other)) => format!("caches are {} here and {} in {name}", cache(record), cache(other)),
        None => {
            let names = others.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
            format!("no time in {names}")
        }
    }
}

/// Returns the pair of timed cases, of the base and of another run, that differ in the fewest parts. Example:
/// `cuda has bf16, browser has f16 of attention/fwd/b1,h8,s512,d64`. `None` if no two are of one workload.
fn nearest(runs: &[NamedRun], base: usize) -> Option<String> {
    let cases = |run: &Run| -> Vec<Vec<String>> {
        let timed = run.records.iter().filter(|record| record.timing().is_some());
        timed.map(|record| record.case.split('/').map(str::to_owned).collect()).collect()
    };
    let NamedRun { name: base_name, run: base_run } = &runs[base];
    let mut best: Option<(usize, String)> = None;
    for ours in cases(base_run) {
        for NamedRun { name, run } in runs.iter().enumerate().filter(|(i, _)| *i != base).map(|(_, named)| named) {
            for theirs in cases(run).into_iter().filter(|theirs| theirs.len() == ours.len() && theirs[0] == ours[0]) {
                let apart: Vec<usize> = (0..ours.len()).filter(|i| ours[*i] != theirs[*i]).collect();
                // Cases with equal strings differ in a property outside the string, such as the caches.
                if apart.is_empty() || best.as_ref().is_some_and(|(fewest, _)| *fewest <= apart.len()) {
                    continue;
                }
                let parts = |case: &[String]| apart.iter().map(|i| case[*i].as_str()).collect::<Vec<_>>().join(" ");
                let alike =
                    (0..ours.len()).filter(|i| !apart.contains(i)).map(|i| ours[i].as_str()).collect::<Vec<_>>();
                let said =
                    format!("{base_name} has {}, {name} has {} of {}", parts(&ours), parts(&theirs), alike.join("/"));
                best = Some((apart.len(), said));
            }
        }
    }
    best.map(|(_, said)| said)
}
