//! Products of matrices as stages, in either dialect: what their texts are told, in how many workgroups they run.
//!
//! The texts are `lib/product*`; what becomes of a sum before it is stored is the business of the text that imports them.

use super::{Caps, CudaLaunch, DType, Dialect, Library, Stage, spread};

/// `C = A·B` for each of a batch: A is `[m, k]`, B is `[k, n]`, C is `[m, n]`. C is stored row by row, all of them densely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// How many products, one behind the other in memory.
    pub batch: u64,
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// How A and B are stored.
    pub stored: Stored,
}

/// How A and B are stored: N row by row, T column by column, as its transpose would be row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Both row by row.
    Nn,
    /// B column by column.
    Nt,
    /// A column by column.
    Tn,
}

/// What a library does to a product before it stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Nothing.
    Plain,
    /// Adds a number for each column.
    Bias,
    /// Adds a number for each column and takes GELU of the sum, by the tanh formula.
    BiasGelu,
}

/// The tiles that a workgroup of a tiled product stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Columns of A, and rows of B, at a time; half as many in large tiles. There are two places for a tile.
    pub depth: u32,
    /// Tiles are 128 elements wide, not 64, where there are so many of them, in per cent of the multiprocessors.
    pub large_from: u32,
}

impl Tiles {
    /// What does best on an H200.
    pub const DEFAULT: Tiles = Tiles { depth: 16, large_from: 100 };
}

/// The tiles of C that a workgroup on matrix units computes in WGSL. There are three, see `lib/product_coopmat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixTiles {
    /// Tiles are 128 × 256, not 128 × 128, where there are so many of them, in per cent of 128.
    pub wide_from: u32,
    /// Instead of wide ones tiles are 192 × 192 where a device that computes all tiles in turns, one on each multiprocessor, then computes
    /// less than so many per cent of the results in its turns, those beyond the edges of C and those left out in the last turn included.
    pub square_below: u32,
}

impl MatrixTiles {
    /// What does best on an H200.
    pub const DEFAULT: MatrixTiles = MatrixTiles { wide_from: 50, square_below: 80 };
}

/// Threads across and down of a workgroup in WGSL, and the squares that each has below and beside each other: for large tiles and
/// for small ones.
const LARGE: [u32; 4] = [16, 16, 2, 2];
const SMALL: [u32; 4] = [8, 16, 1, 2];

/// Multiprocessors of a large GPU, where their number is not known.
const UNITS: u64 = 128;
/// The same where it matters whether there is one more: those of an H100 or H200.
const TURN: u64 = 132;

/// Products that go so deep store their sums one by one in WGSL: to store four at once takes registers in which long sums are kept.
const LONG: u64 = 512;
/// Edges of the tile of C that a workgroup on matrix units computes, and columns of A staged at a time.
pub(crate) const MATRIX_TILE: u32 = 128;
pub(crate) const MATRIX_DEPTH: u32 = 32;
/// Elements that pad a staged row, so that neighbouring rows start in different memory banks.
const PADDING: u32 = 8;
/// Steps in shared memory: one in use, two on their way.
const STEPS: u32 = 3;
/// Bytes of the strip through which a subgroup's results pass in WGSL: 16 rows of so many squares of f32, padded by a vector.
const fn strip(squares: u32) -> u32 {
    16 * (16 * squares + 4) * 4
}
/// Rows, columns and threads of a tile in WGSL.
const NARROW: [u32; 3] = [128, 128, 256];
const WIDE: [u32; 3] = [128, 256, 256];
const SQUARE: [u32; 3] = [192, 192, 384];
/// Threads that share a tile in CUDA: four warps.
const MMA_THREADS: u32 = 128;

impl Product {
    /// One product of matrices that are stored row by row.
    pub fn new(m: u64, n: u64, k: u64) -> Product {
        Product { batch: 1, m, n, k, stored: Stored::Nn }
    }

    /// So many of them.
    pub fn batch(self, batch: u64) -> Product {
        Product { batch, ..self }
    }

    /// With A and B stored in this way.
    pub fn stored(self, stored: Stored) -> Product {
        Product { stored, ..self }
    }

    /// Operations, as everybody counts them.
    pub fn flops(&self) -> u64 {
        2 * self.batch * self.m * self.n * self.k
    }

    /// Elements of A, of B and of C.
    pub fn elements(&self) -> [u64; 3] {
        [(self.m, self.k), (self.k, self.n), (self.m, self.n)].map(|(rows, columns)| self.batch * rows * columns)
    }

    fn a_by_column(&self) -> bool {
        self.stored == Stored::Tn
    }

    fn b_by_column(&self) -> bool {
        self.stored == Stored::Nt
    }

    /// Square tiles of all results.
    pub fn tiles(&self, edge: u64) -> u64 {
        self.batch * self.m.div_ceil(edge) * self.n.div_ceil(edge)
    }

    /// How many of A and B are stored along the depth, and turned on their way to a tile whose vectors go along C.
    fn turned(&self) -> u32 {
        u32::from(!self.a_by_column()) + u32::from(self.b_by_column())
    }

    /// A stage with the constants that all texts of products are given.
    fn stage(&self, text: &'static str, entry: &'static str) -> Stage {
        let Product { batch, m, n, k, .. } = *self;
        let turned = |turned, (height, width)| if turned { (width, height) } else { (height, width) };
        let (a, b) = (turned(self.a_by_column(), (m, k)), turned(self.b_by_column(), (k, n)));
        let sizes = [("A_HEIGHT", a.0), ("A_WIDTH", a.1), ("B_HEIGHT", b.0), ("B_WIDTH", b.1)];
        Stage::kernel(entry, text, entry)
            .consts(&[("BATCH", batch), ("M", m), ("N", n), ("K", k)].map(|(name, value)| (name, value as u32)))
            .consts(&sizes.map(|(name, value)| (name, value as u32)))
            .consts(&[("A_BY_COLUMN", self.a_by_column()), ("B_BY_COLUMN", self.b_by_column())])
    }

    /// One element of C a thread, straight from device memory.
    pub fn naive(&self, text: &'static str, entry: &'static str) -> Stage {
        self.stage(text, entry).threads([16, 16, 1]).grid(spread(self.tiles(16)))
    }

    /// Tiles of A and B in workgroup memory.
    pub fn tiled(&self, caps: &Caps, tiles: Tiles) -> Stage {
        self.tiled_then(caps, tiles, "matmul/tiled", "matmul_tiled", false)
    }

    /// The same with a text that does something to each sum, or much.
    pub fn tiled_then(&self, caps: &Caps, tiles: Tiles, text: &'static str, entry: &'static str, much: bool) -> Stage {
        // Large tiles read less, but must be enough for the device.
        let large = self.tiles(128) * 100 >= caps.units.map_or(UNITS, u64::from) * u64::from(tiles.large_from);
        if caps.dialect == Dialect::Wgsl {
            let (share, depth) = if large { (LARGE, tiles.depth / 2) } else { (SMALL, tiles.depth) };
            return self.tiled_in_wgsl(caps, share, depth, text, entry).consts(&[("MUCH", much)]);
        }
        // A thread computes one or two by two squares of 4 × 4. What is turned on its way to a tile is padded by a vector a depth.
        let squares = if large { 2 } else { 1 };
        let tile = 64 * squares;
        let row = 2 * tile + 4 * self.turned();
        self.stage(text, entry)
            .consts(&[("SQUARES", squares), ("TILE", tile), ("DEPTH", tiles.depth)])
            .threads([16, 16, 1])
            .grid(spread(self.tiles(u64::from(tile))))
            .shared(2 * (tiles.depth / squares) * row * 4)
    }

    /// The same in WGSL, where so many threads across and down have so many squares of 4 × 4 below and beside each other.
    fn tiled_in_wgsl(
        &self,
        caps: &Caps,
        [across, down, tall, wide]: [u32; 4],
        depth: u32,
        text: &'static str,
        entry: &'static str,
    ) -> Stage {
        let (rows, columns) = (4 * down * tall, 4 * across * wide);
        // Where there is room, two places for each tile, and a vector more a depth for what is turned on its way there.
        let turned = self.turned();
        let bytes = |(buffers, pad): (u32, u32)| 16 * buffers * depth * (rows / 4 + columns / 4 + pad * turned);
        let fits = [(2, 1), (2, 0), (1, 1)].into_iter().find(|how| bytes(*how) <= caps.shared_bytes).unwrap_or((1, 0));
        let consts = [
            ("ACROSS", across),
            ("DOWN", down),
            ("TALL", tall),
            ("WIDE", wide),
            ("DEPTH", depth),
            ("BUFFERS", fits.0),
            ("PAD", fits.1),
        ];
        self.stage(text, entry)
            .consts(&consts)
            .consts(&[("FOURS", self.n.is_multiple_of(4) && self.k < LONG)])
            .threads([across, down, 1])
            .grid(spread(self.batch * self.m.div_ceil(u64::from(rows)) * self.n.div_ceil(u64::from(columns))))
            .shared(bytes(fits))
    }

    /// On matrix units, by tiles in workgroup memory: what CUDA's texts and WGSL's have in common.
    fn on_matrix_units(&self, threads: u32, text: &'static str, entry: &'static str) -> Stage {
        self.stage(text, entry)
            .consts(&[("TILE", MATRIX_TILE), ("DEPTH", MATRIX_DEPTH), ("PADDING", PADDING)])
            .threads([threads, 1, 1])
            .grid(spread(self.tiles(u64::from(MATRIX_TILE))))
    }

    /// Elements of a staged tile of A (whose rows go along the depth) or of B, as they are stored.
    fn staged(along_depth: bool) -> u32 {
        Product::staged_of(MATRIX_TILE, along_depth)
    }

    /// The same of a tile of another extent.
    fn staged_of(extent: u32, along_depth: bool) -> u32 {
        match along_depth {
            true => extent * (MATRIX_DEPTH + PADDING),
            false => MATRIX_DEPTH * (extent + PADDING),
        }
    }

    /// On CUDA's tensor cores by warp-wide instructions: see [`Product::mma_available`].
    pub fn mma(&self, text: &'static str, entry: &'static str) -> Stage {
        let staged = Product::staged(!self.a_by_column()) + Product::staged(self.b_by_column());
        self.on_matrix_units(MMA_THREADS, text, entry)
            .consts(&[("STEPS", STEPS), ("THREADS", MMA_THREADS)])
            .cuda(CudaLaunch { dynamic_shared_bytes: STEPS * staged * 2, ..CudaLaunch::default() })
    }

    /// Why a device cannot multiply elements of this type by `mma`, if so.
    ///
    /// # Errors
    /// With the reason.
    pub fn mma_available(dtype: DType, caps: &Caps) -> Result<(), String> {
        match (dtype, caps.compute_capability) {
            (DType::F32, _) => Err("mma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned()),
            (_, Some((major, _))) if major >= 8 => Ok(()),
            (_, found) => Err(format!("mma needs compute capability 8.0, not {found:?}")),
        }
    }

    /// Through WGSL's cooperative matrices, in a text that gathers what it multiplies. Results lie in rows of so many.
    pub fn coopmat_gathering(&self, results: u64, text: &'static str, entry: &'static str) -> Stage {
        let packed = results.is_multiple_of(8);
        let staged = Product::staged(!self.a_by_column()) + Product::staged(self.b_by_column());
        self.on_matrix_units(4 * 32, text, entry)
            .consts(&[("PACKED", packed), ("WHOLE", packed && self.in_whole_tiles())])
            .shared(staged * 2 + 4 * strip(2))
    }

    /// Whether no tile on matrix units has an edge within.
    fn in_whole_tiles(&self) -> bool {
        let edge = u64::from(MATRIX_TILE);
        self.m.is_multiple_of(edge) && self.n.is_multiple_of(edge) && self.k.is_multiple_of(u64::from(MATRIX_DEPTH))
    }

    /// Through WGSL's cooperative matrices: every way of storing. The text says what becomes of sums.
    pub fn coopmat(&self, caps: &Caps, tiles: MatrixTiles, text: &'static str) -> Stage {
        let widths =
            [if self.a_by_column() { self.m } else { self.k }, if self.b_by_column() { self.k } else { self.n }];
        let packed = widths.iter().chain([&self.n]).all(|width| width.is_multiple_of(8));
        let tile = self.matrix_tile(caps, tiles);
        let [down, across, threads] = tile;
        let whole = packed
            && self.m.is_multiple_of(u64::from(down))
            && self.n.is_multiple_of(u64::from(across))
            && self.k.is_multiple_of(u64::from(MATRIX_DEPTH));
        self.stage(text, "product_coopmat")
            .consts(&[("DOWN", down), ("ACROSS", across), ("DEPTH", MATRIX_DEPTH), ("THREADS", threads)])
            .consts(&[("TALL", tile != NARROW), ("WIDE", tile == WIDE), ("THREE", tile == SQUARE)])
            .consts(&[("PACKED", packed), ("WHOLE", whole)])
            .threads([threads, 1, 1])
            .grid(spread(self.matrix_tiles(tile)))
            .shared(self.matrix_bytes(tile))
    }

    fn matrix_tiles(&self, [down, across, _]: [u32; 3]) -> u64 {
        self.batch * self.m.div_ceil(u64::from(down)) * self.n.div_ceil(u64::from(across))
    }

    /// Bytes of workgroup memory: staged tiles, and a strip for each subgroup.
    fn matrix_bytes(&self, tile: [u32; 3]) -> u32 {
        let [down, across, threads] = tile;
        let staged = Product::staged_of(down, !self.a_by_column()) + Product::staged_of(across, self.b_by_column());
        staged * 2 + threads / 32 * strip(if tile == SQUARE { 1 } else { 2 })
    }

    fn matrix_tile(&self, caps: &Caps, tiles: MatrixTiles) -> [u32; 3] {
        if self.matrix_tiles(WIDE) * 100 < UNITS * u64::from(tiles.wide_from) {
            return NARROW;
        }
        let turn = caps.units.map_or(TURN, u64::from);
        let turns = |tile: [u32; 3]| self.matrix_tiles(tile).div_ceil(turn) * u64::from(tile[0] * tile[1]);
        let fits = SQUARE[2] <= caps.max_invocations && self.matrix_bytes(SQUARE) <= caps.shared_bytes;
        let square = fits && turns(SQUARE) * 100 < turns(WIDE) * u64::from(tiles.square_below);
        if square { SQUARE } else { WIDE }
    }

    /// Why a device cannot multiply elements of this type by cooperative matrices, if so.
    ///
    /// # Errors
    /// With the reason.
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

    /// By the vendor's library.
    pub fn library(self, label: &'static str, epilogue: Epilogue) -> Stage {
        Stage::library(label, Library::Gemm(self, epilogue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Value;
    use crate::testing::mock::caps;

    #[test]
    fn what_is_stored_the_other_way_round_has_its_extents_swapped() {
        let product = Product::new(2, 3, 5).batch(7);
        assert_eq!((product.flops(), product.elements()), (2 * 7 * 30, [70, 105, 42]));
        for (order, want) in [(Stored::Nn, [2, 5, 5, 3]), (Stored::Nt, [2, 5, 3, 5]), (Stored::Tn, [5, 2, 5, 3])] {
            let stage = product.stored(order).tiled(&caps(), Tiles::DEFAULT);
            let kernel = stage.kernel_launch().expect("a kernel");
            let of = |wanted| kernel.consts.iter().find(|(name, _)| *name == wanted).expect("given").1;
            let found = ["A_HEIGHT", "A_WIDTH", "B_HEIGHT", "B_WIDTH"].map(of);
            assert_eq!(found, want.map(Value::U32), "{order:?}");
        }
    }

    #[test]
    fn tiles_on_matrix_units_are_those_that_leave_least_of_the_last_turn() {
        let large = Caps { max_invocations: 1024, shared_bytes: 48 << 10, ..caps() };
        let tile = |[m, n, k]: [u64; 3]| Product::new(m, n, k).matrix_tile(&large, MatrixTiles::DEFAULT);
        // 160 wide ones would take a second turn for 28; 132 square ones take one.
        assert_eq!(tile([4096, 1152, 4304]), SQUARE);
        assert_eq!(tile([4096, 4304, 1152]), WIDE, "four turns against five are not worth it");
        assert_eq!(tile([4096, 4096, 4096]), WIDE, "four of either");
        assert_eq!(tile([512, 512, 4096]), NARROW);
        assert_eq!(Product::new(4096, 1152, 4304).matrix_tile(&caps(), MatrixTiles::DEFAULT), WIDE);
        for stored in [Stored::Nn, Stored::Nt, Stored::Tn] {
            let product = Product { stored, ..Product::new(4096, 1152, 4304) };
            let bytes = [NARROW, WIDE, SQUARE].map(|tile| product.matrix_bytes(tile));
            assert!(bytes.iter().all(|bytes| *bytes <= 48 << 10), "{stored:?}: {bytes:?}");
        }
    }
}
