//! Comparison of the elements of an output with reference values.
//!
//! All processors compare pieces of an output, each on its own. The results are joined in the order of the pieces, so they do not
//! depend on the number of processors.

use std::ops::Range;

use parallax_ir::device::POISON;
use parallax_ir::parallel::*;
use parallax_ir::{Tolerance, load, round_to};
use parallax_schema::case::Storage;
use parallax_schema::record::{CheckResult, Mismatch};

use crate::measure::errors::{ErrorSums, ulp};
use crate::measure::repeat::OutputDigest;
use crate::measure::sampled_rows::SampledRows;

/// Number of elements of a piece.
const PIECE: u64 = 1 << 16;

/// Reference values of one output.
pub(super) struct ExpectedOutput {
    tolerance: Tolerance,
    pub(super) rows: SampledRows,
    row_len: u64,
    /// Values of the compared rows, in their order.
    values: Vec<f64>,
    /// Root mean square of the finite values of each compared row.
    typical: Vec<f64>,
    /// Whether the reference has NaN. A row that is not compared may then hold NaN too, but not the poison's own bits.
    nan_is_right: bool,
}

impl ExpectedOutput {
    pub(super) fn new(tolerance: Tolerance, rows: SampledRows, row_len: u64, values: Vec<f64>) -> ExpectedOutput {
        let typical = values.par_chunks(row_len as usize).map(typical).collect();
        let nan_is_right = values.iter().any(|value| value.is_nan());
        ExpectedOutput { tolerance, rows, row_len, values, typical, nan_is_right }
    }

    /// Number of compared elements.
    pub(super) fn elements(&self) -> usize {
        self.values.len()
    }
}

fn typical(row: &[f64]) -> f64 {
    let finite = || row.iter().filter(|value| value.is_finite());
    (finite().map(|value| value * value).sum::<f64>() / finite().count().max(1) as f64).sqrt()
}

/// Output of a device.
pub(super) struct Output<'a> {
    pub(super) name: &'a str,
    pub(super) storage: Storage,
    /// Whether the host poisoned it.
    pub(super) poisoned: bool,
    pub(super) expected: &'a ExpectedOutput,
    /// Number of compared elements of the outputs before it.
    pub(super) before: usize,
}

/// Consecutive elements of an output, as read back.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) output: &'a str,
    /// Position of the first one in the output.
    pub(super) first: u64,
    pub(super) storage: Storage,
    pub(super) bytes: &'a [u8],
}

impl<'a> Line<'a> {
    fn elements(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (self.first..).zip(self.bytes.chunks_exact(self.storage.bytes() as usize))
    }

    /// Positions of the elements that hold a word of four equal bytes.
    pub(super) fn holding(&self, word: u32) -> impl Iterator<Item = u64> {
        let byte = word.to_le_bytes()[0];
        self.elements().filter(move |(_, bytes)| bytes.iter().all(|b| *b == byte)).map(|(at, _)| at)
    }

    /// Splits off at most `count` elements.
    fn split(self, count: u64) -> (Line<'a>, Line<'a>) {
        let end = self.bytes.len().min((count * self.storage.bytes()) as usize);
        let (bytes, rest) = self.bytes.split_at(end);
        let first = self.first + end as u64 / self.storage.bytes();
        (Line { bytes, ..self }, Line { bytes: rest, first, ..self })
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

/// Result of a comparison so far.
pub(super) struct Comparison {
    pub(super) result: CheckResult,
    left: OutputDigest,
    sums: ErrorSums,
    /// Integers that hold the poison, as positions in their output.
    suspects: Vec<Range<u64>>,
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
        Comparison { result, left: OutputDigest::default(), sums: ErrorSums::default(), suspects: Vec::new() }
    }
}

impl Comparison {
    /// Returns a comparison without elements, of which `elements` will be compared.
    pub(super) fn new(elements: usize) -> Comparison {
        Comparison { left: OutputDigest::new(elements), ..Comparison::default() }
    }

    /// Compares the next elements of an output, from position `first`.
    pub(super) fn add(&mut self, output: &Output<'_>, first: u64, bytes: &[u8]) {
        let line = |(first, bytes)| Line { output: output.name, first, storage: output.storage, bytes };
        let size = (PIECE * output.storage.bytes()) as usize;
        let pieces: Vec<Line<'_>> = (first..).step_by(PIECE as usize).zip(bytes.chunks(size)).map(line).collect();
        let compared: Vec<Comparison> =
            pieces.into_par_iter().map(|line| Comparison::of(output, line, &self.left)).collect();
        compared.into_iter().for_each(|piece| self.append(piece));
    }

    fn of(output: &Output<'_>, mut line: Line<'_>, whole: &OutputDigest) -> Comparison {
        let ExpectedOutput { rows, row_len, values, typical, .. } = output.expected;
        let mut row = line.first / row_len;
        let mut chosen = rows.before(row);
        let mut within = line.first % row_len;
        let inside = if rows.contains(row) { within } else { 0 };
        let left = whole.part(output.before + (chosen * row_len + inside) as usize);
        let mut piece = Comparison { left, ..Comparison::default() };
        piece.left.bits(line.bytes);
        if output.poisoned && output.storage.is_integer() {
            line.holding(POISON).for_each(|at| piece.suspect(at..at + 1));
        }
        while !line.bytes.is_empty() {
            let (part, rest) = line.split(row_len - within);
            if rows.contains(row) {
                let values = &values[(chosen * row_len + within) as usize..];
                piece.row(&part, values, typical[chosen as usize], &output.expected.tolerance);
                chosen += 1;
            } else {
                piece.written(&part, output.expected.nan_is_right);
            }
            (line, row, within) = (rest, row + 1, 0);
        }
        piece
    }

    /// Appends the comparison of the elements that follow.
    fn append(&mut self, next: Comparison) {
        let (result, more) = (&mut self.result, next.result);
        if result.compared == 0 || more.worst_ratio > result.worst_ratio {
            (result.bound, result.worst_ratio) = (more.bound, more.worst_ratio);
        }
        result.passed &= more.passed;
        result.compared += more.compared;
        result.elements += more.elements;
        result.worst_error = result.worst_error.max(more.worst_error);
        result.mismatch = result.mismatch.take().or(more.mismatch);
        self.left.append(next.left);
        self.sums.append(&next.sums);
        next.suspects.into_iter().for_each(|run| self.suspect(run));
    }

    fn suspect(&mut self, run: Range<u64>) {
        match self.suspects.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.suspects.push(run),
        }
    }

    /// Returns the suspects of the latest output.
    pub(super) fn take_suspects(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.suspects)
    }

    /// Compares elements of one row, with the row's typical magnitude.
    fn row(&mut self, line: &Line<'_>, want: &[f64], typical: f64, tolerance: &Tolerance) {
        // Constants give each type a loop of its own.
        match line.storage {
            Storage::F32 => self.each::<4>(line, want, typical, tolerance, |b| load(Storage::F32, b)),
            Storage::F16 => self.each::<2>(line, want, typical, tolerance, |b| load(Storage::F16, b)),
            Storage::BF16 => self.each::<2>(line, want, typical, tolerance, |b| load(Storage::BF16, b)),
            Storage::U32 => self.each::<4>(line, want, typical, tolerance, |b| load(Storage::U32, b)),
        }
    }

    fn each<const SIZE: usize>(
        &mut self,
        line: &Line<'_>,
        want: &[f64],
        typical: f64,
        tolerance: &Tolerance,
        load: impl Fn(&[u8]) -> f64,
    ) {
        if self.result.compared == 0 {
            self.result.bound = tolerance.abs;
        }
        let elements = line.bytes.chunks_exact(SIZE);
        let count = elements.len();
        let bound = |want: f64| tolerance.abs + tolerance.rel * want.abs();
        let mut sums = ErrorSums::default();
        let (mut worst_error, mut worst_ratio, mut at_worst) = (0.0f64, self.result.worst_ratio, self.result.bound);
        for (at, (bytes, want)) in (line.first..).zip(elements.zip(want)) {
            let (got, bound) = (load(bytes), bound(*want));
            let error = (got - want).abs();
            if error.is_finite() {
                sums.add(error, bound, ulp(line.storage, want.abs().max(typical)));
                worst_error = worst_error.max(error);
                if error / bound > worst_ratio {
                    (worst_ratio, at_worst) = (error / bound, bound);
                }
            }
            // The poison's own bits are wrong even where NaN is right.
            if !error.is_finite() && same_class(line.storage, got, *want) && !(got.is_nan() && poisoned(bytes)) {
                continue;
            }
            if !error.is_finite() || error > bound {
                self.wrong(line.output, at, Some(got), *want);
            }
        }
        self.sums.append(&sums);
        self.result.worst_error = self.result.worst_error.max(worst_error);
        (self.result.worst_ratio, self.result.bound) = (worst_ratio, at_worst);
        self.result.compared += count as u64;
        self.result.elements += count as u64;
        self.left.elements(count, |i| (load(&line.bytes[i * SIZE..][..SIZE]), bound(want[i])));
    }

    fn written(&mut self, line: &Line<'_>, nan_is_right: bool) {
        self.result.elements += line.bytes.len() as u64 / line.storage.bytes();
        if !any_nan(line.storage, line.bytes) {
            return;
        }
        for (at, bytes) in line.elements() {
            let got = load(line.storage, bytes);
            if got.is_nan() && (!nan_is_right || poisoned(bytes)) {
                self.wrong(line.output, at, None, 0.0);
            }
        }
    }

    /// Records an element with a wrong value.
    pub(super) fn wrong(&mut self, output: &str, index: u64, got: Option<f64>, want: f64) {
        self.result.passed = false;
        let (got, want) = (got.filter(|got| got.is_finite()), Some(want).filter(|want| want.is_finite()));
        self.result.mismatch.get_or_insert(Mismatch { output: output.to_owned(), index, got, want });
    }

    /// Returns the result and the digest; a check that compared nothing does not pass.
    pub(super) fn end(mut self) -> (CheckResult, OutputDigest) {
        self.result.passed &= self.result.compared > 0;
        self.result.errors = self.sums.end();
        (self.result, self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::bytes_of;

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
            c.row(&line(5, Storage::F32, &bytes), &[10.0, 10.0], 10.0, &tolerance);
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
        c.row(
            &line(0, Storage::F32, &bytes_of(Storage::F32, got.into_iter())),
            &[1.5, 1.5, 0.0],
            typical(&[1.5, 1.5, 0.0]),
            &tolerance,
        );
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

    /// Reference of rows of `row_len` elements, of which `work` may be compared, with the value of each element.
    fn expected(total: u64, row_len: u64, work: u64, value: impl Fn(u64) -> f64) -> ExpectedOutput {
        let rows = SampledRows::choose(total, 1, work);
        let chosen = (0..total).filter(|row| rows.contains(*row));
        let values = chosen.flat_map(|row| row * row_len..(row + 1) * row_len).map(value).collect();
        ExpectedOutput::new(Tolerance { abs: 0.5, rel: 0.0, reason: "" }, rows, row_len, values)
    }

    #[test]
    fn pieces_together_are_compared_like_the_whole() {
        let value = |at: u64| (at % 1000) as f64;
        for (total, row_len, work) in [(4, 50_000, 4), (90_001, 3, 200_000), (90_001, 3, 1000), (300_000, 1, 7)] {
            let expected = expected(total, row_len, work, value);
            let output = Output { name: "out", storage: Storage::F32, poisoned: true, expected: &expected, before: 5 };
            let off = |at: u64| value(at) + 0.25 * (at % 2) as f64;
            let bytes = bytes_of(Storage::F32, (0..total as usize * row_len as usize).map(|at| off(at as u64)));
            let mut all = Comparison::new(5 + expected.elements());
            all.left.elements(5, |_| (0.0, 0.5));
            // Both read-backs end within a piece, and the first within no row.
            let cut = (total / 3 * row_len) as usize * 4;
            all.add(&output, 0, &bytes[..cut]);
            all.add(&output, cut as u64 / 4, &bytes[cut..]);
            let mut kept = OutputDigest::new(5 + expected.elements());
            kept.elements(5, |_| (0.0, 0.5));
            let chosen = (0..total).filter(|row| expected.rows.contains(*row));
            let values: Vec<f64> = chosen.flat_map(|row| row * row_len..(row + 1) * row_len).map(off).collect();
            kept.elements(values.len(), |i| (values[i], 0.5));
            let (result, left) = all.end();
            assert!(result.passed, "{result:?}");
            assert_eq!((result.compared, result.elements), (values.len() as u64, total * row_len));
            assert_eq!((result.worst_error, result.worst_ratio, result.bound), (0.25, 0.5, 0.5));
            assert!(left.keeps_the_same(&kept), "{total} rows of {row_len} for {work}");
        }
    }

    #[test]
    fn the_first_wrong_element_is_named_and_runs_of_poison_cross_pieces() {
        let (total, row_len) = (4, PIECE);
        let expected = expected(total, row_len, 4, |_| f64::from(POISON));
        let output = Output { name: "out", storage: Storage::U32, poisoned: true, expected: &expected, before: 0 };
        let mut words = vec![POISON; (total * row_len) as usize];
        (words[7], words[3 * PIECE as usize]) = (3, 4);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut all = Comparison::new(expected.elements());
        all.add(&output, 0, &bytes);
        assert_eq!(all.take_suspects(), [0..7, 8..3 * PIECE, 3 * PIECE + 1..4 * PIECE]);
        assert_eq!(all.take_suspects(), []);
        let (result, _) = all.end();
        assert!(!result.passed);
        assert_eq!(result.mismatch.map(|m| (m.index, m.got)), Some((7, Some(3.0))));
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
            c.row(&line(0, storage, &bytes_of(storage, [got].into_iter())), &[want], 1.0, &tolerance);
            assert_eq!(c.end().0.passed, right, "{storage:?}: {got} for {want}");
        }
        for storage in [Storage::F32, Storage::F16, Storage::BF16] {
            let mut c = Comparison::default();
            let poison = POISON.to_le_bytes();
            c.row(&line(0, storage, &poison[..storage.bytes() as usize]), &[f64::NAN], 1.0, &tolerance);
            assert!(!c.end().0.passed, "{storage:?}: the poison is no NaN that anyone computed");
        }
    }

    #[test]
    fn a_check_that_compared_nothing_is_not_right() {
        let result = Comparison::default().end().0;
        assert!(!result.passed);
        assert_eq!(result.sentence(), "nothing was compared");
    }
}
