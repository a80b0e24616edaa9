//! Forward direction of convolutions.

use parallax_ir::conv::Conv;
use parallax_ir::stress::{exact, nan_bias, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    BufferSpec, Choice, ConvPass, Convolution, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program,
    Reference, StressInput, Tolerance, Variant, by_cudnn, normal,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::patches::{convolve, finish};
use super::stages::Gather;
use super::winograd::Squares;
use super::{Shapes, channels_last, wgmma as warpgroups};
use crate::dense;
use crate::products::{of_ones, of_terms};
use crate::real::{self, Real};

const X: usize = 0;
const W: usize = 1;
const BIAS: usize = 2;

/// Specification of the forward direction, for shapes of two or three dimensions.
pub(in super::super) fn form(shapes: Shapes) -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| {
                let conv = Conv::new(&p.shape);
                conv.terms() * conv.out_dims().last().expect("extents")
            },
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline(shapes.headline)
    .shapes(shapes.presets)
    .awkward(shapes.awkward)
    .host(host)
    .variants(vec![
        Variant::kernel("direct", "one output element per thread, straight from device memory", direct),
        Variant::kernel(
            "implicit_gemm",
            "a product of kernels with pixels by tiles in workgroup memory: pixels are gathered as they are staged",
            implicit_gemm,
        ),
        Variant::kernel(
            "mma",
            "the same on tensor cores; with channels last and eight to a vector, pixels are copied asynchronously",
            mma,
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same by warpgroups, which multiply straight from shared memory; tiles of 64 to 256 channels, copied two \
             steps ahead",
            wgmma,
        )
        .only_in(&[Dialect::Cuda])
        .available(warpgroups::available),
        Variant::kernel(
            "coopmat",
            "on matrix units through WGSL's cooperative matrices, an extension of native wgpu and of \
             Chromium; staged as by implicit_gemm",
            coopmat,
        )
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel(
            "channels_last",
            "channels moved last, multiplied on matrix units, and moved back: four stages",
            channels_last::program,
        )
        .available(channels_last::available),
        Variant::kernel(
            "winograd",
            "tiles of 2 × 2 results from 16 products in place of 36 (3 × 3 without stride), by four stages: kernels, \
                 pixels, products of matrices, results",
            winograd,
        )
        .available(|p, _| Squares::new(p).map(|_| ()))
        .by_fewer(Squares::fewer),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["coopmat", "wgmma", "mma", "implicit_gemm", "direct"])
    .stress(stress_inputs());
    let library = by_cudnn(|p, _| vendor(p, Choice::Heuristic), |p, _| vendor(p, Choice::Timed));
    form.variants.extend(library.map(|variant| variant.by_fewer(of_library)));
    form
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let conv = Conv::new(&p.shape);
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &conv.x_dims(), normal),
        BufferSpec::input("w", Elem::Real, &conv.w_dims(), normal),
    ];
    if p.shape.has("bias") {
        buffers.push(BufferSpec::input("bias", Elem::Real, &[conv.channels[1]], normal));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &conv.out_dims()));
    buffers.extend(Squares::new(p).into_iter().flat_map(|squares| squares.scratch()));
    buffers.extend(channels_last::scratch(p));
    buffers
}

/// Factor by which cuDNN may need fewer operations: its Winograd tiles have at most four results per dimension.
pub(super) fn of_library(p: &Problem) -> f64 {
    Conv::new(&p.shape).fewer_by_squares(4)
}

/// Cost that counts every pixel, including those that a stride beyond the kernel's reach skips.
pub(super) fn cost(p: &Problem) -> Cost {
    p.each_once(Conv::new(&p.shape).flops())
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        reason: "the products and the bias are summed in f32: 8·√k·u times the sum of magnitudes holds for any order but with \
                 probability e^-32 (Higham and Mary 2019); as many of Winograd's products make a result, of 1.5 times the \
                 magnitude, for which the sum has room; the result is rounded once to the element type",
        ..of_terms(p, Conv::new(&p.shape).terms() + 1)
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        nan_bias(tolerance),
        StressInput::new("zeros", "images of zeros give the bias, or zeros", |_| vec![("x", zero)], exact),
        StressInput::new(
            "equal",
            "all one: the number of terms inside the image",
            |p| match p.shape.has("bias") {
                true => vec![("x", one), ("w", one), ("bias", one)],
                false => vec![("x", one), ("w", one)],
            },
            of_ones,
        ),
        StressInput::new(
            "huge",
            "products of up to 1e36, whose sums stay within f32; f16 has no such numbers",
            |_| vec![("x", |_, draw| 1e18 * draw.uniform()), ("w", |_, draw| 1e18 * draw.uniform())],
            |p, _| Tolerance { abs: tolerance(p, 0).abs * 1e36, ..tolerance(p, 0) },
        )
        .applies(|p| wide(p) && Conv::new(&p.shape).terms() <= 256),
        StressInput::new(
            "subnormal",
            "pixels too small to be normal: their sum is small, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (3.47 * Conv::new(&p.shape).terms() as f64 + 1.0) * smallest_normal(p),
                rel: 2.0 * p.dtype.unit_roundoff(),
                reason: "each product of at most 3.47 times such a number may be taken for zero, and so may the sum; \
                         with the bias it is rounded once",
            },
        ),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let conv = Conv::new(&p.shape);
    let [in_group, out_group] = conv.group_channels();
    let (first, bias, relu) = (row * out.len() as u64, p.shape.has("bias"), p.shape.has("relu"));
    for (slot, place) in out.iter_mut().zip(first..) {
        let ([image, m], at) = conv.out_index(place);
        *slot = 0.0;
        for tap in conv.every_tap() {
            let Some(under) = conv.input_position(at, tap) else { continue };
            for c in 0..in_group {
                let pixel = conv.x_at([image, m / out_group * in_group + c], under);
                *slot += inputs.at(X, pixel) * inputs.at(W, conv.w_at([m, c], tap));
            }
        }
        if bias {
            *slot += inputs.at(BIAS, m);
        }
        if relu {
            *slot = real::relu(*slot);
        }
    }
}

/// Sum of an output channel of an image at a position, term by term.
pub(in super::super) fn sum_at<T: Real>(conv: &Conv, [x, w]: [&[T]; 2], [image, m]: [u64; 2], at: [u64; 3]) -> T {
    let ([in_group, out_group], mut sum) = (conv.group_channels(), T::zero());
    for tap in conv.every_tap() {
        let Some(under) = conv.input_position(at, tap) else { continue };
        let pixel = conv.x_at([image, m / out_group * in_group], under) as usize;
        let weight = conv.w_at([m, 0], tap) as usize;
        sum = sum
            + match conv.last {
                true => dense::dot(&x[pixel..][..in_group as usize], &w[weight..][..in_group as usize]),
                false => {
                    let pixels = x[pixel..].iter().step_by(conv.image.iter().product::<u64>() as usize);
                    let weights = w[weight..].iter().step_by(conv.taps() as usize);
                    pixels.zip(weights).take(in_group as usize).map(|(x, w)| *x * *w).sum::<T>()
                }
            };
    }
    sum
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let conv = Conv::new(&p.shape);
    let bias = p.shape.has("bias").then(|| inputs[BIAS].f32());
    convolve(&conv, inputs[X].f32(), inputs[W].f32(), &mut outputs[0]);
    finish(&conv, bias, p.shape.has("relu"), &mut outputs[0]);
}

/// Parameters of every stage except the pixels and the kernel.
pub(super) fn gather(p: &Problem) -> Gather {
    Gather { bias: p.shape.has("bias"), relu: p.shape.has("relu"), ..Gather::new(Conv::new(&p.shape)) }
}

fn direct(p: &Problem, _caps: &Caps) -> Program {
    gather(p).direct(["x", "w", "out"]).cost(cost(p)).into()
}

fn implicit_gemm(p: &Problem, caps: &Caps) -> Program {
    gather(p).implicit(caps, ["x", "w", "out"]).cost(cost(p)).into()
}

fn mma(p: &Problem, _caps: &Caps) -> Program {
    gather(p).mma(["x", "w", "out"]).cost(cost(p)).into()
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    warpgroups::stage(gather(p), caps, ["x", "w", "out"]).cost(cost(p)).into()
}

fn coopmat(p: &Problem, caps: &Caps) -> Program {
    gather(p).coopmat(caps, ["x", "w", "out"]).cost(cost(p)).into()
}

fn vendor(p: &Problem, choice: Choice) -> Program {
    let Gather { conv, bias, relu, .. } = gather(p);
    let call = Convolution { conv, pass: ConvPass::Forward { bias, relu }, choice };
    call.stage(["x", "w", "out"]).cost(cost(p)).into()
}

/// Program of `winograd`, only for problems that support it.
fn winograd(p: &Problem, caps: &Caps) -> Program {
    Squares::new(p).expect("available").program(gather(p), caps)
}
