//! GEMM stages on WGSL's cooperative matrices whose kernel source gathers the operands: implicit GEMMs of convolutions.

use parallax_schema::device::Caps;

use super::gemm::{MATRIX_DEPTH, WAVE, strip};
use super::{Gemm, Layout, Stage, spread};

/// Tile of C of a workgroup. Measured times fit one workgroup per multiprocessor at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    rows: u64,
    columns: u64,
    /// Rows and columns of a subgroup.
    subgroup: [u64; 2],
    /// Time per result, in per cent of the fastest tile's. Measured on an H200.
    time: u64,
}

/// Matrices that pass through a subgroup's strip together.
const STRIP_MATRICES: u32 = 2;

/// Tile for every layout.
const PLAIN: Tile = Tile { rows: 128, columns: 128, subgroup: [64, 64], time: 142 };
/// Tiles for stored columns of B.
const TILES: [Tile; 5] = [
    PLAIN,
    Tile { rows: 128, columns: 256, subgroup: [64, 64], time: 100 },
    Tile { rows: 192, columns: 128, subgroup: [48, 64], time: 113 },
    Tile { rows: 128, columns: 64, subgroup: [64, 32], time: 187 },
    Tile { rows: 96, columns: 64, subgroup: [48, 32], time: 215 },
];

impl Tile {
    fn count(self, gemm: &Gemm) -> u64 {
        gemm.batch * gemm.m.div_ceil(self.rows) * gemm.n.div_ceil(self.columns)
    }

    /// Time of all waves, in arbitrary units.
    fn waves(self, gemm: &Gemm, units: u64) -> u64 {
        self.count(gemm).div_ceil(units) * self.rows * self.columns * self.time
    }

    fn threads(self) -> u64 {
        self.rows / self.subgroup[0] * (self.columns / self.subgroup[1]) * 32
    }

    /// Vectors of eight that a thread stages of one tile with this extent.
    fn vectors(self, extent: u64) -> u64 {
        extent * u64::from(MATRIX_DEPTH) / 8 / self.threads()
    }

    /// Bytes of workgroup memory: staged tiles, and one strip per subgroup.
    fn bytes(self, gemm: &Gemm) -> u32 {
        let staged = [(self.rows, gemm.layout != Layout::Tn), (self.columns, gemm.layout == Layout::Nt)];
        let elements: u32 =
            staged.map(|(extent, along_depth)| Gemm::staged_of(extent as u32, along_depth)).iter().sum();
        elements * 2 + (self.threads() / 32) as u32 * strip(STRIP_MATRICES)
    }
}

impl Gemm {
    /// Returns a stage on WGSL's cooperative matrices whose kernel source gathers the operands. Rows of results have `results`
    /// elements.
    pub fn coopmat_gathering(&self, caps: &Caps, results: u64, text: &'static str, entry: &'static str) -> Stage {
        let tile = self.gathered_tile(caps);
        let packed = results.is_multiple_of(8);
        // Bounds of positions are always checked: those of rows for stored columns of B, otherwise those of columns.
        let channels = if self.layout == Layout::Nt { (self.n, tile.columns) } else { (self.m, tile.rows) };
        let whole = channels.0.is_multiple_of(channels.1) && self.k.is_multiple_of(u64::from(MATRIX_DEPTH));
        let filters = if self.layout == Layout::Nt { tile.columns } else { tile.rows };
        let threads = tile.threads() as u32;
        let sizes = [
            ("BLOCK_M", tile.rows),
            ("BLOCK_N", tile.columns),
            ("WARP_M", tile.subgroup[0]),
            ("WARP_N", tile.subgroup[1]),
            ("FILTERS", tile.vectors(filters)),
            ("PIXELS", tile.vectors(tile.rows + tile.columns - filters)),
        ];
        self.stage(text, entry)
            .consts(&sizes.map(|(name, value)| (name, value as u32)))
            .consts(&[("BLOCK_K", MATRIX_DEPTH), ("THREADS", threads)])
            .consts(&[("PACKED", packed), ("WHOLE", packed && whole)])
            .threads([threads, 1, 1])
            .grid(spread(tile.count(self)))
            .shared(tile.bytes(self))
    }

    /// Tile of the least time.
    fn gathered_tile(&self, caps: &Caps) -> Tile {
        if self.layout != Layout::Nt {
            return PLAIN;
        }
        let units = caps.compute_units.map_or(WAVE, u64::from);
        let fits =
            |tile: &Tile| tile.threads() <= u64::from(caps.max_invocations) && tile.bytes(self) <= caps.shared_bytes;
        TILES.into_iter().filter(fits).min_by_key(|tile| tile.waves(self, units)).unwrap_or(PLAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::caps;

    #[test]
    fn gathered_tiles_fit_the_channels_and_the_waves() {
        let large = Caps { shared_bytes: 48 << 10, ..caps() };
        let tile = |m, n| {
            let tile = Gemm::new(m, n, 576).layout(Layout::Nt).gathered_tile(&large);
            [tile.rows, tile.columns]
        };
        assert_eq!(tile(8 * 56 * 56, 256), [192, 128], "two full waves");
        assert_eq!(tile(32 * 56 * 56, 256), [128, 256], "many waves of either");
        assert_eq!(tile(8 * 56 * 56, 64), [96, 64]);
        assert_eq!(tile(32 * 128 * 128, 64), [128, 64]);
        assert_eq!(Gemm::new(256, 25088, 2304).gathered_tile(&large), PLAIN);
        let small = Gemm::new(32 * 56 * 56, 256, 576).layout(Layout::Nt).gathered_tile(&caps());
        assert_eq!(small, PLAIN, "16 KiB of workgroup memory hold no tile");
    }

    #[test]
    fn every_tile_is_dealt_out_evenly_and_fits() {
        for tile in TILES {
            assert!([2, 3, 4].contains(&tile.vectors(tile.rows)), "{tile:?}");
            assert!([2, 4].contains(&tile.vectors(tile.columns)), "{tile:?}");
            assert!(tile.bytes(&Gemm::new(1, 1, 1).layout(Layout::Nt)) <= 48 << 10, "{tile:?}");
        }
    }
}
