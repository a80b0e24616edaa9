//! What a program may ask of a device.

use super::{DType, Tuning};
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What plans need to know of a device: capabilities that decide which cases can run.
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
    /// Device memory in total, where known.
    pub memory: Option<Bytes>,
    /// CUDA compute capability (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// Multiprocessors (CUDA) or host threads (CPU), where known.
    pub units: Option<u32>,
    /// WGSL only: a subgroup can multiply 16×16 matrices of f16 and accumulate in f32 (cooperative matrices).
    #[serde(default)]
    pub coop_matrix: bool,
    /// There are units that multiply matrices of 16-bit floats, whether or not a kernel here reaches them.
    #[serde(default)]
    pub matrix_units: bool,
    /// Values of what variants leave open, where they are not the defaults.
    #[serde(default, skip_serializing_if = "Tuning::is_empty")]
    pub tuning: Tuning,
}
