//! Variant by warpgroups (`flash_wgmma`): instructions and copies of compute capability 9.0 alone.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, CudaLaunch, Elem, Problem, Program, Stage, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::super::head_layout::{COLUMNS, HeadLayout};
use super::super::masks::{Looks, looking};
use super::super::scores::without_changes;
use super::super::warpgroups::{ALIGNED, BARRIERS, Layouts, ROWS, THREADS, units};
use super::super::{gemm_flops, group, sizes, stage};
use super::flash::operands;

/// Keys of a block: two consumers have 64 each.
const KEYS: u64 = 128;
const CONSUMERS: u64 = 2;
/// Steps of queries in shared memory.
const STAGES: u64 = 2;
/// Bytes of queries, their gradients and those of the outputs that blocks share at about the same time under a causal mask. The L2
/// cache holds them.
const SECTION: u64 = 16 << 20;
/// Numbers of each query: its log-sum-exp to base two, and delta.
const NUMBERS: &str = "row_numbers";
/// Sums of `dQ` in tiles, in the order of registers.
const SUMS: &str = "dq_tiles";

/// Columns of products and sums. A product has 16 at a time; the variant has no kernel for fewer than 64.
fn width(d: u64) -> u64 {
    if d > COLUMNS { d.next_multiple_of(16) } else { d }
}

/// Queries of a step. Registers have room for 64 with more than 64 columns.
fn queries(d: u64) -> u64 {
    if d > 64 { 64 } else { 128 }
}

/// Number of queries with those that fill up the last tile of each head.
fn padded_queries(p: &Problem) -> u64 {
    p["b"] * p["h"] * p["s"].next_multiple_of(queries(p["d"]))
}

/// Scratch of the variant.
pub fn scratch(p: &Problem) -> [BufferSpec; 2] {
    let rows = padded_queries(p);
    [BufferSpec::scratch(NUMBERS, Elem::F32, &[rows, 2]), BufferSpec::scratch(SUMS, Elem::F32, &[rows, width(p["d"])])]
}

/// Bytes of shared memory: K and V, the ring of Q and dO, dS of two steps, the part of `dQ` that a copy adds, and numbers. K from the
/// middle of the columns on has a tile of its own, where no box begins there.
fn shared_bytes(d: u64) -> u64 {
    let (queries, boxes) = (queries(d), d.next_multiple_of(COLUMNS));
    let half = if d.is_multiple_of(COLUMNS) { 0 } else { KEYS * COLUMNS };
    let tiles = 2 * KEYS * boxes + half + 2 * STAGES * queries * boxes + 2 * KEYS * queries;
    let gathered = if d == COLUMNS { 0 } else { queries * width(d) };
    2 * tiles + 4 * (gathered + STAGES * 2 * queries) + ALIGNED + BARRIERS
}

/// Constants with the strides of a layout in pieces of eight elements, and the number of heads of an item.
fn placed(p: &Problem, layout: HeadLayout) -> [(&'static str, u32); 4] {
    let [item, head, row] = layout.strides().map(|stride| (stride / 8) as u32);
    [("ITEM_HEADS", p["h"] as u32), ("ITEM_STRIDE", item), ("HEAD_STRIDE", head), ("ROW_STRIDE", row)]
}

/// Stage that prepares the numbers of each query, and zeros for the sums of `dQ`.
fn rows(p: &Problem, out: HeadLayout) -> Stage {
    const BLOCK: u32 = 256;
    let (rows, d) = (padded_queries(p), p["d"]);
    let counted = p["b"] * p["h"] * p["s"];
    // A lane has eight columns. The lanes of a row are a power of two.
    let lanes = (d / 8).next_power_of_two();
    stage(p, "attention/flash_wgmma_rows", "attention_flash_wgmma_rows")
        .consts(&[("QUERIES", queries(d) as u32)])
        .consts(&placed(p, out))
        .args([
            ("dout", "dout", Read),
            ("out", "out", Read),
            ("lse", "lse", Read),
            ("numbers", NUMBERS, Write),
            ("sums", SUMS, Write),
        ])
        .threads([BLOCK, 1, 1])
        .grid(spread((rows * lanes).div_ceil(u64::from(BLOCK))))
        .cost(Cost::new(2 * counted * d, 2 * sizes(p).0 + 4 * counted, rows * (8 + 4 * width(d))))
}

/// Stage that rounds the sums of `dQ`.
fn rounded(p: &Problem, dq: HeadLayout) -> Stage {
    let (rows, queries) = (padded_queries(p), queries(p["d"]));
    stage(p, "attention/flash_wgmma_dq", "attention_flash_wgmma_dq")
        .consts(&[("QUERIES", queries as u32)])
        .consts(&placed(p, dq))
        .args([("sums", SUMS, Read), ("dq", "dq", Write)])
        .threads([256, 1, 1])
        .grid(spread(rows / queries))
        .cost(Cost::new(0, 4 * rows * width(p["d"]), sizes(p).0))
}

/// Fewest steps of a block that shares a tile of keys: with fewer, the cluster takes longer than it saves.
const FEWEST_STEPS: u64 = 8;

/// Blocks of a cluster that share the steps of a tile of keys: more than one where few keys would leave multiprocessors idle.
/// Under a causal mask, blocks are of unequal length, and twice as many are still faster.
fn parts(p: &Problem, caps: &Caps) -> u64 {
    let blocks = p["b"] * p["kv"] * p["t"].div_ceil(KEYS);
    let steps = group(p) * p["s"].div_ceil(queries(p["d"]));
    let most = units(caps) * if p.shape.has("causal") { 2 } else { 1 };
    [4, 2].into_iter().find(|parts| blocks * parts <= most && FEWEST_STEPS * parts <= steps).unwrap_or(1)
}

/// Checks that the variant can compute a problem on a device.
///
/// # Errors
/// Reason against it.
pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    without_changes(p, "the gradient of flash_wgmma")?;
    super::super::warpgroups::available(p, caps)
}

pub fn flash_wgmma(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Layouts::matrices(p))
}

/// Program on rows of a layer: `q`, `k` and `v` are one buffer `[b, s, 3·h·d]`, their gradients are another, and `out` and `dout` are
/// `[b, s, h·d]`.
pub(crate) fn flash_wgmma_on_rows(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Layouts::rows(p))
}

fn program(p: &Problem, caps: &Caps, layouts: Layouts) -> Program {
    let parts = parts(p, caps);
    let (b, kv, t, d) = (p["b"], p["kv"], p["t"], p["d"]);
    // One head of a group at a time has 2 bytes of Q and of dO for each element, and 4 of the sums.
    let section = if p.shape.has("causal") { (SECTION / (8 * p["s"] * d)).clamp(1, b * kv) } else { 1 };
    let sums = stage(p, "attention/flash_wgmma_backward", "attention_flash_wgmma_backward")
        .consts(&[("QUERIES", queries(d) as u32), ("SECTION", section as u32), ("PARTS", parts as u32)])
        .consts(&layouts.firsts())
        .args([
            Arg::from(("q", Read)).mapped(layouts.queries.tensor(queries(d))),
            Arg::from(("k", Read)).mapped(layouts.keys.tensor(KEYS)),
            Arg::from(("v", Read)).mapped(layouts.values.tensor(KEYS)),
            Arg::from(("dout", Read)).mapped(layouts.out.tensor(queries(d))),
            ("numbers", NUMBERS, Read).into(),
            Arg::from(("dk", Write)).mapped(layouts.keys.tensor(ROWS)),
            Arg::from(("dv", Write)).mapped(layouts.values.tensor(ROWS)),
            ("sums", SUMS, Write).into(),
        ])
        .threads([((CONSUMERS + 1) * THREADS) as u32, 1, 1])
        .grid(spread(b * kv * t.div_ceil(KEYS) * parts))
        .cuda(CudaLaunch { cluster: [parts as u32, 1, 1], dynamic_shared_bytes: shared_bytes(d) as u32 })
        .cost(Cost::new(5 * gemm_flops(p), operands(p), padded_queries(p) * 4 * width(d) + 2 * sizes(p).1));
    Program { stages: vec![rows(p, layouts.out), looking(p, Looks::Both, sums), rounded(p, layouts.queries)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::hopper;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("attention/bwd/{shape}/bf16/flash_wgmma")).expect("valid").problem
    }

    #[test]
    fn tiles_fit_into_the_shared_memory_of_a_block() {
        for d in [64, 72, 80, 128] {
            assert!(shared_bytes(d) <= 232_448, "{d}");
        }
    }

    #[test]
    fn few_tiles_of_keys_are_shared_by_blocks() {
        let caps = parallax_schema::device::Caps { compute_units: Some(132), ..hopper() };
        for (shape, expected) in [
            ("b1,h16,kv4,s2048,d128,causal", 4),
            ("b1,h16,kv4,s2048,d128", 2),
            ("b1,h16,kv8,s2048,d128,causal", 2),
            ("b1,h16,s2048,d128,causal", 1),
            ("b1,h8,s512,d64", 1),
        ] {
            assert_eq!(parts(&problem(shape), &caps), expected, "{shape}");
        }
    }

    #[test]
    fn sums_have_whole_tiles_of_each_head() {
        for (shape, expected) in [("b2,h3,s65,d128", 6 * 128), ("b2,h3,s65,d64", 6 * 128), ("b1,h1,s1,d128", 64)] {
            assert_eq!(padded_queries(&problem(shape)), expected, "{shape}");
        }
    }

    #[test]
    fn sections_hold_heads_whose_queries_fit_into_the_cache() {
        for (shape, expected) in [
            ("b8,h16,s4096,d128,causal", 4),
            ("b8,h16,s4096,d64,causal", 8),
            ("b1,h2,s64,d64,causal", 2),
            ("b1,h2,s65536,d128,causal", 1),
            ("b8,h16,s4096,d128", 1),
        ] {
            let stages = flash_wgmma(&problem(shape), &hopper()).stages;
            let parallax_ir::StageOp::Kernel(kernel) = &stages[1].work else { panic!("a kernel") };
            let section = kernel.consts.iter().find(|(name, _)| *name == "SECTION").expect("there");
            assert_eq!(section.1, (expected as u32).into(), "{shape}");
        }
    }
}
