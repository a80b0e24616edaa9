//! GEMM stages by warpgroups, from tensor maps: CUDA devices of compute capability 9.0. The kernel source is
//! `lib/product_wgmma.cuh`.

use parallax_schema::case::{DType, Storage};
use parallax_schema::device::Caps;

use super::Access::{Read, Write};
use super::{Arg, CudaLaunch, Gemm, Layout, Stage, Swizzle, TensorMap};

/// Rows of a block's tile of C: 64 for each of two warpgroups.
const ROWS: u64 = 128;
/// Threads of a block. The third warpgroup copies.
const THREADS: u32 = 3 * 128;
/// Elements along K of a step, and of a row in shared memory: 128 bytes.
const DEPTH: u64 = 64;
/// Rows of a box of C: those of a warp. Boxes have 64 columns.
const PIECE: u64 = 16;
/// Boxes of C in shared memory: two for each warp.
const PIECES: u64 = 2 * (ROWS / PIECE);
/// Bytes of an element.
const BYTES: u64 = 2;
/// Multiprocessors of an H100 or H200, for a device that reports no number.
const UNITS: u64 = 132;
/// Fixed time of a tile, in units of the time of a column. It fits measurements of four shapes on an H200.
const FIXED: u64 = 24;

/// Columns of a block's tile, and stages that fit into shared memory.
const TILES: [(u64, u64); 4] = [(256, 4), (192, 4), (128, 6), (64, 8)];

/// Partition of C among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    columns: u64,
    stages: u64,
    /// Blocks that share columns of B, with tiles one below the other.
    cluster: u64,
    /// Number of blocks, each with a multiprocessor.
    blocks: u64,
}

/// Checks that a device has instructions of warpgroups.
///
/// # Errors
/// Its compute capability.
pub fn has_wgmma(caps: &Caps) -> Result<(), String> {
    match caps.cuda {
        Some(cuda) if cuda.wgmma => Ok(()),
        _ => Err(format!("wgmma is an instruction of compute capability 9.0, not {:?}", caps.compute_capability)),
    }
}

impl Gemm {
    /// Extents of A, B and C as stored: rows and columns of one matrix.
    fn stored(&self) -> [[u64; 2]; 3] {
        let Gemm { m, n, k, layout, .. } = *self;
        [if layout == Layout::Tn { [k, m] } else { [m, k] }, if layout == Layout::Nt { [n, k] } else { [k, n] }, [m, n]]
    }

    fn partition(&self, caps: &Caps) -> Partition {
        let units = caps.compute_units.map_or(UNITS, u64::from);
        let tiles = |columns: u64| self.batch * self.m.div_ceil(ROWS) * self.n.div_ceil(columns);
        let waves = |columns: u64| tiles(columns).div_ceil(units);
        let (columns, stages) =
            TILES.into_iter().min_by_key(|(columns, _)| waves(*columns) * (columns + FIXED)).expect("four");
        // A cluster halves the reads of B. Its launch takes longer, and its last row of tiles may be empty.
        let halves = columns % 128 == 0 && waves(columns) > 2 && self.m > ROWS && units > 1;
        let cluster = if halves { 2 } else { 1 };
        let all = self.batch * self.m.div_ceil(ROWS * cluster) * self.n.div_ceil(columns) * cluster;
        Partition { columns, stages, cluster, blocks: all.min(units / cluster * cluster) }
    }

    /// Returns a stage by warpgroups with its arguments: the buffers of A, B and C as tensors, and those of the epilogue. See
    /// [`Gemm::wgmma_available`].
    pub fn wgmma(
        &self,
        caps: &Caps,
        text: &'static str,
        entry: &'static str,
        buffers: [&'static str; 3],
        epilogue: impl IntoIterator<Item = Arg>,
    ) -> Stage {
        let Partition { columns, stages, cluster, blocks } = self.partition(caps);
        let step = (ROWS + columns) * DEPTH * BYTES;
        // A stage has two barriers of eight bytes.
        let shared = stages * (step + 16) + PIECES * PIECE * DEPTH * BYTES;
        let consts = [("BLOCK_N", columns), ("STAGES", stages), ("CLUSTER", cluster)];
        self.stage(text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&[("THREADS", THREADS)])
            .threads([THREADS, 1, 1])
            .grid([blocks as u32, 1, 1])
            .cuda(CudaLaunch { cluster: [cluster as u32, 1, 1], dynamic_shared_bytes: shared as u32 })
            .args(self.mapped(columns / cluster, buffers).into_iter().chain(epilogue))
    }

    /// Arguments of A, B and C. A block loads this number of columns of B.
    fn mapped(&self, columns: u64, [a, b, c]: [&'static str; 3]) -> [Arg; 3] {
        let [of_a, of_b, of_c] = self.stored();
        // Operands have 64 elements of K in a row, or 64 elements of M or N in each of 64 rows.
        let a_rows = if self.layout == Layout::Tn { DEPTH } else { ROWS };
        let b_rows = if self.layout == Layout::Nt { columns } else { DEPTH };
        let map = |[height, width]: [u64; 2], rows: u64| {
            let tile = [1, rows as u32, DEPTH as u32];
            TensorMap::dense(&[self.batch, height, width], Storage::F16, &tile, Swizzle::Bytes128)
        };
        [
            Arg::from(("a", a, Read)).mapped(map(of_a, a_rows)),
            Arg::from(("b", b, Read)).mapped(map(of_b, b_rows)),
            Arg::from(("c", c, Write)).mapped(map(of_c, PIECE)),
        ]
    }

    /// Checks whether a device can compute this GEMM on elements of this type by `wgmma`.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn wgmma_available(&self, dtype: DType, caps: &Caps) -> Result<(), String> {
        Gemm::mma_available(dtype, caps)?;
        has_wgmma(caps)?;
        if !caps.cuda.is_some_and(|cuda| cuda.tensor_maps) {
            return Err("wgmma copies tiles by tensor maps, which this device does not offer".to_owned());
        }
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

    fn stage(gemm: Gemm) -> Stage {
        gemm.wgmma(&typical::cuda(), "matmul/wgmma", "matmul_wgmma", ["a", "b", "c"], [])
    }

    #[test]
    fn tiles_are_those_with_the_shortest_waves() {
        let caps = typical::cuda();
        let of = |[m, n, k]: [u64; 3]| {
            let Partition { columns, cluster, blocks, .. } = Gemm::new(m, n, k).partition(&caps);
            (columns, cluster, blocks)
        };
        assert_eq!(of([8192, 8192, 8192]), (256, 2, 132));
        assert_eq!(of([4096, 4096, 4096]), (256, 2, 132), "512 tiles, four waves");
        assert_eq!(of([2048, 2048, 2048]), (256, 1, 128), "one wave");
        assert_eq!(of([1024, 1024, 1024]), (64, 1, 128), "wide tiles would leave most multiprocessors without work");
        assert_eq!(of([4096, 1152, 4304]), (192, 1, 132), "six whole tiles across");
        assert_eq!(of([1, 8, 8]), (64, 1, 1));
        let odd = Caps { compute_units: Some(131), ..caps.clone() };
        assert_eq!(Gemm::new(8192, 8192, 64).partition(&odd).blocks, 130, "whole clusters");
    }

    #[test]
    fn shared_memory_and_boxes_are_within_limits() {
        for shape in [[8192, 8192, 8192], [4096, 1152, 4304], [8192, 128, 64], [1024, 1024, 1024], [8, 8, 8]] {
            for layout in LAYOUTS {
                let gemm = Gemm::new(shape[0], shape[1], shape[2]).layout(layout).batch(3);
                let stage = stage(gemm);
                let launch = stage.kernel_launch().expect("a kernel").cuda;
                assert!(launch.dynamic_shared_bytes <= 232_448, "{gemm:?}: {launch:?}");
                for (arg, elements) in stage.args.iter().zip(gemm.elements()) {
                    let map = arg.map.as_ref().expect("a map");
                    assert_eq!(map.check(Storage::F16, Bytes(2 * elements)), Ok(()), "{gemm:?} {}", arg.parameter);
                }
            }
        }
    }

    #[test]
    fn a_block_of_a_cluster_loads_its_part_of_b() {
        let box_of_b =
            |layout| stage(Gemm::new(8192, 8192, 8192).layout(layout)).args[1].map.clone().expect("a map").tile;
        assert_eq!(box_of_b(Layout::Nn), [1, 64, 64]);
        assert_eq!(box_of_b(Layout::Nt), [1, 128, 64]);
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
