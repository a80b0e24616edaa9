//! Capabilities of a device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MatrixShape;
use super::matrix::listed;
use crate::case::{DType, Tuning};
use crate::units::Bytes;

/// The language in which a kernel is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// WebGPU Shading Language.
    Wgsl,
    /// CUDA C++.
    Cuda,
    /// A library of the device's vendor.
    Vendor,
    /// The plain host implementation.
    Cpu,
}

/// Capabilities of a device that decide which cases can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caps {
    /// The language that the device's kernels are written in.
    pub dialect: Dialect,
    /// Element types that it computes with.
    pub dtypes: Vec<DType>,
    /// Smallest and largest subgroup (CUDA: warp), where kernels may use subgroup operations.
    pub subgroup: Option<(u32, u32)>,
    /// Workgroup (shared) memory per workgroup.
    pub shared_bytes: u32,
    /// Threads per workgroup.
    pub max_invocations: u32,
    /// Threads per workgroup and dimension.
    pub max_workgroup: [u32; 3],
    /// Workgroups per dimension of a launch.
    pub max_grid: [u32; 3],
    /// Largest buffer that a kernel can bind.
    pub max_binding: Bytes,
    /// Buffers that one kernel can bind, where that is limited: WebGPU promises eight. CUDA has no such limit, and older
    /// recordings do not tell theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_storage_buffers: Option<u32>,
    /// Device memory in total, where known.
    pub memory: Option<Bytes>,
    /// CUDA compute capability (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// Number of GPUs that work as this one device: more than one for a group, which runs collectives.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// Multiprocessors (CUDA) or host threads (CPU), where known.
    #[serde(rename = "units")]
    pub compute_units: Option<u32>,
    /// WGSL only: the matrices that threads together can multiply, where kernels may use such.
    #[serde(default, alias = "coop_matrix", deserialize_with = "listed", skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<MatrixShape>,
    /// WGSL only: a browser compiles the kernels, with checks and a memory model of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_a_browser: bool,
    /// There are units that multiply matrices of 16-bit floats, whether or not a kernel here reaches them.
    #[serde(default)]
    pub matrix_units: bool,
    /// Capabilities of CUDA devices only; absent from older recordings of such devices too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<CudaCaps>,
    /// The program can make texts of kernels that are written in Rust with CubeCL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cube: bool,
    /// Why it cannot, where there is more to say than that it was built without the compilers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cube: Option<String>,
    /// Values of tunables that differ from the defaults.
    #[serde(default, skip_serializing_if = "Tuning::is_empty")]
    pub tuning: Tuning,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(ranks: &u32) -> bool {
    *ranks == one()
}

impl Caps {
    /// WGSL only: whether a subgroup can multiply 16×16 matrices of f16 and accumulate in f32 (cooperative matrices).
    pub fn coop_matrix(&self) -> bool {
        self.matrices.contains(&MatrixShape::F16_IN_F32)
    }
}

/// Capabilities of CUDA devices only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CudaCaps {
    /// Blocks in one cluster that every device with clusters can launch; one where there are none.
    pub max_cluster: u32,
    /// Shared memory that one block can have, static and dynamic together.
    pub max_block_shared_bytes: u32,
    /// There is a copy engine that takes tensor maps (TMA).
    pub tensor_maps: bool,
    /// Four warps together can multiply matrices in shared memory (`wgmma`).
    pub wgmma: bool,
    /// The compiler finds the toolkit's headers of 16-bit floats, [`CUDA_HALVES`] among them. Our own texts need none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub half_headers: bool,
}

/// Header of 16-bit floats in the CUDA toolkit.
pub const CUDA_HALVES: &str = "cuda_fp16.h";

impl CudaCaps {
    /// Capabilities of a device without any of these features, as of every device that is not CUDA's.
    pub const NONE: CudaCaps =
        CudaCaps { max_cluster: 1, max_block_shared_bytes: 0, tensor_maps: false, wgmma: false, half_headers: false };
}
