//! The variant that splits sequences into parts.

use super::{bytes, operations, stage};
use crate::suite::Access::{Read, Write};
use crate::suite::{Caps, Cost, Dialect, Problem, Program, Stage, spread, width};

/// Threads of a workgroup.
const THREADS: u64 = 128;
/// Largest head_dim: a thread keeps a piece of each of several rows.
const MAX_DIM: u64 = 256;
/// Fewest tokens of a part, and most parts, which bounds the memory that they are left in.
const FEWEST: u64 = 64;
const MOST: u64 = 64;
/// Workgroups that keep a multiprocessor in work to the end of a launch.
const GROUPS_PER_UNIT: u64 = 16;
/// Multiprocessors where their number is not known.
const UNITS: u64 = 32;

pub fn available(p: &Problem) -> Result<(), String> {
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("split keeps rows in registers: head_dim {d} > {MAX_DIM}")),
    }
}

/// Parts into which a sequence is split at most.
pub fn most_parts(p: &Problem) -> u64 {
    p["t"].div_ceil(FEWEST).min(MOST)
}

/// How the work is divided.
struct Division {
    /// Heads of queries for which a workgroup reads a key.
    held: u64,
    /// Tokens of a part.
    chunk: u64,
    /// Parts of the longest sequence.
    splits: u64,
}

impl Division {
    /// Of parts that are multiples of so many tokens, for at most so many heads at a time.
    fn of(p: &Problem, caps: &Caps, tokens: u64, most_held: u64) -> Division {
        let group = p["h"] / p["kv"];
        let held = (1..=most_held).rev().find(|n| group.is_multiple_of(*n)).expect("one divides all");
        let wanted = GROUPS_PER_UNIT * caps.units.map_or(UNITS, u64::from);
        let splits = wanted.div_ceil(p["b"] * p["h"] / held).clamp(1, most_parts(p));
        let chunk = p["t"].div_ceil(splits).next_multiple_of(tokens);
        Division { held, chunk, splits: p["t"].div_ceil(chunk) }
    }
}

pub fn split(p: &Problem, caps: &Caps) -> Program {
    let (first, division) = match caps.dialect {
        Dialect::Cuda => by_teams(p, caps),
        _ => by_tiles(p, caps),
    };
    let Division { held, chunk, splits } = division;
    let (queries, read) = bytes(p);
    let left = p["b"] * p["h"] * splits * (p["d"] + 2) * 4;
    let first = first
        .consts(&[("THREADS", THREADS), ("HELD", held), ("CHUNK", chunk), ("SPLITS", splits)].map(as_const))
        .args([
            ("q", Read),
            ("k", Read),
            ("v", Read),
            ("table", Read),
            ("lengths", Read),
            ("parts", Write),
            ("numbers", Write),
        ])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"] / held * splits))
        .costing(Cost::new(operations(p), read, left));
    let combine = Stage::kernel("attention_decode_combine", "attention_decode/combine", "attention_decode_combine")
        .consts(&[("ROWS", p["b"] * p["h"]), ("D", p["d"]), ("SPLITS", splits), ("THREADS", THREADS)].map(as_const))
        .args([("parts", Read), ("numbers", Read), ("out", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(p["b"] * p["h"]))
        .costing(Cost::new(2 * p["b"] * p["h"] * splits * p["d"], left, queries));
    Program { stages: vec![first, combine] }
}

fn as_const((name, value): (&'static str, u64)) -> (&'static str, u32) {
    (name, value as u32)
}

/// CUDA: neighbouring threads of a warp share a row, and add up its products by shuffles.
fn by_teams(p: &Problem, caps: &Caps) -> (Stage, Division) {
    /// Tokens of which a team reads keys and values before it uses the first.
    const KEYS: u64 = 4;
    let width = width(p["d"], p.dtype, caps);
    let pieces = p["d"] / width;
    let lanes = pieces.next_power_of_two().min(32);
    let kept = pieces.div_ceil(lanes);
    // Registers hold a piece of each query and of each sum.
    let most_held = (64 / (kept * width)).clamp(1, 8);
    let consts = [("WIDTH", width), ("LANES", lanes), ("PIECES", kept), ("KEYS", KEYS)];
    let division = Division::of(p, caps, KEYS * THREADS / lanes, most_held);
    // Sums of every thread for one query at a time, and two numbers for each team and query.
    let shared = 4 * THREADS * kept * width + 8 * division.held * THREADS / lanes;
    let stage = stage(p, "attention_decode/split", "attention_decode_split")
        .consts(&consts.map(as_const))
        .shared(shared as u32);
    (stage, division)
}

/// WGSL: tiles of tokens, whose weights all threads then need.
fn by_tiles(p: &Problem, caps: &Caps) -> (Stage, Division) {
    const KEYS: u64 = 32;
    const MOST_HELD: u64 = THREADS / KEYS;
    let division = Division::of(p, caps, KEYS, MOST_HELD);
    // Queries; four parts of each product; weights; where rows lie; a factor per query; and what reductions take.
    let words = division.held * p["d"] + 4 * THREADS + THREADS + KEYS + MOST_HELD + THREADS + MOST_HELD * 16;
    let stage = stage(p, "attention_decode/split", "attention_decode_split")
        .consts(&[("KEYS", KEYS), ("LANES", KEYS), ("COLUMNS", p["d"].div_ceil(THREADS))].map(as_const))
        .shared(4 * words as u32);
    (stage, division)
}

#[cfg(test)]
mod tests {
    use crate::suite::{Case, Problem, Value};

    #[test]
    fn parts_cover_every_token_and_fit_into_their_buffer() {
        let caps = crate::testing::mock::hopper();
        for shape in ["b1,h1,t1,d1", "b1,h8,t65,d8", "b1,h32,kv8,t32768,d128", "b32,h32,kv8,t4096,d128"] {
            let case: Case = format!("attention_decode/fwd/{shape}/f16/split").parse().expect("valid");
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
            assert!(splits * chunk >= p["t"] && (splits - 1) * chunk < p["t"], "{shape}: {splits} of {chunk}");
            assert!(splits <= super::most_parts(p), "{shape}: {splits}");
        }
    }
}
