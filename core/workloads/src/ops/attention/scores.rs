//! Changes of scores and of their sums: soft caps, slopes over distances, and sinks.

use parallax_ir::Access::Read;
use parallax_ir::{Axis, BufferSpec, Elem, HostBuffer, Inputs, Problem, Stage};

use super::masks::listed;
use super::normal;

/// Bound of a soft cap.
pub(super) const CAP: Axis = Axis::decimal("cap", "bound of a soft cap of scores, 0 for none", (0, 1 << 20), "0");

/// Words of the changes in a shape, after those of the masks.
pub(super) const AXES: [Axis; 2] = [
    Axis::word("sink", "whether a number per head joins the sum of weights", &["", "sinks"]),
    Axis::word("slope", "whether scores fall with the distance of query and key", &["", "alibi"]),
];

/// Bound of the soft cap, if the shape has one.
pub(super) fn cap(p: &Problem) -> Option<f64> {
    Some(p.shape.decimal("cap")).filter(|cap| *cap > 0.0)
}

/// Slope of a head over distances, or zero. `head` counts through all items.
fn slope(p: &Problem, head: u64) -> f64 {
    let h = p["h"];
    if p.shape.has("alibi") { (-8.0 * (head % h + 1) as f64 / h as f64).exp2() } else { 0.0 }
}

/// Distance of query `i` of any head and key `j`. The last query is at the last key.
fn distance(p: &Problem, i: u64, j: u64) -> u64 {
    (i + p["t"]).abs_diff(p["s"] + j)
}

/// Scaled score with the shape's changes, for the query that is number `row` of all heads.
pub(super) fn changed(p: &Problem, row: u64, j: u64, score: f64) -> f64 {
    let bounded = cap(p).map_or(score, |cap| cap * (score / cap).tanh());
    bounded - slope(p, row / p["s"]) * distance(p, row % p["s"], j) as f64
}

/// Slope of the soft cap at a scaled score.
pub(super) fn slope_of_cap(p: &Problem, score: f64) -> f64 {
    cap(p).map_or(1.0, |cap| 1.0 - (score / cap).tanh().powi(2))
}

/// Changes the scaled scores of a query with the keys from `first` on.
pub(super) fn change_on_host(p: &Problem, row: usize, first: usize, scores: &mut [f32]) {
    if let Some(cap) = cap(p) {
        let cap = cap as f32;
        scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
    }
    let (slope, query) = (slope(p, row as u64 / p["s"]) as f32, row as u64 % p["s"]);
    if slope > 0.0 {
        for (j, score) in (first as u64..).zip(scores) {
            *score -= slope * distance(p, query, j) as f32;
        }
    }
}

/// Optional input of the shape, behind those of the masks.
pub(super) fn buffer(p: &Problem) -> Option<BufferSpec> {
    p.shape.has("sinks").then(|| BufferSpec::input("sinks", Elem::Real, &[p["h"]], normal))
}

/// Position of the sinks among the buffers of a direction.
#[derive(Clone, Copy)]
pub(super) struct Sinks<'a> {
    p: &'a Problem,
    at: Option<usize>,
}

impl Sinks<'_> {
    /// Position after the first `first` inputs, which every shape has, and the inputs of the masks.
    pub(super) fn behind(p: &Problem, first: usize) -> Sinks<'_> {
        let masks = usize::from(listed(&p.shape)) + usize::from(p.shape.has("biased"));
        Sinks { p, at: p.shape.has("sinks").then_some(first + masks) }
    }

    /// Sink of a query's head, or −∞; `row` counts through all heads.
    pub(super) fn of(self, inputs: &Inputs, row: u64) -> f64 {
        self.at.map_or(f64::NEG_INFINITY, |at| inputs.at(at, row / self.p["s"] % self.p["h"]))
    }

    /// Sink of a query's head from the buffers of the host implementation.
    pub(super) fn of_host(self, inputs: &[HostBuffer], row: usize) -> Option<f32> {
        let head = row / self.p["s"] as usize % self.p["h"] as usize;
        self.at.map(|at| inputs[at].f32()[head])
    }
}

/// Changes that a stage computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Computes {
    /// Scores.
    Scores,
    /// Sums of weights.
    Sums,
    /// Scores and sums of weights.
    Both,
}

/// Adds the changes of the shape to a stage: constants, and the sinks as its next argument. The stage of a shape without changes
/// stays as it is. Its kernel source imports `attention/scores` in place of `attention/common`.
pub(super) fn changing(p: &Problem, computes: Computes, mut stage: Stage) -> Stage {
    let alibi = p.shape.has("alibi") && computes != Computes::Sums;
    let cap = cap(p).filter(|_| computes != Computes::Sums);
    let sinks = buffer(p).filter(|_| computes != Computes::Scores);
    let changes = alibi || cap.is_some();
    if !changes && sinks.is_none() {
        return stage;
    }
    stage = stage
        .consts(&[("FORM", true), ("CHANGES", changes), ("ALIBI", alibi), ("CAPPED", cap.is_some())])
        .consts(&[("SOFTCAP", cap.unwrap_or(0.0) as f32)])
        .consts(&[("SINKS", sinks.is_some())]);
    if let Some(sinks) = sinks {
        let at = stage.args.len() as u32;
        stage = stage.consts(&[("SINKS_AT", at)]);
        stage.args.push((sinks.name, Read).into());
        stage.cost.read.0 += sinks.bytes(p.dtype).0;
    }
    stage
}

/// Absolute error of a score by its changes, which enters the exponent.
///
/// A capped score is the difference of the cap and at most twice the cap. The exponential and the quotient of the latter are off
/// by a few units in the last place. A slope is off by 2⁻²¹ of itself: weights fall by it, and `x · exp(−x)` is below one. The
/// distance is rounded with the score. The nearest key may be as far as all keys.
pub(super) fn error(p: &Problem) -> f64 {
    let of_cap = 2f64.powi(-24) * 24.0 * cap(p).unwrap_or(0.0);
    let far = p["s"].max(p["t"]) as f64;
    of_cap + if p.shape.has("alibi") { 2f64.powi(-21) * 32.0 + 2f64.powi(-23) * far } else { 0.0 }
}

/// Checks that the problem has no change of scores and sums.
///
/// # Errors
/// Reason of `variant` against one.
pub(super) fn without_changes(p: &Problem, variant: &str) -> Result<(), String> {
    match (cap(p), p.shape.has("sinks"), p.shape.has("alibi")) {
        (Some(_), ..) => Err(format!("{variant} has no soft cap of scores")),
        (_, true, _) => Err(format!("{variant} has no sinks in its sums of weights")),
        (.., true) => Err(format!("{variant} has no slopes over distances")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("attention/fwd/{shape}/f32/manual")).expect("valid").problem
    }

    #[test]
    fn scores_are_capped_and_fall_with_the_distance() {
        let p = problem("b2,h4,s3,t5,d1,cap2.5,alibi");
        // Head 5 is the second of its item: its slope is 2⁻⁴. Query 1 is at key 3.
        let score = changed(&p, 5 * 3 + 1, 1, 1e6);
        assert!((score - (2.5 - 2.0 / 16.0)).abs() < 1e-12, "{score}");
        let mut scores = [1e6, -1e6, 0.0];
        change_on_host(&p, 5 * 3 + 1, 2, &mut scores);
        assert_eq!(scores, [2.5 - 1.0 / 16.0, -2.5, -1.0 / 16.0]);
        assert_eq!((slope_of_cap(&p, 0.0), slope_of_cap(&p, 1e6)), (1.0, 0.0));
        let plain = problem("b2,h4,s3,t5,d1");
        assert_eq!((changed(&plain, 7, 1, 3.0), slope_of_cap(&plain, 9.0), error(&plain)), (3.0, 1.0, 0.0));
    }

    #[test]
    fn a_stage_has_the_constants_of_the_changes_that_it_computes() {
        let names = |shape: &str, computes| {
            let stage =
                changing(&problem(shape), computes, Stage::kernel("x", "attention/flash", "x").args([("q", Read)]));
            let consts = &stage.kernel_launch().expect("a kernel").consts;
            let on: Vec<&str> =
                consts.iter().filter(|(_, value)| *value == true.into()).map(|(name, _)| *name).collect();
            (on, stage.args.len())
        };
        assert_eq!(names("b1,h1,s5,d1,causal", Computes::Both), (vec![], 1));
        assert_eq!(names("b1,h1,s5,d1,cap5", Computes::Sums), (vec![], 1));
        assert_eq!(names("b1,h1,s5,d1,cap5,alibi", Computes::Both), (vec!["FORM", "CHANGES", "ALIBI", "CAPPED"], 1));
        assert_eq!(names("b1,h1,s5,d1,cap5,sinks", Computes::Both), (vec!["FORM", "CHANGES", "CAPPED", "SINKS"], 2));
        assert_eq!(names("b1,h1,s5,d1,cap5,sinks", Computes::Sums), (vec!["FORM", "SINKS"], 2));
    }

    #[test]
    fn refusals_name_the_change() {
        for (shape, part) in [("cap50", "soft cap"), ("sinks", "sinks"), ("alibi", "slopes")] {
            let refused = without_changes(&problem(&format!("b1,h1,s5,d1,{shape}")), "subgroup");
            assert!(refused.is_err_and(|why| why.contains(part)), "{shape}");
        }
        assert_eq!(without_changes(&problem("b1,h1,s5,d1,causal"), "subgroup"), Ok(()));
    }
}
