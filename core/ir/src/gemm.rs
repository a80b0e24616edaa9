//! GEMM stages in either dialect: constants of their kernel sources, and number of workgroups.
//!
//! The kernel sources are `lib/product*`. The source that imports them defines the epilogue.

use parallax_schema::case::DType;
use parallax_schema::device::{Caps, Dialect};

use super::{CudaLaunch, Library, Stage, spread};

/// Batched GEMM `C = A·B`: A is `[m, k]`, B is `[k, n]`, C is `[m, n]`. C is row-major, and all matrices are dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gemm {
    /// Number of GEMMs, consecutive in memory.
    pub batch: u64,
    /// Number of groups of rows of A and C, each with a B of its own, consecutive in memory. The groups' extents are in device
    /// memory.
    pub groups: Option<u64>,
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// Layout of A and B.
    pub layout: Layout,
}

/// Layout of A and B: N is row-major; T is transposed (column-major, as its transpose would be row-major).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Both row-major.
    Nn,
    /// B transposed.
    Nt,
    /// A transposed.
    Tn,
}

/// Epilogue of a GEMM by a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryEpilogue {
    /// None.
    Plain,
    /// Adds a bias per column.
    Bias,
    /// Adds a bias per column and applies GELU, by the tanh formula.
    BiasGelu,
    /// Multiplies by a scale of A and one of B, whose elements are e4m3 codes.
    Scaled {
        /// Whether A has e5m2 codes.
        e5m2: bool,
    },
}

/// Tiles that a workgroup of a tiled GEMM stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Columns of A, and rows of B, per step; half as many for large tiles. Tiles are double-buffered.
    pub depth: u32,
    /// Least number of large tiles, in per cent of the multiprocessors. Tiles are then 128 elements wide, not 64.
    pub large_from: u32,
}

impl Tiles {
    /// Fastest values on an H200.
    pub const DEFAULT: Tiles = Tiles { depth: 16, large_from: 100 };
}

/// Thresholds for the tile of C of a workgroup on matrix units in WGSL. There are three tiles, see `lib/product_coopmat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixTiles {
    /// Least number of 128 × 256 tiles, in per cent of 128. Below it, tiles are 128 × 128.
    pub wide_from: u32,
    /// Upper bound, in per cent, for tiles of 192 × 192 instead of wide ones. It bounds the ratio of the results computed in
    /// whole waves, of 192 × 192 tiles over wide ones. A wave computes one tile on each multiprocessor. The counts include
    /// results beyond the edges of C and idle multiprocessors of the last wave.
    pub square_below: u32,
}

impl MatrixTiles {
    /// Fastest values on an H200.
    pub const DEFAULT: MatrixTiles = MatrixTiles { wide_from: 50, square_below: 80 };
}

/// Threads along N and along M of a workgroup in WGSL, then 4 × 4 register tiles of a thread along M and along N. One for large
/// tiles, one for small ones.
const LARGE: [u32; 4] = [16, 16, 2, 2];
const SMALL: [u32; 4] = [8, 16, 1, 2];

/// Multiprocessors of a large GPU, assumed where the device's number is unknown.
const UNITS: u64 = 128;
/// Multiprocessors of an H100 or H200, assumed where the number is unknown and one more or less matters.
pub(super) const WAVE: u64 = 132;

/// K from which WGSL kernels store results one by one. Stores of four elements take registers that hold long sums.
const LONG: u64 = 512;
/// Edge of the tile of C of a workgroup on matrix units, also of `mma`.
pub const MATRIX_TILE: u32 = 128;
/// Columns of A per stage on matrix units.
pub const MATRIX_DEPTH: u32 = 32;
/// Columns of A per stage of deep tiles: a line of the cache.
const MATRIX_DEPTH_OF_A: u32 = 64;
/// Elements of padding per staged row. They put neighbouring rows into different memory banks.
pub(super) const PADDING: u32 = 8;
/// Pipeline stages in shared memory: one in use, two in flight.
const STAGES: u32 = 3;
/// Bytes of the strip through which a subgroup's results pass in WGSL. It has 16 rows of f32. A row has the given number of
/// 16-element fragments and one vector of padding.
pub(super) const fn strip(squares: u32) -> u32 {
    16 * (16 * squares + 4) * 4
}
/// Rows, columns and threads of a tile in WGSL.
const NARROW: [u32; 3] = [128, 128, 256];
const WIDE: [u32; 3] = [128, 256, 256];
const SQUARE: [u32; 3] = [192, 192, 384];
/// Threads per tile in CUDA: four warps.
const MMA_THREADS: u32 = 128;

impl Gemm {
    /// Returns one GEMM of row-major matrices.
    pub fn new(m: u64, n: u64, k: u64) -> Gemm {
        Gemm { batch: 1, groups: None, m, n, k, layout: Layout::Nn }
    }

    /// Sets the number of GEMMs.
    pub fn batch(self, batch: u64) -> Gemm {
        Gemm { batch, ..self }
    }

    /// Sets the number of groups of rows.
    pub fn groups(self, groups: u64) -> Gemm {
        Gemm { groups: Some(groups), ..self }
    }

    /// Sets the layout of A and B.
    pub fn layout(self, layout: Layout) -> Gemm {
        Gemm { layout, ..self }
    }

    /// Number of operations, by the usual count.
    pub fn flops(&self) -> u64 {
        2 * self.batch * self.m * self.n * self.k
    }

    /// Number of elements of A, of B and of C.
    pub fn elements(&self) -> [u64; 3] {
        [(self.m, self.k), (self.groups.unwrap_or(1) * self.k, self.n), (self.m, self.n)]
            .map(|(rows, columns)| self.batch * rows * columns)
    }

    fn a_transposed(&self) -> bool {
        self.layout == Layout::Tn
    }

    fn b_transposed(&self) -> bool {
        self.layout == Layout::Nt
    }

    /// Largest number of tiles of this height along M. Each group begins with a new one.
    pub fn tiles_of_rows(&self, height: u64) -> u64 {
        self.m.div_ceil(height) + self.groups.map_or(0, |groups| groups - 1)
    }

    /// Number of tiles of C with this edge, over the batch.
    pub fn tiles(&self, edge: u64) -> u64 {
        self.batch * self.tiles_of_rows(edge) * self.n.div_ceil(edge)
    }

    /// Number of operands stored along K. They are transposed on their way to a tile whose vectors run along C.
    fn transposed_operands(&self) -> u32 {
        u32::from(!self.a_transposed()) + u32::from(self.b_transposed())
    }

    /// Returns a stage with the constants of all GEMM kernel sources.
    pub(super) fn stage(&self, text: &'static str, entry: &'static str) -> Stage {
        let Gemm { batch, m, n, k, .. } = *self;
        let extents = |transposed, (height, width)| if transposed { (width, height) } else { (height, width) };
        let (a, b) = (extents(self.a_transposed(), (m, k)), extents(self.b_transposed(), (k, n)));
        let sizes = [("A_HEIGHT", a.0), ("A_WIDTH", a.1), ("B_HEIGHT", b.0), ("B_WIDTH", b.1)];
        Stage::kernel(entry, text, entry)
            .consts(&[("BATCH", batch), ("M", m), ("N", n), ("K", k)].map(|(name, value)| (name, value as u32)))
            .consts(&sizes.map(|(name, value)| (name, value as u32)))
            .consts(&[("A_TRANSPOSED", self.a_transposed()), ("B_TRANSPOSED", self.b_transposed())])
    }

    /// Returns a stage in which each thread computes one element of C from device memory.
    pub fn naive(&self, text: &'static str, entry: &'static str) -> Stage {
        self.stage(text, entry).threads([16, 16, 1]).grid(spread(self.tiles(16)))
    }

    /// Returns a stage with tiles of A and B in workgroup memory.
    pub fn tiled(&self, caps: &Caps, tiles: Tiles) -> Stage {
        self.tiled_then(caps, tiles, "matmul/tiled", "matmul_tiled", false)
    }

    /// Returns a tiled stage whose kernel source has an epilogue. `much` marks an epilogue of much work.
    pub fn tiled_then(&self, caps: &Caps, tiles: Tiles, text: &'static str, entry: &'static str, much: bool) -> Stage {
        let large = self.is_large(caps, tiles);
        if caps.dialect == Dialect::Wgsl {
            let (share, depth) = if large { (LARGE, tiles.depth / 2) } else { (SMALL, tiles.depth) };
            return self.tiled_in_wgsl(caps, share, depth, text, entry).consts(&[("HEAVY_EPILOGUE", much)]);
        }
        // A thread computes 1 × 1 or 2 × 2 register tiles of 4 × 4. A transposed operand is padded by one vector per index of K.
        let squares = if large { 2 } else { 1 };
        let tile = 64 * squares;
        let row = 2 * tile + 4 * self.transposed_operands();
        self.stage(text, entry)
            .consts(&[("REG_TILES", squares), ("BLOCK_MN", tile), ("BLOCK_K", tiles.depth / squares)])
            .threads([16, 16, 1])
            .grid(spread(self.tiles(u64::from(tile))))
            .shared(2 * (tiles.depth / squares) * row * 4)
    }

    /// Whether tiles are large. They read less, but need enough of them to fill the device.
    fn is_large(&self, caps: &Caps, tiles: Tiles) -> bool {
        self.tiles(128) * 100 >= caps.compute_units.map_or(UNITS, u64::from) * u64::from(tiles.large_from)
    }

    /// Rows of a tile of the tiled stage.
    pub fn tiled_rows(&self, caps: &Caps, tiles: Tiles) -> u64 {
        if self.is_large(caps, tiles) { 128 } else { 64 }
    }

    /// Returns the tiled stage in WGSL: threads along N and M, then 4 × 4 register tiles of a thread along M and N.
    fn tiled_in_wgsl(
        &self,
        caps: &Caps,
        [across, down, tall, wide]: [u32; 4],
        depth: u32,
        text: &'static str,
        entry: &'static str,
    ) -> Stage {
        let (rows, columns) = (4 * down * tall, 4 * across * wide);
        // If memory allows: two buffers per tile, and one more vector per index of K for a transposed operand.
        let transposed = self.transposed_operands();
        let bytes = |(buffers, pad): (u32, u32)| 16 * buffers * depth * (rows / 4 + columns / 4 + pad * transposed);
        let fits = [(2, 1), (2, 0), (1, 1)].into_iter().find(|how| bytes(*how) <= caps.shared_bytes).unwrap_or((1, 0));
        let consts = [
            ("THREADS_N", across),
            ("THREADS_M", down),
            ("REG_TILES_M", tall),
            ("REG_TILES_N", wide),
            ("BLOCK_K", depth),
            ("STAGES", fits.0),
            ("PAD", fits.1),
        ];
        self.stage(text, entry)
            .consts(&consts)
            .consts(&[("VEC4_STORES", self.n.is_multiple_of(4) && self.k < LONG)])
            .threads([across, down, 1])
            .consts(&[("GROUPED", self.groups.is_some())])
            .grid(spread(self.batch * self.tiles_of_rows(u64::from(rows)) * self.n.div_ceil(u64::from(columns))))
            .shared(bytes(fits))
    }

    /// Elements of a staged tile of A (rows along K) or of B, in its layout.
    fn staged(along_depth: bool) -> u32 {
        Gemm::staged_of(MATRIX_TILE, along_depth)
    }

    /// Elements of a staged tile of another extent.
    pub(super) fn staged_of(extent: u32, along_depth: bool) -> u32 {
        match along_depth {
            true => extent * (MATRIX_DEPTH + PADDING),
            false => MATRIX_DEPTH * (extent + PADDING),
        }
    }

    /// Returns a stage on CUDA's tensor cores by warp-wide instructions. See [`Gemm::mma_available`].
    pub fn mma(&self, text: &'static str, entry: &'static str) -> Stage {
        let staged = Gemm::staged(!self.a_transposed()) + Gemm::staged(self.b_transposed());
        self.stage(text, entry)
            .consts(&[("BLOCK_MN", MATRIX_TILE), ("BLOCK_K", MATRIX_DEPTH), ("PADDING", PADDING)])
            .consts(&[("STAGES", STAGES), ("THREADS", MMA_THREADS)])
            .threads([MMA_THREADS, 1, 1])
            .grid(spread(self.tiles(u64::from(MATRIX_TILE))))
            .cuda(CudaLaunch { dynamic_shared_bytes: STAGES * staged * 2, ..CudaLaunch::default() })
    }

    /// Checks whether a device can multiply elements of this type by `mma`.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn mma_available(dtype: DType, caps: &Caps) -> Result<(), String> {
        match (dtype, caps.compute_capability) {
            (DType::F32, _) => Err("mma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned()),
            (_, Some((major, _))) if major >= 8 => Ok(()),
            (_, found) => Err(format!("mma needs compute capability 8.0, not {found:?}")),
        }
    }

    /// Returns a stage on WGSL's cooperative matrices, for every layout. The kernel source defines the epilogue.
    pub fn coopmat(&self, caps: &Caps, tiles: MatrixTiles, text: &'static str) -> Stage {
        let widths =
            [if self.a_transposed() { self.m } else { self.k }, if self.b_transposed() { self.k } else { self.n }];
        let packed = widths.iter().chain([&self.n]).all(|width| width.is_multiple_of(8));
        let tile = self.matrix_tile(caps, tiles);
        let [down, across, threads] = tile;
        let deep = self.is_deep(caps, tile);
        let whole = packed
            && self.m.is_multiple_of(u64::from(down))
            && self.n.is_multiple_of(u64::from(across))
            && self.k.is_multiple_of(u64::from(if deep { MATRIX_DEPTH_OF_A } else { MATRIX_DEPTH }));
        self.stage(text, "product_coopmat")
            .consts(&[("BLOCK_M", down), ("BLOCK_N", across), ("BLOCK_K", MATRIX_DEPTH), ("THREADS", threads)])
            .consts(&[
                ("WARP_M", if tile == NARROW { 32 } else { 64 }),
                ("WARP_N", if tile == SQUARE { 48 } else { 64 }),
            ])
            .consts(&[("PACKED", packed), ("WHOLE", whole), ("DEEP", deep), ("NARROW_STRIP", deep || tile == SQUARE)])
            .threads([threads, 1, 1])
            .grid(spread(self.matrix_tiles(tile)))
            .shared(if deep { self.deep_bytes() } else { self.matrix_bytes(tile) })
    }

    fn matrix_tiles(&self, [down, across, _]: [u32; 3]) -> u64 {
        self.batch * self.m.div_ceil(u64::from(down)) * self.n.div_ceil(u64::from(across))
    }

    /// Bytes of workgroup memory: staged tiles, and one strip per subgroup.
    fn matrix_bytes(&self, tile: [u32; 3]) -> u32 {
        let [down, across, threads] = tile;
        let staged = Gemm::staged_of(down, !self.a_transposed()) + Gemm::staged_of(across, self.b_transposed());
        staged * 2 + threads / 32 * strip(if tile == SQUARE { 1 } else { 2 })
    }

    /// Bytes of workgroup memory with deep tiles of A.
    fn deep_bytes(&self) -> u32 {
        let [down, across, threads] = WIDE;
        let staged = down * (MATRIX_DEPTH_OF_A + PADDING) + Gemm::staged_of(across, false);
        staged * 2 + threads / 32 * strip(1)
    }

    /// Whether tiles of A are deep: those of untransposed matrices, if wide tiles have more than one step.
    fn is_deep(&self, caps: &Caps, tile: [u32; 3]) -> bool {
        let fits = self.deep_bytes() <= caps.shared_bytes;
        tile == WIDE && self.layout == Layout::Nn && self.k > u64::from(MATRIX_DEPTH_OF_A) && fits
    }

    fn matrix_tile(&self, caps: &Caps, tiles: MatrixTiles) -> [u32; 3] {
        if self.matrix_tiles(WIDE) * 100 < UNITS * u64::from(tiles.wide_from) {
            return NARROW;
        }
        let wave = caps.compute_units.map_or(WAVE, u64::from);
        let waves = |tile: [u32; 3]| self.matrix_tiles(tile).div_ceil(wave) * u64::from(tile[0] * tile[1]);
        let fits = SQUARE[2] <= caps.max_invocations && self.matrix_bytes(SQUARE) <= caps.shared_bytes;
        let square = fits && waves(SQUARE) * 100 < waves(WIDE) * u64::from(tiles.square_below);
        if square { SQUARE } else { WIDE }
    }

    /// Checks whether a device can multiply elements of this type by cooperative matrices.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn coopmat_available(dtype: DType, caps: &Caps) -> Result<(), String> {
        match (dtype, caps.coop_matrix(), caps.subgroup) {
            (DType::F32 | DType::BF16, ..) => Err("coopmat multiplies f16 matrices only".to_owned()),
            (_, false, _) => {
                Err("this device offers no cooperative matrices of 16×16 f16 (in a page, Chromium has them \
                                  behind flags: --features unsafe)"
                    .to_owned())
            }
            (_, _, Some((32, 32))) => Ok(()),
            (_, _, found) => Err(format!("coopmat deals tiles out to subgroups of 32, this device has {found:?}")),
        }
    }

    /// Returns a stage of the vendor's library.
    pub fn library(self, label: &'static str, epilogue: LibraryEpilogue) -> Stage {
        Stage::library(label, Library::Gemm(self, epilogue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use parallax_schema::testing::caps;

    #[test]
    fn what_is_stored_the_other_way_round_has_its_extents_swapped() {
        let gemm = Gemm::new(2, 3, 5).batch(7);
        assert_eq!((gemm.flops(), gemm.elements()), (2 * 7 * 30, [70, 105, 42]));
        for (order, want) in [(Layout::Nn, [2, 5, 5, 3]), (Layout::Nt, [2, 5, 3, 5]), (Layout::Tn, [5, 2, 5, 3])] {
            let stage = gemm.layout(order).tiled(&caps(), Tiles::DEFAULT);
            let kernel = stage.kernel_launch().expect("a kernel");
            let of = |wanted| kernel.consts.iter().find(|(name, _)| *name == wanted).expect("given").1;
            let found = ["A_HEIGHT", "A_WIDTH", "B_HEIGHT", "B_WIDTH"].map(of);
            assert_eq!(found, want.map(Value::U32), "{order:?}");
        }
    }

    #[test]
    fn tiles_on_matrix_units_are_those_that_leave_least_of_the_last_turn() {
        let large = Caps { max_invocations: 1024, shared_bytes: 48 << 10, ..caps() };
        let tile = |[m, n, k]: [u64; 3]| Gemm::new(m, n, k).matrix_tile(&large, MatrixTiles::DEFAULT);
        // 160 wide tiles need a second wave for 28 of them; 132 tiles of 192 × 192 need one wave.
        assert_eq!(tile([4096, 1152, 4304]), SQUARE);
        assert_eq!(tile([4096, 4304, 1152]), WIDE, "four waves against five are not worth it");
        assert_eq!(tile([4096, 4096, 4096]), WIDE, "four of either");
        assert_eq!(tile([512, 512, 4096]), NARROW);
        assert_eq!(Gemm::new(4096, 1152, 4304).matrix_tile(&caps(), MatrixTiles::DEFAULT), WIDE);
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn] {
            let gemm = Gemm { layout, ..Gemm::new(4096, 1152, 4304) };
            let bytes = [NARROW, WIDE, SQUARE].map(|tile| gemm.matrix_bytes(tile));
            assert!(bytes.iter().all(|bytes| *bytes <= 48 << 10), "{layout:?}: {bytes:?}");
            assert!(gemm.deep_bytes() <= 48 << 10);
            assert_eq!(gemm.is_deep(&large, WIDE), layout == Layout::Nn);
        }
    }
}
