//! GEMM stages by warpgroups, from tensor maps: CUDA devices of compute capability 9.0. The kernel source is
//! `lib/product_wgmma.cuh`.

use parallax_schema::case::{DType, Storage};
use parallax_schema::device::Caps;

use super::Access::{self, Read, Write};
use super::gemm::WAVE;
use super::{Arg, CudaLaunch, Gemm, Layout, Stage, Swizzle, TensorMap, has_wgmma_on_tensor_maps};

/// Threads of a warpgroup.
const WARPGROUP: u64 = 128;
/// Elements along K of a step, and of a row in shared memory: 128 bytes.
pub(super) const DEPTH: u64 = 64;
/// Rows of a box of C: those of a warp. Boxes have 64 columns.
pub(super) const PIECE: u64 = 16;
/// Bytes of an element, and of a barrier.
const BYTES: u64 = 2;
const BARRIER: u64 = 8;
/// Shared memory of a block in bytes.
const SHARED: u64 = 232_448;
/// Largest useful number of stages.
const MOST_STAGES: u64 = 8;
/// Largest number of parts of K, bytes of their sums that memory moves in a cycle, and cycles of the launch that adds them.
const MOST_PARTS: u64 = 8;
const BYTES_PER_CYCLE: u64 = 2700;
const LAUNCH: u64 = 5000;

/// Tile of C of a block, and its distribution among warpgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// Warpgroups that multiply.
    consumers: u64,
    /// Whether each of two consumers has every other tile. Otherwise all share each tile.
    alternate: bool,
    /// Pieces of C of a warp in shared memory.
    slots: u64,
    /// Time of the products in per cent of that of the tensor cores alone, without and with a cluster.
    relative: [Option<u64>; 2],
}

/// Alternating tiles, then shared ones. Their times fit measurements of 14 shapes on an H200.
const TILES: [Tile; 5] = [
    Tile { rows: 128, columns: 192, consumers: 2, alternate: true, slots: 2, relative: [Some(103), Some(100)] },
    Tile { rows: 128, columns: 128, consumers: 2, alternate: true, slots: 2, relative: [Some(113), Some(110)] },
    Tile { rows: 128, columns: 64, consumers: 2, alternate: true, slots: 2, relative: [Some(130), None] },
    Tile { rows: 128, columns: 256, consumers: 2, alternate: false, slots: 2, relative: [Some(102), Some(100)] },
    Tile { rows: 192, columns: 192, consumers: 3, alternate: false, slots: 1, relative: [Some(100), None] },
];

/// Largest tile that all consumers share.
pub(super) const SHARED_TILE: Tile = TILES[3];

/// Partition of C among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) tile: Tile,
    /// Blocks that share columns of B, with tiles one below the other.
    pub(super) cluster: u64,
    /// Number of blocks, each with a multiprocessor.
    pub(super) blocks: u64,
}

impl Tile {
    /// Stages, and bytes of shared memory, if an epilogue has this number of results.
    fn shared(&self, results: u64) -> (u64, u64) {
        let slots = self.consumers * 4 * self.slots;
        let fixed = slots * (results * PIECE * DEPTH * BYTES + BARRIER);
        let stage = (self.rows + self.columns) * DEPTH * BYTES + 2 * BARRIER;
        let stages = ((SHARED - fixed) / stage).min(MOST_STAGES);
        (stages, fixed + stages * stage)
    }
}

impl Gemm {
    /// Extents of A, B and C as stored: rows and columns of one matrix.
    fn stored(&self) -> [[u64; 2]; 3] {
        let Gemm { m, n, k, layout, .. } = *self;
        [if layout == Layout::Tn { [k, m] } else { [m, k] }, if layout == Layout::Nt { [n, k] } else { [k, n] }, [m, n]]
    }

    /// Number of tiles of all parts of K, in groups of the cluster's.
    fn clusters(&self, tile: &Tile, cluster: u64, parts: u64) -> u64 {
        parts * self.batch * self.tiles_of_rows(tile.rows * cluster) * self.n.div_ceil(tile.columns)
    }

    /// Estimated time in cycles on this number of multiprocessors, if the cluster is possible.
    fn time(&self, tile: &Tile, cluster: u64, parts: u64, units: u64) -> Option<u64> {
        // Groups end anywhere in their last tiles: on average, half of the most possible are added.
        let spare = self.groups.map_or(0, |groups| groups / 2) * self.n.div_ceil(tile.columns);
        let waves = |cluster: u64| (self.clusters(tile, cluster, parts) - spare).div_ceil(units / cluster);
        let relative = tile.relative[cluster as usize - 1]?;
        // A launch of clusters takes longer.
        if cluster > 1 && (self.m <= tile.rows || units < cluster || waves(1) <= 2) {
            return None;
        }
        let products = self.k.div_ceil(DEPTH).div_ceil(parts) * tile.rows * tile.columns / 32 * relative / 100;
        let epilogue = 500 + 8 * tile.columns;
        // One consumer has the epilogue of a whole tile. It overlaps with products of the other, but for the last one.
        Some(match tile.alternate {
            true => waves(cluster) * products + 2 * epilogue,
            false => waves(cluster) * (products + epilogue),
        })
    }

    /// Shortest time, with its tile and cluster.
    fn fastest(&self, parts: u64, units: u64) -> (u64, Tile, u64) {
        let all = TILES.into_iter().flat_map(|tile| [(tile, 1), (tile, 2)]);
        let timed = all.filter_map(|(tile, cluster)| Some((self.time(&tile, cluster, parts, units)?, tile, cluster)));
        timed.min_by_key(|(time, ..)| *time).expect("some need no cluster")
    }

    fn partition(&self, caps: &Caps, parts: u64) -> Partition {
        let units = caps.compute_units.map_or(WAVE, u64::from);
        let (_, tile, cluster) = self.fastest(parts, units);
        let blocks = (self.clusters(&tile, cluster, parts) * cluster).min(units / cluster * cluster);
        Partition { tile, cluster, blocks }
    }

    /// Number of parts of K for [`Gemm::wgmma_parts`] with the shortest time, including that of their sum. It is the same for
    /// every device: the size of a buffer depends on it.
    pub fn parts_of_k(&self) -> u64 {
        let moved = |parts: u64| 8 * parts * self.m * self.n / BYTES_PER_CYCLE + LAUNCH;
        let time = |parts: &u64| self.fastest(*parts, WAVE).0 + if *parts > 1 { moved(*parts) } else { 0 };
        let most = if self.batch == 1 { MOST_PARTS.min(self.k.div_ceil(DEPTH)) } else { 1 };
        (1..=most).min_by_key(time).expect("at least one")
    }

    /// Returns a stage by warpgroups whose result is f32, with one matrix like C for each of [`Gemm::parts_of_k`].
    pub fn wgmma_parts(
        &self,
        caps: &Caps,
        text: &'static str,
        entry: &'static str,
        [a, b, parts]: [&'static str; 3],
    ) -> Stage {
        let count = self.parts_of_k();
        let partition = self.partition(caps, count);
        let rows = [1, PIECE as u32, (DEPTH / 2) as u32];
        let sums = TensorMap::dense(&[count, self.m, self.n], Storage::F32, &rows, Swizzle::Bytes128);
        let [a, b] = self.operands(&partition, [a, b]);
        let stage = self.by_warpgroups(partition, text, entry, 1).consts(&[("PARTS", count as u32)]);
        stage.args([a, b, Arg::from(("c", parts, Write)).mapped(sums)])
    }

    /// Rows of C that the blocks of a cluster compute together.
    pub fn wgmma_rows(&self, caps: &Caps) -> u64 {
        let Partition { tile, cluster, .. } = self.partition(caps, 1);
        tile.rows * cluster
    }

    /// Returns a stage by warpgroups with its arguments: the buffers of A, B and C as tensors, and those of the epilogue. The last
    /// are parameters of the epilogue that are tensors like C, with their buffers. See [`Gemm::wgmma_available`].
    pub fn wgmma(
        &self,
        caps: &Caps,
        text: &'static str,
        entry: &'static str,
        buffers: [&'static str; 3],
        epilogue: impl IntoIterator<Item = Arg>,
        like_c: &[(&'static str, &'static str, Access)],
    ) -> Stage {
        let partition = self.partition(caps, 1);
        let written = like_c.iter().filter(|(.., access)| *access == Write).count();
        let [a, b, c] = buffers;
        let [a, b] = self.operands(&partition, [a, b]);
        let c = Arg::from(("c", c, Write)).mapped(self.map_of_c());
        let like_c = like_c.iter().map(|arg| Arg::from(*arg).mapped(self.map_of_c()));
        self.by_warpgroups(partition, text, entry, 1 + written as u64)
            .consts(&[("PARTS", 1_u32)])
            .args([a, b, c].into_iter().chain(epilogue).chain(like_c))
    }

    /// Stage without arguments, whose epilogue has this number of results.
    pub(super) fn by_warpgroups(
        &self,
        partition: Partition,
        text: &'static str,
        entry: &'static str,
        results: u64,
    ) -> Stage {
        let Partition { tile, cluster, blocks } = partition;
        let (stages, shared) = tile.shared(results);
        let threads = ((tile.consumers + 1) * WARPGROUP) as u32;
        let consts = [("BLOCK_M", tile.rows), ("BLOCK_N", tile.columns), ("STAGES", stages), ("CLUSTER", cluster)];
        self.stage(text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&[("SLOTS", tile.slots as u32), ("THREADS", threads)])
            .consts(&[("ALTERNATE", tile.alternate)])
            .threads([threads, 1, 1])
            .grid([blocks as u32, 1, 1])
            .cuda(CudaLaunch { cluster: [cluster as u32, 1, 1], dynamic_shared_bytes: shared as u32 })
    }

    /// Map of `count` matrices in boxes of 64 columns.
    fn map(count: u64, [height, width]: [u64; 2], rows: u64) -> TensorMap {
        let tile = [1, rows as u32, DEPTH as u32];
        TensorMap::dense(&[count, height, width], Storage::F16, &tile, Swizzle::Bytes128)
    }

    pub(super) fn map_of_c(&self) -> TensorMap {
        Gemm::map(self.batch, [self.m, self.n], PIECE)
    }

    /// Arguments of A and B. A block of a cluster loads its part of the rows of B's tile.
    pub(super) fn operands(&self, Partition { tile, cluster, .. }: &Partition, [a, b]: [&'static str; 2]) -> [Arg; 2] {
        let [of_a, of_b, _] = self.stored();
        // Operands have 64 elements of K in a row, or 64 elements of M or N in each of 64 rows.
        let a_rows = if self.layout == Layout::Tn { DEPTH } else { tile.rows };
        let b_rows = if self.layout == Layout::Nt { tile.columns } else { DEPTH };
        [
            Arg::from(("a", a, Read)).mapped(Gemm::map(self.batch, of_a, a_rows)),
            Arg::from(("b", b, Read)).mapped(Gemm::map(self.groups.unwrap_or(self.batch), of_b, b_rows / cluster)),
        ]
    }

    /// Checks whether a device can compute this GEMM on elements of this type by `wgmma`.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn wgmma_available(&self, dtype: DType, caps: &Caps) -> Result<(), String> {
        Gemm::mma_available(dtype, caps)?;
        has_wgmma_on_tensor_maps(caps)?;
        match self.stored().iter().find(|[_, width]| !width.is_multiple_of(8)) {
            Some([_, width]) => {
                Err(format!("wgmma copies 16 bytes at a time: rows of {width} elements are not a multiple of 8"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::typical;
    use parallax_schema::units::Bytes;

    const LAYOUTS: [Layout; 3] = [Layout::Nn, Layout::Nt, Layout::Tn];

    fn stage(gemm: Gemm, like_c: &[(&'static str, &'static str, Access)]) -> Stage {
        gemm.wgmma(&typical::cuda(), "matmul/wgmma", "matmul_wgmma", ["a", "b", "c"], [], like_c)
    }

    #[test]
    fn tiles_are_those_with_the_shortest_time() {
        let caps = typical::cuda();
        let of = |[m, n, k]: [u64; 3]| {
            let Partition { tile, cluster, blocks } = Gemm::new(m, n, k).partition(&caps, 1);
            ([tile.rows, tile.columns], cluster, blocks)
        };
        assert_eq!(of([8192, 8192, 8192]), ([128, 192], 2, 132));
        assert_eq!(of([65536, 4304, 1152]), ([128, 192], 2, 132));
        assert_eq!(of([65536, 1152, 4304]), ([128, 192], 2, 132), "six whole tiles across");
        assert_eq!(of([4096, 4096, 4096]), ([128, 256], 2, 132), "512 tiles, four waves");
        assert_eq!(of([2048, 2048, 2048]), ([128, 256], 1, 128), "one wave");
        assert_eq!(of([4096, 1152, 4304]), ([192, 192], 1, 132), "one wave, without a rest");
        assert_eq!(
            of([1024, 1024, 1024]),
            ([128, 64], 1, 128),
            "wide tiles would leave most multiprocessors without work"
        );
        assert_eq!(of([1, 8, 8]), ([128, 64], 1, 1));
        let odd = Caps { compute_units: Some(131), ..caps.clone() };
        assert_eq!(Gemm::new(8192, 8192, 64).partition(&odd, 1).blocks, 130, "whole clusters");
    }

    #[test]
    fn shared_memory_and_boxes_are_within_limits() {
        const RESULTS: [&[(&str, &str, Access)]; 3] =
            [&[], &[("pre", "pre", Write)], &[("pre", "pre", Read), ("hidden", "hidden", Write)]];
        for shape in
            [[8192, 8192, 8192], [4096, 4096, 4096], [4096, 1152, 4304], [8192, 128, 64], [1024, 1024, 1024], [8, 8, 8]]
        {
            for (layout, like_c) in LAYOUTS.into_iter().flat_map(|layout| RESULTS.map(|like_c| (layout, like_c))) {
                let gemm = Gemm::new(shape[0], shape[1], shape[2]).layout(layout).batch(3);
                let stage = stage(gemm, like_c);
                let launch = stage.kernel_launch().expect("a kernel").cuda;
                assert!(u64::from(launch.dynamic_shared_bytes) <= SHARED, "{gemm:?}: {launch:?}");
                let [a, b, c] = gemm.elements();
                for (arg, elements) in stage.args.iter().zip([a, b, c, c, c]) {
                    let map = arg.map.as_ref().expect("a map");
                    assert_eq!(map.check(Storage::F16, Bytes(2 * elements)), Ok(()), "{gemm:?} {}", arg.parameter);
                }
            }
        }
        for (tile, results) in TILES.into_iter().flat_map(|tile| [(tile, 1), (tile, 2)]) {
            assert!(tile.shared(results).0 >= 3, "{tile:?}: copies ahead of the products");
        }
    }

    #[test]
    fn a_long_k_is_split_where_tiles_would_leave_multiprocessors_without_work() {
        let parts = |m, n, k| Gemm::new(m, n, k).layout(Layout::Tn).parts_of_k();
        assert_eq!(parts(1152, 1152, 65536), 7, "54 tiles of 128 × 192: 378 of 396 in three waves");
        assert_eq!(parts(1152, 3456, 65536), 4, "162 tiles: 648 of 660 in five waves");
        assert_eq!(parts(1152, 4304, 4096), 1, "the sums of parts would take longer");
        assert_eq!([parts(8, 8, 64), parts(8192, 8192, 8192)], [1, 1]);
        let gemm = Gemm::new(1152, 1152, 65536).layout(Layout::Tn);
        let stage = gemm.wgmma_parts(&typical::cuda(), "matmul/wgmma", "matmul_wgmma_parts", ["a", "b", "parts"]);
        let map = stage.args[2].map.as_ref().expect("a map");
        assert_eq!(map.check(Storage::F32, Bytes(7 * 4 * 1152 * 1152)), Ok(()));
    }

    #[test]
    fn a_block_of_a_cluster_loads_its_part_of_b() {
        let box_of_b =
            |layout| stage(Gemm::new(8192, 8192, 8192).layout(layout), &[]).args[1].map.clone().expect("a map").tile;
        assert_eq!(box_of_b(Layout::Nn), [1, 32, 64]);
        assert_eq!(box_of_b(Layout::Nt), [1, 96, 64]);
    }

    #[test]
    fn it_says_what_it_does_not_take() {
        let caps = typical::cuda();
        let available = |m, n, k, layout| Gemm::new(m, n, k).layout(layout).wgmma_available(DType::BF16, &caps);
        assert_eq!(available(5, 8, 16, Layout::Nn), Ok(()));
        assert!(available(5, 8, 16, Layout::Tn).is_err_and(|why| why.contains("rows of 5")));
        assert!(available(8, 8, 12, Layout::Nn).is_err_and(|why| why.contains("rows of 12")));
        assert!(available(8, 12, 8, Layout::Nt).is_err_and(|why| why.contains("rows of 12")), "those of C");
        let f32 = Gemm::new(8, 8, 8).wgmma_available(DType::F32, &caps);
        assert!(f32.is_err_and(|why| why.contains("TF32")));
        let without = Caps { cuda: None, ..caps.clone() };
        let elsewhere = Gemm::new(8, 8, 8).wgmma_available(DType::F16, &without);
        assert!(elsewhere.is_err_and(|why| why.contains("compute capability 9.0")));
    }
}
