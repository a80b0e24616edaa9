//! Outputs against the reference.
//!
//! Every output element is read and must have been written (outputs are poisoned with NaN before the run). Of large
//! outputs, whole rows are compared with the f64 reference: the first, the last, and a seeded choice between them, as
//! many as the budget of reference work allows. Small outputs are compared in full. The reference is computed once for a
//! problem and serves all its variants, before and after sampling.

use rayon::prelude::*;

use crate::device::{BackendError, Prepared, Profiler};
use crate::record::{CheckResult, Mismatch};
use crate::suite::{Inputs, Problem, Role, Tolerance, load};

/// How much reference work a problem may take, in multiply-adds; a fraction of a second on one core.
pub const WORK: u64 = 100_000_000;

/// One element of reference results is kept for so many multiply-adds of work, which bounds host memory (16 MB at [`WORK`]).
const KEPT_SHARE: u64 = 50;

/// Multiply-adds of reference work without a breath, on each processor.
const AT_ONCE: u64 = 1_000_000;

/// Bytes read back at a time, which bounds host memory.
const CHUNK: u64 = 16 << 20;

/// Right results of the rows that are compared, for every output of a problem.
pub struct Expected {
    outputs: Vec<ExpectedOutput>,
}

struct ExpectedOutput {
    rows: Sampled,
    /// In the order of the rows.
    values: Vec<f64>,
}

impl Expected {
    /// Compute the reference for as many rows as `work` multiply-adds pay for.
    pub async fn of(profiler: &dyn Profiler, problem: &Problem, inputs: &Inputs, work: u64) -> Expected {
        let specs = problem.buffers();
        let mut outputs = Vec::new();
        let reference = &problem.form().reference;
        let row_of = (reference.rows)(problem, inputs);
        let positions = problem.outputs();
        let work = work / positions.len().max(1) as u64;
        for (output, buffer) in positions.into_iter().enumerate() {
            let spec = &specs[buffer];
            let Role::Output { row_len } = spec.role else { continue };
            let total = spec.len / row_len;
            let cost = (reference.row_cost)(problem, output).max(1);
            let rows =
                Sampled::choose(total, cost, work.min((work / KEPT_SHARE / row_len.max(1)).saturating_mul(cost)));
            let chosen: Vec<u64> = (0..total).filter(|r| rows.contains(*r)).collect();
            let mut values = vec![0.0; chosen.len() * row_len as usize];
            // Between breaths, as many rows as all processors compute in a few milliseconds; a page has one.
            let at_once = (AT_ONCE * rayon::current_num_threads() as u64 / rows.cost).max(1) as usize;
            for (some, slots) in chosen.chunks(at_once).zip(values.chunks_mut(at_once * row_len as usize)) {
                let each = some.par_iter().zip(slots.par_chunks_mut(row_len as usize));
                each.for_each(|(r, row)| row_of(output, *r, row));
                profiler.breathe().await;
            }
            outputs.push(ExpectedOutput { rows, values });
        }
        Expected { outputs }
    }
}

/// Compare what a prepared case has computed with what is expected.
pub async fn check(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    problem: &Problem,
    expected: &Expected,
) -> Result<CheckResult, BackendError> {
    let mut comparison = Comparison::new((problem.form().tolerance)(problem, 0));
    let specs = problem.buffers();
    for (output, (buffer, expected)) in problem.outputs().into_iter().zip(&expected.outputs).enumerate() {
        let spec = &specs[buffer];
        comparison.tolerance = (problem.form().tolerance)(problem, output);
        let Role::Output { row_len } = spec.role else { continue };
        let storage = spec.elem.storage(problem.dtype);
        let rows = &expected.rows;
        let mut wanted = expected.values.chunks_exact(row_len as usize);
        let rows_per_chunk = (CHUNK / storage.bytes() / row_len).max(1);
        let mut row = 0;
        while row < rows.total {
            let end = (row + rows_per_chunk).min(rows.total);
            let size = storage.bytes();
            let bytes = prepared.read_back(buffer, row * row_len * size..end * row_len * size).await?;
            for (r, line) in (row..end).zip(bytes.chunks_exact((row_len * size) as usize)) {
                let values = line.chunks_exact(size as usize).map(|b| load(storage, b));
                match rows.contains(r).then(|| wanted.next()).flatten() {
                    Some(want) => comparison.row(spec.name, r * row_len, values, want),
                    None => comparison.written(spec.name, r * row_len, values),
                }
            }
            profiler.breathe().await;
            row = end;
        }
    }
    Ok(comparison.result)
}

/// Compute the reference for `work` multiply-adds and compare with it, for whoever checks a problem only once.
pub async fn check_once(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    problem: &Problem,
    inputs: &Inputs,
    work: u64,
) -> Result<CheckResult, BackendError> {
    let expected = Expected::of(profiler, problem, inputs, work).await;
    check(profiler, prepared, problem, &expected).await
}

/// Which rows to compare.
struct Sampled {
    total: u64,
    cost: u64,
    /// One row is taken from each run of so many rows.
    stride: u64,
}

impl Sampled {
    fn choose(total: u64, cost: u64, work: u64) -> Sampled {
        let affordable = (work / cost).clamp(4, total.max(4));
        Sampled { total, cost, stride: total.div_ceil(affordable).max(1) }
    }

    /// The first, the last, and one row at a pseudo-random place in each stretch of `stride` rows.
    fn contains(&self, row: u64) -> bool {
        let stretch = row / self.stride;
        let place = crate::suite::splitmix64(stretch + 1) % self.stride;
        row == 0 || row + 1 == self.total || row % self.stride == place
    }
}

struct Comparison {
    tolerance: Tolerance,
    result: CheckResult,
}

impl Comparison {
    fn new(tolerance: Tolerance) -> Comparison {
        let result = CheckResult {
            right: true,
            compared: 0,
            elements: 0,
            worst_error: 0.0,
            bound: tolerance.abs,
            worst_ratio: 0.0,
            mismatch: None,
        };
        Comparison { tolerance, result }
    }

    fn row(&mut self, output: &str, first: u64, got: impl Iterator<Item = f64>, want: &[f64]) {
        for (i, (got, want)) in got.zip(want).enumerate() {
            let bound = self.tolerance.abs + self.tolerance.rel * want.abs();
            let error = (got - want).abs();
            self.result.compared += 1;
            self.result.elements += 1;
            if error.is_finite() {
                self.result.worst_error = self.result.worst_error.max(error);
                if error / bound > self.result.worst_ratio {
                    self.result.worst_ratio = error / bound;
                    self.result.bound = bound;
                }
            }
            if error.is_nan() || error > bound {
                self.wrong(output, first + i as u64, got, *want);
            }
        }
    }

    fn written(&mut self, output: &str, first: u64, got: impl Iterator<Item = f64>) {
        for (i, got) in got.enumerate() {
            self.result.elements += 1;
            if got.is_nan() {
                self.wrong(output, first + i as u64, got, 0.0);
            }
        }
    }

    fn wrong(&mut self, output: &str, index: u64, got: f64, want: f64) {
        self.result.right = false;
        let got = got.is_finite().then_some(got);
        self.result.mismatch.get_or_insert(Mismatch { output: output.to_owned(), index, got, want });
    }
}

impl CheckResult {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        match &self.mismatch {
            None => format!(
                "{} of {} elements compared, worst error {:.2e} ({:.0} % of its bound)",
                self.compared,
                self.elements,
                self.worst_error,
                self.worst_ratio * 100.0
            ),
            Some(Mismatch { output, index, got: Some(got), want }) => {
                format!("{output}[{index}] is {got}, should be {want} (bound {:.2e})", self.bound)
            }
            Some(Mismatch { output, index, got: None, .. }) => {
                format!("{output}[{index}] is not a finite number: wrong, or never written")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_outputs_are_compared_in_full_and_large_ones_in_part() {
        let all = Sampled::choose(1000, 10, WORK);
        assert!((0..1000).all(|r| all.contains(r)));
        let some = Sampled::choose(1_000_000, 1_000_000, WORK);
        let chosen: Vec<u64> = (0..1_000_000).filter(|r| some.contains(*r)).collect();
        assert!((100..=102).contains(&chosen.len()), "{}", chosen.len());
        assert_eq!((chosen[0], chosen[chosen.len() - 1]), (0, 999_999));
        let gaps: std::collections::BTreeSet<u64> = chosen.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.len() > 50, "rows must not fall on a regular grid, which tiles might favour");
    }

    #[test]
    fn errors_are_held_against_their_bound() {
        let tolerance = Tolerance { abs: 0.1, rel: 0.01, reason: "" };
        for (got, right) in [(10.0, true), (10.19, true), (10.21, false), (f64::NAN, false), (f64::INFINITY, false)] {
            let mut c = Comparison::new(tolerance);
            c.row("out", 5, [10.0, got].into_iter(), &[10.0, 10.0]);
            assert_eq!(c.result.right, right, "{got}");
            assert_eq!(c.result.mismatch.map(|m| m.index), (!right).then_some(6), "{got}");
        }
        let mut c = Comparison::new(tolerance);
        c.written("out", 0, [0.0, f64::NAN].into_iter());
        assert!(!c.result.right && c.result.sentence().contains("never written"));
    }
}
