//! Portability tax: one GPU through several targets, and the parts of the time of one call on each.
//!
//! One call runs from the hand-over of work to the device until the result is on the host. Its parts are:
//!
//! - **kernel**: one more execution in a submission. It is the slope over batches of two sizes, or the median without a slope. It
//!   contains
//! - **dispatch**: the cost of launches alone: one more empty dispatch, times the launches of the case, and never more than the
//!   kernel time;
//! - **completion**: the time of a single call beyond the kernel, submitted alone on an idle device, until the host knows of the
//!   completion;
//! - **readback**: the time beyond that until the first bytes of the result are on the host.
//!
//! The whole call is kernel + completion + readback. It is measured as one call ([`parallax_schema::record::OneCall`]), and nothing else
//! replaces it. The intercept of long batches does not: a browser that rarely polls for completion reports short work sooner than a
//! line through long batches predicts. It reports longer work later. No part is negative. Mapped bytes can arrive before the device
//! reports completion. Such a call has no readback, and its completion ends with the bytes. A call shorter than one more execution
//! in a submission differs from it by noise: its completion is zero.

use std::collections::BTreeSet;

use parallax_schema::case::{problem_of, variant_of};
use parallax_schema::record::stats::{Summary, geometric_mean};
use parallax_schema::record::{NamedRun, OneCall, Record, Route, Run, completion_step};
use parallax_schema::units::{Nanos, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::one_gpu::{away, by_name_only, one_gpu};
use crate::compare::pairing::fastest;
use crate::compare::{renamed, timed};

pub use crate::compare::one_gpu::TaxError;
pub use crate::compare::pairing::Pairing;

/// Several targets of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tax {
    /// Position of the base among the runs.
    pub base: usize,
    /// The runs, nearest to the hardware first.
    pub runs: Vec<TaxRun>,
    /// Cases with a time on the base and at least one other run.
    pub cases: Vec<TaxCase>,
    /// Compared variants: the same variant on every run, or each run's fastest.
    #[serde(default)]
    pub pairing: Pairing,
    /// Cases of which one side was another kernel than its name says today.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One run of a tax table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaxRun {
    /// Its name in tables.
    pub name: String,
    /// Its route: target, and the properties that tell runs of one target apart.
    #[serde(flatten)]
    pub route: Route,
    /// Kernel time over the base's, the geometric mean over all cases with a time on both.
    pub kernel_ratio: Option<f64>,
    /// The same of whole calls.
    pub call_ratio: Option<f64>,
}

/// One case on each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaxCase {
    /// Canonical string; of best with best, without the variant.
    pub case: String,
    /// Of best with best, the variant of each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Option<String>>,
    /// One call, per run; absent where the run has no time for the case, or one with caches in another state.
    pub calls: Vec<Option<Call>>,
    /// Where the extra time of the run farthest from the hardware goes.
    pub words: String,
}

/// One call, taken apart. Parts that were not measured are absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// One more execution in a submission.
    pub kernel: Nanos,
    /// Part of the kernel time that an empty launch takes too.
    pub dispatch: Option<Nanos>,
    /// Time from the end of the kernel until the host knows of it.
    pub completion: Option<Nanos>,
    /// Time from then until the first bytes of the result are on the host.
    pub readback: Option<Nanos>,
    /// The bytes arrived before the device was said to be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
    /// The whole call took less than the kernel time, which comes from batches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub below_noise: bool,
}

impl Call {
    /// Returns the parts of a record's call; `None` without a time.
    pub fn of(run: &Run, record: &Record) -> Option<Call> {
        let (measured, timing) = (record.measured()?, record.timing()?);
        let kernel = timing.slope.as_ref().map_or(timing.summary.median, |s| s.execution);
        let baseline = run.baseline.as_ref();
        let launches = measured.launches.len();
        let dispatch = baseline.and_then(|b| b.ceilings.dispatch).filter(|_| launches > 0);
        let called = |of: fn(&OneCall) -> Option<Summary>| Some(of(measured.call.as_ref()?)?.median);
        let (done, result) = (called(OneCall::done), called(OneCall::result));
        // The earlier of both times shows that the device was done.
        let over = done.map(|done| Nanos(result.map_or(done.0, |result| result.0.min(done.0))));
        Some(Call {
            kernel,
            dispatch: dispatch.map(|d| Nanos((d.0 * launches as f64).min(kernel.0))),
            completion: over.map(|over| Nanos((over - kernel).0.max(0.0))),
            readback: result.zip(over).map(|(result, over)| result - over),
            early: result.zip(done).is_some_and(|(result, done)| result < done),
            below_noise: over.is_some_and(|over| over < kernel),
        })
    }

    /// Returns the sum of kernel, completion and readback, if all are known.
    pub fn whole(&self) -> Option<Nanos> {
        Some(self.kernel + self.completion? + self.readback?)
    }

    /// Returns the parts that add up to the whole, by name. The kernel part excludes launches.
    fn parts(&self) -> [(&'static str, Option<Nanos>); 4] {
        [
            ("kernel", Some(self.kernel - self.dispatch.unwrap_or_default())),
            ("dispatch", self.dispatch),
            ("completion", self.completion),
            ("readback", self.readback),
        ]
    }
}

/// Returns the parts of the calls of several targets of one GPU. The base is the run at `base`, or else the run nearest to the
/// hardware. `same_gpu` asserts an identity that names do not show.
///
/// `pairing` pairs cases by variant, or pairs the fastest variant of each run. The second ratio compares the best reachable times,
/// and no longer one algorithm through two targets of the same hardware.
///
/// # Errors
/// Runs that are not of several targets on one GPU, or without a common case.
pub fn tax(runs: &[NamedRun], base: Option<usize>, same_gpu: bool, pairing: Pairing) -> Result<Tax, TaxError> {
    one_gpu(&runs.iter().collect::<Vec<_>>(), same_gpu)?;
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| away(&runs[*i].run));
    let base = base.and_then(|b| order.iter().position(|i| *i == b)).unwrap_or(0);
    let all = runs;
    let runs: Vec<&NamedRun> = order.into_iter().map(|i| &runs[i]).collect();
    let names: Vec<&str> = runs.iter().map(|NamedRun { name, .. }| name.as_str()).collect();

    let mut cases: Vec<TaxCase> = Vec::new();
    for record in runs[base].run.as_planned().into_iter().filter(|r| r.timing().is_some()) {
        let cache = |r: &Record| r.timing().map(|t| t.cache);
        let problem = problem_of(&record.case);
        if pairing == Pairing::Best && cases.iter().any(|known| known.case == problem) {
            continue;
        }
        let partner = |run: &'_ Run| match pairing {
            Pairing::Same => timed(run, &record.case).filter(|other| cache(other) == cache(record)).cloned(),
            Pairing::Best => fastest(run, problem, |other| cache(other) == cache(record)).cloned(),
        };
        let partners: Vec<Option<Record>> = runs.iter().map(|NamedRun { run, .. }| partner(run)).collect();
        let call = |(NamedRun { run, .. }, other): (&&NamedRun, &Option<Record>)| Call::of(run, other.as_ref()?);
        let calls: Vec<Option<Call>> = runs.iter().zip(&partners).map(call).collect();
        if calls[base].is_none() || calls.iter().flatten().count() < 2 {
            continue;
        }
        let words = words(&names, base, &calls);
        let (case, variants) = match pairing {
            Pairing::Same => (record.case.clone(), Vec::new()),
            Pairing::Best => {
                let variant = |other: &Option<Record>| other.as_ref().map(|r| variant_of(&r.case).to_owned());
                (problem.to_owned(), partners.iter().map(variant).collect())
            }
        };
        cases.push(TaxCase { case, variants, words, calls });
    }
    if cases.is_empty() {
        return Err(TaxError::NothingInCommon(names[base].to_owned()));
    }
    let heads = runs.iter().enumerate().map(|(i, NamedRun { name, run })| TaxRun {
        name: name.clone(),
        route: run.route(),
        kernel_ratio: mean_ratio(&cases, i, base, |c| Some(c.kernel)),
        call_ratio: mean_ratio(&cases, i, base, Call::whole),
    });
    let heads = heads.collect();
    let strings = cases.iter().flat_map(|c| match pairing {
        Pairing::Same => vec![c.case.clone()],
        Pairing::Best => c.variants.iter().flatten().map(|variant| format!("{}/{variant}", c.case)).collect(),
    });
    let strings: BTreeSet<String> = strings.collect();
    let mut notes = renamed(all, strings.iter().map(String::as_str));
    notes.extend(by_name_only(all));
    notes.extend(all.iter().filter_map(about_calls));
    notes.extend(names.iter().enumerate().flat_map(|(i, name)| without_parts(name, &cases, i)));
    Ok(Tax { base, runs: heads, cases, pairing, notes })
}

/// Returns the geometric mean of a time over the base's.
fn mean_ratio(cases: &[TaxCase], run: usize, base: usize, time: impl Fn(&Call) -> Option<Nanos>) -> Option<f64> {
    let ratio = |case: &TaxCase| {
        let (a, b) = (time(case.calls[base].as_ref()?)?, time(case.calls[run].as_ref()?)?);
        (a.0 > 0.0 && b.0 > 0.0).then(|| b.0 / a.0)
    };
    geometric_mean(cases.iter().filter_map(ratio)).map(|(mean, _)| mean)
}

/// Returns a sentence on the extra time of the run farthest from the hardware, by part.
fn words(names: &[&str], base: usize, calls: &[Option<Call>]) -> String {
    let far = (0..calls.len()).rev().find(|i| *i != base && calls[*i].is_some());
    let Some((far, near, call)) = far.and_then(|i| Some((i, calls[base]?, calls[i]?))) else {
        return String::new();
    };
    let (near_parts, far_parts) = (near.parts(), call.parts());
    let mut known: Vec<(&str, f64)> = Vec::new();
    let mut unknown = Vec::new();
    for ((name, a), (_, b)) in near_parts.into_iter().zip(far_parts) {
        match (a, b) {
            (Some(a), Some(b)) => known.push((name, b.0 - a.0)),
            _ => unknown.push(name),
        }
    }
    if near.dispatch.is_none() || call.dispatch.is_none() {
        // A kernel time without launches is not comparable with one that includes them.
        known[0].1 = call.kernel.0 - near.kernel.0;
    }
    let total: f64 = known.iter().map(|(_, t)| t).sum();
    known.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let more = |t: f64| format!("{} {}", Nanos(t.abs()), if t < 0.0 { "less" } else { "more" });
    let part = |(name, t): &(&str, f64)| match total > 0.0 && *t > 0.0 && *t <= total {
        true => format!("{name} {} ({})", more(*t), percent(t / total)),
        false => format!("{name} {}", more(*t)),
    };
    let parts = known.iter().map(part).collect::<Vec<_>>().join(", ");
    let what = if unknown.is_empty() { "one call takes" } else { "the measured parts take" };
    let missing = match unknown.is_empty() {
        true => String::new(),
        false => format!("; not measured: {}", unknown.join(", ")),
    };
    format!("{} against {}: {what} {}: {parts}{missing}", names[far], names[base], more(total))
}

/// Returns remarks on the calls of a run with parts that are zero.
fn without_parts(name: &str, cases: &[TaxCase], run: usize) -> Vec<String> {
    let count = |of: fn(&Call) -> bool| match cases
        .iter()
        .filter_map(|case| case.calls[run].as_ref())
        .filter(|call| of(call))
        .count()
    {
        0 => None,
        1 => Some("in 1 case".to_owned()),
        many => Some(format!("in {many} cases")),
    };
    let early = count(|call| call.early)
        .map(|cases| format!("{name}: {cases} the bytes arrived before the completion: there is no readback"));
    let below = count(|call| call.below_noise).map(|cases| {
        format!(
            "{name}: {cases} one call took no longer than one more execution in a batch: completion is below the noise"
        )
    });
    early.into_iter().chain(below).collect()
}

/// Returns a remark on a run's calls: that there are none, or the step in its waiting times.
fn about_calls(NamedRun { name, run }: &NamedRun) -> Option<String> {
    let timed = || run.records.iter().filter(|record| record.timing().is_some()).filter_map(Record::measured);
    // A case with a long execution has no call, in any file.
    if timed().next().is_some() && timed().all(|measured| measured.call.is_none()) {
        return Some(format!("{name} has batches and no calls, so the time of one call is unknown: run it again"));
    }
    let step = completion_step(&run.baseline.as_ref()?.timer.waits)?;
    Some(format!("{name}: {}", step.sentence()))
}
