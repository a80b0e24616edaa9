//! Images resized to other extents: the nearest pixel, or bilinear interpolation.
//!
//! Both images cover the same area. `bilinear` weighs the four pixels around the centre of an output by their distance, without a
//! filter for smaller images, as PyTorch's `interpolate` with `align_corners=False` and ONNX's `half_pixel`. A pixel without a weight
//! gives nothing, even if it is NaN; PyTorch gives NaN there. `nearest` takes pixel
//! `⌊y·h/oh⌋`, as PyTorch's `nearest` and ONNX's `asymmetric` with `floor`.
//!
//! Operations: a product and a sum for each of the four pixels, none for `nearest`. Bytes: each pixel that an output needs read once.

mod backward;
mod taps;

use taps::Taps;

use crate::pixels::{along, apart, bytes, extents, position, several, split, stage_of_pieces};
use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage, StressInput,
    Tolerance, Variant, Workload, countable, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "images resized to other extents: nearest pixels or bilinear interpolation",
        axes: const {
            &[
                Axis::extent("n", "images").items(),
                Axis::extent("c", "channels"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("oh", "height of the output"),
                Axis::same_as("ow", "width of the output", "oh"),
                Axis::word("layout", "memory order", &["nchw", "nhwc"]),
                Axis::word("kind", "interpolation", &["bilinear", "nearest"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

const AWKWARD: &[&str] = &[
    "n1,c1,h1,oh1,nchw,bilinear",
    "n1,c1,h1,oh5,nhwc,nearest",
    "n2,c3,h7,w5,oh14,ow10,nchw,bilinear",
    "n2,c3,h7,w5,oh9,ow16,nchw,bilinear",
    "n1,c8,h9,w11,oh4,ow5,nhwc,bilinear",
    "n2,c12,h5,w3,oh10,ow6,nhwc,nearest",
    "n1,c2,h16,w8,oh5,ow8,nchw,nearest",
    "n3,c5,h8,w16,oh8,ow16,nchw,bilinear",
    "n1,c4,h3,w31,oh17,ow1,nhwc,bilinear",
    "n2,c16,h10,w17,oh21,ow32,nchw,nearest",
];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            vec![
                BufferSpec::input("x", Elem::Real, &image(p), normal),
                BufferSpec::output("out", Elem::Real, &resized(p)),
            ]
        },
        |p| Cost::new(products(p), needed(p), bytes(p, &resized(p))),
        tolerance,
        Reference::new(
            |p, _| 4 * resized(p)[3],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n8,c64,h56,oh112,nchw,bilinear")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one element of the result per thread", |p, _| program(p, 1)),
        Variant::kernel(
            "vector",
            "16 bytes of the result per thread (WGSL: four elements): of neighbouring channels, which are read so too, in \
                 nhwc; of a row in nchw, where neighbours share their reads",
            |p, caps| program(p, along(p, resized(p), caps)),
        )
        .available(|p, caps| several(p, resized(p), caps)),
    ])
    .fallback(&["vector", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n8,c64,h56,oh112,nchw,bilinear",
            "n32,c256,h28,oh56,nhwc,bilinear",
            "n32,c128,h56,oh112,nchw,nearest",
            "n32,c3,h512,oh224,nchw,bilinear",
        ],
        _ => &[
            "n8,c64,h56,oh112,nchw,bilinear",
            "n64,c64,h56,oh112,nchw,bilinear",
            "n64,c256,h28,oh56,nhwc,bilinear",
            "n64,c64,h56,oh112,nchw,nearest",
            "n64,c64,h56,oh112,nhwc,nearest",
            "n128,c3,h512,oh224,nchw,bilinear",
        ],
    }
}

fn nearest(p: &Problem) -> bool {
    p.shape.has("nearest")
}

fn validate(shape: &Shape) -> Result<(), String> {
    let [rows, columns] = Taps::from_shape(shape);
    let (n, c) = (shape["n"], shape["c"]);
    for taps in [rows, columns] {
        if !countable([taps.extent, taps.outputs, 8]) {
            return Err("an extent is too large for 64 bits".to_owned());
        }
        // Places in units of half an output, and of half a pixel.
        indexable((2 * taps.outputs + 1) * taps.extent)?;
        indexable((2 * taps.extent + 1) * taps.outputs + taps.extent)?;
    }
    if !countable([n, c, rows.outputs, columns.outputs, rows.extent, columns.extent]) {
        return Err("the number of pixels is too large for 64 bits".to_owned());
    }
    indexable(n * c * rows.extent * columns.extent)?;
    indexable(n * c * rows.outputs * columns.outputs)
}

fn image(p: &Problem) -> [u64; 4] {
    extents(p, p["h"], p["w"])
}

fn resized(p: &Problem) -> [u64; 4] {
    extents(p, p["oh"], p["ow"])
}

/// Bytes of the pixels that an output needs.
fn needed(p: &Problem) -> u64 {
    let [rows, columns] = Taps::from_shape(&p.shape);
    bytes(p, &extents(p, rows.touched(), columns.touched()))
}

/// Operations of either direction.
fn products(p: &Problem) -> u64 {
    if nearest(p) { 0 } else { 8 * resized(p).iter().product::<u64>() }
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if nearest(p) {
        return exact(p, output);
    }
    Tolerance {
        abs: 16.0 * 3.47 * 2f64.powi(-24) + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "four numbers of at most 3.47 have weights of sum one; the weights are quotients of f32 with at most three \
                 roundings, products and sums have five more, and the result is rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)], exact),
        set("nan", "NaN among numbers: so are outputs beside it", |_| vec![("x", scattered_nan)], tolerance),
        set("equal", "all one: so is the result", |_| vec![("x", one)], tolerance),
        StressInput {
            applies: wide,
            ..set(
                "huge",
                "up to 1e34: sums stay within f32",
                |_| vec![("x", |_, draw| 1e34 * draw.normal())],
                |p, output| Tolerance { abs: 1e34 * tolerance(p, output).abs, ..tolerance(p, output) },
            )
        },
        set(
            "subnormal",
            "numbers too small to be normal: a result as small, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: 5.0 * smallest_normal(p),
                rel: 0.0,
                reason: "each number may be taken for zero, and so may the result",
            },
        ),
    ]
}

/// Weighs two numbers; the second does not count at a weight of zero.
fn blend(weight: f64, first: f64, second: f64) -> f64 {
    if weight == 0.0 { first } else { (1.0 - weight) * first + weight * second }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let [rows, columns] = Taps::from_shape(&p.shape);
    for (slot, at) in out.iter_mut().zip(row * resized(p)[3]..) {
        let [n, c, y, x] = split(p, resized(p), at);
        let value = |i, j| inputs.at(X, position(p, image(p), [n, c, i, j]));
        let (upper, lower, down) = rows.of(y);
        let (left, right, across) = columns.of(x);
        // The weights of `nearest` are zero.
        let of_row = |i| blend(across, value(i, left), value(i, right));
        *slot = blend(down, of_row(upper), of_row(lower));
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let x = inputs[X].f32();
    let [rows, columns] = Taps::from_shape(&p.shape);
    let apart = apart(p);
    let (height, width) = (rows.extent as usize, columns.extent as usize * apart);
    let place = |(first, second, weight): (u64, u64, f64)| (first as usize, second as usize, weight as f32);
    let places: Vec<(usize, usize, f32)> = (0..columns.outputs).map(|at| place(columns.of(at))).collect();
    let lines = rows.outputs as usize;
    let resized = outputs[0].par_chunks_mut(places.len() * apart).enumerate();
    resized.for_each_init(
        || vec![0.0; width],
        |blended, (line, out)| {
            let (upper, lower, down) = place(rows.of((line % lines) as u64));
            let [upper, lower] = [upper, lower].map(|row| &x[(line / lines * height + row) * width..][..width]);
            across(out, between(blended, [upper, lower], down), (&places, apart));
        },
    );
}

/// Returns the blend of two numbers. Without a weight, the second does not count, even if it is NaN.
fn of_two(weight: f32, a: f32, b: f32) -> f32 {
    if weight == 0.0 { a } else { (1.0 - weight) * a + weight * b }
}

/// Returns the blend of two rows.
fn between<'a>(blended: &'a mut [f32], [upper, lower]: [&'a [f32]; 2], weight: f32) -> &'a [f32] {
    if weight == 0.0 {
        return upper;
    }
    for (slot, (a, b)) in blended.iter_mut().zip(upper.iter().zip(lower)) {
        *slot = (1.0 - weight) * a + weight * b;
    }
    blended
}

/// Resizes a row. Neighbouring pixels of a channel are `apart` numbers apart.
fn across(out: &mut [f32], row: &[f32], (places, apart): (&[(usize, usize, f32)], usize)) {
    if apart == 1 {
        for (slot, (left, right, weight)) in out.iter_mut().zip(places) {
            *slot = of_two(*weight, row[*left], row[*right]);
        }
        return;
    }
    for (out, (left, right, weight)) in out.chunks_exact_mut(apart).zip(places) {
        let [left, right] = [left, right].map(|at| &row[at * apart..][..apart]);
        for (slot, (a, b)) in out.iter_mut().zip(left.iter().zip(right)) {
            *slot = of_two(*weight, *a, *b);
        }
    }
}

/// Stage with one piece of a tensor per thread, with the constants of the interpolation.
fn by_pieces_of(p: &Problem, tensor: ([u64; 4], u64), texts: [&'static str; 2], entry: &'static str) -> Stage {
    let sides = Taps::from_shape(&p.shape).map(|taps| (taps.extent, taps.outputs));
    stage_of_pieces(p, tensor, sides, texts, entry).consts(&[("NEAREST", nearest(p))])
}

fn program(p: &Problem, width: u64) -> Program {
    let texts = ["resize/forward", "resize/forward_row"];
    by_pieces_of(p, (resized(p), width), texts, "resize_forward")
        .args([("x", Read), ("out", Write)])
        .cost((forward().cost)(p))
        .into()
}
