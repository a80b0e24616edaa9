//! Stages of scaling: workgroups sum strips of rows, their parts are merged, and every row is scaled.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, Stage, parts_of, spread, sum_of_parts, width};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::{CROSSING, EPS, bytes};

/// Threads of a workgroup.
const THREADS: u64 = 256;
/// Most threads that share a row: 512 bytes of it.
const MOST_LANES: u64 = 32;

/// Fewest rows of a thread, if there are enough: one block of the merge.
const FEWEST_ROWS: u64 = 8;

/// Partition of a table: strips of rows, one for each part, times blocks of columns.
struct Share {
    width: u64,
    lanes: u64,
    blocks: u64,
    strip: u64,
    parts: u64,
}

impl Share {
    fn new(p: &Problem, caps: &Caps) -> Share {
        let width = width(p["f"], p.dtype, caps);
        let pieces = p["f"] / width;
        let lanes = pieces.next_power_of_two().min(MOST_LANES);
        let blocks = pieces.div_ceil(lanes);
        // As many strips as keep the device busy, if their threads have enough rows, and none without a row.
        let wanted = parts_of(p["n"].div_ceil(FEWEST_ROWS * THREADS / lanes), caps).div_ceil(blocks);
        let strip = p["n"].div_ceil(wanted);
        Share { width, lanes, blocks, strip, parts: p["n"].div_ceil(strip) }
    }

    /// Stage with one workgroup for each strip of each block.
    fn stage(&self, p: &Problem, text: &'static str, entry: &'static str) -> Stage {
        let consts = [
            ("ROWS", p["n"]),
            ("COLUMNS", p["f"]),
            ("WIDTH", self.width),
            ("LANES", self.lanes),
            ("BLOCKS", self.blocks),
            ("STRIP", self.strip),
            ("PARTS", self.parts),
            ("THREADS", THREADS),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([THREADS as u32, 1, 1])
            .grid(spread(self.parts * self.blocks))
    }

    /// Workgroup memory for `pieces` pieces of each thread.
    fn shared(&self, pieces: u64) -> u32 {
        (pieces * THREADS * self.width * 4) as u32
    }
}

fn scale(p: &Problem, caps: &Caps, share: &Share) -> Stage {
    let text = "standard_scaler/scale";
    let stage = share.stage(p, text, "standard_scaler_scale");
    // In CUDA each thread has one piece: there are enough threads, and the numbers of columns are in the first-level cache.
    let stage = match caps.dialect {
        Dialect::Wgsl => stage,
        _ => stage.grid(spread((p["n"] * p["f"] / share.width).div_ceil(THREADS))),
    };
    stage
        .consts(&[("EPS", EPS as f32)])
        .args([("x", Read), ("mean", Read), ("variance", Read), ("out", Write)])
        .cost(Cost::new(2 * p["n"] * p["f"], bytes(p), bytes(p)))
}

pub(super) fn two_pass(p: &Problem, caps: &Caps) -> Program {
    let (share, elements, text) = (Share::new(p, caps), p["n"] * p["f"], "standard_scaler/sums");
    let left = 4 * share.parts * p["f"];
    let sums = share
        .stage(p, text, "standard_scaler_sums")
        .args([("x", Read), ("parts", Write)])
        .shared(share.shared(1))
        .cost(Cost::new(elements, bytes(p), left));
    let squares = share
        .stage(p, text, "standard_scaler_squares")
        .args([("x", Read), ("parts", Write), ("mean", Read)])
        .shared(share.shared(1))
        .cost(Cost::new(3 * elements, bytes(p), left));
    let average = |of: &'static str| {
        sum_of_parts(share.parts, p["f"], caps, "standard_scaler/average", "standard_scaler_average")
            .label(of)
            .consts(&[("SHARE", (1.0 / p["n"] as f64) as f32)])
            .args([("parts", "parts", Read), ("average", of, Write)])
    };
    crossing(p, vec![sums, average("mean"), squares, average("variance"), scale(p, caps, &share)])
}

pub(super) fn welford(p: &Problem, caps: &Caps) -> Program {
    let share = Share::new(p, caps);
    let text = "standard_scaler/welford";
    let left = 8 * share.parts * p["f"];
    let moments = share
        .stage(p, text, "standard_scaler_welford")
        .args([("x", Read), ("parts", Write)])
        .shared(share.shared(2))
        .cost(Cost::new(6 * p["n"] * p["f"], bytes(p), left));
    let merge = merged([p["n"], p["f"]], share.strip, caps);
    crossing(p, vec![moments, merge, scale(p, caps, &share)])
}

/// Stage of the mean and variance of a table's columns, from those of strips of `strip` rows. `parts` has, for each strip, the
/// means of all columns, then the sums of squares around them.
pub(in super::super) fn merged([rows, columns]: [u64; 2], strip: u64, caps: &Caps) -> Stage {
    // There are few columns, so each has as many threads as possible.
    let threads = if caps.max_invocations >= 1024 { 1024 } else { THREADS };
    let across = if caps.dialect == Dialect::Wgsl { 32 } else { 8 };
    let (parts, down) = (rows.div_ceil(strip), threads / across);
    let consts =
        [("ROWS", rows), ("COLUMNS", columns), ("STRIP", strip), ("PARTS", parts), ("ACROSS", across), ("DOWN", down)];
    Stage::kernel("standard_scaler_merge", "standard_scaler/merge", "standard_scaler_merge")
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .args([("parts", Read), ("mean", Write), ("variance", Write)])
        .threads([across as u32, down as u32, 1])
        .grid(spread(columns.div_ceil(across)))
        .shared(12 * threads as u32)
        .cost(Cost::new(6 * parts * columns, 8 * parts * columns, 8 * columns))
}

/// Program of the stages, between an upload of the table and a download of the scaled one for `crossing`.
fn crossing(p: &Problem, stages: Vec<Stage>) -> Program {
    if !p.shape.has(CROSSING) {
        return Program { stages };
    }
    let upload = Stage::copy("upload", "x", "table").cost(Cost::new(0, 0, bytes(p)));
    let download = Stage::copy("download", "scaled", "out").cost(Cost::new(0, bytes(p), 0));
    let between = stages.into_iter().map(|stage| stage.on_buffers(&[("x", "table"), ("out", "scaled")]));
    Program { stages: std::iter::once(upload).chain(between).chain([download]).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::MOST_PARTS;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn strips_cover_all_rows_and_blocks_all_columns() {
        for (n, f) in [(1, 1), (7, 8), (300, 264), (1_000_000, 64), (65_536, 512), (33_570_816, 64), (3, 100_000)] {
            for caps in [caps(), hopper()] {
                let case = parse_case(&format!("standard_scaler/fwd/n{n},f{f}/f16/welford")).expect("valid");
                let Share { width, lanes, blocks, strip, parts } = Share::new(&case.problem, &caps);
                assert!(parts * strip >= n && (parts - 1) * strip < n && parts <= MOST_PARTS, "{case}");
                assert!(blocks * lanes * width >= f && (blocks - 1) * lanes * width < f, "{case}");
                assert!(lanes.is_power_of_two() && THREADS.is_multiple_of(lanes), "{case}");
            }
        }
    }
}
