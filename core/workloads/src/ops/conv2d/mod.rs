//! Dense and grouped 2-D convolution (cross-correlation, as in every deep-learning framework).
//!
//! `out[n,m,y,x] = Σ_{c,i<k,j<kw} w[m,c,i,j] · in[n, c₀ + c, y·stride + i·dilation - pad, x·stride + j·dilation - pad]`, `c` over
//! the channels of the group of `m`, which begin at `c₀`. Terms outside the image are zero. With `bias`, a number per output
//! channel is added. With `relu`, negative results then become zero. Formula: the PyTorch documentation of `Conv2d`.
//!
//! Layouts: `nchw` or `nhwc` for images. Kernels are stored alike, `[m, c/g, k, kw]` or `[m, k, kw, c/g]`, as in cuDNN. Output
//! extent: `⌊(h + 2p - l(k-1) - 1)/s⌋ + 1`.
//!
//! Operations: `2·k·kw·c/g` per output element, border included. `conv3d` shares these directions and kernel sources, with one more
//! dimension. Shared items take three dimensions: see `suite::conv`.

use parallax_ir::conv::Conv;
use parallax_ir::{Axis, Workload};
use parallax_schema::case::{DType, Preset};

pub(super) mod backward;
pub(super) mod backward_stages;
mod channels_last;
mod cubek;
pub(super) mod forward;
pub(super) mod patches;
pub(super) mod stages;
mod wgmma;
mod winograd;

/// Differences between the workloads of two and of three dimensions.
#[derive(Clone, Copy)]
pub(super) struct Shapes {
    /// Preset `quick`.
    pub(super) headline: &'static str,
    /// Shapes to measure.
    pub(super) presets: fn(Preset) -> &'static [&'static str],
    /// Small shapes that are awkward for every tile.
    pub(super) awkward: &'static [&'static str],
}

/// Definition of the workload.
pub fn workload() -> Workload {
    let shapes = Shapes { headline: "n8,c64,h56,k3,p1,nchw", presets: shapes, awkward: AWKWARD };
    let mut forward = forward::form(shapes);
    forward.variants.push(cubek::variant());
    Workload {
        name: "",
        probes: &[],
        about: "dense and grouped 2-D convolution",
        axes: const {
            &[
                Axis::extent("n", "images").items(),
                Axis::extent("c", "input channels"),
                Axis::same_as("m", "output channels", "c"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("k", "kernel"),
                Axis::same_as("kw", "kernel width", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("l", "dilation", 1, 1),
                Axis::optional("g", "groups", 1, 1),
                Axis::word("layout", "memory order", &["nchw", "nhwc"]),
                Axis::word("bias", "whether a bias per output channel is added", &["", "bias"]),
                Axis::word("relu", "whether negative results become zero", &["", "relu"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| Conv::new(shape).validate(),
        forms: vec![forward, backward::form(shapes)],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n8,c64,h56,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nhwc",
            "n32,c3,m64,h224,k7,s2,p3,nchw",
        ],
        _ => &[
            "n8,c64,h56,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nchw",
            "n8,c256,h56,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nhwc,bias,relu",
            "n32,c3,m64,h224,k7,s2,p3,nchw",
            "n32,c3,m64,h224,k7,s2,p3,nhwc",
            "n32,c128,h28,k3,p1,g32,nhwc",
        ],
    }
}

/// Shapes over the edges of all tiles, in both layouts. Channels are in whole vectors or not, one per group, or more than a tile.
const AWKWARD: &[&str] = &[
    "n1,c1,h1,k1,nchw",
    "n1,c1,h1,k1,nhwc,bias",
    "n2,c3,m5,h7,w5,k3,p1,nchw,bias,relu",
    "n2,c3,m5,h7,w5,k3,p1,nhwc,relu",
    "n1,c4,m8,h9,k2,nchw,relu",
    "n2,c16,m24,h9,w7,k3,s2,p1,g2,nchw,bias,relu",
    "n1,c24,m72,h11,w16,k3,p1,nchw",
    "n1,c8,m12,h11,w7,k4,kw2,p1,nhwc,bias",
    "n1,c6,m4,h13,w17,k3,kw5,s2,p2,g2,nchw",
    "n1,c24,m40,h8,w9,k3,kw1,s2,p1,g2,nhwc,bias,relu",
    "n1,c5,h9,k3,p3,l3,g5,nchw,bias",
    "n1,c8,h10,k3,s3,p2,l2,g8,nhwc",
    "n1,c6,m9,h6,w5,k3,p1,g3,nchw,bias",
    "n2,c8,m4,h5,k3,g2,nhwc,relu",
    "n1,c8,m70,h12,w11,k1,nhwc",
    // Enough for large tiles if the number of multiprocessors is unknown.
    "n1,c1,m65,h128,k1,nchw",
    "n1,c4,m33,h128,k1,nhwc",
    "n1,c7,m66,h5,w29,k2,s2,p1,nchw",
    // More than a wave of tiles of 128 positions, and a wave of larger ones; more channels than a tile of 128 has.
    "n1,c8,h136,k1,nhwc",
    "n1,c24,m136,h5,w7,k3,p1,nhwc",
    "n3,c16,m72,h5,w6,k3,p1,nhwc,bias,relu",
    // Backward by warpgroups: two parts of the positions, three warpgroups, groups with more channels than a tile of 128 has.
    "n1,c16,m24,h20,w13,k2,nhwc",
    "n1,c16,m8,h90,k3,nhwc",
    "n2,c272,m16,h9,w7,k3,kw2,s2,p1,l2,g2,nhwc",
];
