//! Backward direction of convolutions: gradients of the input, of the kernels and of the bias for a gradient `dout` of the result.
//!
//! With `g = dout`; with `relu`, `g` is zero at each element with a result `out` not above zero. `dx` is the convolution of `g`
//! with the transposed kernels, `dw[m,c,tap] = Σ g · x` over images and positions, `dbias = Σ g`. Layouts are those of the forward
//! direction. `out` is an input, from the forward pass.
//!
//! Operations: those of the two GEMMs, twice the forward pass.

use parallax_ir::conv::Conv;
use parallax_ir::parallel::*;
use parallax_ir::stress::{closed, exact, no_gradient, one, wide};
use parallax_ir::{
    BufferSpec, Choice, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, StressInput,
    Tolerance, Variant, by_cudnn, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::super::linear::backward::by_element;
use super::super::linear::stages::most_parts;
use super::backward_stages::{Backward, With, most_parts_of_weights};
use super::forward::of_library;
use super::patches::{gradient_of_images, gradient_of_kernels};
use super::{Shapes, wgmma as warpgroups};
use crate::dense::total;
use crate::products::of_terms;
use crate::real::gated;

const X: usize = 0;
const W: usize = 1;
const DOUT: usize = 2;
/// Index of the forward pass's result, if the shape has ReLU.
const OUT: usize = 3;

/// Indices of the outputs, in buffer order.
const DX: usize = 0;
const DW: usize = 1;

/// Specification of the backward direction, for shapes of two or three dimensions.
pub(in super::super) fn form(shapes: Shapes) -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Bwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, output| {
                let conv = Conv::new(&p.shape);
                match output {
                    DX => conv.group_channels()[1] * conv.taps() * conv.x_dims().last().expect("extents"),
                    _ => conv.pixels()[1],
                }
            },
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
        ),
        OfNan::MIXED,
    )
    .headline(shapes.headline)
    .shapes(shapes.presets)
    .awkward(shapes.awkward)
    .host(host)
    .variants(vec![
        Variant::kernel("direct", "one element of a gradient per thread, straight from device memory", direct),
        Variant::kernel(
            "implicit_gemm",
            "both gradients are products by tiles in workgroup memory; that of the kernels is made in parts of the \
             positions, which a second stage adds up",
            implicit_gemm,
        ),
        Variant::kernel(
            "mma",
            "the same on tensor cores; unless channels are last, a stage transposes the kernels, so that terms of a \
                 row are neighbours",
            mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same by warpgroups, straight from shared memory: Hopper's instructions; channels last",
            wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::available_backward),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["wgmma", "mma", "implicit_gemm", "direct"])
    .stress(stress_inputs());
    let library = by_cudnn(
        |p, caps| backward(p, caps).program(With::Library(Choice::Heuristic)),
        |p, caps| backward(p, caps).program(With::Library(Choice::Timed)),
    );
    form.variants.extend(library.map(|variant| variant.by_fewer(of_library)));
    form
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let conv = Conv::new(&p.shape);
    let (bias, relu) = (p.shape.has("bias"), p.shape.has("relu"));
    let (out, weights) = (conv.out_dims(), conv.w_dims());
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &conv.x_dims(), normal),
        BufferSpec::input("w", Elem::Real, &weights, normal),
        BufferSpec::input("dout", Elem::Real, &out, normal),
    ];
    if relu {
        buffers.push(BufferSpec::input("out", Elem::Real, &out, normal));
    }
    buffers.push(BufferSpec::output("dx", Elem::Real, &conv.x_dims()));
    buffers.push(by_element("dw", &weights));
    if bias {
        buffers.push(by_element("dbias", &[conv.channels[1]]));
        let most = most_parts(conv.pixels()[1]);
        buffers.push(BufferSpec::scratch("sums", Elem::F32, &[most, conv.channels[1]]));
    }
    if relu {
        buffers.push(BufferSpec::scratch("gated", Elem::Real, &out));
    }
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

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    let conv = Conv::new(&p.shape);
    match output {
        DX => of_terms(p, conv.group_channels()[1] * conv.taps()),
        _ => of_terms(p, conv.pixels()[1]),
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(exact),
        StressInput::new(
            "equal",
            "all one: the number of terms inside",
            |p| match p.shape.has("relu") {
                true => vec![("x", one), ("w", one), ("dout", one), ("out", one)],
                false => vec![("x", one), ("w", one), ("dout", one)],
            },
            |p, _| Tolerance {
                abs: 0.0,
                rel: 2.0 * p.dtype.unit_roundoff(),
                reason: "sums of ones are exact in f32, and rounded once to the element type",
            },
        )
        // Gradients of kernels count positions, and f16 holds no large count.
        .applies(|p| wide(p) || Conv::new(&p.shape).pixels()[1] < 60_000),
        closed(|p| p.shape.has("relu"), exact),
    ]
}

/// Gradient before ReLU at an element of the result.
fn gradient(p: &Problem, inputs: &Inputs) -> impl Fn(u64) -> f64 {
    let relu = p.shape.has("relu");
    move |place| if relu && inputs.at(OUT, place) <= 0.0 { 0.0 } else { inputs.at(DOUT, place) }
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (conv, gradient) = (Conv::new(&p.shape), gradient(p, inputs));
    let first = row * out.len() as u64;
    for (slot, place) in out.iter_mut().zip(first..) {
        *slot = match output {
            DX => of_input(&conv, place, &gradient, |weight| inputs.at(W, weight)),
            DW => of_kernels(&conv, place, &gradient, |pixel| inputs.at(X, pixel)),
            _ => {
                let of_image = |image| conv.every_output().map(move |at| conv.out_at([image, place], at));
                (0..conv.images).flat_map(of_image).map(&gradient).sum()
            }
        };
    }
}

/// Gradient of an element of the input, from the gradient of the result and the kernels.
pub(in super::super) fn of_input(
    conv: &Conv,
    place: u64,
    gradient: impl Fn(u64) -> f64,
    weights: impl Fn(u64) -> f64,
) -> f64 {
    let ([in_group, out_group], ([image, c], at)) = (conv.group_channels(), conv.x_index(place));
    let mut sum = 0.0;
    for tap in conv.every_tap() {
        let Some(over) = conv.output_position(at, tap) else { continue };
        for m in c / in_group * out_group..(c / in_group + 1) * out_group {
            let weight = weights(conv.w_at([m, c % in_group], tap));
            sum += gradient(conv.out_at([image, m], over)) * weight;
        }
    }
    sum
}

/// Gradient of an element of the kernels, from the gradient of the result and the input.
pub(in super::super) fn of_kernels(
    conv: &Conv,
    place: u64,
    gradient: impl Fn(u64) -> f64,
    pixels: impl Fn(u64) -> f64,
) -> f64 {
    let ([in_group, out_group], ([m, c], tap)) = (conv.group_channels(), conv.w_index(place));
    let mut sum = 0.0;
    for at in conv.every_output() {
        let Some(under) = conv.input_position(at, tap) else { continue };
        for image in 0..conv.images {
            let pixel = pixels(conv.x_at([image, m / out_group * in_group + c], under));
            sum += gradient(conv.out_at([image, m], at)) * pixel;
        }
    }
    sum
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let conv = Conv::new(&p.shape);
    let dout = inputs[DOUT].f32();
    let g: Vec<f32> = match p.shape.has("relu") {
        true => dout.par_iter().zip(inputs[OUT].f32()).map(|(g, out)| gated(*out, *g)).collect(),
        false => dout.to_vec(),
    };
    host_products(&conv, [inputs[X].f32(), inputs[W].f32(), &g], outputs);
    if let Some(dbias) = outputs.get_mut(DW + 1) {
        dbias.par_iter_mut().enumerate().for_each(|(m, dbias)| {
            let of_image = |image: u64| {
                let places = conv.every_output().map(|at| conv.out_at([image, m as u64], at) as usize);
                total(places.map(|place| g[place]))
            };
            *dbias = (0..conv.images).map(of_image).sum();
        });
    }
}

/// Computes the gradients of the input and of the kernels, the first outputs. Operands are the input, the kernels and the gradient
/// of the result.
pub(in super::super) fn host_products(conv: &Conv, [x, w, g]: [&[f32]; 3], outputs: &mut [Vec<f32>]) {
    let [in_group, out_group] = conv.group_channels();
    gradient_of_kernels(conv, x, g, &mut outputs[DW]);
    if gradient_of_images(conv, w, g, &mut outputs[DX]) {
        return;
    }
    outputs[DX].par_iter_mut().enumerate().for_each(|(place, dx)| {
        let ([image, c], at) = conv.x_index(place as u64);
        *dx = 0.0;
        for tap in conv.every_tap() {
            let Some(over) = conv.output_position(at, tap) else { continue };
            let ms = c / in_group * out_group..(c / in_group + 1) * out_group;
            let term = |m| g[conv.out_at([image, m], over) as usize] * w[conv.w_at([m, c % in_group], tap) as usize];
            *dx += ms.map(term).sum::<f32>();
        }
    });
}

fn backward<'a>(p: &Problem, caps: &'a Caps) -> Backward<'a> {
    let conv = Conv::new(&p.shape);
    Backward { conv, dtype: p.dtype, caps, bias: p.shape.has("bias"), relu: p.shape.has("relu") }
}

fn direct(p: &Problem, caps: &Caps) -> Program {
    backward(p, caps).program(With::Elements)
}

fn implicit_gemm(p: &Problem, caps: &Caps) -> Program {
    backward(p, caps).program(With::Tiles)
}

fn mma(p: &Problem, caps: &Caps) -> Program {
    backward(p, caps).program(With::Mma)
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    backward(p, caps).program(With::Wgmma)
}
