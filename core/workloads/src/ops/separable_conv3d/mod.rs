//! Separable 3-D convolution: depthwise, then pointwise.
//!
//! `mid[n,c,z,y,x]` is the depthwise convolution of the image, as `depthwise_conv3d` defines it, and `out[n,m,z,y,x] = Σ_c
//! pointwise[m,c] · mid[n,c,z,y,x]`. With `bias`, a number per output channel is added. With `relu`, negative results become zero.
//!
//! Formula: the PyTorch documentation of `Conv3d`, with `groups = channels` and then with a kernel of one. As in Chollet (2017),
//! "Xception: Deep Learning with Depthwise Separable Convolutions", there is no operation between both steps.
//!
//! Layouts of `x` and `out`: `ncdhw` or `ndhwc`. The filter is `[c, kd, k, kw]` for the first and `[kd, k, kw, c]` for the second.
//! The pointwise weights are `[m, c]` for both. A stored `mid` is rounded to the element type. With `kept` it stays in memory for
//! the backward pass. Forward it is an additional output, backward it is an input.
//!
//! Operations: `2·kd·k·kw` per element of `mid`, border included, and `2·c` per element of the result, with one more for each of
//! bias and ReLU.

use middle::kept;
use parallax_ir::conv::Conv;
use parallax_ir::stress::{exact, nan_bias, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, Gemm, HostBuffer, Inputs, OfNan, OpSpec, Problem, Reference, Shape, StressInput, Tolerance,
    Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Dialect;

use super::conv2d::patches::{convolve, finish};
use super::depthwise_conv3d::volume::Volume;
use crate::real;

mod backward;
mod middle;
mod stages;

const X: usize = 0;
const W: usize = 1;
const POINTWISE: usize = 2;
const BIAS: usize = 3;

/// Index of the result, the first checked buffer. The depthwise results follow, if they are kept.
const OUT: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "separable 3-D convolution: depthwise, then pointwise",
        axes: const {
            &[
                Axis::extent("n", "examples").items(),
                Axis::extent("c", "input channels"),
                Axis::same_as("m", "output channels", "c"),
                Axis::extent("d", "depth"),
                Axis::same_as("h", "height", "d"),
                Axis::same_as("w", "width", "h"),
                Axis::optional("k", "kernel", 1, 3),
                Axis::same_as("kd", "kernel depth", "k"),
                Axis::same_as("kw", "kernel width", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("l", "dilation", 1, 1),
                Axis::word("layout", "memory order", &["ncdhw", "ndhwc"]),
                Axis::word("bias", "whether a bias per output channel is added", &["", "bias"]),
                Axis::word("activation", "activation", &["", "relu"]),
                Axis::word("mid", "whether the depthwise results stay in memory for the backward pass", &["", "kept"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, output| match output {
                OUT => terms(p) * pointwise(p).out_dims().last().expect("extents"),
                _ => Volume::new(&p.shape).taps() * pointwise(p).x_dims().last().expect("extents"),
            },
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n1,c16,m32,d32,h64,p1,ncdhw")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("direct", "two stages, each with an element of its result per thread", stages::direct),
        Variant::kernel(
            "unfused",
            "the depthwise results by marching threads (where that is written out; otherwise as `direct` does), stored, and \
             then multiplied with the pointwise weights by tiles in workgroup memory",
            stages::unfused,
        ),
        Variant::kernel("unfused_mma", "the same, with the product on tensor cores", stages::unfused_mma)
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "fused",
            "one stage: depthwise results of a tile of positions are staged in workgroup memory, a block of channels at a time, \
             and multiplied there; they are never stored. Beyond 128 output channels they are computed again for each 128",
            stages::fused,
        )
        .available(|p, _| match kept(p) {
            true => Err("fused never stores the depthwise results, which `kept` asks for".to_owned()),
            false => Ok(()),
        }),
    ])
    .fallback(&["unfused_mma", "fused", "unfused", "direct"])
    .stress(stress_inputs())
}

/// Shapes over the edges of all tiles, in both layouts. Output channels for each height of a tile and beyond the highest. Input
/// channels in whole vectors or not, and more than one stage holds. Taps without an unrolled kernel of `marching`.
const AWKWARD: &[&str] = &[
    "n1,c1,d1,k1,ncdhw",
    "n1,c1,m3,d1,k1,ndhwc,bias,relu",
    "n2,c3,m5,d3,h5,w4,p1,ncdhw,bias,relu",
    "n2,c4,m6,d3,h5,w4,p1,ndhwc",
    "n1,c6,m37,d4,h3,w9,k2,kd3,s2,p1,ndhwc,relu,kept",
    "n1,c20,m70,d3,h4,w8,p1,ncdhw,bias,kept",
    "n1,c36,m33,d2,h7,w6,p1,ndhwc,bias,relu",
    "n1,c17,m131,d3,h5,w7,kd1,s2,p2,l2,ncdhw,relu",
    "n1,c2,m4,d10,h3,w5,k1,kd9,p2,ncdhw",
    "n2,c12,m132,d5,h6,w7,p1,ndhwc,bias,relu",
];

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n1,c16,m32,d32,h64,p1,ncdhw",
            "n1,c16,m32,d32,h64,p1,ndhwc",
            "n2,c32,m64,d32,h128,p1,ncdhw",
            "n2,c32,m64,d32,h128,p1,ndhwc",
        ],
        _ => &[
            "n1,c16,m32,d32,h64,p1,ncdhw",
            "n1,c16,m32,d32,h64,p1,ndhwc",
            "n2,c32,d32,h64,p1,ndhwc",
            "n2,c32,m64,d32,h128,p1,ncdhw",
            "n2,c32,m64,d32,h128,p1,ndhwc",
            "n2,c32,m64,d32,h128,p1,ncdhw,bias,relu",
            "n2,c32,m64,d32,h128,p1,ndhwc,bias,relu",
            "n2,c32,m64,d32,h128,p1,ndhwc,bias,relu,kept",
            "n2,c64,m128,d16,h64,p1,ndhwc,bias,relu",
        ],
    }
}

/// Upper bound of extents with their padding, so that kernels detect outside coordinates by wrap-around.
const MOST_EXTENT: u64 = 1 << 30;

fn validate(shape: &Shape) -> Result<(), String> {
    let v = Volume::new(shape);
    v.check()?;
    let far = (0..3).any(|axis| {
        v.image[axis].saturating_add(2 * shape["p"].min(MOST_EXTENT)) >= MOST_EXTENT
            || v.dilation[axis].saturating_mul(v.kernel[axis]) >= MOST_EXTENT
            || v.stride[axis] >= MOST_EXTENT
    });
    if far {
        return Err(format!("an image with its padding, a dilated kernel and a stride stay below {MOST_EXTENT}"));
    }
    [v.elements()[0], v.c * v.taps()].into_iter().try_for_each(indexable)?;
    of_shape(shape).validate()
}

/// Second step as a convolution of its own.
fn of_shape(shape: &Shape) -> Conv {
    let v = Volume::new(shape);
    Conv::pointwise(v.n, [v.c, shape["m"]], v.out, v.channels_last)
}

fn pointwise(p: &Problem) -> Conv {
    of_shape(&p.shape)
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (v, conv) = (Volume::new(&p.shape), pointwise(p));
    let [c, m] = conv.channels;
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &v.dims(v.image), normal),
        BufferSpec::input("w", Elem::Real, &v.filter_dims(), normal),
        BufferSpec::input("pointwise", Elem::Real, &[m, c], normal),
    ];
    if p.shape.has("bias") {
        buffers.push(BufferSpec::input("bias", Elem::Real, &[m], normal));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &conv.out_dims()));
    buffers.push(match kept(p) {
        true => BufferSpec::output("mid", Elem::Real, &conv.x_dims()),
        false => BufferSpec::scratch("mid", Elem::Real, &conv.x_dims()),
    });
    buffers
}

/// Number of products in the sum of a result element.
fn terms(p: &Problem) -> u64 {
    let v = Volume::new(&p.shape);
    v.c * (v.taps() + 1)
}

/// Operations of the second step.
fn pointwise_flops(p: &Problem) -> u64 {
    let conv = pointwise(p);
    let more = ["bias", "relu"].map(|word| u64::from(p.shape.has(word))).iter().sum::<u64>();
    conv.flops() + more * conv.out_dims().iter().product::<u64>()
}

fn cost(p: &Problem) -> Cost {
    let v = Volume::new(&p.shape);
    let [depthwise, pointwise] = stages::costs(p);
    let mid = v.elements()[1] * Elem::Real.storage(p.dtype).bytes();
    let read = depthwise.read.0 + pointwise.read.0 - mid;
    let written = pointwise.written.0 + if kept(p) { mid } else { 0 };
    Cost::new(depthwise.flops.0 + pointwise.flops.0, read, written)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if output != OUT {
        return middle::tolerance(p);
    }
    let v = Volume::new(&p.shape);
    let (channels, taps, u) = (v.c as f64, v.taps() as f64, p.dtype.unit_roundoff());
    let k = channels * taps + 1.0;
    // Sum of the magnitudes of k products of three normal draws, with a margin for chance: no draw is beyond 3.47.
    let magnitudes = k + 36.0 * k.sqrt();
    Tolerance {
        abs: 8.0 * k.sqrt() * 2f64.powi(-24) * magnitudes + 8.0 * u * (taps * (channels + 8.0)).sqrt(),
        rel: 4.0 * u,
        reason: "products of three draws are summed in f32: 8·√k·u times the sum of magnitudes holds for any order but with \
                 probability e^-32 (Higham and Mary 2019); depthwise results, of about the root of the taps, may each have been \
                 rounded to the element type, and these errors wander as the root of the channels; the result is rounded once",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        nan_bias(tolerance),
        StressInput::new("zeros", "an image of zeros gives the bias, or zeros", |_| vec![("x", zero)], exact),
        StressInput::new(
            "equal",
            "all one: the number of taps inside the image, as often as there are channels, and the bias",
            |p| {
                let bias = p.shape.has("bias").then_some(("bias", one as parallax_ir::Fill));
                [("x", one as parallax_ir::Fill), ("w", one), ("pointwise", one)].into_iter().chain(bias).collect()
            },
            |p, _| Tolerance {
                abs: 0.0,
                rel: 4.0 * p.dtype.unit_roundoff(),
                reason: "sums of ones are exact in f32; both results are rounded to the element type",
            },
        )
        .applies(|p| wide(p) || terms(p) < 60_000),
        StressInput::new(
            "huge",
            "products of up to 1e34, whose sums stay within f32; f16 has no such numbers",
            |_| vec![("x", |_, draw| 1e18 * draw.uniform()), ("w", |_, draw| 1e16 * draw.uniform())],
            |p, output| {
                // Non-negative terms do not cancel: depthwise results are proportional to the number of taps, not to its root.
                let (taps, usual) = (Volume::new(&p.shape).taps() as f64, tolerance(p, output));
                Tolerance { abs: usual.abs * 1e34 * taps.sqrt(), ..usual }
            },
        )
        .applies(|p| wide(p) && terms(p) <= 4096),
        StressInput::new(
            "subnormal",
            "an image too small to be normal: the result is small, or zero where the device flushes such numbers",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (3.47 * (3.47 + 1.0) * terms(p) as f64 + 1.0) * smallest_normal(p),
                rel: 4.0 * p.dtype.unit_roundoff(),
                reason: "each tap of at most 3.47 times such a number may be taken for zero, and so may each depthwise result \
                         before its weight of at most 3.47, and the sum; with the bias it is rounded once",
            },
        ),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let (v, conv, first) = (Volume::new(&p.shape), pointwise(p), row * out.len() as u64);
    if output != OUT {
        return middle::row(&v, inputs, &conv, row, out);
    }
    for (slot, place) in out.iter_mut().zip(first..) {
        let ([n, m], at) = conv.out_index(place);
        *slot = (0..v.c).map(|c| middle::value(&v, inputs, (n, c, at)) * inputs.at(POINTWISE, m * v.c + c)).sum();
        if p.shape.has("bias") {
            *slot += inputs.at(BIAS, m);
        }
        if p.shape.has("relu") {
            *slot = real::relu(*slot);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let conv = pointwise(p);
    let bias = p.shape.has("bias").then(|| inputs[BIAS].f32());
    let mid = middle::host(p, inputs[X].f32(), inputs[W].f32());
    convolve(&conv, &mid, inputs[POINTWISE].f32(), &mut outputs[OUT]);
    finish(&conv, bias, p.shape.has("relu"), &mut outputs[OUT]);
    if let Some(kept) = outputs.get_mut(OUT + 1) {
        *kept = mid;
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn shapes_without_an_output_that_can_be_counted_are_refused() {
        for (shape, part) in [
            ("n1,c1,d4,k9", "larger than the padded image"),
            ("n1,c1,d4,k3,p536870912,s536870912", "too large for 64 bits"),
            ("n1048576,c1,m4096,d1,k1", "count elements in 32 bits"),
        ] {
            let error = parse_case(&format!("separable_conv3d/fwd/{shape}/f32/direct")).expect_err(shape);
            assert!(error.to_string().contains(part), "{shape}: {error}");
        }
    }
}
