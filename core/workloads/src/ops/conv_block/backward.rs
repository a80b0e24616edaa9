//! Backward direction of the block: gradients of the input, of the kernels, of γ and of β for a gradient `dout` of the result.
//!
//! With `g = dout` where the result `out` is above zero and zero elsewhere, and `v̂ = (v - mean) / √(variance + ε)`: `dbeta = Σ g`
//! and `dgamma = Σ g·v̂` over images and positions. The gradient of `v` is `gamma / √(variance + ε) · (g - dbeta/N - v̂·dgamma/N)`
//! for `N` positions, because the statistics are functions of the same values (Ioffe and Szegedy 2015). `dx` and `dw` are those of
//! `conv2d` for it. The bias then has no gradient: an offset of a channel cancels with its mean.
//!
//! With `inference` the statistics are inputs. The gradient of `v` is `gamma / √(variance + ε) · g`, and `dbias` is its sum.
//!
//! Inputs from the forward pass: `v` as stored (`biased`), `mean`, `variance` and `out`.
//!
//! Operations: those of the two GEMMs, twice the forward pass. The rest is not counted.

use parallax_ir::conv::Conv;
use parallax_ir::{BufferSpec, Elem, Gemm, OfNan, OpSpec, Problem, Reference, Variant, normal};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::Dialect;

use super::super::conv2d::backward_stages::{With, most_parts_of_weights};
use super::super::linear::backward::by_element;
use super::stages::Block;
use super::{accuracy, bias, factor, gradients, inference, running_variance, stages};

pub(super) fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        accuracy::backward_tolerance,
        Reference::new(gradients::row_cost, gradients::rows),
        OfNan::MIXED,
    )
    .headline("n8,c64,h56,k3,p1,nchw")
    .shapes(super::shapes)
    .awkward(AWKWARD)
    .host(gradients::host)
    .variants(vec![
        Variant::kernel(
            "unfused",
            "every step a stage: the gradient before ReLU, its sums, the gradient before normalisation, and the products by tiles \
             in workgroup memory",
            |p, caps| Block::new(p, caps).backward(With::Tiles, false),
        ),
        Variant::kernel("unfused_mma", "the same, with the products on tensor cores", |p, caps| {
            Block::new(p, caps).backward(With::Mma, false)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "fused",
            "the gradient before ReLU is made where it is read, for the sums and for the gradient before normalisation",
            |p, caps| Block::new(p, caps).backward(With::Tiles, true),
        ),
        Variant::kernel("fused_mma", "the same, with the products on tensor cores", |p, caps| {
            Block::new(p, caps).backward(With::Mma, true)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
    ])
    .fallback(&["fused_mma", "fused", "unfused_mma", "unfused"])
    .stress(accuracy::backward_stress_inputs())
}

/// Shapes over the edges of strips and of the GEMMs' tiles, in both layouts, with and without input statistics.
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
    // Several strips, the last of them cut.
    "n3,c1,m3,h64,k1,nchw",
    "n2,c4,h50,k1,nhwc",
];

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let conv = Conv::new(&p.shape);
    let ([_, m], [_, positions]) = (conv.channels, conv.pixels());
    let (out, weights) = (conv.out_dims(), conv.w_dims());
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &conv.x_dims(), normal),
        BufferSpec::input("w", Elem::Real, &weights, normal),
        BufferSpec::input("gamma", Elem::Real, &[m], factor),
        BufferSpec::input("mean", Elem::F32, &[m], bias),
        BufferSpec::input("variance", Elem::F32, &[m], running_variance),
        BufferSpec::input("biased", Elem::Real, &out, normal),
        BufferSpec::input("out", Elem::Real, &out, normal),
        BufferSpec::input("dout", Elem::Real, &out, normal),
        BufferSpec::output("dx", Elem::Real, &conv.x_dims()),
        by_element("dw", &weights),
        by_element("dgamma", &[m]),
        by_element("dbeta", &[m]),
    ];
    if inference(p) {
        buffers.push(by_element("dbias", &[m]));
    }
    let strips = positions.div_ceil(stages::GRADIENT_STRIP);
    buffers.extend([
        BufferSpec::scratch("gated", Elem::Real, &out),
        BufferSpec::scratch("strips", Elem::F32, &[strips, 2, m]),
        BufferSpec::scratch("totals", Elem::F32, &[2, m]),
        BufferSpec::scratch("dv", Elem::Real, &out),
    ]);
    if !conv.last {
        buffers.push(BufferSpec::scratch("turned", Elem::Real, &weights));
    }
    let parts = most_parts_of_weights(&conv);
    buffers.push(BufferSpec::scratch("parts", Elem::F32, &[&[parts], &weights[..]].concat()));
    buffers
}

fn cost(p: &Problem) -> Cost {
    p.each_once(2 * Conv::new(&p.shape).flops())
}
