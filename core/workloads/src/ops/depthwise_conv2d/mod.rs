//! Depthwise 2-D convolution (cross-correlation, as in every deep-learning framework), forward and backward.
//!
//! `out[n,c,y,x] = Σ_{i<k, j<kw} w[c,i,j] · in[n, c, y·stride + i·dilation - pad, x·stride + j·dilation - pad]`. Terms outside the
//! image are zero. Formula: the PyTorch documentation of `Conv2d` with `groups = channels` and no bias.
//!
//! Layouts of `x` and `out`: `nchw` or `nhwc`. The filter is `[c, k, kw]` for `nchw` and `[k, kw, c]` for `nhwc`. So its fastest
//! index is that of the image, if that is relevant. Output extent: `⌊(h + 2p - l(k-1) - 1)/s⌋ + 1`.
//!
//! Operations: `2·k·kw` per output element, border included.
//!
//! `marching`, and the backward direction, are those of `depthwise_conv3d` with a middle extent of one.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage, StressInput,
    Tolerance, Tunable, Variant, Workload, countable, normal, spread, width,
};
use parallax_schema::case::{Allowed, Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;
use parallax_schema::units::{Bytes, Flops};

use super::depthwise_conv3d::marching::Finish;
use super::depthwise_conv3d::volume::Volume;
use super::depthwise_conv3d::{backward, marching, vendor};
use crate::products::of_ones;
use crate::vector;

const X: usize = 0;
const W: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "depthwise 2-D convolution",
        axes: const {
            &[
                Axis::extent("n", "images").items(),
                Axis::extent("c", "channels"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("k", "kernel"),
                Axis::same_as("kw", "kernel width", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("l", "dilation", 1, 1),
                Axis::word("layout", "memory order", &["nchw", "nhwc"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form("n8,c8,h128,k3,p1,nchw", shapes, AWKWARD, marching::FLAT_TUNABLES)],
    }
}

fn forward() -> OpSpec {
    let mut form = OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(row_cost, |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out))),
        OfNan::MIXED,
    )
    .headline("n8,c8,h128,k3,p1,nchw")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("direct", "one output element per thread, straight from device memory", direct),
        Variant::kernel(
            "tiled",
            "a workgroup stages the input patch of an output tile in workgroup memory and reads it once",
            tiled,
        )
        .tunables(&[ROWS, COLUMNS, MOST_CHANNELS, NHWC_ROWS]),
        Variant::kernel(
            marching::NAME,
            "a thread marches down a strip with its results in the making in registers, and reads its part of each row \
             once, in pieces; no workgroup memory, no barriers",
            |p, caps| {
                let v = Volume::new(&p.shape);
                marching::stage(&v, p, caps, Finish::default(), ["x", "out"]).cost(cost(p)).into()
            },
        )
        .available(|p, _| marching::available(&Volume::new(&p.shape)))
        .tunables(marching::FLAT_TUNABLES),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&[marching::NAME, "tiled", "direct"])
    .stress(stress_inputs());
    form.variants.extend(vendor::forward());
    form.variants.push(Variant::cube(
        "one source in CubeCL: one output per thread as in `direct`, in nhwc a piece of neighbouring channels",
        cube,
    ));
    form
}

/// Shapes that cross every edge: single elements, lengths with and without a vector width as divisor, strides and dilations.
const AWKWARD: &[&str] = &[
    "n1,c1,h1,k1,nchw",
    "n1,c1,h1,k1,nhwc",
    "n2,c3,h7,w5,k3,p1,nchw",
    "n2,c3,h7,w5,k3,p1,nhwc",
    "n1,c5,h37,w41,k2,nchw",
    "n1,c37,h19,w23,k4,kw2,nhwc",
    "n1,c2,h33,w67,k3,kw5,s2,p2,nchw",
    "n1,c33,h17,w29,k3,kw5,s2,p2,nhwc",
    "n1,c3,h29,k3,p3,l3,nchw",
    "n1,c67,h13,k5,s3,p1,l2,nhwc",
    "n1,c8,h9,w10,k3,p1,nhwc",
    "n2,c3,h11,w16,k3,p1,nchw",
    "n2,c12,h7,w9,k4,s2,p2,nhwc",
    "n1,c2,h24,k7,s2,p3,nchw",
    "n3,c1,h3,w131,k7,kw1,p3,nchw",
];

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n8,c8,h128,k3,p1,nchw",
            "n8,c8,h128,k3,p1,nhwc",
            "n8,c32,h256,k3,p1,nchw",
            "n8,c32,h256,k3,p1,nhwc",
            "n8,c96,h56,k7,p3,nchw",
            "n8,c96,h56,k7,p3,nhwc",
            "n8,c144,h56,k3,s2,p1,nchw",
        ],
        _ => &[
            "n8,c8,h128,k3,p1,nchw",
            "n8,c8,h128,k3,p1,nhwc",
            "n8,c32,h256,k3,p1,nchw",
            "n8,c32,h256,k3,p1,nhwc",
            "n8,c64,h512,k3,p1,nchw",
            "n8,c64,h512,k3,p1,nhwc",
            "n8,c96,h56,k7,p3,nchw",
            "n8,c96,h56,k7,p3,nhwc",
        ],
    }
}

/// Output height and width.
fn out_size(shape: &Shape) -> (u64, u64) {
    let extent = |image: u64, kernel: u64| {
        (image + 2 * shape["p"]).checked_sub(shape["l"] * (kernel - 1) + 1).map_or(0, |room| room / shape["s"] + 1)
    };
    (extent(shape["h"], shape["k"]), extent(shape["w"], shape["kw"]))
}

fn validate(shape: &Shape) -> Result<(), String> {
    match out_size(shape) {
        (0, _) | (_, 0) => Err("the dilated kernel is larger than the padded image, so the output is empty".to_owned()),
        (oh, ow) if !countable([shape["n"], shape["c"], oh, ow, shape["k"], shape["kw"]]) => {
            Err(format!("an output of {oh} x {ow} pixels is too large for 64 bits"))
        }
        _ => Ok(()),
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (oh, ow) = out_size(&p.shape);
    let (n, c, h, w, k, kw) = (p["n"], p["c"], p["h"], p["w"], p["k"], p["kw"]);
    let (x, filter, out) = if p.shape.has("nhwc") {
        ([n, h, w, c], [k, kw, c], [n, oh, ow, c])
    } else {
        ([n, c, h, w], [c, k, kw], [n, c, oh, ow])
    };
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &x, normal),
        BufferSpec::input("w", Elem::Real, &filter, normal),
        BufferSpec::output("out", Elem::Real, &out),
    ];
    buffers.extend(vendor::turned_kernels(p));
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (oh, ow) = out_size(&p.shape);
    let (planes, taps) = (p["n"] * p["c"], p["k"] * p["kw"]);
    let element = Elem::Real.storage(p.dtype).bytes();
    // With a stride beyond the kernel's reach, some pixels are unused.
    let touched = |image: u64, out: u64, kernel: u64| if p["s"] > kernel { (out * kernel).min(image) } else { image };
    let read = planes * touched(p["h"], oh, p["k"]) * touched(p["w"], ow, p["kw"]) + p["c"] * taps;
    Cost {
        flops: Flops(2 * taps * planes * oh * ow),
        read: Bytes(read * element),
        written: Bytes(planes * oh * ow * element),
    }
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let taps = (p["k"] * p["kw"]) as f64;
    Tolerance {
        abs: taps * 3.47 * 3.47 * taps * 2f64.powi(-24),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "products of values of at most 3.47 are summed in f32 (n·u times the sum of magnitudes), and the result \
                 is rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new("zeros", "an image of zeros gives zeros", |_| vec![("x", zero)], exact),
        StressInput::new(
            "equal",
            "all one: the number of taps inside the image",
            |_| vec![("x", one), ("w", one)],
            of_ones,
        ),
        StressInput::new(
            "huge",
            "products of 1e36, whose sums stay within f32; f16 has no such numbers",
            |_| vec![("x", |_, draw| 1e18 * draw.uniform()), ("w", |_, draw| 1e18 * draw.uniform())],
            |p, _| {
                let taps = (p["k"] * p["kw"]) as f64;
                Tolerance {
                    abs: taps * taps * 2f64.powi(-24) * 1e36,
                    rel: 2.0 * p.dtype.unit_roundoff(),
                    reason: "n·u times the sum of magnitudes of at most 1e36 each; the result is rounded once",
                }
            },
        )
        .applies(|p| wide(p) && p["k"] * p["kw"] <= 100),
        StressInput::new(
            "subnormal",
            "pixels too small to be normal: the result is small, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: (3.47 * (p["k"] * p["kw"]) as f64 + 1.0) * smallest_normal(p),
                rel: 0.0,
                reason: "each tap of at most 3.47 times such a number may be taken for zero, and so may the sum",
            },
        ),
    ]
}

fn row_cost(p: &Problem, _output: usize) -> u64 {
    let (_, ow) = out_size(&p.shape);
    p["k"] * p["kw"] * if p.shape.has("nhwc") { p["c"] } else { ow }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (oh, ow) = out_size(&p.shape);
    let nhwc = p.shape.has("nhwc");
    for (lane, slot) in out.iter_mut().enumerate() {
        let lane = lane as u64;
        let (n, c, y, x) = if nhwc {
            (row / (oh * ow), lane, row / ow % oh, row % ow)
        } else {
            (row / (p["c"] * oh), row / oh % p["c"], row % oh, lane)
        };
        *slot = 0.0;
        for i in 0..p["k"] {
            for j in 0..p["kw"] {
                let (iy, ix) = (y * p["s"] + i * p["l"], x * p["s"] + j * p["l"]);
                if iy < p["p"] || ix < p["p"] || iy - p["p"] >= p["h"] || ix - p["p"] >= p["w"] {
                    continue;
                }
                let (iy, ix) = (iy - p["p"], ix - p["p"]);
                let (pixel, tap) = if nhwc {
                    (((n * p["h"] + iy) * p["w"] + ix) * p["c"] + c, (i * p["kw"] + j) * p["c"] + c)
                } else {
                    (((n * p["c"] + c) * p["h"] + iy) * p["w"] + ix, (c * p["k"] + i) * p["kw"] + j)
                };
                *slot += inputs.at(X, pixel) * inputs.at(W, tap);
            }
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (x, w) = (inputs[X].f32(), inputs[W].f32());
    let (oh, ow) = out_size(&p.shape);
    let [c, h, width, k, kw, s, pad, l, oh, ow] =
        [p["c"], p["h"], p["w"], p["k"], p["kw"], p["s"], p["p"], p["l"], oh, ow].map(|v| v as usize);
    // Input coordinate of an output coordinate and a tap, if it is inside the image.
    let inside = |out: usize, tap: usize, extent: usize| {
        (out * s + tap * l).checked_sub(pad).filter(|coordinate| *coordinate < extent)
    };
    if p.shape.has("nhwc") {
        outputs[0].par_chunks_mut(ow * c).enumerate().for_each(|(row, out)| {
            let (n, y) = (row / oh, row % oh);
            for (ox, pixel) in out.chunks_exact_mut(c).enumerate() {
                pixel.fill(0.0);
                for i in 0..k {
                    let Some(iy) = inside(y, i, h) else { continue };
                    for j in 0..kw {
                        let Some(ix) = inside(ox, j, width) else { continue };
                        let from = &x[((n * h + iy) * width + ix) * c..][..c];
                        let taps = &w[(i * kw + j) * c..][..c];
                        for ((o, a), b) in pixel.iter_mut().zip(from).zip(taps) {
                            *o += a * b;
                        }
                    }
                }
            }
        });
    } else {
        outputs[0].par_chunks_mut(ow).enumerate().for_each(|(row, out)| {
            let (plane, y) = (row / oh, row % oh);
            let channel = plane % c;
            out.fill(0.0);
            for i in 0..k {
                let Some(iy) = inside(y, i, h) else { continue };
                let from = &x[(plane * h + iy) * width..][..width];
                for j in 0..kw {
                    let tap = w[(channel * k + i) * kw + j];
                    // Outputs of the line whose pixel under the tap lies in the image.
                    let before = pad.saturating_sub(j * l).div_ceil(s).min(ow);
                    let behind = (width + pad).saturating_sub(j * l).div_ceil(s).clamp(before, ow);
                    let out = &mut out[before..behind];
                    let Some(from) = (before * s + j * l).checked_sub(pad).and_then(|first| from.get(first..)) else {
                        continue;
                    };
                    match s {
                        1 => vector::add(out, tap, from),
                        _ => out.iter_mut().zip(from.iter().step_by(s)).for_each(|(out, pixel)| *out += tap * pixel),
                    }
                }
            }
        });
    }
}

/// Threads of a workgroup.
const THREADS: u32 = 256;

/// Stage over the workload's buffers, with the constants that both variants share.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    let (oh, ow) = out_size(&p.shape);
    let axes = [
        ("N", "n"),
        ("C", "c"),
        ("H", "h"),
        ("W", "w"),
        ("KH", "k"),
        ("KW", "kw"),
        ("STRIDE", "s"),
        ("PAD", "p"),
        ("DILATION", "l"),
    ];
    Stage::kernel(entry, text, entry)
        .consts(&axes.map(|(name, key)| (name, p[key] as u32)))
        .consts(&[("OH", oh as u32), ("OW", ow as u32), ("THREADS", THREADS)])
        .consts(&[("NHWC", p.shape.has("nhwc"))])
        .args([("x", Read), ("w", Read), ("out", Write)])
        .threads([THREADS, 1, 1])
        .cost(cost(p))
}

fn direct(p: &Problem, _caps: &Caps) -> Program {
    let (oh, ow) = out_size(&p.shape);
    let outputs = p["n"] * p["c"] * oh * ow;
    let grid = spread(outputs.div_ceil(u64::from(THREADS)));
    stage(p, "depthwise_conv2d/direct", "depthwise_conv2d_direct").grid(grid).into()
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    let (oh, ow) = out_size(&p.shape);
    let nhwc = p.shape.has("nhwc");
    let width = if nhwc { width(p["c"], p.dtype, caps) } else { 1 };
    let axes = [("H", "h"), ("W", "w"), ("KH", "k"), ("KW", "kw"), ("STRIDE", "s"), ("PAD", "p"), ("DILATION", "l")];
    let channels = p["c"] / width;
    Stage::cube_over("cube_depthwise_conv2d", p["n"] * channels * oh * ow)
        .consts(&axes.map(|(name, key)| (name, p[key] as u32)))
        .consts(&[("CHANNELS", channels as u32), ("OH", oh as u32), ("OW", ow as u32), ("WIDTH", width as u32)])
        .consts(&[("NHWC", nhwc)])
        .args([("x", Read), ("w", Read), ("out", Write)])
        .cost(cost(p))
        .into()
}

/// Tunables of `tiled`: rows and columns of a tile in nchw, channels and rows in nhwc.
const ROWS: Tunable = Tunable {
    name: "ROWS",
    about: "rows of a tile of one channel, in nchw",
    allowed: Allowed::OneOf(&[4, 8, 16, 32]),
    default: 16,
};
const COLUMNS: Tunable = Tunable {
    name: "COLUMNS",
    about: "columns of a tile of one channel, in nchw",
    allowed: Allowed::OneOf(&[16, 32, 64, 128]),
    default: 32,
};
const MOST_CHANNELS: Tunable = Tunable {
    name: "MOST_CHANNELS",
    about: "most channels of a tile in nhwc; its columns times its channels are the 256 threads",
    allowed: Allowed::OneOf(&[8, 16, 32, 64, 128]),
    default: 32,
};
const NHWC_ROWS: Tunable =
    Tunable { name: "NHWC_ROWS", about: "rows of a tile in nhwc", allowed: Allowed::OneOf(&[1, 2, 4, 8]), default: 4 };

fn tiled(p: &Problem, caps: &Caps) -> Program {
    let tuned = |tunable| u64::from(p.tuned(caps, "tiled", tunable));
    let (oh, ow) = out_size(&p.shape);
    // Neighbouring threads access neighbouring memory: along the row in nchw, along the channels in nhwc.
    let (channels, height, width) = if p.shape.has("nhwc") {
        let channels = p["c"].next_power_of_two().min(tuned(&MOST_CHANNELS));
        (channels, tuned(&NHWC_ROWS), u64::from(THREADS) / channels)
    } else {
        (1, tuned(&ROWS), tuned(&COLUMNS))
    };
    let patch = |out: u64, kernel: u64| (out - 1) * p["s"] + (kernel - 1) * p["l"] + 1;
    let (patch_h, patch_w) = (patch(height, p["k"]), patch(width, p["kw"]));
    let sizes =
        [("TILE_C", channels), ("TILE_H", height), ("TILE_W", width), ("PATCH_H", patch_h), ("PATCH_W", patch_w)];
    let tiles = p["n"] * p["c"].div_ceil(channels) * oh.div_ceil(height) * ow.div_ceil(width);
    stage(p, "depthwise_conv2d/tiled", "depthwise_conv2d_tiled")
        .consts(&sizes.map(|(name, value)| (name, value as u32)))
        .grid(spread(tiles))
        .shared(u32::try_from(4 * patch_h * patch_w * channels).unwrap_or(u32::MAX))
        .into()
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn shapes_without_an_output_that_can_be_counted_are_refused() {
        for (shape, part) in [
            ("n1,c1,h4,w4,k9", "larger than the padded image"),
            // Each extent alone is valid, but padding counts in both dimensions.
            ("n1,c1,h4,w4,k3,p1073741824", "2147483650 x 2147483650 pixels is too large"),
        ] {
            let error = parse_case(&format!("depthwise_conv2d/fwd/{shape}/f32/direct")).expect_err(shape);
            assert!(error.to_string().contains(part), "{shape}: {error}");
        }
    }
}
