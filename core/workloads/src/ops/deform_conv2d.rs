//! Convolution of images whose taps have offsets and weights of their own: deformable convolution.
//!
//! `x` is `[n, h, w, c]`. Each result has `k`·`k` taps. Tap `(i, j)` of result `(y, x)` is at `(y·s − p + i, x·s − p + j)` plus
//! its `offset`, `[n, oh, ow, k, k, 2]`, which has rows before columns. Its value is interpolated between four pixels. Those
//! outside are zero. The value is multiplied by its number in `mask`, `[n, oh, ow, k, k]`. With weights `w` of `[m, k, k, c]` and
//! `bias` of `[m]`, `out` is `[n, oh, ow, m]` with `oh = (h + 2p − k) / s + 1`. torchvision's `deform_conv2d` with one group is the
//! same on other layouts. The origin is Zhu et al., "Deformable ConvNets v2" (2019).
//!
//! Offsets are f32 for every element type. A tap that is a pixel or more outside is zero, and so is one whose place is NaN. Others
//! are NaN where a pixel beside them is, even at a weight of zero.
//!
//! Operations: those of the GEMM of taps and weights, `2·n·oh·ow·m·c·k²`. Interpolation is not counted.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, Layout, OfNan, OpSpec, Problem, Program, Reference, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, by_pieces, countable, indexable, normal, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::linear::stages::{GemmKind, Stages};
use crate::dense;

const X: usize = 0;
const OFFSET: usize = 1;
const MASK: usize = 2;
const W: usize = 3;
const BIAS: usize = 4;

/// Largest height and width: places of taps are numbers of f32, with errors far below a pixel.
const MOST_PIXELS: u64 = 16_384;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "convolution of images whose taps have offsets and weights of their own",
        axes: const {
            &[
                Axis::extent("n", "images"),
                Axis::extent("c", "channels"),
                Axis::same_as("m", "channels of the result", "c"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::optional("k", "taps along each edge", 1, 3),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "zeros around the image", 0, 0),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![form()],
    }
}

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| taps(p) * (p["c"] + 4),
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n1,c64,h64,p1")
    .shapes(shapes)
    // One pixel and tap; no whole vectors; strides and margins; whole vectors; rows that warpgroups copy.
    .awkward(&[
        "n1,c1,h1,k1",
        "n2,c3,m5,h7,w5,p1",
        "n1,c5,m2,h9,w12,k2,s2",
        "n2,c4,m8,h6,w11,k5,p2",
        "n1,c12,m20,h17,w13,s2,p1",
        "n2,c16,m72,h13,w10,p1",
        "n1,c8,m136,h24,w17,p1",
    ])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one element of the result per thread, which interpolates its taps", naive),
        Variant::kernel(
            "tiled",
            "two stages: taps, interpolated once for all channels of the result, and a product by tiles in workgroup memory",
            |p, caps| columns(p, caps, GemmKind::Tiles),
        ),
        Variant::kernel("mma", "the same with a product on tensor cores by warp-wide instructions", |p, caps| {
            columns(p, caps, GemmKind::Mma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel("wgmma", "the same with a product on tensor cores by four warps together", |p, caps| {
            columns(p, caps, GemmKind::Wgmma)
        })
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| gemm(p).wgmma_available(p.dtype, caps)),
        Variant::kernel(
            "coopmat",
            "the same with a product on matrix units through WGSL's cooperative matrices",
            |p, caps| columns(p, caps, GemmKind::Coopmat),
        )
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel("vendor", "taps by our stage, and the product by the vendor's library, cuBLASLt", |p, caps| {
            columns(p, caps, GemmKind::Library)
        })
        .only_in(&[Dialect::Cuda]),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["coopmat", "wgmma", "mma", "tiled", "naive"])
    .stress(stress_inputs())
}

/// Stages of residual networks with deformable taps, as detection networks have them.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n1,c64,h64,p1", "n2,c256,h50,w68,p1"],
        _ => {
            &["n1,c64,h64,p1", "n2,c128,h100,w136,p1", "n2,c256,h50,w68,p1", "n8,c256,h50,w68,p1", "n8,c512,h25,w34,p1"]
        }
    }
}

/// Results along an extent, or none.
fn results(shape: &Shape, extent: &str) -> Option<u64> {
    let (k, s, p) = (shape["k"], shape["s"], shape["p"]);
    Some(p.checked_mul(2)?.checked_add(shape[extent])?.checked_sub(k)? / s + 1)
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (Some(oh), Some(ow)) = (results(shape, "h"), results(shape, "w")) else {
        return Err(format!("{} taps along an edge exceed the image with its zeros", shape["k"]));
    };
    let [n, c, m, h, w, k, p] = ["n", "c", "m", "h", "w", "k", "p"].map(|axis| shape[axis]);
    if h.max(w).max(p) > MOST_PIXELS {
        return Err(format!(
            "places of taps are numbers of f32: at most {MOST_PIXELS} pixels, not {}",
            h.max(w).max(p)
        ));
    }
    let all: [&[u64]; 4] = [&[n, c, h, w], &[n, oh, ow, k, k, c.max(2)], &[n, oh, ow, m], &[m, k, k, c]];
    if !all.iter().all(|extents| countable(extents.iter().copied())) {
        return Err("the number of elements is too large for 64 bits".to_owned());
    }
    all.iter().try_for_each(|extents| indexable(extents.iter().product()))
}

/// Results along both extents.
fn extents(p: &Problem) -> [u64; 2] {
    ["h", "w"].map(|extent| results(&p.shape, extent).expect("validated"))
}

/// Results of all images, each a pixel with its channels.
fn pixels(p: &Problem) -> u64 {
    let [oh, ow] = extents(p);
    p["n"] * oh * ow
}

/// Taps of a result.
fn taps(p: &Problem) -> u64 {
    p["k"] * p["k"]
}

/// GEMM of taps and weights. Each row has all taps of a result, with their channels.
fn gemm(p: &Problem) -> Gemm {
    Gemm::new(pixels(p), p["m"], taps(p) * p["c"]).layout(Layout::Nt)
}

/// Offset of a tap along a row or column: an odd number of 32nds within four pixels. No place is a whole number, and each is exact
/// in f32.
fn offset(_: &Shape, draw: Draw) -> f64 {
    (2 * draw.below(128) + 1) as f64 / 32.0 - 4.0
}

fn weight(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / ((shape["k"] * shape["k"] * shape["c"]) as f64).sqrt()
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let [oh, ow] = extents(p);
    let (n, c, m, k) = (p["n"], p["c"], p["m"], p["k"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[n, p["h"], p["w"], c], normal),
        BufferSpec::input("offset", Elem::F32, &[n, oh, ow, k, k, 2], offset),
        BufferSpec::input("mask", Elem::Real, &[n, oh, ow, k, k], |_, draw| draw.uniform()),
        BufferSpec::input("w", Elem::Real, &[m, k, k, c], weight),
        BufferSpec::input("bias", Elem::Real, &[m], normal),
        BufferSpec::output("out", Elem::Real, &[n, oh, ow, m]),
        // Interpolated taps of variants with a product.
        BufferSpec::scratch("taps", Elem::Real, &[pixels(p), taps(p), c]),
    ]
}

/// Bytes of `elements` elements.
fn bytes(p: &Problem, elements: u64) -> u64 {
    elements * Elem::Real.storage(p.dtype).bytes()
}

/// Bytes of images, offsets and masks.
fn read_by_taps(p: &Problem) -> u64 {
    let all = pixels(p) * taps(p);
    bytes(p, p["n"] * p["h"] * p["w"] * p["c"] + all) + 8 * all
}

fn cost(p: &Problem) -> Cost {
    let read = read_by_taps(p) + bytes(p, p["m"] * taps(p) * p["c"] + p["m"]);
    Cost::new(gemm(p).flops(), read, bytes(p, pixels(p) * p["m"]))
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let (u, terms) = (p.dtype.unit_roundoff(), (taps(p) * p["c"]) as f64);
    // Places are exact for seeded offsets. Weights, sums and the mask have a few roundings, and a tap is rounded once.
    let tap = 4.0 * (16.0 * 2f64.powi(-24) + u);
    let sum = 8.0 * 2f64.powi(-24) * (terms + 12.0 * terms.sqrt());
    Tolerance {
        abs: 8.0 * tap + sum + smallest_normal(p),
        rel: 2.0 * u,
        reason: "a tap is at most 3.47 and rounded once to the element type after some roundings in f32; a sum of such errors of \
                 random sign, times weights of about 1/√(taps·channels), is eight of them with all but certainty; products are \
                 summed in f32 as in `linear`, and the result is rounded once",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: the bias", |_| vec![("x", zero)], exact),
        set("equal", "images of one: the share of each tap inside", |_| vec![("x", one)], tolerance),
        set("nan", "NaN among pixels: so are results with a tap beside one", |_| vec![("x", scattered_nan)], tolerance),
        set(
            "whole",
            "offsets of whole pixels: taps are pixels, and those outside are zero",
            |_| vec![("offset", |_, draw| draw.below(9) as f64 - 4.0)],
            tolerance,
        ),
        set(
            "far",
            "offsets of ±1e30: no tap has a pixel, and the result is the bias",
            |_| vec![("offset", |_, draw| if draw.index.is_multiple_of(3) { 1e30 } else { -1e30 })],
            exact,
        ),
        set(
            "nan offsets",
            "offsets that are NaN: such taps are zero",
            |_| vec![("offset", |shape, draw| if draw.index % 5 == 1 { f64::NAN } else { offset(shape, draw) })],
            tolerance,
        ),
    ]
}

/// Pixel below or at a place, and the distance from it; none for a place outside, or for NaN.
fn place(at: f64, pixels: u64) -> Option<(i64, f64)> {
    (at > -1.0 && at < pixels as f64).then(|| (at.floor() as i64, at - at.floor()))
}

/// Place of tap `tap` of a result along both extents, without its offset.
fn start(p: &Problem, result: u64, tap: u64) -> [f64; 2] {
    let [oh, ow] = extents(p);
    let of = |result: u64, tap: u64| (result * p["s"] + tap) as f64 - p["p"] as f64;
    [of(result / ow % oh, tap / p["k"]), of(result % ow, tap % p["k"])]
}

/// Pixels beside a tap with their weights, by index among all pixels; none for a tap outside.
fn beside(p: &Problem, result: u64, tap: u64, offset: [f64; 2]) -> [Option<(u64, f64)>; 4] {
    let [oh, ow] = extents(p);
    let [y, x] = start(p, result, tap);
    let (Some((row, down)), Some((column, across))) = (place(y + offset[0], p["h"]), place(x + offset[1], p["w"]))
    else {
        return [None; 4];
    };
    let image = result / (oh * ow);
    let pixel = |row: i64, column: i64, weight: f64| {
        let (row, column) = (u64::try_from(row).ok()?, u64::try_from(column).ok()?);
        (row < p["h"] && column < p["w"]).then(|| ((image * p["h"] + row) * p["w"] + column, weight))
    };
    [
        pixel(row, column, (1.0 - down) * (1.0 - across)),
        pixel(row, column + 1, (1.0 - down) * across),
        pixel(row + 1, column, down * (1.0 - across)),
        pixel(row + 1, column + 1, down * across),
    ]
}

/// Computes the channels of a result.
fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (c, all) = (p["c"], taps(p));
    for (out, channel) in out.iter_mut().zip(0..) {
        *out = inputs.at(BIAS, channel);
    }
    for tap in 0..all {
        let at = row * all + tap;
        let offset = [0, 1].map(|axis| inputs.at(OFFSET, 2 * at + axis));
        let mask = inputs.at(MASK, at);
        let pixels = beside(p, row, tap, offset);
        for channel in 0..c {
            let value: f64 =
                pixels.iter().flatten().map(|(pixel, weight)| weight * inputs.at(X, pixel * c + channel)).sum();
            for (out, to) in out.iter_mut().zip(0..) {
                *out += mask * value * inputs.at(W, (to * all + tap) * c + channel);
            }
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [x, offset, mask, w, bias] = [X, OFFSET, MASK, W, BIAS].map(|at| inputs[at].f32());
    let (c, all) = (p["c"] as usize, taps(p) as usize);
    let mut columns = vec![0.0; pixels(p) as usize * all * c];
    columns.par_chunks_mut(all * c).enumerate().for_each(|(row, columns)| {
        for (tap, values) in columns.chunks_exact_mut(c).enumerate() {
            let at = row * all + tap;
            let own = [0, 1].map(|axis| f64::from(offset[2 * at + axis]));
            for (pixel, weight) in beside(p, row as u64, tap as u64, own).into_iter().flatten() {
                dense::add(values, weight as f32 * mask[at], &x[pixel as usize * c..][..c]);
            }
        }
    });
    let out = &mut outputs[0];
    out.par_chunks_mut(bias.len()).for_each(|out| out.copy_from_slice(bias));
    dense::add_gemm(gemm(p), &columns, w, out);
}

/// Stage with the extents as constants.
fn with_extents(p: &Problem, stage: Stage) -> Stage {
    let [oh, ow] = extents(p);
    let own = ["C", "M", "H", "W", "K", "S", "P"].map(|name| (name, p[name.to_lowercase().as_str()] as u32));
    stage.consts(&own).consts(&[("OUT_H", oh as u32), ("OUT_W", ow as u32)])
}

fn naive(p: &Problem, _: &Caps) -> Program {
    let stage = by_pieces(pixels(p) * p["m"], 1, "deform_conv2d/naive", "deform_conv2d_naive");
    let inputs = ["x", "offset", "mask", "w", "bias"].map(|name| (name, Read));
    with_extents(p, stage).args(inputs.into_iter().chain([("out", Write)])).cost(cost(p)).into()
}

/// Program with interpolated taps in memory, and their GEMM with the weights.
fn columns(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let all = pixels(p) * taps(p);
    let width = width(p["c"], p.dtype, caps);
    let stage = by_pieces(all * p["c"] / width, width, "deform_conv2d/taps", "deform_conv2d_taps");
    let interpolated = with_extents(p, stage)
        .args([("x", Read), ("offset", Read), ("mask", Read), ("taps", Write)])
        .cost(Cost::new(8 * all * p["c"], read_by_taps(p), bytes(p, all * p["c"])));
    let product = Stages { dtype: p.dtype, caps, kind }.with_bias(gemm(p), ["taps", "w", "out"], "bias");
    Program { stages: vec![interpolated, product] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("deform_conv2d/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn taps_between_pixels_are_means_and_pixels_outside_are_zero() {
        let p = problem("n1,c1,h4,k1");
        let weights = |offset| beside(&p, 5, 0, offset);
        assert_eq!(weights([0.25, 0.5]), [Some((5, 0.375)), Some((6, 0.375)), Some((9, 0.125)), Some((10, 0.125))]);
        assert_eq!(weights([-1.5, 0.0]), [None, None, Some((1, 0.5)), Some((2, 0.0))], "half a pixel above");
        assert_eq!(weights([2.5, 2.25]), [Some((15, 0.375)), None, None, None], "beyond the last");
        for outside in [[-2.0, 0.0], [3.0, 0.0], [0.0, f64::NAN], [1e30, 0.0]] {
            assert_eq!(weights(outside), [None; 4], "{outside:?}");
        }
    }

    #[test]
    fn offsets_are_exact_and_no_place_is_a_pixel() {
        let p = problem("n2,c3,m5,h7,w5,p1");
        let inputs = p.inputs(3);
        for at in 0..2 * pixels(&p) * taps(&p) {
            let offset = inputs.at(OFFSET, at);
            assert!(offset.abs() < 4.0 && (offset * 32.0).rem_euclid(2.0) == 1.0, "{offset}");
        }
    }

    #[test]
    fn extents_follow_strides_and_zeros() {
        let of = |shape| extents(&problem(shape));
        assert_eq!(of("n1,c1,h7,w5,p1"), [7, 5]);
        assert_eq!(of("n1,c5,m2,h9,w12,k2,s2"), [4, 6]);
        assert!(
            parse_case("deform_conv2d/fwd/n1,c1,h2,k5/f32/naive").is_err_and(|why| why.to_string().contains("exceed"))
        );
        assert!(parse_case("deform_conv2d/fwd/n1,c1,h20000,k1/f32/naive").is_err());
    }

    #[test]
    fn a_product_has_all_operations() {
        for variant in ["naive", "tiled"] {
            let case = parse_case(&format!("deform_conv2d/fwd/n2,c16,m72,h13,w10,p1/f32/{variant}")).expect("valid");
            let program = case.program(&parallax_schema::testing::caps()).expect("kernels");
            let last = program.stages.last().expect("one");
            assert_eq!(last.cost.flops, cost(&case.problem).flops, "{variant}");
        }
    }
}
