//! Block of an imaging network: 2-D convolution, bias, batch normalisation, ReLU.
//!
//! `v[n,m,y,x] = bias[m] + conv(x, w)[n,m,y,x]`, as `conv2d` defines it, and `out = max(0, (v - mean[m]) / √(variance[m] + ε) ·
//! gamma[m] + beta[m])` with `ε = 10⁻⁵`.
//!
//! The mean and the variance of a channel are those of `v` over all images and positions, as in training. The variance is the sum
//! of squares divided by their number. Both are outputs. With `inference` they are inputs, like running statistics. Formulas: Ioffe
//! and Szegedy (2015), "Batch Normalization"; the PyTorch documentation of `BatchNorm2d`.
//!
//! Layouts: `nchw` or `nhwc` for images, kernels alike, as in `conv2d`. Means and variances are f32 for every element type. They
//! are computed from `v` as stored, rounded to the element type.
//!
//! Operations: those of the convolution, `2·k·kw·c/g` per output element, border included. The rest is not counted.

use parallax_ir::conv::Conv;
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, MOST_PARTS, OfNan, OpSpec, Problem, Reference, Shape, Variant, Workload,
    indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use crate::SubOp;

mod accuracy;
mod backward;
mod backward_stages;
mod buffers;
mod gradients;
mod reference;
mod stages;

const X: usize = 0;
const W: usize = 1;
const BIAS: usize = 2;
const GAMMA: usize = 3;
const BETA: usize = 4;
/// Indices of the statistics, if they are inputs.
const MEAN: usize = 5;
const VARIANCE: usize = 6;

const EPS: f64 = 1e-5;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "convolution, bias, batch normalisation and ReLU of an imaging network",
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
                Axis::word("statistics", "whether means and variances are given", &["", "inference"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            let conv = Conv::new(shape);
            conv.validate()?;
            // Threads that process several pieces step past the end.
            indexable(conv.out_dims().iter().product::<u64>().saturating_mul(2))
        },
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        accuracy::tolerance,
        Reference::new(reference::row_cost, reference::rows),
        OfNan::Kept,
    )
    .headline("n8,c64,h56,k3,p1,nchw")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(reference::host)
    .variants(vec![
        Variant::kernel(
            "unfused",
            "every step a stage: the convolution by tiles in workgroup memory, bias, statistics, normalisation, ReLU",
            stages::unfused,
        ),
        Variant::kernel("unfused_mma", "the same, with the convolution on tensor cores", stages::unfused_mma)
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "fused",
            "the convolution's tiles add the bias and leave each channel's mean and sum of squares around it; these are merged \
             (Chan, Golub and LeVeque 1983), and one pass normalises and takes ReLU. With given statistics all of it is done to \
             sums in registers, in one stage",
            stages::fused,
        ),
        Variant::kernel("fused_mma", "the same, with the convolution on tensor cores", stages::fused_mma)
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
    ])
    .fallback(&["fused_mma", "fused", "unfused_mma", "unfused"])
    .stress(accuracy::stress_inputs())
}

/// Shapes of a preset. 64 channels of 56 × 56 are the first stage of ResNet-50 (He et al. 2016); 128 × 128 are those of
/// segmentation networks.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n8,c64,h56,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nhwc,inference",
        ],
        _ => &[
            "n8,c64,h56,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nchw",
            "n8,c64,h128,k3,p1,nhwc",
            "n8,c64,h128,k3,p1,nhwc,inference",
            "n8,c256,h56,k3,p1,nchw",
            "n8,c256,h56,k3,p1,nhwc",
            "n8,c256,h56,k3,p1,nchw,inference",
            "n8,c256,h56,k3,p1,nhwc,inference",
        ],
    }
}

/// Shapes over the edges of all tiles, in both layouts. One position, or dozens, so that no channel's deviation is almost zero.
/// Parts of tiles down and across, groups, and more positions than a strip of a plane.
const AWKWARD: &[&str] = &[
    "n1,c1,h1,k1,nchw",
    "n1,c1,h1,k1,nhwc,inference",
    "n2,c3,m5,h7,w6,k3,p1,nchw",
    "n2,c3,m5,h7,w6,k3,p1,nhwc",
    "n1,c5,m3,h9,k2,nchw,inference",
    "n1,c8,m12,h12,w9,k3,kw2,p1,nhwc,inference",
    "n2,c24,m40,h8,w9,k3,kw1,p1,g2,nhwc",
    "n3,c6,m9,h13,w17,k3,s2,p2,l2,g3,nchw",
    "n3,c16,m72,h5,w6,k3,p1,nhwc",
    "n1,c7,m66,h9,w29,k2,s2,p1,nchw",
    // Enough for large tiles if the number of multiprocessors is unknown, and for several strips.
    "n3,c2,m65,h64,k1,nchw",
    "n1,c4,m33,h128,k1,nhwc",
    "n1,c4,m68,h128,k1,nhwc",
    "n1,c3,m66,h128,k1,nchw,inference",
];

/// Whether means and variances are inputs.
fn inference(p: &Problem) -> bool {
    p.shape.has("inference")
}

/// Weight scaled so that sums over normal inputs are about one; no weight is almost zero.
fn weight(shape: &Shape, draw: Draw) -> f64 {
    let (normal, terms) = (draw.normal(), shape["c"] / shape["g"] * shape["k"] * shape["kw"]);
    0.5 * (normal + normal.signum()) / (terms as f64).sqrt()
}

fn bias(_: &Shape, draw: Draw) -> f64 {
    0.25 * draw.normal()
}

fn factor(_: &Shape, draw: Draw) -> f64 {
    1.0 + 0.25 * draw.normal()
}

fn offset(_: &Shape, draw: Draw) -> f64 {
    0.5 * draw.normal()
}

fn running_variance(_: &Shape, draw: Draw) -> f64 {
    0.5 + draw.uniform()
}

/// Sub-operation that scales columns: its statistics are those of channels-last images.
fn scaler(p: &Problem) -> SubOp {
    let conv = Conv::new(&p.shape);
    SubOp::new("standard_scaler", Direction::Fwd, &format!("n{},f{}", conv.pixels()[1], conv.channels[1]), p.dtype)
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let conv = Conv::new(&p.shape);
    let ([_, m], [_, positions], out) = (conv.channels, conv.pixels(), conv.out_dims());
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &conv.x_dims(), normal),
        BufferSpec::input("w", Elem::Real, &conv.w_dims(), weight),
        BufferSpec::input("bias", Elem::Real, &[m], bias),
        BufferSpec::input("gamma", Elem::Real, &[m], factor),
        BufferSpec::input("beta", Elem::Real, &[m], offset),
    ];
    buffers.extend(match inference(p) {
        true => [
            BufferSpec::input("mean", Elem::F32, &[m], bias),
            BufferSpec::input("variance", Elem::F32, &[m], running_variance),
        ],
        false => [BufferSpec::output("mean", Elem::F32, &[m]), BufferSpec::output("variance", Elem::F32, &[m])],
    });
    buffers.push(BufferSpec::output("out", Elem::Real, &out));
    buffers.extend(["sums", "biased", "normalised"].map(|name| BufferSpec::scratch(name, Elem::Real, &out)));
    if !inference(p) {
        let parts = positions.div_ceil(stages::SHORTEST_STRIP).max(positions.min(MOST_PARTS));
        buffers.push(BufferSpec::scratch("parts", Elem::F32, &[parts, 2, m]));
    }
    buffers
}

fn cost(p: &Problem) -> Cost {
    p.each_once(Conv::new(&p.shape).flops())
}
