//! The launches of a variant, as data.

use super::Access;
use crate::units::{Bytes, Flops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The least work a problem needs: operations, and bytes that must cross device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Operations by the field's accepted rule for the workload.
    pub flops: Flops,
    /// Every input element that must be read, once.
    pub read: Bytes,
    /// Every output element, written once.
    pub written: Bytes,
}

impl Cost {
    /// Bytes read plus bytes written.
    pub fn moved(&self) -> Bytes {
        Bytes(self.read.0 + self.written.0)
    }
}

/// The launches of a variant for one problem on one device: plain data, so that a plan can be printed and tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Named integers, `const NAME: u32` in WGSL and `#define NAME` in CUDA.
    pub consts: Vec<(&'static str, u32)>,
    /// Launches, in order.
    pub stages: Vec<Stage>,
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Entry point in both dialects, and the label in traces.
    pub entry: &'static str,
    /// Buffers that it touches, in parameter order for CUDA. WGSL uses the workload's binding numbers.
    pub uses: Vec<(&'static str, Access)>,
    /// Threads in one workgroup (CUDA: block).
    pub workgroup: [u32; 3],
    /// Workgroups (CUDA: blocks) to launch.
    pub grid: [u32; 3],
    /// Workgroup memory that the text declares (CUDA: static shared memory), in bytes.
    pub shared_bytes: u32,
    /// Operations of this stage alone, where a variant has several; zero when nobody counted.
    pub flops: Flops,
    /// What only CUDA knows.
    pub cuda: CudaLaunch,
}

impl Stage {
    /// A stage with no CUDA extras.
    pub fn new(
        entry: &'static str,
        uses: &[(&'static str, Access)],
        workgroup: [u32; 3],
        grid: [u32; 3],
        shared_bytes: u32,
    ) -> Self {
        let cuda = CudaLaunch::default();
        Stage { entry, uses: uses.to_vec(), workgroup, grid, shared_bytes, flops: Flops(0), cuda }
    }

    /// The same with its operations counted.
    pub fn counting(self, flops: Flops) -> Self {
        Stage { flops, ..self }
    }
}

/// Launch settings that exist only in CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CudaLaunch {
    /// Blocks in one cluster; zero means no cluster.
    pub cluster: u32,
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared_bytes: u32,
    /// A call into the vendor's library in place of a kernel of our own.
    pub library: Option<Library>,
}

/// A call into a vendor's library, as data. The buffers are the stage's `uses`, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// cuBLASLt: `C = A·B`, all row-major and dense, in the case's element type, accumulated in f32. Uses: A, B, C.
    Gemm {
        /// Rows of A and C.
        m: u64,
        /// Columns of B and C.
        n: u64,
        /// Columns of A, rows of B.
        k: u64,
    },
}

/// Spread `count` workgroups over two grid dimensions so that neither exceeds the portable limit of 65 535.
///
/// The kernel recovers the flat index as `group.y * grid.x + group.x` and must ignore indices past `count`.
pub fn spread(count: u64) -> [u32; 3] {
    const LIMIT: u64 = 65_535;
    if count <= LIMIT {
        return [count as u32, 1, 1];
    }
    let rows = count.div_ceil(LIMIT);
    [count.div_ceil(rows) as u32, u32::try_from(rows).unwrap_or(u32::MAX), 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_covers_every_group_within_the_portable_limit() {
        for count in [1, 7, 65_535, 65_536, 833_334, 4_000_000_000] {
            let [x, y, z] = spread(count);
            assert!(x <= 65_535 && y <= 65_535 && z == 1, "{count}: {x} {y} {z}");
            let launched = u64::from(x) * u64::from(y);
            assert!(launched >= count && launched - count < u64::from(y), "{count}: {x} x {y}");
        }
    }
}
