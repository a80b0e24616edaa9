//! Variants that split sequences into parts.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, Stage, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::{after_appending, append, bytes, prefix, stage};

/// Threads of a workgroup.
const THREADS: u64 = 128;
/// Largest head_dim: a thread keeps a piece of each of several rows.
const MAX_DIM: u64 = 256;
/// Fewest tokens of a part, and most parts, which bounds the memory for them.
const FEWEST: u64 = 64;
const MOST: u64 = 64;
/// Workgroups that keep a multiprocessor busy to the end of a launch.
const GROUPS_PER_UNIT: u64 = 16;
/// Multiprocessors of a device that reports no number.
const UNITS: u64 = 32;

pub fn available(p: &Problem) -> Result<(), String> {
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("split keeps rows in registers: head_dim {d} > {MAX_DIM}")),
    }
}

/// Largest number of parts of a sequence, those of a shared prefix among them.
pub fn most_parts(p: &Problem) -> u64 {
    let of = |tokens: u64| tokens.div_ceil(FEWEST).min(MOST);
    of(p["t"]).max(of(p["pre"]) + of(p["t"] - p["pre"]))
}

/// Queries and tokens of a stage: sets of rows for each head of keys, which see the same tokens.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub sets: u64,
    pub rows: u64,
    pub first: u64,
    pub last: u64,
}

impl Extent {
    /// Whole sequences, each with the heads of a group.
    pub fn whole(p: &Problem) -> Extent {
        Extent { sets: p["b"], rows: group(p), first: 0, last: p["t"] }
    }
}

/// Division of the problem into workgroups.
pub(super) struct Division {
    /// Query heads per read of a key in a workgroup.
    held: u64,
    /// Workgroups for one part of all sequences.
    shares: u64,
    /// Tokens of a part.
    chunk: u64,
    /// Parts of the longest sequence.
    splits: u64,
    extent: Extent,
}

impl Division {
    /// Division into parts of a multiple of `tokens`, for `held` heads at a time. Each multiprocessor has at least
    /// `groups_per_unit` workgroups, if the sequences are long enough.
    pub fn new(p: &Problem, extent: Extent, caps: &Caps, [tokens, held, groups_per_unit]: [u64; 3]) -> Division {
        let shares = extent.sets * p["kv"] * extent.rows.div_ceil(held);
        let wanted = groups_per_unit * caps.compute_units.map_or(UNITS, u64::from);
        let all = extent.last - extent.first;
        let splits = wanted.div_ceil(shares).clamp(1, all.div_ceil(FEWEST).min(MOST));
        let chunk = all.div_ceil(splits).next_multiple_of(tokens);
        Division { held, shares, chunk, splits: all.div_ceil(chunk), extent }
    }
}

/// Number of query heads per key head.
pub(super) fn group(p: &Problem) -> u64 {
    p["h"] / p["kv"]
}

/// Largest divisor of a number of rows, up to `most`.
fn held(rows: u64, most: u64) -> u64 {
    (1..=most).rev().find(|n| rows.is_multiple_of(*n)).expect("one divides all")
}

pub fn split(p: &Problem, caps: &Caps) -> Program {
    after_appending(p, stages(p, caps, vec![first(p, Extent::whole(p), caps)], false))
}

pub fn append_available(p: &Problem) -> Result<(), String> {
    match append::asked(p) {
        true => available(p),
        false => Err("split_append is split where nothing is appended".to_owned()),
    }
}

pub fn split_append(p: &Problem, caps: &Caps) -> Program {
    Program { stages: stages(p, caps, vec![first(p, Extent::whole(p), caps)], true) }
}

/// Stage of an extent, without the arguments of all such stages.
pub(super) fn first(p: &Problem, extent: Extent, caps: &Caps) -> (Stage, Division) {
    match caps.dialect {
        Dialect::Cuda => by_teams(p, extent, caps),
        _ => by_tiles(p, extent, caps),
    }
}

/// Adds the common arguments to the stages of all extents, and returns them with the last stage. The first also appends tokens if
/// `appends` is set.
pub(super) fn stages(p: &Problem, caps: &Caps, extents: Vec<(Stage, Division)>, appends: bool) -> Vec<Stage> {
    let splits = extents.iter().map(|(_, division)| division.splits).sum();
    let mut before = 0;
    let mut stages = Vec::new();
    for (stage, division) in extents {
        let stage = of_extent(p, stage, &division, appends);
        let place = prefix::place(p, division.extent, [before, splits]);
        before += division.splits;
        stages.push(stage.consts(&place));
    }
    stages.push(combine(p, caps, splits));
    stages
}

/// Stage of an extent with its arguments.
fn of_extent(p: &Problem, stage: Stage, division: &Division, appends: bool) -> Stage {
    let Division { held, shares, chunk, splits, extent } = *division;
    let read = prefix::read(p, extent);
    let left = p["b"] * p["h"] * splits * (p["d"] + 2) * 4;
    let cache = if appends { Write } else { Read };
    let args = [
        ("q", Read),
        ("k", cache),
        ("v", cache),
        ("table", Read),
        ("lengths", Read),
        ("parts", Write),
        ("numbers", Write),
    ];
    let new = [("new_k", Read), ("new_v", Read)];
    stage
        .consts(&[("HELD", held), ("CHUNK", chunk), ("SPLITS", splits)].map(as_const))
        .consts(&[("APPENDS", appends)])
        .args(args.into_iter().chain(new.into_iter().filter(|_| appends)))
        .grid(spread(shares * splits))
        .cost(Cost::new(prefix::operations(p, extent), read, left + if appends { append::bytes(p) } else { 0 }))
}

/// Stage that puts the parts of all sequences together.
fn combine(p: &Problem, caps: &Caps, splits: u64) -> Stage {
    let queries = bytes(p).0;
    let left = p["b"] * p["h"] * splits * (p["d"] + 2) * 4;
    // CUDA: a weight for each part, and the scratch of reductions.
    let shared = if caps.dialect == Dialect::Cuda { 4 * (splits + THREADS / 32) } else { 0 };
    Stage::kernel("attention_decode_combine", "attention_decode/combine", "attention_decode_combine")
        .consts(&[("ROWS", p["b"] * p["h"]), ("D", p["d"]), ("SPLITS", splits), ("THREADS", THREADS)].map(as_const))
        .args([("parts", Read), ("numbers", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"]))
        .shared(shared as u32)
        .cost(Cost::new(2 * p["b"] * p["h"] * splits * p["d"], left, queries))
}

pub(super) fn as_const((name, value): (&'static str, u64)) -> (&'static str, u32) {
    (name, value as u32)
}

/// CUDA: neighbouring threads of a warp share a row, and sum its products by shuffles.
fn by_teams(p: &Problem, extent: Extent, caps: &Caps) -> (Stage, Division) {
    /// Tokens of which a team reads keys and values before it uses the first.
    const KEYS: u64 = 4;
    let width = width(p["d"], p.dtype, caps);
    let pieces = p["d"] / width;
    let lanes = pieces.next_power_of_two().min(32);
    let kept = pieces.div_ceil(lanes);
    // Registers hold a piece of each query and of each sum.
    let held = held(extent.rows, (64 / (kept * width)).clamp(1, 8));
    let consts = [("THREADS", THREADS), ("WIDTH", width), ("LANES", lanes), ("PIECES", kept), ("KEYS", KEYS)];
    let division = Division::new(p, extent, caps, [KEYS * THREADS / lanes, held, GROUPS_PER_UNIT]);
    // Sums of every thread for one query at a time, and two numbers for each team and query.
    let shared = 4 * THREADS * kept * width + 8 * held * THREADS / lanes;
    let stage = stage(p, "attention_decode/split", "attention_decode_split")
        .consts(&consts.map(as_const))
        .threads([THREADS as u32, 1, 1])
        .shared(shared as u32);
    (stage, division)
}

/// WGSL: tiles of tokens. All threads need the weights of a tile.
fn by_tiles(p: &Problem, extent: Extent, caps: &Caps) -> (Stage, Division) {
    const KEYS: u64 = 32;
    const MOST_HELD: u64 = THREADS / KEYS;
    let held = held(extent.rows, MOST_HELD);
    let division = Division::new(p, extent, caps, [KEYS, held, GROUPS_PER_UNIT]);
    // Queries; four parts of each product; weights; positions of rows; a factor per query; scratch of reductions.
    let words = held * p["d"] + 4 * THREADS + THREADS + KEYS + MOST_HELD + THREADS + MOST_HELD * 16;
    let stage = stage(p, "attention_decode/split", "attention_decode_split")
        .consts(&[("THREADS", THREADS), ("KEYS", KEYS)].map(as_const))
        .consts(&[("LANES", KEYS), ("COLUMNS", p["d"].div_ceil(THREADS))].map(as_const))
        .threads([THREADS as u32, 1, 1])
        .shared(4 * words as u32);
    (stage, division)
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_ir::{Problem, Value};

    #[test]
    fn parts_cover_every_token_and_fit_into_their_buffer() {
        let caps = parallax_schema::testing::hopper();
        let shapes =
            ["b1,h1,t1,d8", "b1,h8,t65,d8", "b1,h32,kv8,t32768,d128", "b32,h32,kv8,t4096,d128", "b2,h40,kv2,t99,d8"];
        for (shape, variant) in shapes.iter().flat_map(|shape| ["split", "split_mma"].map(|variant| (shape, variant))) {
            let case = parse_case(&format!("attention_decode/fwd/{shape}/f16/{variant}")).expect("valid");
            let stages = case.program(&caps).expect("kernels").stages;
            let constant = |name: &str| {
                let consts = &stages[0].kernel_launch().expect("a kernel").consts;
                match consts.iter().find(|(other, _)| *other == name) {
                    Some((_, Value::U32(value))) => u64::from(*value),
                    other => panic!("{name}: {other:?}"),
                }
            };
            let p: &Problem = &case.problem;
            let (splits, chunk) = (constant("SPLITS"), constant("CHUNK"));
            assert!(splits * chunk >= p["t"] && (splits - 1) * chunk < p["t"], "{case}: {splits} of {chunk}");
            assert!(splits <= super::most_parts(p), "{case}: {splits}");
            // Some workgroup holds every head of a group.
            let workgroups = u64::from(stages[0].kernel_launch().expect("a kernel").grid.iter().product::<u32>());
            let held = workgroups / (p["b"] * p["kv"] * splits) * constant("HELD");
            assert!((super::group(p)..super::group(p) + constant("HELD")).contains(&held), "{case}: {held}");
        }
    }
}
