//! Depthwise 3-D convolution (cross-correlation, as in every deep-learning framework), forward and backward.
//!
//! `out[n,c,z,y,x] = Σ_{i<kd, j<k, m<kw} w[c,i,j,m] · in[n, c, z·s + i·l - p, y·s + j·l - p, x·s + m·l - p]`. Terms outside the
//! image are zero. With `bias`, a number per channel is added. With `relu`, negative results become zero. Formula: the PyTorch
//! documentation of `Conv3d` with `groups = channels`.
//!
//! Layouts of `x` and `out`: `ncdhw` or `ndhwc`. The filter is `[c, kd, k, kw]` for the first and `[kd, k, kw, c]` for the second.
//! So its fastest index is that of the image, if that is relevant.
//!
//! Operations: `2·kd·k·kw` per output element, border included, and one more for each of bias and ReLU.

use marching::Finish;
use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, nan_bias, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Arg, Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput,
    Tolerance, Variant, Workload, normal, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;
use volume::Volume;

use crate::products::of_ones;
use crate::real;

pub(super) mod backward;
mod gradient_stages;
pub(super) mod lines;
pub(super) mod marching;
pub(super) mod vendor;
pub(super) mod volume;

const X: usize = 0;
const W: usize = 1;
const BIAS: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "depthwise 3-D convolution",
        axes: const {
            &[
                Axis::extent("n", "examples").items(),
                Axis::extent("c", "channels"),
                Axis::extent("d", "depth"),
                Axis::same_as("h", "height", "d"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("k", "kernel"),
                Axis::same_as("kd", "kernel depth", "k"),
                Axis::same_as("kw", "kernel width", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("l", "dilation", 1, 1),
                Axis::word("layout", "memory order", &["ncdhw", "ndhwc"]),
                Axis::word("bias", "whether each channel has a number added", &["", "bias"]),
                Axis::word("activation", "activation", &["", "relu"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| Volume::new(shape).check(),
        forms: vec![forward(), backward::form("n1,c16,d32,h64,k3,p1,ncdhw", shapes, AWKWARD, marching::TUNABLES)],
    }
}

fn forward() -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| Volume::new(&p.shape).taps() * Volume::new(&p.shape).row(Volume::new(&p.shape).out),
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n1,c16,d32,h64,k3,p1,ncdhw")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("direct", "one output element per thread, straight from device memory", direct),
        Variant::kernel(
            marching::NAME,
            "a thread marches along the depth with its results in the making in registers, and reads its part of each slice \
             once, in pieces",
            |p, caps| {
                let v = Volume::new(&p.shape);
                let finish = Finish { bias: p.shape.has("bias"), relu: p.shape.has("relu"), flip: false };
                marching::stage(&v, p, caps, finish, ["x", "out"]).cost(cost(p)).into()
            },
        )
        .available(|p, _| marching::available(&Volume::new(&p.shape)))
        .tunables(marching::TUNABLES),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&[marching::NAME, "direct"])
    .stress(stress_inputs());
    form.variants.extend(vendor::forward());
    form
}

/// Shapes that cross every edge: single elements, lengths with and without a vector width as divisor, strides and dilations that
/// skip slices, and filters without an unrolled kernel.
const AWKWARD: &[&str] = &[
    "n1,c1,d1,k1,ncdhw",
    "n1,c1,d1,k1,ndhwc,bias,relu",
    "n2,c3,d5,h7,w6,k3,p1,ncdhw,bias,relu",
    "n2,c3,d5,h7,w6,k3,p1,ndhwc",
    "n1,c2,d9,h5,w16,k3,p1,ncdhw,bias",
    "n2,c8,d6,h5,w7,k3,p1,ndhwc,bias,relu",
    "n1,c3,d8,h9,w11,k2,kd3,s2,p1,ncdhw,relu",
    "n1,c12,d7,h6,w9,k3,s2,p2,l2,ndhwc",
    "n2,c1,d4,h3,w24,k3,kw5,p2,ncdhw",
    "n1,c4,d11,h3,w5,k5,kd1,p2,ndhwc",
    "n1,c5,d13,h11,w12,k5,p2,ncdhw",
    "n2,c36,d5,h6,w8,k3,p1,ndhwc,bias",
    // More than one of the blocks that copy an image to shared memory.
    "n1,c32,d9,h13,w35,k3,p1,ndhwc,relu",
];

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n1,c16,d32,h64,k3,p1,ncdhw",
            "n1,c16,d32,h64,k3,p1,ndhwc",
            "n2,c32,d32,h128,k3,p1,ncdhw",
            "n2,c32,d32,h128,k3,p1,ndhwc",
        ],
        _ => &[
            "n1,c16,d32,h64,k3,p1,ncdhw",
            "n1,c16,d32,h64,k3,p1,ndhwc",
            "n2,c32,d32,h128,k3,p1,ncdhw",
            "n2,c32,d32,h128,k3,p1,ndhwc",
            "n2,c32,d32,h128,k3,p1,ncdhw,bias,relu",
            "n2,c32,d32,h128,k3,p1,ndhwc,bias,relu",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let v = Volume::new(&p.shape);
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &v.dims(v.image), normal),
        BufferSpec::input("w", Elem::Real, &v.filter_dims(), normal),
    ];
    if p.shape.has("bias") {
        buffers.push(BufferSpec::input("bias", Elem::Real, &[v.c], normal));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &v.dims(v.out)));
    buffers.extend(vendor::turned_kernels(p));
    buffers
}

fn cost(p: &Problem) -> Cost {
    let v = Volume::new(&p.shape);
    let element = Elem::Real.storage(p.dtype).bytes();
    let [bias, relu] = ["bias", "relu"].map(|word| u64::from(p.shape.has(word)));
    let [_, outputs] = v.elements();
    let read = v.elements_read() + v.c * v.taps() + bias * v.c;
    Cost::new((2 * v.taps() + bias + relu) * outputs, read * element, outputs * element)
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let terms = Volume::new(&p.shape).taps() as f64 + 1.0;
    Tolerance {
        abs: terms * 3.47 * 3.47 * terms * 2f64.powi(-24),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "products of values of at most 3.47, and a bias, are summed in f32 (n·u times the sum of magnitudes), and the \
                 result is rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        nan_bias(tolerance),
        StressInput::new("zeros", "an image of zeros gives the bias, or zeros", |_| vec![("x", zero)], exact),
        StressInput::new(
            "equal",
            "all one: the number of taps inside the image, and the bias",
            |_| vec![("x", one), ("w", one)],
            of_ones,
        )
        .applies(|p| !p.shape.has("bias")),
        StressInput::new(
            "huge",
            "products of 1e36, whose sums stay within f32; f16 has no such numbers",
            |_| vec![("x", |_, draw| 1e18 * draw.uniform()), ("w", |_, draw| 1e18 * draw.uniform())],
            |p, _| {
                let terms = Volume::new(&p.shape).taps() as f64 + 1.0;
                Tolerance {
                    abs: terms * terms * 2f64.powi(-24) * 1e36,
                    rel: 2.0 * p.dtype.unit_roundoff(),
                    reason: "n·u times the sum of magnitudes of at most 1e36 each; the result is rounded once",
                }
            },
        )
        .applies(|p| wide(p) && Volume::new(&p.shape).taps() <= 100),
        StressInput::new(
            "subnormal",
            "an image too small to be normal: the result is small, or zero where the device flushes such numbers",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (3.47 * Volume::new(&p.shape).taps() as f64 + 1.0) * smallest_normal(p),
                rel: 0.0,
                reason: "each tap of at most 3.47 times such a number may be taken for zero, and so may the sum",
            },
        )
        .applies(|p| !p.shape.has("bias")),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let v = Volume::new(&p.shape);
    for (lane, slot) in (0..).zip(out) {
        let (n, c, place) = v.place(v.out, row, lane);
        *slot = 0.0;
        for tap in v.each_tap() {
            if let Some(under) = v.input_position(place, tap) {
                *slot += inputs.at(X, v.at(v.image, (n, c, under))) * inputs.at(W, v.tap_at(c, tap));
            }
        }
        if p.shape.has("bias") {
            *slot += inputs.at(BIAS, c);
        }
        if p.shape.has("relu") {
            *slot = real::relu(*slot);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let bias = p.shape.has("bias").then(|| inputs[BIAS].f32());
    lines::convolve(&Volume::new(&p.shape), inputs[X].f32(), inputs[W].f32(), bias, &mut outputs[0]);
    if p.shape.has("relu") {
        outputs[0].par_iter_mut().for_each(|o| *o = real::relu(*o));
    }
}

/// Threads of a workgroup with one element per thread.
const THREADS: u64 = 256;

/// Stage with one thread per element.
fn by_element(p: &Problem, elements: u64, text: &'static str, entry: &'static str) -> Stage {
    let v = Volume::new(&p.shape);
    Stage::kernel(entry, text, entry)
        .consts(&v.consts())
        .consts(&[("THREADS", THREADS as u32)])
        .consts(&[("CHANNELS_LAST", v.channels_last)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(elements.div_ceil(THREADS)))
}

/// Stage with one result element per thread: `out` from `x` and the filters `w`, with taps in their stored order.
pub(super) fn direct_stage(p: &Problem, Finish { bias, relu, .. }: Finish, [x, out]: [&'static str; 2]) -> Stage {
    let [_, outputs] = Volume::new(&p.shape).elements();
    let bias_arg = bias.then_some(("bias", "bias", Read));
    let args = [("x", x, Read), ("w", "w", Read), ("out", out, Write)].into_iter().chain(bias_arg);
    by_element(p, outputs, "depthwise_conv3d/direct", "depthwise_conv3d_direct")
        .consts(&[("BIASED", bias), ("RELU", relu)])
        .args(args.map(Arg::from))
}

fn direct(p: &Problem, _caps: &Caps) -> Program {
    let finish = Finish { bias: p.shape.has("bias"), relu: p.shape.has("relu"), flip: false };
    direct_stage(p, finish, ["x", "out"]).cost(cost(p)).into()
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn shapes_without_an_output_that_can_be_counted_are_refused() {
        for (shape, part) in [
            ("n1,c1,d4,k9", "larger than the padded image"),
            ("n1,c1,d4,k3,p1073741824", "2147483650 x 2147483650 x 2147483650 voxels is too large"),
        ] {
            let error = parse_case(&format!("depthwise_conv3d/fwd/{shape}/f32/direct")).expect_err(shape);
            assert!(error.to_string().contains(part), "{shape}: {error}");
        }
    }
}
