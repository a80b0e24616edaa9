//! Boxes without those that overlap a better one too much: non-maximum suppression, as detection networks end with.
//!
//! `boxes` is `[n, 4]`, f32: corners (x1, y1, x2, y2), of which the last are no less than the first. A box is
//! kept unless a better kept box overlaps it by more than the threshold `t`. The overlap is the common area over that of the
//! union. `keep` is `[n]`, one for each kept box, zero for the others. torchvision's `nms` has the indices of the same boxes. With
//! `c` above one, `classes` has the class of each box, and boxes of different classes do not compete, as in `batched_nms`.
//!
//! Boxes are given from the best to the worst. With `scored`, `scores` from zero to below one give the order instead, and stages of
//! a radix sort find it. Of equal scores, the first is better.
//!
//! Kernels compare `inter > t · (area + other − inter)` in f32, without a division. Empty boxes exclude none, and are kept. Seeded
//! corners are multiples of a quarter, and boxes are at most 512 wide and high. Their areas, sums and differences are exact in f32.
//! The product with `t` is rounded once, and the reference rounds it likewise. Flags are therefore exact, also at the threshold.
//!
//! `bitmask` compares all pairs first, and then finds the kept boxes tile by tile. Between the tiles, kept rows of the mask exclude
//! later boxes. No barrier depends on the boxes.
//!
//! Bytes: boxes and classes once, and flags. Comparisons are not counted: their least number depends on the boxes.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Program, Reference, Rows,
    Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, splitmix64, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::attention_decode::dealt;
use crate::{Sort, Sorted};

const BOXES: usize = 0;
const CLASSES: usize = 1;

/// Boxes of a tile: four words of the mask.
const TILE: u64 = 128;
/// Largest number of boxes: the words of excluded ones lie in workgroup memory.
const MOST: u64 = 65_536;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "boxes that no better one overlaps: non-maximum suppression",
        axes: const {
            &[
                Axis::extent("n", "boxes").items(),
                Axis::optional("c", "classes, whose boxes do not compete", 1, 1),
                Axis::word("order", "whether scores give the order of the boxes", &["", "scored"]),
                Axis::decimal("t", "largest overlap, intersection over union", (0, 1), "0.5"),
            ]
        },
        dtypes: &[DType::F32],
        validate: |shape| match shape["n"] {
            n if n > MOST => Err(format!("flags lie in workgroup memory: at most {MOST} boxes, not {n}")),
            n => indexable(n * 4 * n.div_ceil(TILE)),
        },
        forms: vec![form()],
    }
}

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        |p| Cost::new(0, (16 + 4 * u64::from(classed(p)) + 4 * u64::from(scored(p))) * p["n"], 4 * p["n"]),
        tolerance,
        Reference::new(|p, _| p["n"] * p["n"], reference),
        OfNan::Unsaid("minima and maxima of WGSL may be either number where one is NaN"),
    )
    .headline("n4000")
    .shapes(|preset| match preset {
        Preset::Standard => &["n1000", "n4000", "n16384"],
        _ => &["n1000", "n4000", "n16384", "n4000,c80", "n16384,c80", "n4000,scored", "n16384,scored"],
    })
    // One box; parts of words and of tiles; one tile, and one box more; every overlap, and none, excludes.
    .awkward(&[
        "n1",
        "n2,c2",
        "n33,scored",
        "n65,t0.7",
        "n300,c5,scored,t0.3",
        "n128",
        "n129,t0",
        "n257,t1",
        "n513,c3",
        "n385,scored",
        "n1009,t0.6",
    ])
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one workgroup: each kept box in turn excludes the later ones that overlap it", naive),
        Variant::kernel(
            "bitmask",
            "workgroups compare all pairs of boxes, a bit each; one then finds the kept boxes, tile by tile",
            bitmask,
        )
        .deterministic(),
    ])
    .fallback(&["bitmask", "naive"])
    .preconditions(vec![
        Precondition::Below { buffer: "classes", bound: |p| p["c"] },
        Precondition::Below { buffer: "scores", bound: |_| 1 },
    ])
    .stress(stress_inputs())
}

/// Returns whether boxes have classes.
fn classed(p: &Problem) -> bool {
    p["c"] > 1
}

/// Returns whether scores give the order.
fn scored(p: &Problem) -> bool {
    p.shape.has("scored")
}

/// Buffers of the sort by score.
const SORTED: Sorted =
    Sorted { keys: "keys", sorted: "sorted", order: "order", between: ["half_sorted", "half_order"], counts: "digits" };

/// Sort by keys that fall with the score: bits of numbers below two.
fn by_score(p: &Problem) -> Sort {
    Sort { items: p["n"], below: 1 << 30 }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let n = p["n"];
    let mut buffers = vec![BufferSpec::input("boxes", Elem::F32, &[n, 4], corner)];
    if classed(p) {
        buffers.push(BufferSpec::input("classes", Elem::U32, &[n], |shape, draw| draw.below(shape["c"]) as f64));
    }
    if scored(p) {
        buffers.push(BufferSpec::input("scores", Elem::F32, &[n], score));
    }
    buffers.extend([
        BufferSpec::output("keep", Elem::U32, &[n]),
        // Of `bitmask`: whether a later box overlaps a box, four words for each tile.
        BufferSpec::scratch("masks", Elem::U32, &[n, n.div_ceil(TILE), 4]),
    ]);
    if scored(p) {
        buffers.push(BufferSpec::scratch("keys", Elem::U32, &[n]));
        buffers.extend(by_score(p).scratch(SORTED));
    }
    buffers
}

/// Score of a box, an odd multiple of 2⁻¹⁷. No two are equal: a multiplication modulo `n` permutes the ranks.
fn score(shape: &Shape, draw: Draw) -> f64 {
    (2 * dealt(draw.index, shape["n"]) + 1) as f64 / 131_072.0
}

fn tolerance(_: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 0.5,
        rel: 0.0,
        reason: "flags are zero or one: areas are exact, and the product with the threshold is rounded alike everywhere",
    }
}

/// Corner of a box around one of `n / 8` objects, a multiple of a quarter. It differs from the object's by up to an eighth of the
/// size.
fn corner(shape: &Shape, draw: Draw) -> f64 {
    let (number, axis, last) = (draw.index / 4, draw.index % 2, draw.index % 4 / 2);
    let object = splitmix64(number) % shape["n"].div_ceil(8);
    let bits = splitmix64(2 * object + axis + (1 << 32));
    let (size, start) = (64 + bits % 960, (bits >> 32) % 4096);
    let moved = draw.below(size / 4 + 1) as f64 - (size / 8) as f64;
    ((start + last * size) as f64 + moved) / 4.0
}

fn stress_inputs() -> Vec<StressInput> {
    type Fills = fn(&Problem) -> Vec<(&'static str, parallax_ir::Fill)>;
    let set = |name, about, fills: Fills| StressInput::new(name, about, fills, exact);
    vec![
        set("identical", "boxes all alike: the first of each class is kept, unless none excludes", |_| {
            vec![("boxes", |_, draw| [1.0, 2.0, 33.0, 18.0][(draw.index % 4) as usize])]
        }),
        set("empty", "a third of the boxes without width, a third without an area: these are kept", |_| {
            vec![("boxes", empty)]
        }),
        set("zeros", "all boxes the same point: all are kept", |_| vec![("boxes", zero)]),
        set("disjoint", "boxes that share at most an edge: all are kept", |_| vec![("boxes", disjoint)]),
        set("overlapping", "boxes that differ by a pixel: nearly all overlap", |_| vec![("boxes", overlapping)]),
        set("nested", "boxes within each other, from the largest to the smallest", |_| vec![("boxes", nested)]),
        set("halves", "boxes and halves of them: overlaps of just one half", |_| vec![("boxes", halves)]),
        set("large", "coordinates up to 2⁵¹", |_| {
            vec![("boxes", |shape, draw| 2f64.powi(40) * corner(shape, draw))]
        }),
        set("far", "boxes around a million pixels from zero", |_| {
            vec![("boxes", |shape, draw| 1e6 + corner(shape, draw))]
        }),
        set("tied", "scores all alike: the order is that of the boxes", |_| vec![("scores", |_, _| 0.5)])
            .applies(scored),
        set("rising", "each box overlaps its neighbours alone: every second is kept, or every one", |_| {
            vec![("boxes", rising)]
        }),
    ]
}

/// Corner of a box: every third one is a line, every third a point.
fn empty(shape: &Shape, draw: Draw) -> f64 {
    let number = draw.index / 4;
    let first = Draw::new(number, draw.index % 2);
    match number % 3 {
        0 => first.below(256) as f64 / 4.0,
        1 if draw.index.is_multiple_of(2) => first.below(256) as f64 / 4.0,
        1 => first.below(256) as f64 / 4.0 + (draw.index % 4 / 2) as f64 * 16.0,
        _ => corner(shape, draw),
    }
}

/// Corner of a box of a grid whose boxes touch each other.
fn disjoint(_: &Shape, draw: Draw) -> f64 {
    let (number, axis, last) = (draw.index / 4, draw.index % 2, draw.index % 4 / 2);
    let place = if axis == 0 { number % 128 } else { number / 128 };
    4.0 * (place + last) as f64
}

/// Corner of a box that random quarters of up to a pixel distinguish from the others.
fn overlapping(_: &Shape, draw: Draw) -> f64 {
    let last = draw.index % 4 / 2;
    (100 * last) as f64 + draw.below(5) as f64 / 4.0
}

/// Corner of a box around zero that lies within all boxes before.
fn nested(shape: &Shape, draw: Draw) -> f64 {
    let half = 1023 - draw.index / 4 * 1023 / shape["n"];
    half as f64 / if draw.index % 4 < 2 { -4.0 } else { 4.0 }
}

/// Corner of a box of sixteen pixels, or of one of its halves.
fn halves(_: &Shape, draw: Draw) -> f64 {
    let (number, axis, last) = (draw.index / 4, draw.index % 2, draw.index % 4 / 2);
    let sides = [[16, 16], [8, 16], [16, 8]][(number % 3) as usize];
    let start = if axis == 0 { 20 * (number / 3) } else { 0 };
    (start + last * sides[axis as usize]) as f64
}

/// Corner of a box that has three quarters of the box before it.
fn rising(_: &Shape, draw: Draw) -> f64 {
    let (number, axis, last) = (draw.index / 4, draw.index % 2, draw.index % 4 / 2);
    (4 * last) as f64 + if axis == 0 { number as f64 } else { 0.0 }
}

/// Returns whether two boxes overlap by more than the threshold. The product with it is rounded to f32.
fn overlaps(a: [f64; 4], b: [f64; 4], threshold: f32) -> bool {
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
    let area = |x: [f64; 4]| (x[2] - x[0]) * (x[3] - x[1]);
    let inter = side(0) * side(1);
    inter > f64::from(threshold * (area(a) + area(b) - inter) as f32)
}

/// Index of the scores among the inputs.
fn scores(p: &Problem) -> usize {
    if classed(p) { CLASSES + 1 } else { CLASSES }
}

/// Largest overlap.
fn threshold(p: &Problem) -> f32 {
    p.shape.decimal("t") as f32
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let n = p["n"] as usize;
    let values = inputs.values(BOXES, ..);
    let boxes: Vec<[f64; 4]> = values.chunks_exact(4).map(|x| x.try_into().expect("four")).collect();
    let class = |i: usize| if classed(p) { inputs.at(CLASSES, i as u64) } else { 0.0 };
    let mut order: Vec<usize> = (0..n).collect();
    if scored(p) {
        let score = |i: &usize| inputs.at(scores(p), *i as u64);
        order.sort_by(|a, b| score(b).total_cmp(&score(a)));
    }
    let mut keep = vec![true; n];
    for (rank, i) in order.iter().enumerate() {
        if !keep[*i] {
            continue;
        }
        for j in &order[rank + 1..] {
            keep[*j] &= class(*i) != class(*j) || !overlaps(boxes[*i], boxes[*j], threshold(p));
        }
    }
    Box::new(move |_, _, out| out.iter_mut().zip(&keep).for_each(|(out, keep)| *out = f64::from(u8::from(*keep))))
}

/// Box of the host with its class.
#[derive(Clone, Copy)]
struct Candidate {
    corners: [f32; 4],
    class: u32,
}

impl Candidate {
    fn area(self) -> f32 {
        let [x1, y1, x2, y2] = self.corners;
        (x2 - x1) * (y2 - y1)
    }

    fn excludes(self, other: Candidate, threshold: f32) -> bool {
        let (a, b) = (self.corners, other.corners);
        let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
        let inter = side(0) * side(1);
        self.class == other.class && inter > threshold * (self.area() + other.area() - inter)
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    const PIECE: usize = 512;
    let threshold = threshold(p);
    let class = |i: usize| if classed(p) { inputs[CLASSES].u32()[i] } else { 0 };
    let mut order: Vec<usize> = (0..p["n"] as usize).collect();
    if scored(p) {
        let scores = inputs[scores(p)].f32();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    }
    let corners = |i: usize| inputs[BOXES].f32()[4 * i..][..4].try_into().expect("four");
    let boxes: Vec<Candidate> = order.iter().map(|i| Candidate { corners: corners(*i), class: class(*i) }).collect();
    let mut keep = vec![f32::from_bits(1); boxes.len()];
    let kept = |flag: &f32| flag.to_bits() == 1;
    for start in (0..boxes.len()).step_by(TILE as usize) {
        let (tile, later) = keep[start..].split_at_mut((TILE as usize).min(boxes.len() - start));
        let mut best: Vec<Candidate> = Vec::new();
        for (flag, candidate) in tile.iter_mut().zip(&boxes[start..]).filter(|(flag, _)| kept(flag)) {
            if best.iter().any(|better| better.excludes(*candidate, threshold)) {
                *flag = 0.0;
            } else {
                best.push(*candidate);
            }
        }
        let pieces = later.par_chunks_mut(PIECE).zip(boxes[start + tile.len()..].par_chunks(PIECE));
        pieces.for_each(|(flags, boxes)| {
            for (flag, candidate) in flags.iter_mut().zip(boxes).filter(|(flag, _)| kept(flag)) {
                if best.iter().any(|better| better.excludes(*candidate, threshold)) {
                    *flag = 0.0;
                }
            }
        });
    }
    order.iter().zip(keep).for_each(|(i, keep)| outputs[0][*i] = keep);
}

/// Stage with the constants of the boxes, which are its first arguments.
fn stage(p: &Problem, text: &'static str, entry: &'static str, threads: u64) -> Stage {
    let consts = [("N", p["n"]), ("TILES", p["n"].div_ceil(TILE)), ("TILE", TILE), ("THREADS", threads)];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("CLASSED", classed(p)), ("SCORED", scored(p))])
        .threads([threads as u32, 1, 1])
}

/// Arguments of a stage that compares boxes and writes one buffer.
fn compares(p: &Problem, stage: Stage, to: &'static str) -> Stage {
    let classes = classed(p).then_some(("classes", Read));
    let order = scored(p).then_some(("order", Read));
    stage
        .consts(&[("THRESHOLD", threshold(p))])
        .args([("boxes", Read), (to, Write)].into_iter().chain(classes).chain(order))
}

/// Stages that find the order of the boxes.
fn sorting(p: &Problem) -> Vec<Stage> {
    if !scored(p) {
        return Vec::new();
    }
    let keys = stage(p, "nms/keys", "nms_keys", 256)
        .args([("scores", Read), ("keys", Write)])
        .grid(spread(p["n"].div_ceil(256)))
        .cost(Cost::new(0, 4 * p["n"], 4 * p["n"]));
    [keys].into_iter().chain(by_score(p).stages(SORTED)).collect()
}

/// Threads of a single workgroup.
fn threads(caps: &Caps) -> u64 {
    if caps.dialect == Dialect::Cuda { 512 } else { 256 }
}

fn naive(p: &Problem, caps: &Caps) -> Program {
    let exclude = compares(p, stage(p, "nms/naive", "nms_naive", threads(caps)), "keep").cost(p.cost());
    Program { stages: sorting(p).into_iter().chain([exclude]).collect() }
}

fn bitmask(p: &Problem, caps: &Caps) -> Program {
    let (n, tiles) = (p["n"], p["n"].div_ceil(TILE));
    // Pairs of tiles, the second no earlier than the first; rows of them are paired so that all pairs are as long.
    let words = 16 * (0..tiles).map(|tile| (tiles - tile) * TILE.min(n - tile * TILE)).sum::<u64>();
    let mask = compares(p, stage(p, "nms/mask", "nms_mask", TILE), "masks")
        .grid(spread(tiles.div_ceil(2) * (tiles + 1)))
        .shared((TILE * (20 + if classed(p) { 4 } else { 0 })) as u32)
        .cost(Cost::new(12 * n * (n - 1) / 2, p.cost().read.0, words));
    let threads = threads(caps);
    let lanes = tiles.next_power_of_two().min(threads);
    let reduce = stage(p, "nms/reduce", "nms_reduce", threads)
        .consts(&[("LANES", lanes as u32)])
        .args([("masks", Read), ("keep", Write)].into_iter().chain(scored(p).then_some(("order", Read))))
        // Excluded boxes, the mask of a tile within itself, its kept boxes and their list.
        .shared((16 * tiles + 16 * TILE + 16 + 4 * TILE) as u32)
        .cost(Cost::new(0, 16 * n, 4 * n));
    Program { stages: sorting(p).into_iter().chain([mask, reduce]).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("nms/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    fn kept(p: &Problem, inputs: &Inputs) -> Vec<f64> {
        let mut out = vec![2.0; p["n"] as usize];
        reference(p, inputs)(0, 0, &mut out);
        out
    }

    #[test]
    fn a_box_that_an_excluded_one_overlaps_is_kept() {
        let p = problem("n4");
        let mut inputs = p.inputs(1);
        let boxes: [[f32; 4]; 4] = [[0., 0., 4., 4.], [0., 1., 4., 5.], [0., 2., 4., 6.], [8., 8., 9., 9.]];
        inputs.replace(BOXES, boxes.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect()).expect("four boxes");
        // The second overlaps the first by 12 of 20. The third overlaps it alike, and the first by 8 of 24.
        assert_eq!(kept(&p, &inputs), [1.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn scores_give_the_order_and_flags_are_those_of_the_given_places() {
        let p = problem("n3,scored");
        let mut inputs = p.inputs(1);
        let boxes: [[f32; 4]; 3] = [[0., 0., 4., 4.], [0., 1., 4., 5.], [0., 2., 4., 6.]];
        let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        inputs.replace(BOXES, bytes(boxes.as_flattened())).expect("three boxes");
        for (given, want) in [([0.1, 0.9, 0.5], [0.0, 1.0, 0.0]), ([0.5; 3], [1.0, 0.0, 1.0])] {
            inputs.replace(scores(&p), bytes(&given)).expect("three scores");
            assert_eq!(kept(&p, &inputs), want, "{given:?}");
        }
        let seeded = problem("n1009,scored").inputs(1).values(1, ..);
        let mut sorted = seeded.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|two| two[0] < two[1]) && !seeded.is_sorted());
    }

    #[test]
    fn seeded_boxes_have_exact_areas_and_a_part_of_them_is_kept() {
        let p = problem("n500");
        let inputs = p.inputs(3);
        for corners in inputs.values(BOXES, ..).chunks_exact(4) {
            let [width, height] = [corners[2] - corners[0], corners[3] - corners[1]];
            assert!(width > 0.0 && height > 0.0 && width.max(height) <= 512.0, "{corners:?}");
            assert!(corners.iter().all(|x| (4.0 * x).fract() == 0.0), "{corners:?}");
        }
        let count = kept(&p, &inputs).iter().sum::<f64>();
        assert!((50.0..300.0).contains(&count), "{count}");
        let of_classes = problem("n500,c80");
        assert!(kept(&of_classes, &of_classes.inputs(3)).iter().sum::<f64>() > count);
    }

    #[test]
    fn stress_inputs_have_the_flags_that_they_claim() {
        let p = problem("n300");
        let count = |name: &str| {
            let stress = p.form().stress.iter().find(|stress| stress.name == name).expect("such a set");
            kept(&p, &p.stress_inputs(1, stress)).iter().sum::<f64>()
        };
        assert_eq!((count("identical"), count("disjoint"), count("overlapping")), (1.0, 300.0, 1.0));
        // Of three boxes, both halves have an overlap of just one half with the whole.
        assert_eq!((count("rising"), count("halves")), (150.0, 300.0));
        assert!((2.0..30.0).contains(&count("nested")), "{}", count("nested"));
        assert!(count("empty") >= 200.0);
    }

    #[test]
    fn a_threshold_of_one_keeps_every_box() {
        let p = problem("n257,t1");
        assert_eq!(kept(&p, &p.inputs(1)), [1.0; 257]);
        assert!(parse_case("nms/fwd/n65537/f32/naive").is_err());
    }
}
