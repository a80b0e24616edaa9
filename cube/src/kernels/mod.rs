//! The kernels, one file for each workload. Each has a function of CubeCL, and a function that defines its constants and buffers.

mod attention;
mod copy;
mod depthwise_conv2d;
mod embedding;
mod hash_embedding;
mod layernorm;
mod matmul;
mod reduce;
mod rows;
mod softmax;

use crate::definition::Definition;

/// Function that puts a kernel's body into its definition.
pub type Define = fn(&mut Definition<'_>);

/// Every kernel by the name of its source.
pub const KERNELS: &[(&str, Define)] = &[
    ("cube_copy", copy::define),
    ("cube_softmax", softmax::define),
    ("cube_layernorm", layernorm::define),
    ("cube_add_layernorm", layernorm::define_sum),
    ("cube_add_layernorm_in_place", layernorm::define_in_place),
    ("cube_reduce_parts", reduce::define_parts),
    ("cube_reduce_last", reduce::define_last),
    ("cube_embedding", embedding::define),
    ("cube_depthwise_conv2d", depthwise_conv2d::define),
    ("cube_hash_embedding", hash_embedding::define),
    ("cube_matmul", matmul::define),
    ("cube_attention", attention::define),
];
