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

use parallax_ir::device::{BackendError, Batch, OTHER_POISON, POISON, Prepared, Profiler};
use parallax_ir::parallel::*;
use parallax_ir::{Inputs, Problem, Tolerance, load, round_to};
use parallax_schema::case::Storage;
use parallax_schema::device::LOOP_TURNS;
use parallax_schema::record::{CheckResult, Mismatch};

use crate::measure::errors::{ErrorSums, ulp};
use crate::measure::repeat::OutputDigest;

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

struct ExpectedOutput {
    tolerance: Tolerance,
    rows: Sampled,
    /// In the order of the rows.
    values: Vec<f64>,
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
                Sampled::choose(total, cost, work.min((work / KEPT_SHARE / row_len.max(1)).saturating_mul(cost)));
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
            outputs.push(ExpectedOutput { tolerance, rows, values });
        }
        Expected { outputs }
    }

    /// Number of compared elements.
    fn elements(&self) -> usize {
        self.outputs.iter().map(|output| output.values.len()).sum()
    }
}

/// Compares the outputs of a prepared case with the reference, after [`Prepared::poison`] with [`POISON`] and one execution. The
/// case is executed once more if integers still hold the poison.
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
    let mut comparison = Comparison { left: OutputDigest::new(expected.elements()), ..Comparison::default() };
    // Runs of integers that hold the poison: position of the buffer, and elements.
    let mut suspects: Vec<(usize, Range<u64>)> = Vec::new();
    let specs = problem.buffers();
    for (buffer, expected) in problem.outputs().into_iter().zip(&expected.outputs) {
        let spec = &specs[buffer];
        let Some(row_len) = spec.role.row_len() else { continue };
        let storage = spec.elem.storage(problem.dtype);
        let rows = &expected.rows;
        let mut wanted = expected.values.chunks_exact(row_len as usize);
        // Where the reference gives NaN, a row that is not compared may hold NaN too, but not the poison's own bits.
        let nan_is_right = expected.values.iter().any(|value| value.is_nan());
        let rows_per_chunk = (CHUNK / storage.bytes() / row_len).max(1);
        let mut row = 0;
        while row < rows.total {
            let end = (row + rows_per_chunk).min(rows.total);
            let size = storage.bytes();
            let bytes = prepared.read_back(buffer, row * row_len * size..end * row_len * size).await?;
            comparison.left.bits(&bytes);
            for (r, line) in (row..end).zip(bytes.chunks_exact((row_len * size) as usize)) {
                let line = Line { output: spec.name, first: r * row_len, storage, bytes: line };
                match rows.contains(r).then(|| wanted.next()).flatten() {
                    Some(want) => comparison.row(&line, want, &expected.tolerance),
                    None => comparison.written(&line, nan_is_right),
                }
                if storage.is_integer() && spec.role.poisoned() {
                    for at in line.holding(POISON) {
                        match suspects.last_mut() {
                            Some((known, run)) if *known == buffer && run.end == at => run.end += 1,
                            _ => suspects.push((buffer, at..at + 1)),
                        }
                    }
                }
            }
            profiler.yield_now().await;
            row = end;
        }
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

/// Choice of rows to compare.
struct Sampled {
    total: u64,
    cost: u64,
    /// Number of rows of which one is taken.
    stride: u64,
}

impl Sampled {
    fn choose(total: u64, cost: u64, work: u64) -> Sampled {
        let affordable = (work / cost).clamp(4, total.max(4));
        Sampled { total, cost, stride: total.div_ceil(affordable).max(1) }
    }

    /// The first row, the last row, and one row at a pseudo-random place in each stretch of `stride` rows.
    fn contains(&self, row: u64) -> bool {
        let stretch = row / self.stride;
        let place = parallax_ir::splitmix64(stretch + 1) % self.stride;
        row == 0 || row + 1 == self.total || row % self.stride == place
    }
}

/// Bytes of a row, as read back.
struct Line<'a> {
    output: &'a str,
    /// Position of its first element in the output.
    first: u64,
    storage: Storage,
    bytes: &'a [u8],
}

impl Line<'_> {
    fn elements(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (self.first..).zip(self.bytes.chunks_exact(self.storage.bytes() as usize))
    }

    /// Positions of the elements that hold a word of four equal bytes.
    fn holding(&self, word: u32) -> impl Iterator<Item = u64> {
        let byte = word.to_le_bytes()[0];
        self.elements().filter(move |(_, bytes)| bytes.iter().all(|b| *b == byte)).map(|(at, _)| at)
    }
}

/// Whether two values that are not both finite are the same: both NaN, or the same infinity. Values beyond the range of the
/// storage type are infinite.
fn same_class(storage: Storage, got: f64, want: f64) -> bool {
    let want = round_to(storage, want);
    (got.is_nan() && want.is_nan()) || (got.is_infinite() && got == want)
}

/// Whether one of the elements is NaN. The test is on bits and does not stop at the first hit, so that vector units run it. Most
/// elements of a large output get no other test.
fn any_nan(storage: Storage, bytes: &[u8]) -> bool {
    // Bits above infinity, without the sign.
    let beyond16 = |infinity: u16| {
        let elements = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7FFF);
        elements.fold(false, |any, bits| any | (bits > infinity))
    };
    let beyond32 = |infinity: u32| {
        let elements = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) & 0x7FFF_FFFF);
        elements.fold(false, |any, bits| any | (bits > infinity))
    };
    match storage {
        Storage::F32 => beyond32(0x7F80_0000),
        Storage::F16 => beyond16(0x7C00),
        Storage::BF16 => beyond16(0x7F80),
        Storage::U32 => false,
    }
}

/// Whether an element has the poison's bits.
fn poisoned(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == POISON.to_le_bytes()[0])
}

struct Comparison {
    result: CheckResult,
    left: OutputDigest,
    sums: ErrorSums,
}

impl Default for Comparison {
    fn default() -> Comparison {
        let result = CheckResult {
            passed: true,
            compared: 0,
            elements: 0,
            worst_error: 0.0,
            bound: 0.0,
            worst_ratio: 0.0,
            errors: None,
            mismatch: None,
            repeatable: None,
            loops_end_after: None,
        };
        Comparison { result, left: OutputDigest::default(), sums: ErrorSums::default() }
    }
}

impl Comparison {
    fn row(&mut self, line: &Line<'_>, want: &[f64], tolerance: &Tolerance) {
        if self.result.compared == 0 {
            self.result.bound = tolerance.abs;
        }
        let finite = || want.iter().filter(|want| want.is_finite());
        let typical = (finite().map(|want| want * want).sum::<f64>() / finite().count().max(1) as f64).sqrt();
        for ((at, bytes), want) in line.elements().zip(want) {
            let got = load(line.storage, bytes);
            let bound = tolerance.abs + tolerance.rel * want.abs();
            let error = (got - want).abs();
            self.result.compared += 1;
            self.result.elements += 1;
            self.left.element(got, bound);
            // The poison's own bits are wrong even where NaN is right.
            let unwritten = got.is_nan() && poisoned(bytes);
            if same_class(line.storage, got, *want) && !unwritten {
                continue;
            }
            if error.is_finite() {
                self.sums.add(error, bound, ulp(line.storage, want.abs().max(typical)));
                self.result.worst_error = self.result.worst_error.max(error);
                if error / bound > self.result.worst_ratio {
                    self.result.worst_ratio = error / bound;
                    self.result.bound = bound;
                }
            }
            if !error.is_finite() || error > bound {
                self.wrong(line.output, at, Some(got), *want);
            }
        }
    }

    fn written(&mut self, line: &Line<'_>, nan_is_right: bool) {
        if !any_nan(line.storage, line.bytes) {
            self.result.elements += line.bytes.len() as u64 / line.storage.bytes();
            return;
        }
        for (at, bytes) in line.elements() {
            self.result.elements += 1;
            let got = load(line.storage, bytes);
            if got.is_nan() && (!nan_is_right || poisoned(bytes)) {
                self.wrong(line.output, at, None, 0.0);
            }
        }
    }

    fn wrong(&mut self, output: &str, index: u64, got: Option<f64>, want: f64) {
        self.result.passed = false;
        let (got, want) = (got.filter(|got| got.is_finite()), Some(want).filter(|want| want.is_finite()));
        self.result.mismatch.get_or_insert(Mismatch { output: output.to_owned(), index, got, want });
    }

    /// Returns the result and the digest; a check that compared nothing does not pass.
    fn end(mut self) -> (CheckResult, OutputDigest) {
        self.result.passed &= self.result.compared > 0;
        self.result.errors = self.sums.end();
        (self.result, self.left)
    }
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
    use parallax_ir::bytes_of;
    use parallax_workloads::parse_case;

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
    fn nan_is_told_by_its_bits_in_every_storage_type() {
        for storage in [Storage::F32, Storage::F16, Storage::BF16, Storage::U32] {
            for high in 0..=u16::MAX {
                for low in [0u16, 1, u16::MAX] {
                    let bytes = u32::from(high) << 16 | u32::from(low);
                    let bytes = &bytes.to_le_bytes()[4 - storage.bytes() as usize..];
                    let row = [&[0; 36], bytes, &[0; 4]].concat();
                    assert_eq!(any_nan(storage, &row), load(storage, bytes).is_nan(), "{storage:?} {bytes:?}");
                }
            }
        }
    }

    #[test]
    fn errors_are_held_against_their_bound() {
        let tolerance = Tolerance { abs: 0.1, rel: 0.01, reason: "" };
        for (got, right) in [(10.0, true), (10.19, true), (10.21, false), (f64::NAN, false), (f64::INFINITY, false)] {
            let mut c = Comparison::default();
            let bytes = bytes_of(Storage::F32, [10.0, got].into_iter());
            c.row(&line(5, Storage::F32, &bytes), &[10.0, 10.0], &tolerance);
            let (result, _) = c.end();
            assert_eq!(result.passed, right, "{got}");
            assert_eq!(result.mismatch.map(|m| m.index), (!right).then_some(6), "{got}");
        }
        let mut c = Comparison::default();
        c.written(&line(0, Storage::F32, &bytes_of(Storage::F32, [0.0, f64::NAN].into_iter())), false);
        let (result, _) = c.end();
        assert!(!result.passed && result.sentence().contains("never written"));
    }

    #[test]
    fn elements_near_zero_have_the_units_of_their_row() {
        let mut c = Comparison::default();
        let tolerance = Tolerance { abs: 1.0, rel: 0.0, reason: "" };
        let got = [1.5, 1.5, 2f64.powi(-23)];
        c.row(&line(0, Storage::F32, &bytes_of(Storage::F32, got.into_iter())), &[1.5, 1.5, 0.0], &tolerance);
        assert_eq!(c.end().0.errors.expect("finite").worst_ulps, 1.0);
    }

    #[test]
    fn nan_that_is_right_is_told_from_an_element_that_nobody_wrote() {
        for (bytes, nan_is_right, passes) in
            [(f32::NAN.to_le_bytes(), true, true), (f32::NAN.to_le_bytes(), false, false), ([0xFF; 4], true, false)]
        {
            let mut c = Comparison::default();
            c.written(&line(0, Storage::F32, &bytes), nan_is_right);
            assert_eq!(c.result.mismatch.is_none(), passes, "{bytes:?} {nan_is_right}");
        }
    }

    fn line(first: u64, storage: Storage, bytes: &[u8]) -> Line<'_> {
        Line { output: "out", first, storage, bytes }
    }

    #[test]
    fn what_is_not_finite_is_right_where_the_reference_is_the_same() {
        let tolerance = Tolerance { abs: 0.1, rel: 0.01, reason: "" };
        for (storage, got, want, right) in [
            (Storage::F32, f64::INFINITY, f64::INFINITY, true),
            (Storage::F32, f64::INFINITY, f64::NEG_INFINITY, false),
            (Storage::F32, f64::NAN, f64::NAN, true),
            (Storage::F32, 1.0, f64::NAN, false),
            (Storage::F32, 1.0, f64::INFINITY, false),
            (Storage::F32, f64::NAN, f64::INFINITY, false),
            (Storage::F32, f64::INFINITY, 1e60, true),
            (Storage::F32, f64::INFINITY, 1e30, false),
            (Storage::F16, f64::INFINITY, 1e30, true),
            (Storage::F16, f64::INFINITY, 6e4, false),
        ] {
            let mut c = Comparison::default();
            c.row(&line(0, storage, &bytes_of(storage, [got].into_iter())), &[want], &tolerance);
            assert_eq!(c.end().0.passed, right, "{storage:?}: {got} for {want}");
        }
        for storage in [Storage::F32, Storage::F16, Storage::BF16] {
            let mut c = Comparison::default();
            let poison = POISON.to_le_bytes();
            c.row(&line(0, storage, &poison[..storage.bytes() as usize]), &[f64::NAN], &tolerance);
            assert!(!c.end().0.passed, "{storage:?}: the poison is no NaN that anyone computed");
        }
    }

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

    #[test]
    fn a_check_that_compared_nothing_is_not_right() {
        let result = Comparison::default().end().0;
        assert!(!result.passed);
        assert_eq!(result.sentence(), "nothing was compared");
    }
}
