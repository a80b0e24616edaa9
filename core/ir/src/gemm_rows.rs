//! GEMM stages for few rows of A, which are bound by the memory of B. The kernel sources are `lib/product_rows` and
//! `lib/product_rows_mma`.
//!
//! Each workgroup computes the columns of a tile over the whole depth. Its threads share the depth, and add their sums in workgroup
//! memory.

use parallax_schema::case::DType;
use parallax_schema::device::{Caps, Dialect};

use super::{Gemm, Layout, Stage, spread, width};

/// Largest number of rows of A.
const MOST_ROWS: u64 = 16;
/// Largest number of rows of A per workgroup. A second tile of rows reads B from the cache.
const TILE_ROWS: u64 = 8;
/// Sums per thread in CUDA.
const SUMS: u64 = 32;
/// Columns of a team of warps in CUDA, if B is transposed.
const COLUMNS: u64 = 4;
/// Lanes of a warp, and warps of a block.
const LANES: u64 = 32;
const WARPS: u64 = 8;
/// Bytes of neighbouring columns that the threads of a tile read together: two sectors of the cache.
const SEGMENT: u64 = 64;
/// Warps of a multiprocessor whose loads keep its memory busy.
const BUSY: u64 = 32;
/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;
/// Threads of a workgroup in WGSL, and the number of them that share the depth of four columns.
const WGSL_THREADS: u64 = 128;
/// Columns of a tile of `mma`, if B is transposed and if it is not.
const MMA_COLUMNS: [u64; 2] = [16, 32];

/// Bytes of an element.
fn bytes(dtype: DType) -> u64 {
    if dtype == DType::F32 { 4 } else { 2 }
}

/// Number of warps, up to those of a block, that share the depth of a tile. `steps` is the number of a warp's steps without such
/// a share. Each warp has two steps at least.
fn warps_of_tile(caps: &Caps, tiles: u64, steps: u64) -> u64 {
    let wanted = BUSY * caps.compute_units.map_or(UNITS, u64::from);
    let mut warps = 1;
    while warps < WARPS && warps * tiles < wanted && warps * 4 <= steps {
        warps *= 2;
    }
    warps
}

impl Gemm {
    /// Checks whether a GEMM has few rows in a layout of [`Gemm::rows`].
    ///
    /// # Errors
    /// Reason why it has not.
    pub fn rows_available(&self) -> Result<(), String> {
        match (self.layout, self.m) {
            (Layout::Tn, _) => Err("rows reads A by rows: it takes no transposed A".to_owned()),
            (_, m) if m > MOST_ROWS => Err(format!("rows computes up to {MOST_ROWS} rows, not {m}")),
            _ => Ok(()),
        }
    }

    /// Number of tiles of results of `rows` × `columns`.
    fn tiles_of(&self, rows: u64, columns: u64) -> u64 {
        self.batch * self.m.div_ceil(rows) * self.n.div_ceil(columns)
    }

    /// Returns a stage for few rows of A. See [`Gemm::rows_available`].
    pub fn rows(&self, dtype: DType, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
        let rows = self.m.next_power_of_two().min(TILE_ROWS);
        let stage = self.stage(text, entry).consts(&[("ROWS", rows as u32)]);
        match (caps.dialect, self.layout) {
            (Dialect::Wgsl, _) => self.rows_in_wgsl(stage, rows, dtype, caps),
            (_, Layout::Nt) => {
                let width = width(self.k, dtype, caps);
                let warps = warps_of_tile(caps, self.tiles_of(rows, COLUMNS), (self.k / width).div_ceil(LANES));
                stage
                    .consts(&[("WIDTH", width as u32), ("COLUMNS", COLUMNS as u32), ("SPLIT", warps as u32)])
                    .threads([(WARPS * LANES) as u32, 1, 1])
                    .grid(spread(self.tiles_of(rows, WARPS / warps * COLUMNS)))
                    .shared((WARPS * rows * COLUMNS * 4) as u32)
            }
            _ => {
                let width = width(self.n, dtype, caps).min(SUMS / rows);
                let across = (SEGMENT / bytes(dtype) / width).min(LANES);
                let unroll = (SEGMENT / bytes(dtype) / width).min(8);
                let columns = across * width;
                stage
                    .consts(&[("WIDTH", width as u32), ("ACROSS", across as u32), ("UNROLL", unroll as u32)])
                    .threads([(WARPS * LANES) as u32, 1, 1])
                    .grid(spread(self.tiles_of(rows, columns)))
                    .shared((WARPS * rows * columns * 4) as u32)
            }
        }
    }

    /// Constants and launch of the stage in WGSL: `LANES` threads share the depth of four columns.
    fn rows_in_wgsl(&self, stage: Stage, rows: u64, dtype: DType, caps: &Caps) -> Stage {
        // Vectors of four elements that a thread reads at a time from a row of transposed B: 16 bytes.
        let vectors = 4 / bytes(dtype);
        let steps = self.k.div_ceil(4 * vectors * LANES);
        // Neighbouring threads read neighbouring elements along K, or a segment of the cache along N.
        let lanes = match self.layout {
            Layout::Nt => LANES * warps_of_tile(caps, self.tiles_of(rows, 4), steps).min(4),
            _ => WGSL_THREADS / (SEGMENT / bytes(dtype) / 4),
        };
        let columns = 4 * WGSL_THREADS / lanes;
        // Threads that add the parts of a result.
        let shares = (WGSL_THREADS / (columns * rows)).max(1);
        stage
            .consts(&[("VECTORS", vectors as u32), ("LANES", lanes as u32), ("SHARES", shares as u32)])
            .threads([WGSL_THREADS as u32, 1, 1])
            .grid(spread(self.tiles_of(rows, columns)))
            .shared((4 * WGSL_THREADS * rows * 4) as u32)
    }

    /// Checks whether a device can compute few rows of these elements by [`Gemm::rows_mma`].
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn rows_mma_available(&self, dtype: DType, caps: &Caps) -> Result<(), String> {
        Gemm::mma_available(dtype, caps)?;
        self.rows_available()?;
        let whole = |name: &str, extent: u64, each: u64| match extent.is_multiple_of(each) {
            true => Ok(()),
            false => {
                Err(format!("a lane reads {each} elements at a time: {name} of {extent} is not a multiple of {each}"))
            }
        };
        match self.layout {
            Layout::Nt => whole("a depth", self.k, 8),
            _ => whole("a depth", self.k, 4).and_then(|()| whole("a row", self.n, 4)),
        }
    }

    /// Returns a stage for few rows of A on CUDA's tensor cores. See [`Gemm::rows_mma_available`].
    pub fn rows_mma(&self, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
        // Elements along K of a step.
        let (columns, step) = match self.layout {
            Layout::Nt => (MMA_COLUMNS[0], 64),
            _ => (MMA_COLUMNS[1], 32),
        };
        let rows = self.m.div_ceil(8) * 8;
        let warps = warps_of_tile(caps, self.tiles_of(rows, columns), self.k.div_ceil(step));
        let block_columns = WARPS / warps * columns;
        self.stage(text, entry)
            .consts(&[("TILES", (rows / 8) as u32), ("SPLIT", warps as u32)])
            .threads([(WARPS * LANES) as u32, 1, 1])
            .grid(spread(self.tiles_of(rows, block_columns)))
            .shared((WARPS * columns * rows * 4) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::device::typical;

    fn number(stage: &Stage, name: &str) -> u32 {
        let consts = &stage.kernel_launch().expect("a kernel").consts;
        match consts.iter().find(|(known, _)| *known == name) {
            Some((_, Value::U32(number))) => *number,
            found => panic!("{name}: {found:?}"),
        }
    }

    fn nt(m: u64, n: u64, k: u64) -> Gemm {
        Gemm::new(m, n, k).layout(Layout::Nt)
    }

    #[test]
    fn few_columns_share_the_depth_among_warps() {
        let caps = Caps { compute_units: Some(132), ..typical::cuda() };
        let of = |gemm: Gemm| number(&gemm.rows(DType::F16, &caps, "matmul/rows", "matmul_rows"), "SPLIT");
        assert_eq!(of(nt(1, 4096, 4096)), 8);
        assert_eq!(of(nt(1, 14336, 4096)), 2);
        assert_eq!(of(nt(1, 28672, 8192)), 1);
        assert_eq!(of(nt(1, 4096, 1024)), 2, "two steps of each warp");
        let of = |gemm: Gemm| number(&gemm.rows_mma(&caps, "matmul/rows_mma", "matmul_rows_mma"), "SPLIT");
        assert_eq!([of(nt(8, 14336, 4096)), of(nt(8, 128_256, 4096)), of(nt(1, 8, 64))], [8, 1, 1]);
    }

    #[test]
    fn sums_fit_registers_and_tiles_fit_the_block() {
        let caps = typical::cuda();
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (m, n) in (1..=MOST_ROWS).flat_map(|m| [1, 2, 4, 8, 4096].map(|n| (m, n))) {
                let stage = Gemm::new(m, n, 64).rows(dtype, &caps, "matmul/rows", "matmul_rows");
                let [rows, width, across, unroll] =
                    ["ROWS", "WIDTH", "ACROSS", "UNROLL"].map(|name| number(&stage, name));
                assert!(u64::from(rows * width) <= SUMS, "{m} × {n}");
                assert!(rows * across * width <= 256 && across <= 32 && unroll <= 8, "{m} × {n}");
                assert!(n.is_multiple_of(u64::from(width)), "{m} × {n}: whole vectors");
            }
        }
    }

    #[test]
    fn all_results_have_a_workgroup() {
        for caps in [typical::cuda(), typical::native()] {
            for (m, n, layout) in [(16, 100, Layout::Nt), (9, 33, Layout::Nn), (1, 1, Layout::Nt)] {
                let gemm = Gemm::new(m, n, 264).layout(layout).batch(3);
                let stage = gemm.rows(DType::F32, &caps, "matmul/rows", "matmul_rows");
                let columns = match (caps.dialect, layout) {
                    (Dialect::Wgsl, _) => 512 / number(&stage, "LANES"),
                    (_, Layout::Nt) => 8 / number(&stage, "SPLIT") * number(&stage, "COLUMNS"),
                    _ => number(&stage, "ACROSS") * number(&stage, "WIDTH"),
                };
                let tiles = 3 * m.div_ceil(u64::from(number(&stage, "ROWS"))) * n.div_ceil(u64::from(columns));
                let grid = stage.kernel_launch().expect("a kernel").grid;
                assert!(grid.iter().map(|side| u64::from(*side)).product::<u64>() >= tiles, "{m} × {n}");
            }
        }
    }

    #[test]
    fn other_shapes_have_a_reason() {
        let caps = typical::cuda();
        let rows = |m, layout| Gemm::new(m, 8, 8).layout(layout).rows_available();
        assert_eq!(rows(16, Layout::Nn), Ok(()));
        assert!(rows(17, Layout::Nt).is_err_and(|why| why.contains("not 17")));
        assert!(rows(1, Layout::Tn).is_err_and(|why| why.contains("transposed A")));
        let mma = |gemm: Gemm, dtype| gemm.rows_mma_available(dtype, &caps);
        assert_eq!(mma(nt(1, 3, 8), DType::BF16), Ok(()));
        assert_eq!(mma(Gemm::new(1, 4, 4), DType::F16), Ok(()));
        assert!(mma(nt(1, 3, 12), DType::F16).is_err_and(|why| why.contains("a depth of 12")));
        assert!(mma(Gemm::new(1, 6, 4), DType::F16).is_err_and(|why| why.contains("a row of 6")));
        assert!(mma(nt(1, 8, 8), DType::F32).is_err_and(|why| why.contains("TF32")));
        assert!(mma(nt(17, 8, 8), DType::F16).is_err_and(|why| why.contains("not 17")));
    }
}
