//! Dense and grouped 3-D convolution: `conv2d` with one more dimension, by the same kernel sources.
//!
//! Layouts: `ncdhw` or `ndhwc` for images. Kernels are stored alike, `[m, c/g, kd, k, kw]` or `[m, kd, k, kw, c/g]`. Stride,
//! padding and dilation are the same in each dimension. Formula: the PyTorch documentation of `Conv3d`.
//!
//! Operations: `2·kd·k·kw·c/g` per output element, border included.

use parallax_ir::conv::Conv;
use parallax_ir::{Axis, OpSpec, Workload};
use parallax_schema::case::{DType, Preset};

use super::conv2d;
use super::conv2d::{Shapes, backward};

/// Definition of the workload.
pub fn workload() -> Workload {
    let shapes = Shapes { headline: "n1,c32,d16,h32,k3,p1,ncdhw", presets: shapes, awkward: AWKWARD };
    Workload {
        name: "",
        probes: &[],
        about: "dense and grouped 3-D convolution",
        axes: const {
            &[
                Axis::extent("n", "images").items(),
                Axis::extent("c", "input channels"),
                Axis::same_as("m", "output channels", "c"),
                Axis::extent("d", "depth"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("k", "kernel"),
                Axis::same_as("kw", "kernel width", "k"),
                Axis::same_as("kd", "kernel depth", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("l", "dilation", 1, 1),
                Axis::optional("g", "groups", 1, 1),
                Axis::word("layout", "memory order", &["ncdhw", "ndhwc"]),
                Axis::word("bias", "whether a bias per output channel is added", &["", "bias"]),
                Axis::word("relu", "whether negative results become zero", &["", "relu"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| Conv::new(shape).validate(),
        forms: vec![forward(shapes), backward::form(shapes)],
    }
}

/// Specification of the forward direction, without the 2-D variant `winograd`.
fn forward(shapes: Shapes) -> OpSpec {
    let mut form = conv2d::forward::form(shapes);
    form.variants.retain(|variant| variant.name != "winograd");
    form
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n1,c32,d16,h32,k3,p1,ncdhw",
            "n2,c4,m8,d16,h64,k3,p1,g2,ncdhw",
            "n2,c32,d32,h64,k3,p1,ncdhw",
            "n2,c32,d32,h64,k3,p1,ndhwc",
        ],
        _ => &[
            "n1,c32,d16,h32,k3,p1,ncdhw",
            "n2,c4,m8,d16,h64,k3,p1,g2,ncdhw",
            "n2,c4,m8,d16,h64,k3,p1,g2,ndhwc",
            "n2,c32,d32,h64,k3,p1,ncdhw",
            "n2,c32,d32,h64,k3,p1,ndhwc",
            "n2,c32,d32,h64,k3,p1,ndhwc,bias,relu",
            "n2,c64,d16,h32,k3,s2,p1,ndhwc",
        ],
    }
}

/// Shapes over the edges of all tiles, in both layouts.
const AWKWARD: &[&str] = &[
    "n1,c1,d1,h1,k1,ncdhw",
    "n1,c3,m5,d3,h4,w7,k3,p1,ncdhw,bias,relu",
    "n2,c4,m6,d4,h5,k2,kd1,s2,p1,g2,ndhwc,bias",
    "n1,c8,m16,d3,h5,w4,k3,kw1,p1,ndhwc,relu",
    "n1,c2,m4,d5,h6,k3,p2,l2,g2,ncdhw,bias",
    "n1,c16,m40,d3,h5,k2,kd3,p1,ndhwc",
    "n2,c8,m24,d4,h5,w8,k3,p1,ncdhw,bias",
    "n2,c5,m36,d4,h3,w9,k1,kd2,s3,p1,ncdhw",
];
