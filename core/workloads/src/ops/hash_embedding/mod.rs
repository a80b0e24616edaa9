//! Hash embedding (feature hashing): every row adds a signed weight to one column of its group's output row.
//!
//! `out[group[r]][column(id[r])] += sign(id[r]) · weight[r]`, all other elements zero. Formula: Weinberger et al., "Feature Hashing
//! for Large Scale Multitask Learning" (2009). The hash is the 32-bit finaliser of Appleby's MurmurHash3. Its top bit is the sign
//! (set: minus), its other 31 bits modulo `dim` the column.
//!
//! With `sorted`, rows are in ascending order of group. Operations: one addition per row.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, smallest_normal, subnormal, zero, zipf};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Precondition, Problem, Reference, Rows, Scaling,
    Shape, StressInput, Tolerance, Variant, Workload, cube_available, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::catalog::Sides;
use parallax_schema::device::Caps;
use parallax_schema::units::{Bytes, Flops};

use self::stages::{MOST_COLUMNS, MOST_LANES, MOST_WORDS, OWNER_ROWS, SHARED_ROWS, WINDOW};

mod stages;

const ID: usize = 0;
const GROUP: usize = 1;
const WEIGHT: usize = 2;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "feature hashing: signed weights summed into hashed columns",
        axes: const {
            &[
                Axis::extent("r", "rows").scaling(&SCALING),
                Axis::extent("g", "groups"),
                Axis::extent("d", "output columns"),
                Axis::word("order", "order of the rows", &["unsorted", "sorted"]),
            ]
        },
        dtypes: &[DType::F32],
        validate: |_| Ok(()),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(row_cost, reference),
            OfNan::MIXED,
        )
        .headline("r100000,g8333,d64,sorted")
        .shapes(shapes)
        .awkward(&[
            "r1,g1,d1,sorted",
            "r1,g1,d1,unsorted",
            "r7,g13,d5,sorted",
            "r7,g13,d5,unsorted",
            "r1009,g101,d67,sorted",
            "r1009,g101,d67,unsorted",
            "r500,g1,d3,sorted",
            "r257,g83,d64,sorted",
            "r2600,g1501,d8,sorted",
            "r997,g7,d4099,sorted",
            "r997,g7,d4099,unsorted",
        ])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "basic",
                "zero the output, then one atomic addition per row; WGSL has no floating-point atomics, so \
                 there the addition is a compare-and-exchange loop on the bits. Of rows in any order, a large output is taken \
                 in windows that the cache holds",
                stages::basic,
            )
            .tunables(&[WINDOW]),
            Variant::kernel(
                "owner",
                "sorted rows only: each output row has one owner that finds its rows by search, takes several at a \
                 time, sums in registers and writes once; no atomics, no zero-fill, deterministic",
                stages::owner,
            )
            .deterministic()
            .available(sorted)
            .tunables(&[MOST_LANES, MOST_COLUMNS]),
            Variant::kernel(
                "shared",
                "sorted rows only: a workgroup owns neighbouring output rows, whose columns are private to it in its \
                 memory; each row is read once and added there atomically, and every output row is written once",
                stages::shared,
            )
            .available(sorted)
            .tunables(&[MOST_WORDS]),
            Variant::kernel(
                "chunked",
                "sorted rows only: threads sum stretches of rows in registers without a search; groups that span \
                     stretches are joined by a stage of their own; no atomics, no zero-fill, deterministic",
                stages::chunked,
            )
            .deterministic()
            .available(sorted),
            Variant::select(
                "auto",
                "owner for few sorted rows, shared for many, basic otherwise: whichever was measured to be faster",
                stages::select,
            )
            .tunables(&[OWNER_ROWS, SHARED_ROWS]),
            Variant::cube(
                "one source in CubeCL, sorted rows only: each element of the output has a thread that finds its group's rows \
                 by search, and sums those of its column in a register",
                stages::cube,
            )
            .available(|p, caps| cube_available(p, caps).and_then(|()| sorted(p, caps))),
        ])
        .fallback(&["owner", "basic"])
        .preconditions(vec![
            Precondition::Below { buffer: "group", bound: |p| p["g"] },
            Precondition::Ascending { buffer: "group", when: |p| p.shape.has("sorted") },
        ])
        .stress(stress_inputs())],
    }
}

/// Scaling series with a dozen rows per group.
const SCALING: Scaling = Scaling {
    counts: "rows",
    per: None,
    shapes: &["r10000,g833,d64,sorted", "r100000,g8333,d64,sorted", "r1000000,g83333,d64,sorted"],
    sides: Sides::HostAndDevice { data: &[] },
};

fn sorted(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match p.shape.has("sorted") {
        true => Ok(()),
        false => Err("rows are not sorted by group".to_owned()),
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "r10000,g100,d256,unsorted",
            "r100000,g1000,d512,unsorted",
            "r10000,g833,d64,sorted",
            "r100000,g8333,d64,sorted",
            "r1000000,g83333,d64,sorted",
        ],
        _ => &[
            "r10000,g100,d256,unsorted",
            "r100000,g1000,d512,unsorted",
            "r1000000,g10000,d1024,unsorted",
            "r10000,g833,d64,sorted",
            "r100000,g8333,d64,sorted",
            "r1000000,g83333,d64,sorted",
            "r10000000,g833333,d64,sorted",
        ],
    }
}

/// Random id of a feature.
pub(super) fn any_id(_: &Shape, draw: Draw) -> f64 {
    (draw.bits() >> 32) as f64
}

fn group_of_row(p: &Shape, draw: Draw) -> f64 {
    let (rows, groups) = (p["r"], p["g"]);
    if !p.has("sorted") {
        return draw.below(groups) as f64;
    }
    rising(draw, rows, groups)
}

/// Group of a row in sorted order. It ascends by construction: row i has a random position in the i-th of `rows` equal slices of
/// the groups.
pub(super) fn rising(draw: Draw, rows: u64, groups: u64) -> f64 {
    let slice = (u128::from(draw.index) << 32) + u128::from(draw.bits() >> 32);
    ((slice * u128::from(groups)) / (u128::from(rows) << 32)) as f64
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (rows, groups, dim) = (p["r"], p["g"], p["d"]);
    vec![
        BufferSpec::input("id", Elem::U32, &[rows], any_id),
        BufferSpec::input("group", Elem::U32, &[rows], group_of_row),
        BufferSpec::input("weight", Elem::F32, &[rows], normal),
        BufferSpec::output("out", Elem::F32, &[groups, dim]),
        stages::segments(p).scratch("parts"),
    ]
}

fn cost(p: &Problem) -> Cost {
    Cost { flops: Flops(p["r"]), read: Bytes(p["r"] * 12), written: Bytes(p["g"] * p["d"] * 4) }
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    // Terms in one element: the mean, with a margin for chance in the hash.
    let mean = p["r"] as f64 / (p["g"] * p["d"]) as f64;
    let terms = mean + 8.0 * mean.sqrt() + 16.0;
    Tolerance {
        abs: terms * terms * 3.47 * 2f64.powi(-24),
        rel: 0.0,
        reason: "weights of at most 3.47 are summed in f32 in any order: n·u times the sum of magnitudes",
    }
}

/// MurmurHash3's 32-bit finaliser.
fn hash(id: u32) -> u32 {
    let h = id;
    let h = (h ^ (h >> 16)).wrapping_mul(0x85EB_CA6B);
    let h = (h ^ (h >> 13)).wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}

/// Column and sign of a feature.
pub(super) fn place(id: u32, dim: u32) -> (u32, f64) {
    let h = hash(id);
    ((h & 0x7FFF_FFFF) % dim, if h >> 31 == 1 { -1.0 } else { 1.0 })
}

/// Number in [0, 1) for a row: arbitrary for unsorted rows, rising for sorted ones.
fn along(p: &Shape, draw: Draw) -> f64 {
    if p.has("sorted") { (draw.index as f64 + draw.uniform()) / p["r"] as f64 } else { draw.uniform() }
}

/// Tolerance for rows that may all add to one element.
fn crowded(p: &Problem, _output: usize) -> Tolerance {
    let r = p["r"] as f64;
    Tolerance {
        abs: 8.0 * r.sqrt() * 2f64.powi(-24) * r.max(4.0),
        rel: 0.0,
        reason: "up to all r weights, on average below one, are summed in f32: 8·√r·u times the sum of magnitudes holds \
                 for any order but with probability e^-32 (Higham and Mary 2019)",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "weights of zero, all in one element",
            |_| vec![("id", zero), ("group", zero), ("weight", zero)],
            exact,
        ),
        StressInput::new(
            "equal",
            "ids, groups and weights all one or the last there is: one element counts the rows, exactly",
            |_| vec![("id", one), ("group", |p, _| (p["g"] - 1) as f64), ("weight", one)],
            exact,
        ),
        StressInput::new(
            "same index",
            "every row in one column of one group: all atomics meet in one word",
            |_| vec![("id", zero), ("group", zero)],
            crowded,
        ),
        StressInput::new(
            "zipf",
            "groups and ids by Zipf's law with exponent 1.05: a few are met by most rows",
            |_| {
                vec![
                    ("id", |_, draw| zipf(1 << 20, draw.uniform()) as f64),
                    ("group", |p, draw| zipf(p["g"], along(p, draw)) as f64),
                ]
            },
            crowded,
        ),
        StressInput::new(
            "huge",
            "weights of up to 1e33: sums of all rows stay within f32",
            |_| vec![("weight", |_, draw| 1e33 * draw.uniform())],
            |p, _| Tolerance { abs: tolerance(p, 0).abs * 1e33, ..tolerance(p, 0) },
        )
        .applies(|p| p["r"] <= 100_000),
        StressInput::new(
            "subnormal",
            "weights too small to be normal: a small sum, or zero where the device flushes them",
            |p| vec![("weight", subnormal(p))],
            |p, _| Tolerance {
                abs: (p["r"] + 1) as f64 * smallest_normal(p),
                rel: 0.0,
                reason: "each term may be taken for zero, and so may the sum",
            },
        ),
    ]
}

/// Operations of a row: its share of the sort of input rows by group, its own input rows, and its columns.
fn row_cost(p: &Problem, _output: usize) -> u64 {
    2 * p["r"].div_ceil(p["g"]) + p["d"]
}

/// Numbers of the input rows by group, and the start of each group: a counting sort.
pub(super) fn by_group(groups: u64, rows: u64, group: impl Fn(u64) -> u64) -> (Vec<u32>, Vec<usize>) {
    let mut first = vec![0usize; groups as usize + 1];
    for r in 0..rows {
        first[group(r) as usize + 1] += 1;
    }
    for g in 1..first.len() {
        first[g] += first[g - 1];
    }
    let mut next = first.clone();
    let mut sorted = vec![0u32; rows as usize];
    for r in 0..rows {
        let slot = &mut next[group(r) as usize];
        sorted[*slot] = r as u32;
        *slot += 1;
    }
    (sorted, first)
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let sorted = OnceLock::new();
    Box::new(move |_, row, out| {
        let (rows, first) = sorted.get_or_init(|| by_group(p["g"], p["r"], |r| inputs.at(GROUP, r) as u64));
        out.fill(0.0);
        for r in &rows[first[row as usize]..first[row as usize + 1]] {
            let (column, sign) = place(inputs.at(ID, u64::from(*r)) as u32, p["d"] as u32);
            out[column as usize] += sign * inputs.at(WEIGHT, u64::from(*r));
        }
    })
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (ids, groups, weights) = (inputs[ID].u32(), inputs[GROUP].u32(), inputs[WEIGHT].f32());
    let dim = p["d"];
    // Rows by group, so that groups can be summed in parallel.
    let (rows, first) = by_group(p["g"], p["r"], |r| u64::from(groups[r as usize]));
    outputs[0].par_chunks_mut(dim as usize).enumerate().for_each(|(g, out)| {
        out.fill(0.0);
        for r in &rows[first[g]..first[g + 1]] {
            let (column, sign) = place(ids[*r as usize], dim as u32);
            out[column as usize] += sign as f32 * weights[*r as usize];
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn the_hash_is_murmur3s_finaliser() {
        // Published values of fmix32: zero is its fixed point, and it is a bijection.
        assert_eq!(hash(0), 0);
        assert_eq!(hash(1), 0x514E_28B7);
        assert_eq!(hash(0xFFFF_FFFF), 0x81F1_6F39);
    }

    #[test]
    fn the_reference_touches_each_row_once_and_adds_it_where_it_belongs() {
        let case = parse_case("hash_embedding/fwd/r500,g7,d5,unsorted/f32/basic").expect("valid");
        let p = &case.problem;
        let inputs = p.inputs(3);
        let rows = reference(p, &inputs);
        let mut by_scan = vec![0.0; 35];
        for r in 0..p["r"] {
            let (column, sign) = place(inputs.at(ID, r) as u32, 5);
            by_scan[inputs.at(GROUP, r) as usize * 5 + column as usize] += sign * inputs.at(WEIGHT, r);
        }
        let mut out = [0.0; 5];
        for (row, want) in by_scan.chunks(5).enumerate() {
            rows(0, row as u64, &mut out);
            assert_eq!(out, want, "row {row}");
        }
    }

    #[test]
    fn sorted_rows_are_sorted_and_in_range() {
        for text in ["r1009,g101,d67,sorted", "r7,g13,d5,sorted", "r500,g1,d3,sorted"] {
            let case = parse_case(&format!("hash_embedding/fwd/{text}/f32/owner")).expect("valid");
            let inputs = case.problem.inputs(3);
            let groups: Vec<u64> = (0..case.problem["r"]).map(|r| inputs.at(GROUP, r) as u64).collect();
            assert!(groups.is_sorted(), "{text}: {groups:?}");
            assert!(groups.iter().all(|g| *g < case.problem["g"]), "{text}");
        }
    }
}
