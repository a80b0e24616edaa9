//! Stages of every variant, and their tunables.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{FillRange, Problem, Program, Stage, Tunable, spread, width};
use parallax_schema::case::{Allowed, Cost};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::Bytes;

use super::super::embedding::stages::{Segments, With};
use super::cost;

/// Threads of a workgroup.
const THREADS: u64 = 256;

fn extents(p: &Problem) -> [(&'static str, u32); 4] {
    [("ROWS", p["r"] as u32), ("GROUPS", p["g"] as u32), ("DIM", p["d"] as u32), ("THREADS", THREADS as u32)]
}

/// Tunable of `basic`. Measured on an H200 with 10⁶ unsorted rows and an output of 41 MB: 34.7 µs in one window, 27.4 in two, 30.4
/// in three. An addition to uncached memory loads a line and writes it back.
pub(super) const WINDOW: Tunable = Tunable {
    name: "WINDOW",
    about: "largest window of the output in KiB for rows in any order; it should fit the device's cache",
    allowed: Allowed::Between(1, u32::MAX),
    default: 24 << 10,
};
/// Every window reads the groups of all rows.
const MOST_WINDOWS: u64 = 16;
/// Pieces of the output that a thread clears, in CUDA.
const CLEARED: u64 = 4;

pub(super) fn basic(p: &Problem, caps: &Caps) -> Program {
    const TEXT: &str = "hash_embedding/basic";
    let over = |items: u64| spread(items.div_ceil(THREADS));
    let (rows, groups, dim) = (p["r"], p["g"], p["d"]);
    let wanted = match p.shape.has("sorted") {
        true => 1,
        false => (4 * groups * dim).div_ceil(u64::from(p.tuned(caps, "basic", &WINDOW)) << 10).min(MOST_WINDOWS),
    };
    // Multiples of four, so that every window begins with a whole vector.
    let owned = groups.div_ceil(wanted).next_multiple_of(4);
    let windows = groups.div_ceil(owned);
    let window = |number: u64| {
        let (first, owned) = (number * owned, owned.min(groups - number * owned));
        let width = width((first * dim) | (owned * dim), p.dtype, caps);
        let consts = [("FIRST", first), ("OWNED", owned), ("WIDTH", width), ("CLEARED", CLEARED)];
        let label = |entry| if windows == 1 { String::from(entry) } else { format!("{entry}_{}", number + 1) };
        let stage = |entry: &'static str| {
            Stage::kernel(label(entry), TEXT, entry)
                .consts(&extents(p))
                .consts(&consts.map(|(name, value)| (name, value as u32)))
                .threads([THREADS as u32, 1, 1])
        };
        // Reads three numbers of every row; reads and writes its column. The zeros are written before.
        let (zeros, mine) = (owned * dim * 4, rows / windows);
        let zero = match caps.dialect {
            // Clears 16 bytes at a time, which a kernel with atomic words cannot.
            Dialect::Wgsl => {
                let part = FillRange { word: 0, from: Bytes(first * dim * 4), bytes: Bytes(zeros) };
                Stage::fill_range(label("hash_embedding_zero"), "out", part)
            }
            _ => {
                stage("hash_embedding_zero").args([("out", Write)]).grid(over((owned * dim / width).div_ceil(CLEARED)))
            }
        };
        let zero = zero.cost(Cost::new(0, 0, zeros));
        let scatter = stage("hash_embedding_scatter")
            .args([("out", Write), ("id", Read), ("group", Read), ("weight", Read)])
            .grid(over(rows))
            .cost(Cost::new(mine, rows * 4 + mine * 8 + zeros.min(mine * 4), zeros.min(mine * 4)));
        [zero, scatter]
    };
    Program { stages: (0..windows).flat_map(window).collect() }
}

/// Tunables of `owner`.
pub(super) const MOST_LANES: Tunable = Tunable {
    name: "MOST_LANES",
    about: "largest number of threads that share a stretch of columns",
    allowed: Allowed::OneOf(&[8, 16, 32, 64, 128, 256]),
    default: 256,
};
pub(super) const MOST_COLUMNS: Tunable = Tunable {
    name: "MOST_COLUMNS",
    about: "largest number of columns in a thread's registers",
    allowed: Allowed::OneOf(&[1, 2, 4, 8, 16]),
    default: 8,
};

pub(super) fn owner(p: &Problem, caps: &Caps) -> Program {
    let tuned = |tunable| u64::from(p.tuned(caps, "owner", tunable));
    // `lanes` threads own a stretch of `lanes * columns` columns of one group's output row.
    let lanes = p["d"].next_power_of_two().min(tuned(&MOST_LANES));
    let columns = p["d"].div_ceil(lanes).min(tuned(&MOST_COLUMNS));
    let stretches = p["d"].div_ceil(lanes * columns);
    Stage::kernel("hash_embedding_owner", "hash_embedding/owner", "hash_embedding_owner")
        .consts(&extents(p))
        .consts(&[("LANES", lanes as u32), ("COLUMNS", columns as u32), ("STRETCHES", stretches as u32)])
        .args([("id", "id", Read), ("sorted", "group", Read), ("weight", "weight", Read), ("out", "out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread((p["g"] * stretches).div_ceil(THREADS / lanes)))
        .cost(cost(p))
        .into()
}

pub(super) fn cube(p: &Problem, _caps: &Caps) -> Program {
    Stage::cube_over("cube_hash_embedding", p["g"] * p["d"])
        .consts(&[("ROWS", p["r"] as u32), ("DIM", p["d"] as u32)])
        .args([("id", Read), ("group", Read), ("weight", Read), ("out", Write)])
        .cost(cost(p))
        .into()
}

/// Tunable of `shared`. Two numbers share the memory with the sums, and WebGPU guarantees 16 KiB.
pub(super) const MOST_WORDS: Tunable = Tunable {
    name: "MOST_WORDS",
    about: "largest number of columns in workgroup memory, over all groups of a workgroup",
    allowed: Allowed::OneOf(&[512, 1024, 2048, 4032]),
    default: 4032,
};

/// Workgroups that fill any device: with more groups than this, a workgroup owns several.
const FULL: u64 = 1024;

pub(super) fn shared(p: &Problem, caps: &Caps) -> Program {
    let words = u64::from(p.tuned(caps, "shared", &MOST_WORDS));
    let (groups, dim) = (p["g"], p["d"]);
    // Several groups per workgroup, or several workgroups per group, each with a stretch of its columns.
    let across = dim.div_ceil(words);
    let columns = dim.div_ceil(across);
    let owned = groups.div_ceil(FULL).clamp(1, words / columns);
    let owners = groups.div_ceil(owned);
    let consts = [("OWNED", owned), ("OWNERS", owners), ("COLUMNS", columns), ("ACROSS", across)];
    Stage::kernel("hash_embedding_shared", "hash_embedding/shared", "hash_embedding_shared")
        .consts(&extents(p))
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("VECTORS", across == 1 && dim.is_multiple_of(4))])
        .args([("id", "id", Read), ("sorted", "group", Read), ("weight", "weight", Read), ("out", "out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(owners * across))
        .shared(4 * (owned * columns) as u32 + 8)
        .cost(cost(p))
        .into()
}

/// Groups as segments of the rows.
pub(super) fn segments(p: &Problem) -> Segments {
    let (items, rows) = (p["r"], p["g"]);
    Segments { items, sources: items, rows, columns: p["d"], dtype: p.dtype, with: With::default() }
}

pub(super) fn chunked(p: &Problem, caps: &Caps) -> Program {
    let segments = segments(p);
    let text = "hash_embedding/chunked";
    let summed = segments
        .launch(caps, "hash_embedding_chunked", text)
        .consts(&[("GROUPS", p["g"] as u32), ("DIM", p["d"] as u32)])
        .args([
            ("id", "id", Read),
            ("sorted", "group", Read),
            ("weight", "weight", Read),
            ("out", "out", Write),
            ("parts", "parts", Write),
        ])
        .cost(cost(p));
    Program { stages: vec![summed, segments.join(caps, ["group", "parts", "out"])] }
}

/// Tunable of `auto`. The default was measured on an H200, 12 rows a group and 64 columns, CUDA and Vulkan alike. 4.0 against 5.1
/// µs at 10⁴ rows, 12.1 against 5.2 µs at 10⁵: the search is worthwhile only if launches dominate.
pub(super) const OWNER_ROWS: Tunable = Tunable {
    name: "OWNER_ROWS",
    about: "rows up to which owner beats basic on sorted rows",
    allowed: Allowed::Between(0, u32::MAX),
    default: 32_768,
};
/// Tunable of `auto`. Measured on an H200, 12 rows a group and 64 columns:
///
/// - CUDA, 10⁵ rows: 4.2 µs against 7.9 by `basic` and 6.9 by `owner`.
/// - CUDA, 10⁶ rows: 10.2 against 23 µs. 10⁷ rows: 87 against 281 µs.
/// - Vulkan, 10⁶ rows: 14.8 against 34 µs. 10⁷ rows: 165 against 336 µs.
pub(super) const SHARED_ROWS: Tunable = Tunable {
    name: "SHARED_ROWS",
    about: "rows from which shared beats basic on sorted rows that are too many for owner",
    allowed: Allowed::Between(0, u32::MAX),
    default: 100_000,
};

pub(super) fn select(p: &Problem, caps: &Caps) -> (&'static str, String) {
    let most = p.tuned(caps, "auto", &OWNER_ROWS);
    let fewest = p.tuned(caps, "auto", &SHARED_ROWS);
    match (p.shape.has("sorted"), p["r"] <= u64::from(most), p["r"] >= u64::from(fewest)) {
        (false, ..) => ("basic", "rows are not sorted by group".to_owned()),
        (true, true, _) => ("owner", format!("rows are sorted by group, at most {most} of them")),
        (true, false, true) => ("shared", format!("rows are sorted by group, {fewest} of them or more")),
        (true, false, false) => ("basic", format!("more than {most} rows: atomics are faster than the owners' search")),
    }
}
