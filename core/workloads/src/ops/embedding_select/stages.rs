//! Stages of both directions.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, Stage, by_pieces};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::super::embedding::indices::different;
use super::super::embedding::stages::{SORTED, Segments, Taken, With, added_to_zeros, by_row};
use super::items;
use crate::{Sort, Sorted};

/// Pieces that a thread has in flight: the default of `embedding`.
const AT_ONCE: u32 = 4;

/// Items of one table.
fn of_table(p: &Problem, table: u64) -> Taken {
    let (t, v, d) = (p["t"], p["v"], p["d"]);
    Taken { items: p["n"], first: table, step: t, tables: t, rows: v, columns: d, dtype: p.dtype }
}

/// All items, each of its own table.
fn of_all(p: &Problem) -> Taken {
    Taken { items: items(p), first: 0, step: 1, ..of_table(p, 0) }
}

/// All items as those of one stacked table, which has the rows of all tables.
fn of_stack(p: &Problem) -> Taken {
    Taken::of_one(items(p), p["t"] * p["v"], p["d"], p.dtype)
}

/// Stage that shifts indices by the rows of the previous tables.
fn flatten(p: &Problem) -> Stage {
    let count = items(p);
    by_pieces(count, 1, "embedding_select/flatten", "embedding_select_flatten")
        .consts(&[("TABLES", p["t"] as u32), ("TABLE_ROWS", p["v"] as u32)])
        .args([("index", Read), ("shifted", Write)])
        .cost(Cost::new(count, 4 * count, 4 * count))
        .label("flatten")
}

fn for_each_table(p: &Problem, stage: impl Fn(Taken) -> Stage) -> Vec<Stage> {
    (0..p["t"]).map(|table| stage(of_table(p, table)).renamed(|label| format!("{label}_{table}"))).collect()
}

pub(super) fn each_table(p: &Problem, caps: &Caps) -> Program {
    let rows = different(p, p["n"]);
    Program { stages: for_each_table(p, |taken| taken.gather(caps, AT_ONCE, rows, ["index", "tables", "out"])) }
}

pub(super) fn flattened(p: &Problem, caps: &Caps) -> Program {
    let gather = of_stack(p).gather(caps, AT_ONCE, p["t"] * different(p, p["n"]), ["shifted", "tables", "out"]);
    Program { stages: vec![flatten(p), gather] }
}

pub(super) fn fused(p: &Problem, caps: &Caps) -> Program {
    of_all(p).gather(caps, AT_ONCE, p["t"] * different(p, p["n"]), ["index", "tables", "out"]).into()
}

/// Buffers of the sort of shifted indices.
pub(super) const SHIFTED: Sorted = Sorted { keys: "shifted", ..SORTED };

pub(super) fn sort(p: &Problem) -> Sort {
    by_row(items(p), p["t"] * p["v"])
}

pub(super) fn segments(p: &Problem) -> Segments {
    let rows = p["t"] * p["v"];
    Segments { items: items(p), sources: items(p), rows, columns: p["d"], dtype: p.dtype, with: With::default() }
}

/// Program that zeroes the sums and adds to them.
fn added(p: &Problem, caps: &Caps, adding: impl FnOnce(&'static str) -> Vec<Stage>) -> Program {
    let elements = p["t"] * p["v"] * p["d"];
    Program { stages: added_to_zeros(elements, p.dtype, caps, ["sums", "dtables"], adding) }
}

pub(super) fn each_table_added(p: &Problem, caps: &Caps) -> Program {
    added(p, caps, |sums| for_each_table(p, |taken| taken.scatter(caps, ["index", "dout", sums])))
}

pub(super) fn fused_added(p: &Problem, caps: &Caps) -> Program {
    added(p, caps, |sums| vec![of_all(p).scatter(caps, ["index", "dout", sums])])
}

pub(super) fn sorted(p: &Problem, caps: &Caps) -> Program {
    let mut stages = vec![flatten(p)];
    stages.extend(sort(p).stages(SHIFTED));
    stages.extend(segments(p).stages(caps, SHIFTED, ["dout", "dtables", "parts"]));
    Program { stages }
}
