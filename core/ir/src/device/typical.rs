//! Capabilities of typical devices with every feature that kernels here use. They serve kernel sources and tables on machines
//! without such a device.

use parallax_schema::case::DType;
use parallax_schema::device::{Caps, CudaCaps, Dialect, MatrixShape};
use parallax_schema::units::Bytes;

/// Returns a GPU through native WebGPU, with f16, subgroups of 32 threads and matrices of 16×16.
pub fn native() -> Caps {
    Caps {
        dialect: Dialect::Wgsl,
        dtypes: vec![DType::F32, DType::F16],
        subgroup: Some((32, 32)),
        shared_bytes: 49_152,
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 64],
        max_grid: [65_535; 3],
        max_binding: Bytes((2 << 30) - 4),
        max_storage_buffers: Some(16),
        memory: None,
        compute_capability: None,
        ranks: 1,
        compute_units: None,
        matrices: vec![MatrixShape::F16_IN_F32],
        in_a_browser: false,
        matrix_units: true,
        cuda: None,
        cube: true,
        no_cube: None,
        tuning: Default::default(),
    }
}

/// Returns the same GPU in a browser without flags.
pub fn browser() -> Caps {
    Caps {
        subgroup: None,
        shared_bytes: 32_768,
        max_storage_buffers: Some(10),
        matrices: Vec::new(),
        in_a_browser: true,
        matrix_units: false,
        ..native()
    }
}

/// Returns a GPU of compute capability 9.0 through CUDA.
pub fn cuda() -> Caps {
    Caps {
        dialect: Dialect::Cuda,
        dtypes: vec![DType::F32, DType::F16, DType::BF16],
        max_grid: [2_147_483_647, 65_535, 65_535],
        max_binding: Bytes(u64::MAX),
        max_storage_buffers: None,
        compute_capability: Some((9, 0)),
        compute_units: Some(132),
        matrices: Vec::new(),
        cuda: Some(CudaCaps {
            max_cluster: 8,
            max_block_shared_bytes: 232_448,
            tensor_maps: true,
            wgmma: true,
            half_headers: true,
        }),
        ..native()
    }
}
