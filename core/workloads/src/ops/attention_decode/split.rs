//! Variants that split sequences into parts.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, Stage, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::{after_appending, append, bytes, operations, stage};

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

/// Largest number of parts of a sequence.
pub fn most_parts(p: &Problem) -> u64 {
    p["t"].div_ceil(FEWEST).min(MOST)
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
}

impl Division {
    /// Division into parts of a multiple of `tokens`, for `held` heads at a time. Each multiprocessor has at least
    /// `groups_per_unit` workgroups, if the sequences are long enough.
    pub fn new(p: &Problem, caps: &Caps, tokens: u64, held: u64, groups_per_unit: u64) -> Division {
        let shares = p["b"] * p["kv"] * group(p).div_ceil(held);
        let wanted = groups_per_unit * caps.compute_units.map_or(UNITS, u64::from);
        let splits = wanted.div_ceil(shares).clamp(1, most_parts(p));
        let chunk = p["t"].div_ceil(splits).next_multiple_of(tokens);
        Division { held, shares, chunk, splits: p["t"].div_ceil(chunk) }
    }
}

/// Number of query heads per key head.
pub(super) fn group(p: &Problem) -> u64 {
    p["h"] / p["kv"]
}

/// Largest divisor of the group's number of heads, up to `most`.
fn held(p: &Problem, most: u64) -> u64 {
    (1..=most).rev().find(|n| group(p).is_multiple_of(*n)).expect("one divides all")
}

pub fn split(p: &Problem, caps: &Caps) -> Program {
    after_appending(p, stages(p, caps, first(p, caps), false))
}

pub fn append_available(p: &Problem) -> Result<(), String> {
    match append::asked(p) {
        true => available(p),
        false => Err("split_append is split where nothing is appended".to_owned()),
    }
}

pub fn split_append(p: &Problem, caps: &Caps) -> Program {
    Program { stages: stages(p, caps, first(p, caps), true).into() }
}

fn first(p: &Problem, caps: &Caps) -> (Stage, Division) {
    match caps.dialect {
        Dialect::Cuda => by_teams(p, caps),
        _ => by_tiles(p, caps),
    }
}

/// Adds the common arguments to the first stage, and returns it with the second. The first also appends tokens if `appends` is set.
pub(super) fn stages(p: &Problem, caps: &Caps, (first, division): (Stage, Division), appends: bool) -> [Stage; 2] {
    let Division { held, shares, chunk, splits } = division;
    let (queries, read) = bytes(p);
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
    let first = first
        .consts(&[("HELD", held), ("CHUNK", chunk), ("SPLITS", splits)].map(as_const))
        .consts(&[("APPENDS", appends)])
        .args(args.into_iter().chain(new.into_iter().filter(|_| appends)))
        .grid(spread(shares * splits))
        .cost(Cost::new(operations(p), read, left + if appends { append::bytes(p) } else { 0 }));
    // CUDA: a weight for each part, and the scratch of reductions.
    let shared = if caps.dialect == Dialect::Cuda { 4 * (splits + THREADS / 32) } else { 0 };
    let combine = Stage::kernel("attention_decode_combine", "attention_decode/combine", "attention_decode_combine")
        .consts(&[("ROWS", p["b"] * p["h"]), ("D", p["d"]), ("SPLITS", splits), ("THREADS", THREADS)].map(as_const))
        .args([("parts", Read), ("numbers", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"]))
        .shared(shared as u32)
        .cost(Cost::new(2 * p["b"] * p["h"] * splits * p["d"], left, queries));
    [first, combine]
}

pub(super) fn as_const((name, value): (&'static str, u64)) -> (&'static str, u32) {
    (name, value as u32)
}

/// CUDA: neighbouring threads of a warp share a row, and sum its products by shuffles.
fn by_teams(p: &Problem, caps: &Caps) -> (Stage, Division) {
    /// Tokens of which a team reads keys and values before it uses the first.
    const KEYS: u64 = 4;
    let width = width(p["d"], p.dtype, caps);
    let pieces = p["d"] / width;
    let lanes = pieces.next_power_of_two().min(32);
    let kept = pieces.div_ceil(lanes);
    // Registers hold a piece of each query and of each sum.
    let held = held(p, (64 / (kept * width)).clamp(1, 8));
    let consts = [("THREADS", THREADS), ("WIDTH", width), ("LANES", lanes), ("PIECES", kept), ("KEYS", KEYS)];
    let division = Division::new(p, caps, KEYS * THREADS / lanes, held, GROUPS_PER_UNIT);
    // Sums of every thread for one query at a time, and two numbers for each team and query.
    let shared = 4 * THREADS * kept * width + 8 * held * THREADS / lanes;
    let stage = stage(p, "attention_decode/split", "attention_decode_split")
        .consts(&consts.map(as_const))
        .threads([THREADS as u32, 1, 1])
        .shared(shared as u32);
    (stage, division)
}

/// WGSL: tiles of tokens. All threads need the weights of a tile.
fn by_tiles(p: &Problem, caps: &Caps) -> (Stage, Division) {
    const KEYS: u64 = 32;
    const MOST_HELD: u64 = THREADS / KEYS;
    let held = held(p, MOST_HELD);
    let division = Division::new(p, caps, KEYS, held, GROUPS_PER_UNIT);
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
