//! Boxes of images resampled to bins, as detection networks do: RoI align.
//!
//! `x` is `[n, c, h, w]`. A box has corners (x1, y1, x2, y2) in pixels, and the index of its image. It has `p`·`p` bins, each of `s`·`s`
//! samples at the centres of equal cells. A sample is interpolated between four pixels, whose centres are at halves. The result `[r,
//! c, p, p]` has the mean of each bin's samples. torchvision's `roi_align` with `aligned=True` and a spatial scale of one is the same.
//!
//! A sample beyond the outer pixels' centres takes the outermost pixels. One farther than a pixel beyond them is zero, whatever the
//! pixels are. Others are NaN where one of their four pixels is, even at a weight of zero.
//!
//! Operations: four products and sums for each sample. Bytes: each pixel that boxes touch once, boxes, indices, and the result.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, smallest_normal, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Program, Reference, Shape,
    Stage, StressInput, Tolerance, Tunable, Variant, Workload, by_pieces, countable, indexable, normal, splitmix64,
    spread,
};
use parallax_schema::case::{Allowed, Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

const X: usize = 0;
const BOXES: usize = 1;
const INDEX: usize = 2;

/// Largest height and width: places of samples are numbers of f32, with errors far below a pixel.
const MOST_PIXELS: u64 = 16_384;
/// Largest number of samples along a bin. Kernels keep them in registers.
const MOST_SAMPLES: u64 = 4;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "boxes of images resampled to bins: RoI align",
        axes: const {
            &[
                Axis::extent("n", "images"),
                Axis::extent("c", "channels"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::extent("r", "boxes").items(),
                Axis::extent("p", "bins along each edge of a box"),
                Axis::optional("s", "samples along each edge of a bin", 1, 2),
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
        Rate::Bytes,
        |p| {
            vec![
                BufferSpec::input("x", Elem::Real, &[p["n"], p["c"], p["h"], p["w"]], normal),
                BufferSpec::input("boxes", Elem::F32, &[p["r"], 4], corner),
                BufferSpec::input("index", Elem::U32, &[p["r"]], |shape, draw| draw.below(shape["n"]) as f64),
                BufferSpec::output("out", Elem::Real, &[p["r"], p["c"], p["p"], p["p"]]),
            ]
        },
        cost,
        tolerance,
        Reference::new(
            |p, _| 4 * p["p"] * p["s"] * p["s"],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n2,c256,h100,w136,r1000,p7")
    .shapes(shapes)
    // One pixel, one bin, one sample; more bins than a workgroup has threads; fewer channels than teams, and more than a workgroup has.
    .awkward(&[
        "n1,c1,h1,r1,p1,s1",
        "n2,c3,h7,w5,r5,p3",
        "n1,c33,h9,w31,r7,p2,s1",
        "n3,c5,h16,w12,r9,p17",
        "n2,c130,h13,w19,r3,p7",
        "n1,c4,h24,w40,r6,p5,s3",
        "n2,c12,h32,w20,r20,p14",
        "n2,c90,h25,w34,r11,p7",
    ])
    .huge(&["n1,c40000,h256,r3,p2"])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one bin of a channel per thread, with the places of its samples", naive),
        Variant::kernel(
            "bins",
            "a bin of several channels per thread, which keeps pixels and weights of its samples in registers",
            bins,
        )
        .tunables(&[CHANNELS]),
    ])
    .fallback(&["bins", "naive"])
    .preconditions(vec![Precondition::Below { buffer: "index", bound: |p| p["n"] }])
    .stress(stress_inputs())
}

/// Levels of feature pyramids of images of 800 × 1088, and masks.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n2,c256,h100,w136,r1000,p7", "n2,c256,h50,w68,r1000,p7"],
        _ => &[
            "n2,c256,h100,w136,r1000,p7",
            "n2,c256,h50,w68,r1000,p7",
            "n8,c256,h100,w136,r4096,p7",
            "n2,c256,h100,w136,r200,p14",
            "n4,c512,h38,w50,r1000,p7",
        ],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let [n, c, h, w, r, p, s] = ["n", "c", "h", "w", "r", "p", "s"].map(|axis| shape[axis]);
    if h.max(w) > MOST_PIXELS {
        return Err(format!("places of samples are numbers of f32: at most {MOST_PIXELS} pixels, not {}", h.max(w)));
    }
    if s > MOST_SAMPLES {
        return Err(format!("kernels keep samples in registers: at most {MOST_SAMPLES} along a bin, not {s}"));
    }
    if !countable([n, c, h, w]) || !countable([r, c, p, p, s]) {
        return Err("the number of elements is too large for 64 bits".to_owned());
    }
    [n * c * h * w, r * c * p * p, 4 * r, p * s].into_iter().try_for_each(indexable)
}

/// First and last eighth of a pixel of a box along x (0) or y (1), apart from a random part. One of eight boxes is smaller than a
/// pixel, and one larger than the image. The others have up to half of the image, and some lie partly outside.
fn range(shape: &Shape, number: u64, axis: u64) -> (i64, i64) {
    let extent = 8 * [shape["w"], shape["h"]][axis as usize] as i64;
    let bits = splitmix64(2 * number + axis);
    let share = |bits: u64, of: i64| ((bits & 0xFFFF) as i64 * of) >> 16;
    let size = match splitmix64(number) % 8 {
        0 => 0,
        1 => extent + extent / 4,
        _ => extent / 16 + share(bits, extent / 2),
    };
    let start = share(bits >> 16, extent) - size / 2;
    (start, start + size)
}

/// Corner of a box. First corners are even numbers of eighths, and last ones odd. Places of samples are then odd multiples of
/// `1/(16·p·s)`, so that no rounding moves one to another pixel or to the outside.
fn corner(shape: &Shape, draw: Draw) -> f64 {
    let (number, axis, last) = (draw.index / 4, draw.index % 2, draw.index % 4 / 2 == 1);
    let (start, end) = range(shape, number, axis);
    let random = 2 * draw.below(4) as i64;
    (if last { 2 * (end / 2) + 9 + random } else { 2 * (start / 2) + random }) as f64 / 8.0
}

/// Place of the pixel-centred sample `at` of a box from `start` to `end`, and whether it has pixels.
fn place(p: &Problem, (start, end): (f64, f64), at: u64, pixels: u64) -> Option<f64> {
    let place = start - 0.5 + (at as f64 + 0.5) * (end - start) / (p["p"] * p["s"]) as f64;
    (-1.0..=pixels as f64).contains(&place).then(|| place.max(0.0))
}

/// Both pixels beside a place, and the weight of the second. At the rim they are the same.
fn beside(place: f64, pixels: u64) -> (u64, u64, f64) {
    let low = (place as u64).min(pixels - 1);
    let high = (low + 1).min(pixels - 1);
    (low, high, if low == high { 0.0 } else { place - low as f64 })
}

/// Pixels that boxes touch in all channels: those of each box, at most all of them. Random parts of corners are left out.
fn touched(p: &Problem) -> u64 {
    let of = |number: u64, axis: u64, pixels: u64| {
        let (start, end) = range(&p.shape, number, axis);
        let corners = (start as f64 / 8.0, (end + 9) as f64 / 8.0);
        let mut next = 0;
        let mut count = 0;
        for (low, high, _) in
            (0..p["p"] * p["s"]).filter_map(|at| place(p, corners, at, pixels)).map(|at| beside(at, pixels))
        {
            count += (high + 1).saturating_sub(low.max(next));
            next = next.max(high + 1);
        }
        count
    };
    let all = p["n"] * p["h"] * p["w"];
    let mut sum = 0;
    for number in 0..p["r"] {
        sum += of(number, 0, p["w"]) * of(number, 1, p["h"]);
        if sum >= all {
            return all * p["c"];
        }
    }
    sum * p["c"]
}

fn cost(p: &Problem) -> Cost {
    let (bins, element) = (p["r"] * p["c"] * p["p"] * p["p"], Elem::Real.storage(p.dtype).bytes());
    Cost::new(8 * bins * p["s"] * p["s"], touched(p) * element + 20 * p["r"], bins * element)
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let pixels = p["h"].max(p["w"]) as f64;
    Tolerance {
        abs: (4.0 * 3.47 * (8.0 * pixels + 16.0) + 16.0 * 3.47) * 2f64.powi(-24) + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "places of samples within two extents have errors of at most 8·(extent + 2)·u, by five roundings; a pixel's distance \
                 changes a sample by at most 2·3.47 in either direction; weights, sums and the mean have few roundings more, and the \
                 result is rounded once to the element type",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)], exact),
        set("equal", "all one: the share of samples with pixels", |_| vec![("x", one)], tolerance),
        set("nan", "NaN among pixels: so are bins with one", |_| vec![("x", scattered_nan)], tolerance),
        set("outside", "boxes without a pixel: zero", |_| vec![("boxes", outside)], exact),
        set("exchanged", "boxes that end before they start", |_| vec![("boxes", exchanged)], tolerance),
        set("far", "boxes from ±1e30 to ±2e30: zero", |_| vec![("boxes", far)], exact),
        set(
            "subnormal",
            "pixels too small to be normal: bins as small, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: 6.0 * smallest_normal(p),
                rel: 0.0,
                reason: "each pixel may be taken for zero, and so may the result",
            },
        ),
    ]
}

/// Corner of a box beside the image, or above or below it.
fn outside(shape: &Shape, draw: Draw) -> f64 {
    let extent = [shape["w"], shape["h"]][(draw.index % 2) as usize] as f64;
    let within = draw.below(4) as f64 / 4.0 + if draw.index % 4 < 2 { 0.0 } else { 1.125 };
    if (draw.index / 4).is_multiple_of(2) { extent + 2.0 + within } else { -8.0 + within }
}

/// Corner of a box far away in either direction.
fn far(_: &Shape, draw: Draw) -> f64 {
    let distance = if draw.index % 4 < 2 { 1e30 } else { 2e30 };
    if (draw.index / 4).is_multiple_of(2) { distance } else { -distance }
}

/// Corner of a box that has the usual last corner first.
fn exchanged(shape: &Shape, draw: Draw) -> f64 {
    let (start, end) = range(shape, draw.index / 4, draw.index % 2);
    let random = 2 * draw.below(4) as i64;
    (if draw.index % 4 < 2 { 2 * (end / 2) + 8 + random } else { 2 * (start / 2) + 1 + random }) as f64 / 8.0
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let [c, h, w, bins, s] = ["c", "h", "w", "p", "s"].map(|axis| p[axis]);
    let (number, channel, i) = (row / bins / c, row / bins % c, row % bins);
    let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|corner| inputs.at(BOXES, 4 * number + corner));
    let plane = (inputs.at(INDEX, number) as u64 * c + channel) * h * w;
    let pixel = |y: u64, x: u64| inputs.at(X, plane + y * w + x);
    let sample = |y: u64, x: u64| {
        let (Some(y), Some(x)) = (place(p, (y1, y2), y, h), place(p, (x1, x2), x, w)) else { return 0.0 };
        let ((upper, lower, down), (left, right, across)) = (beside(y, h), beside(x, w));
        let of_row = |y| (1.0 - across) * pixel(y, left) + across * pixel(y, right);
        (1.0 - down) * of_row(upper) + down * of_row(lower)
    };
    for (j, out) in (0..).zip(out) {
        let of_row = |y: u64| (0..s).map(|x| sample(i * s + y, j * s + x)).sum::<f64>();
        *out = (0..s).map(of_row).sum::<f64>() / (s * s) as f64;
    }
}

/// Pixels beside each sample of a box along an extent; none for a sample outside.
fn taps(p: &Problem, corners: (f32, f32), pixels: u64) -> Vec<Option<(usize, usize, f32)>> {
    let corners = (f64::from(corners.0), f64::from(corners.1));
    let of = |at| place(p, corners, at, pixels).map(|at| beside(at, pixels));
    (0..p["p"] * p["s"])
        .map(|at| of(at).map(|(low, high, weight)| (low as usize, high as usize, weight as f32)))
        .collect()
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (x, boxes, index) = (inputs[X].f32(), inputs[BOXES].f32(), inputs[INDEX].u32());
    let [c, h, w, bins, s] = ["c", "h", "w", "p", "s"].map(|axis| p[axis] as usize);
    let share = 1.0 / (s * s) as f32;
    outputs[0].par_chunks_mut(c * bins * bins).enumerate().for_each(|(number, out)| {
        let own = &boxes[4 * number..][..4];
        let (rows, columns) = (taps(p, (own[1], own[3]), p["h"]), taps(p, (own[0], own[2]), p["w"]));
        let planes = x[index[number] as usize * c * h * w..].chunks_exact(h * w);
        for (plane, out) in planes.zip(out.chunks_exact_mut(bins * bins)) {
            out.fill(0.0);
            for (at, (upper, lower, down)) in rows.iter().enumerate().filter_map(|(at, tap)| Some((at, (*tap)?))) {
                let [upper, lower] = [upper, lower].map(|row| &plane[row * w..][..w]);
                let out = &mut out[at / s * bins..][..bins];
                for (out, columns) in out.iter_mut().zip(columns.chunks_exact(s)) {
                    for (left, right, across) in columns.iter().flatten() {
                        let of_row = |row: &[f32]| (1.0 - across) * row[*left] + across * row[*right];
                        *out += (1.0 - down) * of_row(upper) + down * of_row(lower);
                    }
                }
            }
            out.iter_mut().for_each(|out| *out *= share);
        }
    });
}

/// Stage with the extents as constants, and the program.
fn program(p: &Problem, stage: Stage) -> Program {
    let extents = ["C", "H", "W", "R", "P", "S"].map(|name| (name, p[name.to_lowercase().as_str()] as u32));
    let shares = [("SAMPLE", 1.0 / (p["p"] * p["s"]) as f32), ("SHARE", 1.0 / (p["s"] * p["s"]) as f32)];
    let args = [("x", Read), ("boxes", Read), ("index", Read), ("out", Write)];
    stage.consts(&extents).consts(&shares).args(args).cost(p.cost()).into()
}

fn naive(p: &Problem, _: &Caps) -> Program {
    program(p, by_pieces(p["r"] * p["c"] * p["p"] * p["p"], 1, "roi_align/naive", "roi_align_naive"))
}

const CHANNELS: Tunable = Tunable {
    name: "CHANNELS",
    about: "channels of a thread, which share the places of samples",
    allowed: Allowed::OneOf(&[4, 8, 16, 32]),
    default: 16,
};

fn bins(p: &Problem, caps: &Caps) -> Program {
    const THREADS: u64 = 256;
    // Bins of a workgroup, and teams with a thread for each of them.
    let bins = p["p"] * p["p"];
    let wide = bins.min(THREADS);
    let teams = THREADS / wide;
    let channels = teams * u64::from(p.tuned(caps, "bins", &CHANNELS));
    let blocks = p["r"] * bins.div_ceil(wide) * p["c"].div_ceil(channels);
    let consts = [("THREADS", THREADS), ("WIDE", wide), ("TEAMS", teams), ("CHANNELS", channels)];
    let stage = Stage::kernel("roi_align_bins", "roi_align/bins", "roi_align_bins")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([THREADS as u32, 1, 1])
        .grid(spread(blocks));
    program(p, stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("roi_align/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn boxes_are_of_all_sizes_and_no_sample_is_between_two_decisions() {
        let p = problem("n2,c1,h20,w30,r200,p7");
        let inputs = p.inputs(7);
        let (mut outside, mut inside, mut tiny, mut large) = (0, 0, 0, 0);
        for number in 0..200 {
            let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|corner| inputs.at(BOXES, 4 * number + corner));
            assert!(x2 > x1 && y2 > y1, "{x1} {y1} {x2} {y2}");
            tiny += u32::from(x2 - x1 < 2.0 && y2 - y1 < 2.0);
            large += u32::from(x2 - x1 > 30.0);
            for (corners, pixels) in [((x1, x2), 30), ((y1, y2), 20)] {
                for at in 0..14 {
                    match place(&p, corners, at, pixels) {
                        None => outside += 1,
                        Some(0.0) => inside += 1,
                        Some(place) => {
                            inside += 1;
                            assert!((place - place.round()).abs() > 0.9 / 224.0, "{place}");
                        }
                    }
                }
            }
        }
        assert!(outside > 200 && inside > outside && tiny > 5 && large > 5, "{outside} {inside} {tiny} {large}");
    }

    #[test]
    fn a_box_on_a_ramp_has_the_places_of_its_bins() {
        let p = problem("n1,c1,h8,w8,r1,p2");
        let mut inputs = p.inputs(1);
        let ramp: Vec<u8> = (0..64).flat_map(|at| ((at % 8) as f32).to_le_bytes()).collect();
        inputs.replace(X, ramp).expect("as long");
        let corners: Vec<u8> = [1.0f32, 1.0, 5.0, 5.0].into_iter().flat_map(f32::to_le_bytes).collect();
        inputs.replace(BOXES, corners).expect("as long");
        let mut out = [0.0; 2];
        reference(&p, &inputs, 1, &mut out);
        assert_eq!(out, [1.5, 3.5]);
    }

    #[test]
    fn samples_beyond_the_rim_take_it_and_those_farther_away_are_none() {
        let p = problem("n1,c1,h8,w8,r1,p1,s1");
        assert_eq!(place(&p, (-0.5, 0.25), 0, 8), Some(0.0));
        assert_eq!(place(&p, (-1.0, -0.25), 0, 8), None);
        assert_eq!(place(&p, (7.5, 9.25), 0, 8), Some(7.875));
        assert_eq!(place(&p, (8.5, 9.0), 0, 8), None);
        assert_eq!(place(&p, (f64::NAN, 1.0), 0, 8), None);
        assert_eq!((beside(7.875, 8), beside(6.25, 8)), ((7, 7, 0.0), (6, 7, 0.25)));
    }

    #[test]
    fn boxes_outside_are_zero() {
        let p = problem("n1,c1,h24,w40,r6,p5,s3");
        for stress in p.form().stress.iter().filter(|stress| ["outside", "far"].contains(&stress.name)) {
            let inputs = p.stress_inputs(42, stress);
            let mut out = [1.0; 5];
            for row in 0..30 {
                reference(&p, &inputs, row, &mut out);
                assert_eq!(out, [0.0; 5], "{} {row}", stress.name);
            }
        }
    }

    #[test]
    fn boxes_touch_at_most_all_pixels() {
        let many = problem("n1,c3,h8,w8,r500,p7");
        assert_eq!(touched(&many), 3 * 64);
        let one = problem("n1,c3,h100,w100,r1,p1,s1");
        assert!((3..=12).contains(&touched(&one)), "{}", touched(&one));
    }
}
