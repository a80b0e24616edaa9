//! Cause of a change: the kernel, the machine, or the setup.
//!
//! The reference kernel and the ceilings were measured in the same runs, by kernels that do not change. A witness *stayed* if the interval
//! of its own ratio is within a third of the change; it *moved alike* if the rest, change less witness, is. Both exclude each other. A
//! witness whose interval holds both nothing and the whole change does not count.

use parallax_schema::record::DIRTY;
use parallax_schema::record::roofline::Bound;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::point::{HistoryRun, Point};
use super::step::{Shift, Sums};

/// Smallest number of values of a witness on either side.
const FEWEST_VALUES: usize = 3;
/// Share of a change within which a witness stayed, or moved alike.
const PART: f64 = 1.0 / 3.0;
/// Runs on either side of a change that are searched for another commit.
const NEAR: usize = 3;

/// Cause of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The reference kernel and the ceiling stayed.
    Kernel,
    /// The reference kernel and the ceiling moved alike.
    Machine,
    /// Driver, browser, card, clock or tuning changed with that run.
    Setup,
    /// They moved in part, or are unknown.
    Undecided,
}

impl Kind {
    /// Returns the kind as one word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Machine => "machine",
            Kind::Setup => "setup",
            Kind::Undecided => "undecided",
        }
    }
}

/// Ratio of times after a change to times before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// Ratio of the geometric means.
    pub ratio: f64,
    /// Low end of its 95 % interval.
    pub low: f64,
    /// High end of its 95 % interval.
    pub high: f64,
}

impl Move {
    /// Returns the ratio of a difference of logarithms.
    pub(super) fn of(shift: &Shift) -> Move {
        let (low, high) = shift.interval();
        Move { ratio: shift.difference.exp(), low: low.exp(), high: high.exp() }
    }
}

/// Cause of a change with its grounds.
pub(super) struct Cause {
    pub kind: Kind,
    pub grounds: String,
    pub reference: Option<Move>,
    pub ceiling: Option<Move>,
}

/// Behaviour of a witness at a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Witness {
    Stayed,
    Alike,
    Partly,
    /// Unknown, or too noisy.
    Silent,
}

impl Witness {
    fn of(own: Option<Move>, change: f64) -> Witness {
        let Some(Move { low, high, .. }) = own else { return Witness::Silent };
        let (low, high) = (low.ln(), high.ln());
        let part = change.abs() * PART;
        let within = |low: f64, high: f64| low > -part && high < part;
        let holds = |value: f64| low <= value && value <= high;
        if within(low, high) {
            Witness::Stayed
        } else if within(low - change, high - change) {
            Witness::Alike
        } else if holds(0.0) && holds(change) {
            Witness::Silent
        } else {
            Witness::Partly
        }
    }
}

/// Returns the cause of a change between points before and after it. `change` is the difference of the logarithms.
pub(super) fn cause(runs: &[HistoryRun], before: &[Point], after: &[Point], change: f64) -> Cause {
    let reference = witness(before, after, |point| runs[point.run].reference.map(|level| (level.log(), level.error())));
    let bound = after[0].ceiling.map(|ceiling| ceiling.bound);
    // A lower rate is a longer time.
    let ceiling = witness(before, after, |point| {
        point.ceiling.filter(|ceiling| Some(ceiling.bound) == bound).map(|ceiling| (-ceiling.rate.ln(), 0.0))
    });
    let (kind, grounds) = decide(runs, before, after, change, (reference, ceiling), bound);
    Cause { kind, grounds, reference, ceiling }
}

fn decide(
    runs: &[HistoryRun],
    before: &[Point],
    after: &[Point],
    change: f64,
    (reference, ceiling): (Option<Move>, Option<Move>),
    bound: Option<Bound>,
) -> (Kind, String) {
    use Witness::{Alike, Partly, Silent, Stayed};
    let (last, first) = (&runs[before[before.len() - 1].run], &runs[after[0].run]);
    let differences = last.setup.differences(&first.setup);
    if !differences.is_empty() {
        return (Kind::Setup, differences.join("; "));
    }
    let named = |ceiling: &str| {
        format!(
            "{ceiling}{}",
            bound.map_or("", |bound| match bound {
                Bound::Memory => " of memory",
                Bound::Transfer => " of the link",
                _ => " of arithmetic",
            })
        )
    };
    let ceiling_name = named("the ceiling");
    let (kind, grounds) = match (Witness::of(reference, change), Witness::of(ceiling, change)) {
        (Partly, _) | (_, Partly) => (Kind::Undecided, "the machine moved in part".to_owned()),
        (Silent, Silent) => {
            (Kind::Undecided, "neither the reference kernel nor a ceiling is known precisely enough".to_owned())
        }
        (Stayed, Stayed) => (Kind::Kernel, format!("the reference kernel and {ceiling_name} stayed")),
        (Stayed, Silent) => (Kind::Kernel, "the reference kernel stayed".to_owned()),
        (Silent, Stayed) => (Kind::Kernel, format!("{ceiling_name} stayed")),
        (Alike, Alike) => (Kind::Machine, format!("the reference kernel and {ceiling_name} moved alike")),
        (Alike, Silent) => (Kind::Machine, "the reference kernel moved alike".to_owned()),
        (Silent | Stayed, Alike) => (Kind::Machine, format!("{ceiling_name}, which binds the case, moved alike")),
        (Alike, Stayed) => (Kind::Undecided, format!("the reference kernel moved alike, {ceiling_name} stayed")),
    };
    match same_program(runs, before, after) {
        Some(commit) if kind == Kind::Kernel => {
            (Kind::Undecided, format!("{grounds}, and the program is the same before and after it: commit {commit}"))
        }
        _ => (kind, grounds),
    }
}

/// Returns the commit of the runs around a change, if it is one commit of an unchanged tree, or of the same changes.
fn same_program<'r>(runs: &'r [HistoryRun], before: &[Point], after: &[Point]) -> Option<&'r str> {
    let near = before.iter().rev().take(NEAR).chain(after.iter().take(NEAR));
    let mut commits = near.map(|point| runs[point.run].commit.as_str());
    let first = commits.next()?;
    let clean = !first.is_empty() && !first.ends_with(DIRTY);
    (clean && commits.all(|commit| commit == first)).then_some(first)
}

/// Returns the ratio of a witness; `None` for too few values on either side.
fn witness(before: &[Point], after: &[Point], of: impl Fn(&Point) -> Option<(f64, f64)>) -> Option<Move> {
    let values = |points: &[Point]| points.iter().filter_map(&of).collect::<Vec<_>>();
    let (mut all, later) = (values(before), values(after));
    let split = all.len();
    if split < FEWEST_VALUES || later.len() < FEWEST_VALUES {
        return None;
    }
    all.extend(later);
    let (logs, errors): (Vec<f64>, Vec<f64>) = all.into_iter().unzip();
    Some(Move::of(&Sums::of(&logs, &errors).shift(0, split, logs.len())))
}
