//! Largest `k` values of each row of a matrix in falling order, and their indices in the row.
//!
//! NaN is larger than every number, as in PyTorch, and all NaN are equal; so are zeros of either sign. Of equal values, the one with
//! the lower index comes first, so that the result is unique. `k1` is the argmax.
//!
//! The fast variants divide a row into groups of neighbours. By falling maximum, and by rising index among equal ones, the first `k`
//! groups hold the whole result. Each other group has `k` maxima before its own, and so before all of its values. The row is read
//! once, and then only `k` groups of it.
//!
//! Operations: one comparison a value. Bytes: each value read once; results written once, with an index of 32 bits each.

use std::cmp::Ordering;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

const X: usize = 0;
/// Index of the positions among the outputs.
const INDICES: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "largest values of the rows of a matrix, with their indices",
        axes: const {
            &[
                Axis::extent("r", "rows"),
                Axis::extent("n", "values of a row"),
                Axis::extent("k", "largest values of a row, at most 1024"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| p.each_once(p["r"] * p["n"]),
            tolerance,
            Reference::new(
                |p, _| 16 * p["n"],
                |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("r64,n32000,k64")
        .shapes(shapes)
        // Single values; all of a row; groups that end within a row, and in the middle of a workgroup; odd rows; more rows than a
        // workgroup has groups; every group chosen; survivors that are too many to sort at once.
        .awkward(&[
            "r1,n1,k1",
            "r5,n3,k2",
            "r3,n17,k17",
            "r67,n130,k1",
            "r2,n1009,k64",
            "r257,n40,k7",
            "r7,n1024,k1024",
            "r3,n4100,k100",
            "r2,n5003,k700",
            "r1,n40008,k64",
            "r3,n70001,k33",
        ])
        .huge(&["r256,n8392704,k64"])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "naive",
                "a workgroup a row: a scan of the row for each result finds the next one in order",
                naive,
            )
            .deterministic(),
            Variant::kernel(
                "groups",
                "two stages: the largest value of each group of neighbours, by all workgroups; then a workgroup a row chooses \
                 groups by them, and the result from these",
                groups,
            )
            .deterministic(),
            Variant::kernel(
                "fused",
                "one stage: the largest values of groups stay in shared memory, so that a block has a whole row",
                fused,
            )
            .only_in(&[Dialect::Cuda])
            .available(fused_available)
            .deterministic(),
        ])
        .fallback(&["groups", "fused", "naive"])
        .stress(stress_inputs())],
    }
}

/// Largest number of results of a row: they are sorted in the memory of a workgroup.
const MOST_RESULTS: u64 = 1024;
/// Largest number of values of a row in tests.
const MOST_VALUES: u64 = 1 << 24;

/// Checks that a row has its results, and a workgroup room for them.
///
/// # Errors
/// The first limit that a shape exceeds.
pub(super) fn validate(shape: &Shape) -> Result<(), String> {
    let (r, n, k) = (shape["r"], shape["n"], shape["k"]);
    match (n, k) {
        _ if k > n => Err(format!("a row of {n} values has no {k} largest")),
        _ if k > MOST_RESULTS => Err(format!("results are sorted by one workgroup: at most {MOST_RESULTS} of a row")),
        _ if n > MOST_VALUES => Err(format!("longer rows are not tested: at most {MOST_VALUES} values of a row")),
        _ => indexable(r * n),
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r1,n262144,k64", "r64,n32000,k64", "r64,n128256,k1", "r1024,n32000,k64"],
        _ => &[
            "r1,n32000,k64",
            "r1,n262144,k64",
            "r64,n32000,k64",
            "r64,n128256,k1",
            "r64,n128256,k64",
            "r64,n128256,k256",
            "r1024,n32000,k64",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (r, n, k) = (p["r"], p["n"], p["k"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[r, n], normal),
        BufferSpec::output("values", Elem::Real, &[r, k]),
        BufferSpec::output("indices", Elem::U32, &[r, k]),
        maxima(p),
    ]
}

/// Scratch of `groups`.
pub(super) fn maxima(p: &Problem) -> BufferSpec {
    BufferSpec::scratch("maxima", Elem::U32, &[p["r"], Groups::of(p).count])
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    match output {
        INDICES => {
            Tolerance { abs: 0.5, rel: 0.0, reason: "indices are whole numbers, and equal values have one order" }
        }
        _ => Tolerance { reason: "values are copied", ..exact(p, output) },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero: the first of each row", |_| vec![("x", zero)]),
        set("equal", "all one: the first of each row", |_| vec![("x", one)]),
        set("signs", "zeros of either sign, which are equal, among negative numbers", |_| {
            vec![("x", |_, draw| [-0.0, 0.0, -1.0][draw.below(3) as usize])]
        }),
        set("ties", "five values: most results are equal to others", |_| {
            vec![("x", |_, draw| draw.below(5) as f64 - 2.0)]
        }),
        set("rising", "values that rise along a row: one group after the other holds the largest", |_| {
            vec![("x", |shape, draw| (draw.index % shape["n"]) as f64)]
        }),
        set("falling", "values that fall along a row from zero", |_| {
            vec![("x", |shape, draw| -((draw.index % shape["n"]) as f64))]
        }),
        set("alike", "values that differ in their last bits, where the element type has such", |_| {
            vec![("x", |_, draw| -1.0 - draw.below(1024) as f64 * 2f64.powi(-23))]
        }),
        set("subnormal", "numbers too small to be normal, in their order", |p| vec![("x", subnormal(p))]).applies(wide),
        set("not finite", "rows of NaN; of numbers with NaN and infinities; of -inf with few numbers", |_| {
            vec![("x", not_finite)]
        }),
    ]
}

/// Rows of NaN, of everything, and of negative infinity with few numbers.
fn not_finite(shape: &Shape, draw: Draw) -> f64 {
    match (draw.index / shape["n"] % 3, draw.below(16)) {
        (2, _) => f64::NAN,
        (0, 0) => f64::NAN,
        (0, 1) => f64::INFINITY,
        (0, 2) | (1, 1..) => f64::NEG_INFINITY,
        _ => draw.normal(),
    }
}

/// Order of results: falling, NaN before all numbers.
pub(super) fn falling(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(&a).expect("numbers"),
        (a, b) => b.cmp(&a),
    }
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let x = inputs.values(X, row * p["n"]..(row + 1) * p["n"]);
    let mut order: Vec<usize> = (0..x.len()).collect();
    // A stable sort: equal values stay in the order of their indices.
    order.sort_by(|a, b| falling(x[*a], x[*b]));
    for (out, at) in out.iter_mut().zip(order) {
        *out = if output == INDICES { at as f64 } else { x[at] };
    }
}

/// Number whose order is that of a value and its index: larger numbers come first in the result.
fn entry(x: f32, at: u32) -> u64 {
    const SIGN: u32 = 1 << 31;
    let key = match x.to_bits() {
        _ if x.is_nan() => u32::MAX,
        _ if x == 0.0 => SIGN,
        bits if bits < SIGN => bits | SIGN,
        bits => !bits,
    };
    u64::from(key) << 32 | u64::from(!at)
}

/// Leaves the `k` largest entries, the least of them last.
fn cut(entries: &mut Vec<u64>, k: usize) {
    if entries.len() > k {
        entries.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
        entries.truncate(k);
    }
}

/// Largest `k` entries of a part of a row, whose first value has the index `first`.
fn entries_of(x: &[f32], first: usize, k: usize) -> Vec<u64> {
    let room = (4 * k).max(1024);
    let mut entries = Vec::with_capacity(room);
    let mut least = 0;
    for (x, at) in x.iter().zip(first as u32..) {
        let entry = entry(*x, at);
        if entry > least {
            entries.push(entry);
            if entries.len() == room {
                cut(&mut entries, k);
                least = entries[k - 1];
            }
        }
    }
    cut(&mut entries, k);
    entries
}

/// Values that a thread of the host searches at a time.
const PIECE: usize = 1 << 15;

/// Returns the indices of the `k` largest values of a row, in the order of results.
pub(super) fn largest_of(x: &[f32], k: usize) -> impl Iterator<Item = u32> {
    let piece = |(piece, part): (usize, &[f32])| entries_of(part, piece * PIECE, k);
    let pieces: Vec<Vec<u64>> = x.par_chunks(PIECE).enumerate().map(piece).collect();
    let mut entries = pieces.concat();
    cut(&mut entries, k);
    entries.sort_unstable_by(|a, b| b.cmp(a));
    entries.into_iter().map(|entry| !(entry as u32))
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, k, x) = (p["n"] as usize, p["k"] as usize, inputs[X].f32());
    let (values, indices) = outputs.split_at_mut(INDICES);
    let rows = values[0].par_chunks_mut(k).zip(indices[0].par_chunks_mut(k)).zip(x.par_chunks(n));
    rows.for_each(|((values, indices), x)| {
        for ((value, index), at) in values.iter_mut().zip(indices).zip(largest_of(x, k)) {
            (*value, *index) = (x[at as usize], f32::from_bits(at));
        }
    });
}

/// Threads of a workgroup.
const THREADS: u64 = 256;

/// Division of a row into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Groups {
    /// Values of a group, a power of two.
    length: u64,
    /// Groups of a row.
    count: u64,
}

impl Groups {
    /// A workgroup looks at each maximum and at the values of `k` groups: about as many of either are the fewest.
    fn of(p: &Problem) -> Groups {
        let length = (p["n"] / p["k"]).isqrt().next_power_of_two().clamp(16, 4096);
        Groups { length, count: p["n"].div_ceil(length) }
    }
}

/// Kernel of a problem, with the constants of all its kernels.
fn stage(p: &Problem, caps: &Caps, text: &'static str, entry: &'static str, threads: u64) -> Stage {
    let groups = Groups::of(p);
    // Values of equal sign have the same lowest bits in f32.
    let low = match p.dtype {
        DType::F32 => 0,
        DType::F16 => 13,
        DType::BF16 => 16,
    };
    let consts = [
        ("ROWS", p["r"]),
        ("COLUMNS", p["n"]),
        ("K", p["k"]),
        ("WIDTH", width(p["n"], p.dtype, caps)),
        ("GROUP", groups.length),
        ("GROUPS", groups.count),
        ("SIZE", sorted(p)),
        ("LOW", low),
        ("THREADS", threads),
    ];
    Stage::kernel(entry, text, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .threads([threads as u32, 1, 1])
        .grid(spread(p["r"]))
}

/// Entries that a workgroup sorts: twice the results as far as they fit, a power of two.
fn sorted(p: &Problem) -> u64 {
    let results = p["k"].next_power_of_two();
    results.max((2 * results).min(MOST_RESULTS))
}

/// Cost of a stage that reads all values and writes the results.
fn whole(p: &Problem) -> Cost {
    let bytes = Elem::Real.storage(p.dtype).bytes();
    Cost::new(p["r"] * p["n"], p["r"] * p["n"] * bytes, p["r"] * p["k"] * (bytes + 4))
}

pub(super) fn naive(p: &Problem, caps: &Caps) -> Program {
    stage(p, caps, "top_k/naive", "top_k_naive", THREADS)
        .args([("x", Read), ("values", Write), ("indices", Write)])
        .shared(8 * THREADS as u32)
        .cost(whole(p))
        .into()
}

/// Threads that share a group, pieces of each, and groups of a thread if `groups` are left to all threads.
fn shares(p: &Problem, caps: &Caps, groups: u64) -> [u64; 3] {
    let width = width(p["n"], p.dtype, caps);
    let pieces = Groups::of(p).length / width;
    // As many as read 128 neighbouring bytes.
    let lanes = (128 / (width * Elem::Real.storage(p.dtype).bytes())).min(pieces).min(32);
    let each = pieces / lanes;
    // Four loads in flight per thread, unless the device would have threads to spare.
    const ENOUGH: u64 = 1024;
    let own = if groups * lanes / THREADS / 4 >= ENOUGH { 4 / each.min(4) } else { 1 };
    [lanes, each, own]
}

pub(super) fn groups(p: &Problem, caps: &Caps) -> Program {
    let (of, k, all_of) = (Groups::of(p), p["k"], whole(p));
    let all = p["r"] * of.count;
    let [lanes, pieces, own] = shares(p, caps, all);
    let bytes = Elem::Real.storage(p.dtype).bytes();
    let maxima = stage(p, caps, "top_k/maxima", "top_k_maxima", THREADS)
        .consts(&[("LANES", lanes as u32), ("PIECES", pieces as u32), ("OWN", own as u32)])
        .args([("x", Read), ("maxima", Write)])
        .shared((4 * THREADS * own) as u32)
        .grid(spread(all.div_ceil(THREADS / lanes * own)))
        .cost(Cost::new(p["r"] * p["n"], all_of.read.0, 4 * all));
    // Blocks of few rows are alone on their multiprocessors.
    let threads = match (caps.dialect, caps.compute_units) {
        (Dialect::Cuda, Some(units)) if p["r"] <= u64::from(units) => 2 * THREADS,
        _ => THREADS,
    };
    let (chosen, parts) = (k.min(of.count), 16);
    let shared = 4 * (4 + 256 + 2 * threads + 2 * parts + chosen + 4 + 2 * sorted(p));
    let candidates = (chosen * of.length).min(p["n"]);
    let selected = stage(p, caps, "top_k/select", "top_k_select", threads)
        .args([("x", Read), ("maxima", Read), ("values", Write), ("indices", Write)])
        .shared(shared as u32)
        .cost(Cost::new(p["r"] * (of.count + candidates), 4 * all + p["r"] * candidates * bytes, all_of.written.0));
    Program { stages: vec![maxima, selected] }
}

/// Threads of a block of `fused`.
const FUSED_THREADS: u64 = 512;
/// Most groups of a row in its shared memory.
const MOST_GROUPS: u64 = 4096;

/// Checks that a block has room for the maxima of a row.
///
/// # Errors
/// The number of groups that it has room for.
pub(super) fn fused_available(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match Groups::of(p).count {
        ..=MOST_GROUPS => Ok(()),
        count => Err(format!("a block has room for the maxima of {MOST_GROUPS} groups, a row has {count}")),
    }
}

pub(super) fn fused(p: &Problem, caps: &Caps) -> Program {
    let [lanes, pieces, _] = shares(p, caps, 0);
    let own = 4 / pieces.min(4);
    let shared = 4 * (Groups::of(p).count + p["k"] + 2 * 256 + 2 * sorted(p));
    stage(p, caps, "top_k/fused", "top_k_fused", FUSED_THREADS)
        .consts(&[("LANES", lanes as u32), ("PIECES", pieces as u32), ("OWN", own as u32)])
        .args([("x", Read), ("values", Write), ("indices", Write)])
        .shared(shared as u32)
        .cost(whole(p))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::case::CaseError;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str, dtype: &str) -> Result<Problem, CaseError> {
        parse_case(&format!("top_k/fwd/{shape}/{dtype}/naive")).map(|case| case.problem)
    }

    #[test]
    fn results_that_no_row_or_workgroup_has_are_refused() {
        for (shape, part) in
            [("r1,n3,k4", "no 4 largest"), ("r1,n4096,k1025", "at most 1024"), ("r1,n16777217,k1", "at most 16777216")]
        {
            let refused = problem(shape, "f16").expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn entries_are_in_the_order_of_the_reference() {
        let smallest = f32::from_bits(1);
        let x = [0.0, f32::NAN, -0.0, 1.0, -f32::NAN, f32::INFINITY, -smallest, f32::NEG_INFINITY, smallest, 1.0, -2.0];
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|a, b| falling(f64::from(x[*a]), f64::from(x[*b])));
        assert_eq!(order, [1, 4, 5, 3, 9, 8, 0, 2, 6, 10, 7]);
        let mut entries: Vec<u64> = x.iter().zip(0..).map(|(x, at)| entry(*x, at)).collect();
        entries.sort_unstable_by(|a, b| b.cmp(a));
        let places: Vec<usize> = entries.iter().map(|entry| !(*entry as u32) as usize).collect();
        assert_eq!(places, order);
        assert!(entries.iter().all(|entry| entry >> 32 > 0), "no key is zero");
    }

    #[test]
    fn the_host_agrees_with_the_reference_over_several_pieces() {
        let p = problem("r2,n70001,k300", "f32").expect("valid");
        for stress in p.form().stress.iter().filter(|stress| ["ties", "rising", "not finite"].contains(&stress.name)) {
            let inputs = p.stress_inputs(7, stress);
            let mut outputs = vec![vec![0.0; 600], vec![0.0; 600]];
            host(&p, &[inputs.host(X).expect("memory")], &mut outputs);
            let mut want = [0.0; 300];
            for row in 0..2 {
                reference(&p, &inputs, INDICES, row, &mut want);
                let found = outputs[INDICES][row as usize * 300..][..300].iter().map(|x| f64::from(x.to_bits()));
                assert!(found.eq(want), "{}", stress.name);
            }
        }
    }

    #[test]
    fn groups_cover_rows_and_their_first_ones_hold_the_result() {
        let p = problem("r1,n1009,k7", "f32").expect("valid");
        let (groups, inputs) = (Groups::of(&p), p.stress_inputs(3, &p.form().stress[3]));
        assert!(groups.length * groups.count >= 1009 && groups.length * (groups.count - 1) < 1009, "{groups:?}");
        let x = inputs.values(X, ..);
        let of_groups: Vec<f64> = x
            .chunks(groups.length as usize)
            .map(|group| *group.iter().max_by(|a, b| a.total_cmp(b)).expect("some"))
            .collect();
        let mut order: Vec<usize> = (0..of_groups.len()).collect();
        order.sort_by(|a, b| falling(of_groups[*a], of_groups[*b]));
        let mut want = [0.0; 7];
        reference(&p, &inputs, INDICES, 0, &mut want);
        assert!(
            want.iter().all(|at| order[..7].contains(&(*at as usize / groups.length as usize))),
            "{want:?} {order:?}"
        );
    }

    #[test]
    fn shares_cover_groups_and_fit_their_workgroups() {
        for caps in [caps(), hopper()] {
            for dtype in ["f32", "f16"] {
                for shape in ["r1,n1,k1", "r1,n40008,k64", "r64,n128256,k1", "r1024,n32000,k64", "r7,n70001,k1"] {
                    let p = problem(shape, dtype).expect("valid");
                    let of = Groups::of(&p);
                    let [lanes, pieces, own] = shares(&p, &caps, p["r"] * of.count);
                    assert_eq!(lanes * pieces * width(p["n"], p.dtype, &caps), of.length, "{p} {lanes} {pieces}");
                    assert!(lanes <= 32 && lanes.is_power_of_two() && (1..=4).contains(&own), "{p}");
                    assert!(sorted(&p) >= p["k"] && sorted(&p).is_power_of_two());
                }
            }
        }
    }
}
