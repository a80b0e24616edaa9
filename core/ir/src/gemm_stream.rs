//! GEMM stages by warpgroups whose last waves of tiles are divided by steps among all multiprocessors. The kernel sources are
//! `matmul/stream.cu` and `matmul/stream_sum.cu`.
//!
//! The method is stream-K in its hybrid form (Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
//! Multiplication on the GPU" (2023)).

use parallax_schema::case::{Cost, Storage};
use parallax_schema::device::Caps;

use super::Access::{Read, Write};
use super::gemm::WAVE;
use super::gemm_wgmma::{DEPTH, PIECE, Partition, SHARED_TILE};
use super::{Arg, BufferSpec, Elem, Gemm, Stage, Swizzle, TensorMap, by_pieces};

/// Columns of a sum's thread.
const WIDTH: u64 = 4;

/// Distribution of tiles: whole ones, then the steps of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Blocks, each with a multiprocessor.
    blocks: u64,
    tiles: u64,
    /// Tiles that one block computes.
    whole: u64,
    /// Steps of a tile.
    steps: u64,
}

impl Shares {
    fn of(gemm: &Gemm, units: u64) -> Shares {
        let tile = SHARED_TILE;
        let tiles = gemm.m.div_ceil(tile.rows) * gemm.n.div_ceil(tile.columns);
        let steps = gemm.k.div_ceil(DEPTH);
        // No more multiprocessors than parts have room for, and a step for each.
        let blocks = units.min(WAVE).min(tiles * steps);
        // The last whole wave is divided with the rest, so that parts are not short.
        Shares { blocks, tiles, whole: (tiles / blocks).saturating_sub(1) * blocks, steps }
    }

    /// Number of parts of tiles whose sums pass through memory.
    fn parts(self) -> u64 {
        let all = (self.tiles - self.whole) * self.steps;
        let of_block = |block: u64| {
            let [start, end] = [block, block + 1].map(|block| block * all / self.blocks);
            let pieces = start / self.steps..end.div_ceil(self.steps);
            let whole = |tile: &u64| tile * self.steps >= start && (tile + 1) * self.steps <= end;
            pieces.filter(|tile| !whole(tile)).count() as u64
        };
        (0..self.blocks).map(of_block).sum()
    }
}

impl Gemm {
    /// Buffer for the sums of parts of tiles in f32, two of each block. See [`Gemm::stream`].
    pub fn stream_parts(&self, name: &'static str) -> BufferSpec {
        let tile = SHARED_TILE;
        BufferSpec::scratch(name, Elem::F32, &[2 * Shares::of(self, WAVE).blocks, tile.rows, tile.columns])
    }

    /// Returns the stages of `c = a·b`: the products, and the sums of tiles that several blocks compute, if there are such. Each
    /// multiprocessor has as many steps as any other, but for one. `parts` is the buffer of [`Gemm::stream_parts`], `cost` that of
    /// the GEMM. Devices are those of [`Gemm::wgmma_available`].
    pub fn stream(&self, caps: &Caps, [a, b, c, parts]: [&'static str; 4], cost: Cost) -> Vec<Stage> {
        let tile = SHARED_TILE;
        let shares = Shares::of(self, caps.compute_units.map_or(WAVE, u64::from));
        let Shares { blocks, tiles, whole, .. } = shares;
        let consts = [("WHOLE", whole), ("BLOCKS", blocks)].map(|(name, value)| (name, value as u32));
        let partition = Partition { tile, cluster: 1, blocks };
        let [of_a, of_b] = self.operands(&partition, [a, b]);
        let piece = [1, PIECE as u32, (DEPTH / 2) as u32];
        let sums = TensorMap::dense(&[2 * blocks, tile.rows, tile.columns], Storage::F32, &piece, Swizzle::Bytes128);
        let moved = shares.parts() * tile.rows * tile.columns * 4;
        let products = self
            .by_warpgroups(partition, "matmul/stream", "matmul_stream", 1)
            .consts(&[("PARTS", 1_u32)])
            .consts(&consts)
            .args([
                of_a,
                of_b,
                Arg::from(("c", c, Write)).mapped(self.map_of_c()),
                Arg::from(("parts", parts, Write)).mapped(sums),
            ])
            .cost(Cost::new(cost.flops.0, cost.read.0, cost.written.0 + moved));
        if moved == 0 {
            return vec![products];
        }
        let pieces = (tiles - whole) * tile.rows * tile.columns / WIDTH;
        let extents = [("M", self.m), ("N", self.n), ("K", self.k), ("BLOCK_M", tile.rows), ("BLOCK_N", tile.columns)];
        let sum = by_pieces(pieces, WIDTH, "matmul/stream_sum", "matmul_stream_sum")
            .consts(&extents.map(|(name, value)| (name, value as u32)))
            .consts(&consts)
            .args([("parts", parts, Read), ("c", c, Write)])
            .cost(Cost::new(moved / 4, moved, cost.written.0.min(moved)));
        vec![products, sum]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::typical;

    #[test]
    fn each_block_has_its_share_of_the_last_waves() {
        let of = |[m, n, k]: [u64; 3]| {
            let shares = Shares::of(&Gemm::new(m, n, k), WAVE);
            (shares.blocks, shares.tiles, shares.whole, shares.parts())
        };
        assert_eq!(of([4096, 4096, 4096]).0, 132);
        assert_eq!(of([4096, 4096, 4096]).2, 264, "248 tiles in 1.9 waves are divided");
        assert_eq!(of([1536, 2816, 8192]), (132, 132, 0, 0), "a whole wave");
        assert_eq!(of([128, 256, 128]), (2, 1, 0, 2), "a step each");
        // Three tiles of four steps: two blocks a tile, or three halves for each of two blocks.
        assert_eq!(Shares { blocks: 6, tiles: 3, whole: 0, steps: 4 }.parts(), 6);
        assert_eq!(Shares { blocks: 2, tiles: 3, whole: 0, steps: 4 }.parts(), 2, "the middle tile in halves");
        assert_eq!(of([1, 8, 8]), (1, 1, 0, 0));
    }

    #[test]
    fn parts_fit_into_their_buffer_on_every_device() {
        for units in [1, 78, 132, 148] {
            let caps = Caps { compute_units: Some(units), ..typical::cuda() };
            for [m, n, k] in [[8, 8, 8], [2304, 2304, 8192], [64, 4096, 14336], [4096, 4096, 4096]] {
                let gemm = Gemm::new(m, n, k);
                let stages = gemm.stream(&caps, ["a", "b", "c", "parts"], Cost::new(1, 1, 1));
                let map = stages[0].args[3].map.as_ref().expect("a map");
                let room = gemm.stream_parts("parts").bytes(parallax_schema::case::DType::F16);
                assert_eq!(map.check(Storage::F32, room), Ok(()), "{gemm:?} on {units}");
            }
        }
    }
}
