//! Stages of both directions.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, Problem, Program, Stage, by_pieces, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::super::embedding::stages::{SORTED, Segments, With, added_to_zeros, by_row};
use super::{arguments, items, known, row_bytes, taken_bytes, weighted};

/// Stage with one piece of a bag's row per thread.
fn of_bags(p: &Problem, width: u64, text: &'static str, entry: &'static str) -> Stage {
    by_pieces(p["b"] * p["d"] / width, width, text, entry).consts(&[("PIECES", (p["d"] / width) as u32)])
}

fn forward(p: &Problem, width: u64) -> Program {
    let text = "embedding_bag/rows";
    of_bags(p, width, text, "embedding_bag_rows")
        .consts(&[("MEAN", p.shape.has("mean")), ("MAX", p.shape.has("max")), ("WEIGHTED", weighted(p))])
        .args(arguments(p))
        .cost(p.cost())
        .into()
}

pub(super) fn naive(p: &Problem, _: &Caps) -> Program {
    let text = "embedding_bag/naive";
    of_bags(p, 1, text, "embedding_bag_naive")
        .consts(&[("MEAN", p.shape.has("mean")), ("MAX", p.shape.has("max")), ("WEIGHTED", weighted(p))])
        .args(arguments(p))
        .cost(p.cost())
        .into()
}

pub(super) fn rows(p: &Problem, caps: &Caps) -> Program {
    forward(p, width(p["d"], p.dtype, caps))
}

/// Item of each element of a bag's maximum, which the forward pass leaves for the backward pass.
pub(super) fn winner(p: &Problem, _: &Caps) -> Program {
    if !p.shape.has("max") {
        return Program { stages: Vec::new() };
    }
    of_bags(p, 1, "embedding_bag/winner", "embedding_bag_winner")
        .args([("index", Read), ("offsets", Read), ("table", Read), ("winner", Write)])
        .cost(Cost::new(items(p) * p["d"], known(p) + taken_bytes(p), 4 * p["b"] * p["d"]))
        .into()
}

/// Threads of a workgroup, and most that share a row.
const THREADS: u64 = 256;
const MOST_LANES: u64 = 32;

/// Stage of the bag of each item, and its share of the bag's mean.
fn places(p: &Problem) -> Stage {
    let mean = p.shape.has("mean");
    let consts = [("ITEMS", items(p)), ("BAGS", p["b"]), ("THREADS", THREADS)];
    let args = [("sorted", "offsets", Read), ("bag", "bag", Write)];
    let share = mean.then_some(("share", "share", Write));
    Stage::kernel("bags", "embedding_bag/places", "embedding_bag_places")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("MEAN", mean)])
        .args(args.into_iter().chain(share).map(Arg::from))
        .threads([THREADS as u32, 1, 1])
        .grid(spread(items(p).div_ceil(THREADS)))
        .cost(Cost::new(0, 4 * (p["b"] + 1), 4 * items(p) * (1 + u64::from(mean))))
}

/// Stage of the gradient of each item's factor: the dot product of its row with its bag's gradient.
fn of_factors(p: &Problem, caps: &Caps) -> Stage {
    let width = width(p["d"], p.dtype, caps);
    let lanes = (p["d"] / width).next_power_of_two().min(MOST_LANES);
    let consts = [
        ("ITEMS", items(p)),
        ("BAGS", p["b"]),
        ("COLUMNS", p["d"]),
        ("PIECES", p["d"] / width),
        ("WIDTH", width),
        ("LANES", lanes),
        ("THREADS", THREADS),
    ];
    let text = "embedding_bag/factors";
    Stage::kernel("dweight", text, "embedding_bag_factors")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("index", Read), ("bag", Read), ("table", Read), ("dout", Read), ("dweight", Write)])
        .threads([THREADS as u32, 1, 1])
        .grid(spread(items(p).div_ceil(THREADS / lanes)))
        .shared(4 * (THREADS + THREADS / lanes * lanes.min(16)) as u32)
        .cost(Cost::new(2 * items(p) * p["d"], 8 * items(p) + taken_bytes(p) + p["b"] * row_bytes(p), 4 * items(p)))
}

pub(super) fn segments(p: &Problem) -> Segments {
    let has = |word: &str, buffer: &'static str| p.shape.has(word).then_some(buffer);
    let scale = has("weighted", "weight").or(has("mean", "share"));
    let with = With { bag: Some("bag"), scale, winner: has("max", "winner") };
    Segments { items: items(p), sources: p["b"], rows: p["v"], columns: p["d"], dtype: p.dtype, with }
}

pub(super) fn sorted(p: &Problem, caps: &Caps) -> Program {
    let mut stages = vec![places(p)];
    stages.extend(weighted(p).then(|| of_factors(p, caps)));
    stages.extend(by_row(items(p), p["v"]).stages(SORTED));
    stages.extend(segments(p).stages(caps, SORTED, ["dout", "dtable", "parts"]));
    Program { stages }
}

pub(super) fn atomic(p: &Problem, caps: &Caps) -> Program {
    let mut stages = match weighted(p) {
        true => vec![places(p), of_factors(p, caps)],
        false => Vec::new(),
    };
    let adding = |sums| vec![if p.shape.has("max") { won(p, sums) } else { scatter(p, caps, sums) }];
    stages.extend(added_to_zeros(p["v"] * p["d"], p.dtype, caps, ["sums", "dtable"], adding));
    Program { stages }
}

/// Bytes of sums that `additions` additions read and write.
fn met(p: &Problem, additions: u64) -> u64 {
    4 * additions.min(p["v"] * p["d"])
}

/// Stage that reads each bag's gradient once and adds it to the rows of its items. WGSL adds element by element.
fn scatter(p: &Problem, caps: &Caps, sums: &'static str) -> Stage {
    let width = if caps.dialect == Dialect::Wgsl { 1 } else { width(p["d"], p.dtype, caps) };
    let weight = weighted(p).then_some(("weight", "weight", Read));
    let args = [("index", "index", Read), ("offsets", "offsets", Read), ("dout", "dout", Read), ("sums", sums, Write)];
    let additions = items(p) * p["d"];
    of_bags(p, width, "embedding_bag/scatter", "embedding_bag_scatter")
        .consts(&[("MEAN", p.shape.has("mean")), ("WEIGHTED", weighted(p))])
        .args(args.into_iter().chain(weight).map(Arg::from))
        .cost(Cost::new(additions, known(p) + p["b"] * row_bytes(p) + met(p, additions), met(p, additions)))
}

/// Stage that adds each element of the gradients to the row that won it.
fn won(p: &Problem, sums: &'static str) -> Stage {
    let elements = p["b"] * p["d"];
    of_bags(p, 1, "embedding_bag/won", "embedding_bag_won")
        .consts(&[("ITEMS", items(p) as u32)])
        .args([("index", "index", Read), ("winner", "winner", Read), ("dout", "dout", Read), ("sums", sums, Write)])
        .cost(Cost::new(
            elements,
            4 * items(p) + 4 * elements + p["b"] * row_bytes(p) + met(p, elements),
            met(p, elements),
        ))
}
