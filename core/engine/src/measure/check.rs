//! Comparison of outputs with the reference.
//!
//! Every output element is read and must have been written. Outputs are poisoned with NaN before the run, and a float may be NaN
//! only where the reference is.
//! Every bit pattern is a valid integer. An integer that holds the poison is therefore checked again after an execution on
//! another poison. It was not written if it holds that one too.
//!
//! Small outputs are compared in full with the f64 reference. Of large outputs, whole rows are compared: the first, the last, and
//! a seeded choice between them. Their number follows from the budget of reference work.
//! The reference is computed once per problem. It serves all variants, before and after sampling.

use std::collections::BTreeMap;
use std::ops::Range;

use parallax_ir::device::{BackendError, Batch, OTHER_POISON, Prepared, Profiler};
use parallax_ir::parallel::*;
use parallax_ir::{Inputs, Problem};
use parallax_schema::device::LOOP_TURNS;
use parallax_schema::record::CheckResult;

use crate::measure::compare::{Comparison, ExpectedOutput, Line, Output};
use crate::measure::repeat::OutputDigest;
use crate::measure::sampled_rows::SampledRows;

/// Reference work of a problem in multiply-adds; a fraction of a second on one core.
pub const WORK: u64 = 100_000_000;

/// Multiply-adds of work per kept element of the reference, which bounds host memory (16 MB at [`WORK`]).
const KEPT_SHARE: u64 = 50;

/// Multiply-adds of reference work between two yields, on each processor.
const AT_ONCE: u64 = 1_000_000;

/// Bytes of one read-back, which bounds host memory.
const CHUNK: u64 = 16 << 20;

/// Reference values of the compared rows, for every output of a problem.
pub struct Expected {
    outputs: Vec<ExpectedOutput>,
}

impl Expected {
    /// Computes the reference for the number of rows that `work` multiply-adds allow.
    pub async fn new(profiler: &dyn Profiler, problem: &Problem, inputs: &Inputs, work: u64) -> Expected {
        let specs = problem.buffers();
        let mut outputs = Vec::new();
        let reference = &problem.form().reference;
        let row_of = (reference.rows)(problem, inputs);
        let positions = problem.outputs();
        let work = work / positions.len().max(1) as u64;
        for (output, buffer) in positions.into_iter().enumerate() {
            let spec = &specs[buffer];
            let Some(row_len) = spec.role.row_len() else { continue };
            let total = spec.len / row_len;
            let cost = (reference.row_cost)(problem, output).max(1);
            let rows =
                SampledRows::choose(total, cost, work.min((work / KEPT_SHARE / row_len.max(1)).saturating_mul(cost)));
            let chosen: Vec<u64> = (0..total).filter(|r| rows.contains(*r)).collect();
            let mut values = vec![0.0; chosen.len() * row_len as usize];
            // Between yields, all processors together compute rows for a few milliseconds; a page has one processor.
            let at_once = (AT_ONCE * current_num_threads() as u64 / rows.cost).max(1) as usize;
            for (some, slots) in chosen.chunks(at_once).zip(values.chunks_mut(at_once * row_len as usize)) {
                let each = some.par_iter().zip(slots.par_chunks_mut(row_len as usize));
                each.for_each(|(r, row)| row_of(output, *r, row));
                profiler.yield_now().await;
            }
            let tolerance = inputs.tolerance(problem, output);
            outputs.push(ExpectedOutput::new(tolerance, rows, row_len, values));
        }
        Expected { outputs }
    }

    /// Number of compared elements.
    fn elements(&self) -> usize {
        self.outputs.iter().map(ExpectedOutput::elements).sum()
    }
}

/// Compares the outputs of a prepared case with the reference, after [`Prepared::poison`] and one execution.
/// The case is executed once more if integers still hold the poison.
pub async fn check(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    problem: &Problem,
    expected: &Expected,
) -> Result<CheckResult, BackendError> {
    check_and_keep(profiler, prepared, problem, expected).await.map(|(result, _)| result)
}

/// Does the same as [`check`], and returns a digest of the outputs for the comparison with a later execution.
pub async fn check_and_keep(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    problem: &Problem,
    expected: &Expected,
) -> Result<(CheckResult, OutputDigest), BackendError> {
    let mut comparison = Comparison::new(expected.elements());
    let mut before = 0;
    // Runs of integers that hold the poison: position of the buffer, and elements.
    let mut suspects: Vec<(usize, Range<u64>)> = Vec::new();
    let specs = problem.buffers();
    for (buffer, expected) in problem.outputs().into_iter().zip(&expected.outputs) {
        let spec = &specs[buffer];
        let Some(row_len) = spec.role.row_len() else { continue };
        let storage = spec.elem.storage(problem.dtype);
        let (size, total) = (storage.bytes(), expected.rows.total);
        let output = Output { name: spec.name, storage, poisoned: spec.role.poisoned(), expected, before };
        let rows_per_chunk = (CHUNK / size / row_len).max(1);
        let mut row = 0;
        while row < total {
            let end = (row + rows_per_chunk).min(total);
            let bytes = prepared.read_back(buffer, row * row_len * size..end * row_len * size).await?;
            comparison.add(&output, row * row_len, &bytes);
            profiler.yield_now().await;
            row = end;
        }
        before += expected.elements();
        suspects.extend(comparison.take_suspects().into_iter().map(|run| (buffer, run)));
    }
    if comparison.result.passed && !suspects.is_empty() {
        prepared.poison(OTHER_POISON).await?;
        prepared.measure(Batch::new(1)).await?;
        for (buffer, run) in suspects {
            let spec = &specs[buffer];
            let storage = spec.elem.storage(problem.dtype);
            let mut first = run.start;
            while first < run.end {
                let end = (first + CHUNK / storage.bytes()).min(run.end);
                let bytes = prepared.read_back(buffer, first * storage.bytes()..end * storage.bytes()).await?;
                let line = Line { output: spec.name, first, storage, bytes: &bytes };
                line.holding(OTHER_POISON).for_each(|at| comparison.wrong(spec.name, at, None, 0.0));
                first = end;
            }
        }
    }
    let (result, left) = comparison.end();
    Ok((on_device(result, &profiler.device().limits, problem), left))
}

/// Computes the reference for `work` multiply-adds and compares with it, for a problem that is checked only once.
pub async fn check_once(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    problem: &Problem,
    inputs: &Inputs,
    work: u64,
) -> Result<CheckResult, BackendError> {
    let expected = Expected::new(profiler, problem, inputs, work).await;
    check(profiler, prepared, problem, &expected).await
}

/// Adds the loop limit of the device to a failed check. A problem with more elements than the limit may need longer loops.
fn on_device(result: CheckResult, limits: &BTreeMap<String, u64>, problem: &Problem) -> CheckResult {
    let longest = problem.buffers().iter().map(|spec| spec.len).max();
    let turns = limits.get(LOOP_TURNS).copied().filter(|turns| !result.passed && longest > Some(*turns));
    CheckResult { loops_end_after: turns, ..result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::parse_case;

    #[test]
    fn a_failed_check_names_the_limit_on_loops_where_the_problem_may_need_longer_ones() {
        let of = |shape: &str| -> Problem { parse_case(shape).expect("a case").problem };
        let (long, short) = (of("rmsnorm/bwd/r65536,c4/f32/naive"), of("rmsnorm/bwd/r64,c4/f32/naive"));
        let ends = BTreeMap::from([(LOOP_TURNS.to_owned(), 65_535)]);
        let said = |passed, limits: &BTreeMap<String, u64>, problem: &Problem| {
            let result = CheckResult { passed, ..Comparison::default().end().0 };
            on_device(result, limits, problem).sentence().contains("ends a kernel's loops after 65535 iterations")
        };
        assert!(said(false, &ends, &long));
        assert!(!said(true, &ends, &long) && !said(false, &ends, &short) && !said(false, &BTreeMap::new(), &long));
    }
}
