//! Division of rows among threads, for row-wise kernels in either dialect.
//!
//! `LANES` neighbouring threads of a workgroup of `THREADS` share a row. A workgroup processes several short rows. The threads
//! access the row in pieces of `WIDTH` neighbouring elements. `WIDTH` divides the row, so every piece is whole.

use parallax_schema::case::{Cost, DType};
use parallax_schema::device::{Caps, Dialect};

use super::{Stage, spread};

/// Matrix that is processed by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows2d {
    /// Number of rows.
    pub rows: u64,
    /// Elements of a row.
    pub columns: u64,
}

/// Division of its rows among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShare {
    of: Rows2d,
    /// Elements that a thread reads or writes at a time.
    pub width: u64,
    /// Threads per row, a power of two.
    pub lanes: u64,
    /// Pieces of a row per thread.
    pub pieces: u64,
    /// Threads of a workgroup, a power of two.
    pub threads: u64,
}

/// Threads of a workgroup, unless a row needs more.
const THREADS: u64 = 128;
/// Threads that reduce by shuffles in CUDA, without a barrier.
const WARP: u64 = 32;
/// Elements per thread of a longer row, if the device allows enough threads per row. `MOST_KEPT` is the limit otherwise.
const KEPT: u64 = 16;
const MOST_KEPT: u64 = 32;

/// Elements of a piece: the most within 16 bytes (WGSL: four elements) that divide `columns`. WGSL has kernel sources for one and
/// for four.
pub fn width(columns: u64, dtype: DType, caps: &Caps) -> u64 {
    let most = match (caps.dialect, dtype) {
        (Dialect::Cuda, DType::F16 | DType::BF16) => 8,
        _ => 4,
    };
    let width = (1 << columns.trailing_zeros().min(3)).min(most);
    if caps.dialect == Dialect::Wgsl && width < most { 1 } else { width }
}

impl RowShare {
    /// Returns a share of rows kept in registers. Single warps take up to `of_a_warp` elements per thread, more threads take
    /// longer rows.
    ///
    /// # Errors
    /// Reason why a workgroup cannot hold a row.
    pub fn kept(of: Rows2d, dtype: DType, caps: &Caps, of_a_warp: u64) -> Result<RowShare, String> {
        let width = width(of.columns, dtype, caps);
        let pieces = of.columns / width;
        let most_lanes = 1 << caps.max_invocations.min(caps.max_workgroup[0]).min(1024).ilog2();
        let short = of.columns <= WARP * of_a_warp;
        let lanes = match short {
            // Two loads in flight per thread are better than one.
            true => pieces.div_ceil(2).next_power_of_two().min(WARP),
            false => of.columns.div_ceil(KEPT).next_power_of_two().min(most_lanes),
        };
        let share = RowShare { of, width, lanes, pieces: pieces.div_ceil(lanes), threads: THREADS.max(lanes) };
        match short || share.pieces * width <= MOST_KEPT {
            true => Ok(share),
            false => Err(format!(
                "a row stays in registers: {} elements exceed {most_lanes} threads of {MOST_KEPT} each",
                of.columns
            )),
        }
    }

    /// Returns a share of rows of any length, each processed by a whole workgroup.
    pub fn streamed(of: Rows2d, dtype: DType, caps: &Caps) -> RowShare {
        let width = width(of.columns, dtype, caps);
        RowShare { of, width, lanes: 2 * THREADS, pieces: 1, threads: 2 * THREADS }
    }

    /// Returns the share with half as many threads per row, if there are `from` or more and they can hold it.
    pub fn in_fewer_threads(self, from: u64) -> RowShare {
        let (pieces, lanes) = (self.of.columns / self.width, self.lanes / 2);
        match self.lanes >= from && pieces.div_ceil(lanes) * self.width <= MOST_KEPT {
            true => RowShare { lanes, pieces: pieces.div_ceil(lanes), threads: THREADS.max(lanes), ..self },
            false => self,
        }
    }

    /// Returns a share of [`RowShare::streamed`] with another number of threads.
    pub fn by(self, lanes: u64) -> RowShare {
        RowShare { lanes, threads: lanes, ..self }
    }

    /// Rows of a workgroup at a time.
    pub fn at_once(&self) -> u64 {
        self.threads / self.lanes
    }

    /// Workgroup memory of WGSL's reductions over the threads of a row, in bytes.
    pub fn reduction_bytes(&self) -> u32 {
        4 * (self.threads + self.at_once() * self.lanes.min(16)) as u32
    }

    /// Returns a stage with the constants, threads and memory of this share. A workgroup processes `at_once` rows.
    pub fn stage(&self, text: &'static str, entry: &'static str) -> Stage {
        let consts = [
            ("ROWS", self.of.rows),
            ("COLUMNS", self.of.columns),
            ("WIDTH", self.width),
            ("LANES", self.lanes),
            ("PIECES", self.pieces),
            ("THREADS", self.threads),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([self.threads as u32, 1, 1])
            .grid(spread(self.of.rows.div_ceil(self.at_once())))
            .shared(self.reduction_bytes())
    }
}

/// Threads of a workgroup for work without rows.
const ELEMENT_THREADS: u64 = 256;

/// Returns a stage in which each thread computes one of `count` pieces.
pub fn by_pieces(count: u64, width: u64, text: &'static str, entry: &'static str) -> Stage {
    let consts = [("COUNT", count), ("WIDTH", width), ("THREADS", ELEMENT_THREADS)];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([ELEMENT_THREADS as u32, 1, 1])
        .grid(spread(count.div_ceil(ELEMENT_THREADS)))
}

/// Upper limit of partial sums, one per workgroup, over rows or over all pieces.
pub const MOST_PARTS: u64 = 1024;
/// Workgroups that process all pieces, per multiprocessor. `PARTS` is their total where the device's number is unknown.
const PARTS_PER_UNIT: u64 = 4;
const PARTS: u64 = 512;

/// Number of workgroups that loop over `count` items. Each leaves one partial sum.
pub fn parts_of(count: u64, caps: &Caps) -> u64 {
    let held = caps.compute_units.map_or(PARTS, |units| u64::from(units) * PARTS_PER_UNIT);
    held.min(MOST_PARTS).min(count)
}

/// Returns a stage whose workgroups loop over `count` pieces, and the number of workgroups. Each leaves one partial sum.
pub fn pieces_in_parts(count: u64, width: u64, caps: &Caps, text: &'static str, entry: &'static str) -> (Stage, u64) {
    let parts = parts_of(count.div_ceil(ELEMENT_THREADS), caps);
    let stage = by_pieces(count, width, text, entry)
        .consts(&[("PARTS", parts as u32), ("ROW_THREADS", ELEMENT_THREADS as u32)])
        .grid(spread(parts))
        .shared(4 * ELEMENT_THREADS as u32);
    (stage, parts)
}

/// Least number of partial sums per thread, if there are as many. It limits the threads per column. Otherwise, with many columns
/// of few parts, most threads would wait for each other.
const LEAST_PARTS: u64 = 4;

/// Returns the stage that adds `parts` partial sums, each a row of `columns` elements.
pub fn sum_of_parts(parts: u64, columns: u64, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
    let most = if caps.max_invocations >= 1024 { 32 } else { 8 };
    let down = (parts / LEAST_PARTS).next_power_of_two().min(most);
    let consts = [("PARTS", parts), ("PART_COLUMNS", columns), ("DOWN", down)];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([32, down as u32, 1])
        .grid(spread(columns.div_ceil(32)))
        .shared(32 * down as u32 * 4)
        .cost(Cost::new(parts * columns, parts * columns * 4, columns * 4))
}

impl RowShare {
    /// Number of workgroups that loop over all rows. Each leaves one partial sum over rows.
    pub fn parts(&self, caps: &Caps) -> u64 {
        parts_of(self.of.rows.div_ceil(self.at_once()), caps)
    }

    /// Returns the stage of these workgroups, which reduces `sums` sums over a row at a time.
    pub fn in_parts(&self, caps: &Caps, sums: u32, text: &'static str, entry: &'static str) -> Stage {
        let parts = self.parts(caps);
        // A sum over the rows of a workgroup stores one piece per thread in workgroup memory.
        let pieces = self.threads * self.width * 4;
        self.stage(text, entry)
            .consts(&[("PARTS", parts as u32)])
            .grid(spread(parts))
            .shared(sums * self.reduction_bytes() + pieces as u32)
    }

    /// Returns the stage that adds the partial sums, each of `sums` rows of the matrix's columns.
    pub fn sum_of_parts(&self, caps: &Caps, sums: u64, text: &'static str, entry: &'static str) -> Stage {
        sum_of_parts(self.parts(caps), sums * self.of.columns, caps, text, entry)
            .consts(&[("COLUMNS", self.of.columns as u32)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn pieces_divide_rows_and_threads_cover_them() {
        for caps in [caps(), hopper()] {
            for dtype in [DType::F32, DType::F16] {
                for columns in (1..300).chain([1000, 1009, 1152, 4096, 4100, 8192]) {
                    let of = Rows2d { rows: 7, columns };
                    let share = RowShare::kept(of, dtype, &caps, 40).expect("short enough");
                    assert!(columns.is_multiple_of(share.width), "{share:?}");
                    assert!(share.width * share.lanes * share.pieces >= columns, "{share:?}");
                    assert!(share.width * share.lanes * (share.pieces - 1) < columns, "{share:?}");
                    assert!(share.threads.is_multiple_of(share.lanes) && share.threads <= 256.max(share.lanes));
                }
            }
        }
    }

    #[test]
    fn fewer_threads_hold_the_same_rows() {
        for (dtype, columns, wanted) in
            [(DType::BF16, 8192, 256), (DType::F32, 16_384, 512), (DType::F32, 32_768, 1024)]
        {
            let share = RowShare::kept(Rows2d { rows: 7, columns }, dtype, &hopper(), 40).expect("short enough");
            let fewer = share.in_fewer_threads(512);
            assert_eq!((fewer.lanes, fewer.width * fewer.lanes * fewer.pieces), (wanted, columns), "{fewer:?}");
            assert_eq!(share.in_fewer_threads(2048), share);
        }
    }

    #[test]
    fn widths_are_those_that_texts_exist_for_and_long_rows_are_refused() {
        let wide = |columns, dtype, caps: &Caps| width(columns, dtype, caps);
        assert_eq!([1, 2, 6, 4, 8].map(|c| wide(c, DType::F16, &caps())), [1, 1, 1, 4, 4]);
        assert_eq!([1, 2, 6, 4, 8].map(|c| wide(c, DType::F16, &hopper())), [1, 2, 2, 4, 8]);
        assert_eq!([1, 2, 6, 4, 8].map(|c| wide(c, DType::F32, &hopper())), [1, 2, 2, 4, 4]);
        let long = |columns, caps: &Caps| RowShare::kept(Rows2d { rows: 1, columns }, DType::F32, caps, 40).is_err();
        assert!(!long(8192, &caps()) && long(8196, &caps()) && !long(32_768, &hopper()) && long(32_772, &hopper()));
    }
}
