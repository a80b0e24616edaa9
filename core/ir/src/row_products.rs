//! Dot products of all rows of two matrices by warpgroups, from tensor maps: CUDA devices of compute capability 9.0. The kernel
//! source is `lib/row_products.cuh`.

use parallax_schema::case::Storage;
use parallax_schema::device::Caps;

use super::gemm::WAVE;
use super::{CudaLaunch, Stage, Swizzle, TensorMap, has_wgmma_on_tensor_maps};

/// Rows of A of a block's tile: 64 for each of two warpgroups.
const ROWS: u64 = 128;
/// Threads of a block. The third warpgroup copies.
const THREADS: u32 = 3 * 128;
/// Bytes of a row in shared memory: those of a step.
const STEP_BYTES: u64 = 128;
/// Rows of a box of results: those of a warp. Two boxes of each warp are in shared memory.
const PIECE_ROWS: u64 = 16;
const PIECES_BYTES: u64 = 2 * (ROWS / PIECE_ROWS) * PIECE_ROWS * STEP_BYTES;
/// Bytes of partial sums: two of each consuming warp.
const SUMS_BYTES: u64 = 2 * (ROWS / PIECE_ROWS) * 4;
/// Fixed time of a tile, in units of the time of a column.
const FIXED: u64 = 24;
/// Steps from which blocks share tiles of B. The launch of clusters takes longer.
const SHARED_FROM: u64 = 32;

/// Rows of B of a block's tile, and stages that fit into shared memory.
const TILES: [(u64, u64); 4] = [(256, 4), (192, 4), (128, 6), (64, 8)];

/// Products of all rows of A with all rows of B, with 128 bytes of each in a step.
#[derive(Debug, Clone, Copy)]
pub struct RowProducts {
    a_rows: u64,
    b_rows: u64,
    /// Elements of a row as stored.
    width: u64,
    element: Storage,
    steps: u64,
    /// Largest number of rows of B of a tile.
    widest: u64,
}

/// Partition of the products among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    /// Rows of B of a tile.
    columns: u64,
    stages: u64,
    /// Blocks that share rows of B, with tiles one below the other.
    cluster: u64,
    /// Number of blocks, each with a multiprocessor.
    blocks: u64,
}

impl RowProducts {
    /// Returns the products of `a_rows` rows with `b_rows` rows of `width` elements.
    pub fn new([a_rows, b_rows]: [u64; 2], width: u64, element: Storage) -> RowProducts {
        let steps = (width * element.bytes()).div_ceil(STEP_BYTES);
        RowProducts { a_rows, b_rows, width, element, steps, widest: TILES[0].0 }
    }

    /// Sets the number of steps, if it is not that of whole rows.
    pub fn steps(self, steps: u64) -> RowProducts {
        RowProducts { steps, ..self }
    }

    /// Sets the largest number of rows of B of a tile, for kernel sources that need further registers.
    pub fn widest(self, widest: u64) -> RowProducts {
        RowProducts { widest, ..self }
    }

    fn partition(&self, caps: &Caps) -> Partition {
        let units = caps.compute_units.map_or(WAVE, u64::from);
        let waves = |columns: u64| (self.a_rows.div_ceil(ROWS) * self.b_rows.div_ceil(columns)).div_ceil(units);
        let narrow = TILES.into_iter().filter(|(columns, _)| *columns <= self.widest);
        let (columns, stages) = narrow.min_by_key(|(columns, _)| waves(*columns) * (columns + FIXED)).expect("64");
        let shares = columns >= 128 && waves(columns) > 1 && self.a_rows > ROWS && self.steps >= SHARED_FROM;
        let cluster = if shares && units > 1 { 2 } else { 1 };
        let all = self.a_rows.div_ceil(ROWS * cluster) * self.b_rows.div_ceil(columns) * cluster;
        Partition { columns, stages, cluster, blocks: all.min(units / cluster * cluster) }
    }

    /// Number of blocks.
    pub fn blocks(&self, caps: &Caps) -> u64 {
        self.partition(caps).blocks
    }

    /// Number of rows of B of a block's tile.
    pub fn columns(&self, caps: &Caps) -> u64 {
        self.partition(caps).columns
    }

    /// Returns a stage without arguments.
    pub fn stage(&self, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
        let Partition { columns, stages, cluster, blocks } = self.partition(caps);
        // A stage has two barriers of eight bytes.
        let shared = stages * ((ROWS + columns) * STEP_BYTES + 16) + PIECES_BYTES + SUMS_BYTES;
        let consts = [
            ("A_ROWS", self.a_rows),
            ("B_ROWS", self.b_rows),
            ("STEPS", self.steps),
            ("STEP", STEP_BYTES / self.element.bytes()),
            ("BLOCK_N", columns),
            ("STAGES", stages),
            ("CLUSTER", cluster),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&[("THREADS", THREADS)])
            .threads([THREADS, 1, 1])
            .grid([blocks as u32, 1, 1])
            .cuda(CudaLaunch { cluster: [cluster as u32, 1, 1], dynamic_shared_bytes: shared as u32 })
    }

    /// Maps of A and B.
    pub fn operands(&self, caps: &Caps) -> [TensorMap; 2] {
        let Partition { columns, cluster, .. } = self.partition(caps);
        [(self.a_rows, ROWS), (self.b_rows, columns / cluster)].map(|(rows, of_box)| {
            let tile = [of_box as u32, (STEP_BYTES / self.element.bytes()) as u32];
            TensorMap::dense(&[rows, self.width], self.element, &tile, Swizzle::Bytes128)
        })
    }

    /// Map of a matrix of results with elements of this type, in boxes of a warp's rows.
    pub fn results(&self, element: Storage) -> TensorMap {
        let tile = [PIECE_ROWS as u32, (STEP_BYTES / element.bytes()) as u32];
        TensorMap::dense(&[self.a_rows, self.b_rows], element, &tile, Swizzle::Bytes128)
    }

    /// Checks whether a device can compute these products.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn available(&self, caps: &Caps) -> Result<(), String> {
        has_wgmma_on_tensor_maps(caps)?;
        whole_pieces(self.width, self.element)
    }

    /// As [`RowProducts::available`], with results of this type in device memory.
    ///
    /// # Errors
    /// Reason why it cannot.
    pub fn stores_available(&self, element: Storage, caps: &Caps) -> Result<(), String> {
        self.available(caps)?;
        whole_pieces(self.b_rows, element)
    }
}

/// Checks that rows are whole pieces of 16 bytes.
fn whole_pieces(width: u64, element: Storage) -> Result<(), String> {
    match (width * element.bytes()).is_multiple_of(16) {
        true => Ok(()),
        false => Err(format!("wgmma copies 16 bytes at a time: a row has {}", width * element.bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::typical;
    use parallax_schema::units::Bytes;

    #[test]
    fn tiles_are_those_with_the_shortest_waves() {
        let caps = typical::cuda();
        let of = |rows: [u64; 2], width: u64| {
            let Partition { columns, cluster, blocks, .. } =
                RowProducts::new(rows, width, Storage::F16).partition(&caps);
            (columns, cluster, blocks)
        };
        assert_eq!(of([4096, 4096], 512), (256, 1, 132), "few steps");
        assert_eq!(of([4096, 4096], 2048), (256, 2, 132), "many steps");
        assert_eq!(of([1024, 1024], 512), (64, 1, 128), "wide tiles would leave most multiprocessors without work");
        assert_eq!(of([1, 8], 8), (64, 1, 1));
        let narrow = RowProducts::new([4096, 4096], 512, Storage::F16).widest(128);
        assert_eq!(narrow.partition(&caps).columns, 128);
    }

    #[test]
    fn shared_memory_and_boxes_are_within_limits() {
        let caps = typical::cuda();
        for rows in [[1, 8], [130, 16], [1024, 1024], [4096, 1152], [8192, 8192]] {
            for (element, width) in [(Storage::F16, 8), (Storage::BF16, 4096), (Storage::U32, 100)] {
                let products = RowProducts::new(rows, width, element);
                let launch = products.stage(&caps, "text", "entry").kernel_launch().expect("a kernel").cuda;
                assert!(launch.dynamic_shared_bytes <= 232_448, "{products:?}: {launch:?}");
                for (map, rows) in products.operands(&caps).iter().zip(rows) {
                    assert_eq!(map.check(element, Bytes(rows * width * element.bytes())), Ok(()), "{products:?}");
                }
                let bytes = Bytes(rows[0] * rows[1] * 2);
                assert_eq!(products.results(Storage::F16).check(Storage::F16, bytes), Ok(()), "{products:?}");
            }
        }
    }

    #[test]
    fn it_says_what_it_does_not_take() {
        let caps = typical::cuda();
        let of = |rows, width| RowProducts::new(rows, width, Storage::F16);
        assert_eq!(of([5, 8], 16).stores_available(Storage::F16, &caps), Ok(()));
        assert!(of([8, 8], 12).available(&caps).is_err_and(|why| why.contains("a row has 24")));
        assert!(of([8, 12], 8).stores_available(Storage::F16, &caps).is_err_and(|why| why.contains("a row has 24")));
        let without = Caps { cuda: None, ..caps };
        assert!(of([8, 8], 8).available(&without).is_err_and(|why| why.contains("compute capability 9.0")));
    }
}
