//! Stages of the variants.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, Problem, Program, Stage, by_pieces, spread, width};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::{Counts, EACH, Format, PACKED, coded, element_bytes, pages, pages_of_one, row_bytes, token_heads, tokens};

/// Threads of a workgroup.
const THREADS: u64 = 128;
/// Most threads that share a head: those of a warp.
const MOST_LANES: u64 = 32;

/// Stage with the constants of the layouts.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    layout(p, Stage::kernel(entry, text, entry))
}

fn layout(p: &Problem, stage: Stage) -> Stage {
    let consts = [
        ("TOKENS", tokens(p)),
        ("STEP", p["s"]),
        ("HEADS", p["h"]),
        ("KEY_HEADS", p["kv"]),
        ("D", p["d"]),
        ("PAGE", p["p"]),
        ("PAGES", pages_of_one(&p.shape)),
        ("ALL_PAGES", pages(p)),
    ];
    let stage = stage.consts(&consts.map(|(name, value)| (name, value as u32))).consts(&[("CODED", coded(p))]);
    if coded(p) { Format::of(p).stage(stage) } else { stage }
}

/// Stage with `THREADS` threads in a workgroup, for this number of threads.
fn threads(stage: Stage, count: u64) -> Stage {
    stage.consts(&[("THREADS", THREADS as u32)]).threads([THREADS as u32, 1, 1]).grid(spread(count.div_ceil(THREADS)))
}

/// Arguments of a single stage.
fn args(p: &Problem) -> Vec<Arg> {
    let read = ["qkv", "angles", "table", "lengths"].map(|name| (name, Read));
    let scales = if coded(p) { &[("scales", Write)][..] } else { &[] };
    read.into_iter().chain([("cache", Write), ("q", Write)]).chain(scales.iter().copied()).map(Arg::from).collect()
}

pub fn naive(p: &Problem, _: &Caps) -> Program {
    let stage = stage(p, "rope_append/naive", "rope_append_naive").args(args(p)).cost(p.cost());
    threads(stage, tokens(p) * token_heads(p)).into()
}

/// Vectors of half a head, and threads that share a head: a power of two, at least as many.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    width: u64,
    vectors: u64,
    lanes: u64,
}

impl Share {
    fn of(p: &Problem, caps: &Caps) -> Share {
        let width = width(p["d"] / 2, p.dtype, caps);
        let vectors = p["d"] / 2 / width;
        Share { width, vectors, lanes: vectors.next_power_of_two() }
    }

    /// Adds its constants to a stage.
    fn stage(self, stage: Stage) -> Stage {
        let consts = [("WIDTH", self.width), ("HALF_PIECES", self.vectors), ("LANES", self.lanes)];
        stage.consts(&consts.map(|(name, value)| (name, value as u32)))
    }
}

pub fn fused_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match Share::of(p, caps) {
        Share { lanes, .. } if lanes <= MOST_LANES => Ok(()),
        Share { vectors, .. } => {
            Err(format!("a head is shared by at most {MOST_LANES} threads, but half of one has {vectors} vectors"))
        }
    }
}

pub fn separate_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    if coded(p) { fused_available(p, caps) } else { Ok(()) }
}

pub fn fused(p: &Problem, caps: &Caps) -> Program {
    let (share, each) = (Share::of(p, caps), u64::from(p.tuned(caps, "fused", &EACH)));
    let teams = token_heads(p).div_ceil(each);
    let stage = share
        .stage(stage(p, "rope_append/fused", "rope_append_fused"))
        .consts(&[("EACH", each as u32), ("TEAMS", teams as u32)])
        .args(args(p))
        .cost(p.cost());
    // Largest magnitudes of the heads; CUDA has them in registers.
    let shared = if coded(p) && caps.dialect == Dialect::Wgsl { 4 * each * (THREADS / share.lanes) } else { 0 };
    threads(stage, tokens(p) * teams * share.lanes).shared(shared as u32).into()
}

pub fn separate(p: &Problem, caps: &Caps) -> Program {
    let codes = coded(p).then(|| quantize(p, caps));
    Program { stages: [Some(rope(p, caps)), codes, Some(append(p, caps))].into_iter().flatten().collect() }
}

/// Bytes of an element of the rotated keys.
fn rotated_bytes(p: &Problem) -> u64 {
    if coded(p) { 4 } else { element_bytes(p) }
}

/// Stage that rotates queries, and keys to `rotated`.
fn rope(p: &Problem, caps: &Caps) -> Stage {
    let [h, kv, d] = ["h", "kv", "d"].map(|axis| p[axis]);
    let (share, Counts { tokens: new, positions, .. }) = (Share::of(p, caps), Counts::of(p));
    let pieces = by_pieces(tokens(p) * (h + kv) * share.vectors, share.width, "rope_append/rope", "rope_append_rope");
    layout(p, pieces.consts(&[("HALF_PIECES", share.vectors as u32)]))
        .args([("qkv", Read), ("angles", Read), ("lengths", Read), ("q", Write), ("rotated", Write)])
        .cost(Cost::new(
            3 * new * (h + kv) * d,
            new * (h + kv) * d * element_bytes(p) + 4 * (positions * d + p["b"]),
            tokens(p) * d * (h * element_bytes(p) + kv * rotated_bytes(p)),
        ))
}

/// Stage that finds codes and scales of rotated keys and of values.
fn quantize(p: &Problem, caps: &Caps) -> Stage {
    let (share, rows) = (Share::of(p, caps), 2 * tokens(p) * p["kv"]);
    let stage = share
        .stage(stage(p, "rope_append/quantize", "rope_append_quantize"))
        .args([("qkv", Read), ("rotated", Read), ("codes", Write), ("code_scales", Write)])
        .cost(Cost::new(2 * rows * p["d"], rows / 2 * p["d"] * (element_bytes(p) + 4), rows * row_bytes(p)));
    let shared = if caps.dialect == Dialect::Wgsl { 4 * (THREADS / share.lanes) } else { 0 };
    threads(stage, rows * share.lanes).shared(shared as u32)
}

/// Stage that copies rows to their pages.
fn append(p: &Problem, caps: &Caps) -> Stage {
    let Counts { tokens: new, entries, .. } = Counts::of(p);
    let words = p["d"] / PACKED;
    let wide = match coded(p) {
        true if words.is_multiple_of(4) => 4,
        true => 1,
        false => width(p["d"], p.dtype, caps),
    };
    let pieces = if coded(p) { words } else { p["d"] } / wide;
    let rows = 2 * new * p["kv"];
    let from = if coded(p) { ["codes", "code_scales"] } else { ["qkv", "rotated"] };
    let args = from.map(|name| (name, Read)).into_iter().chain([("table", Read), ("lengths", Read), ("cache", Write)]);
    let scales = coded(p).then_some(("scales", Write));
    let stage = by_pieces(2 * tokens(p) * p["kv"] * pieces, wide, "rope_append/append", "rope_append_append");
    layout(p, stage.consts(&[("ROW_PIECES", pieces as u32)])).args(args.chain(scales)).cost(Cost::new(
        0,
        rows * row_bytes(p) + 4 * (entries + p["b"]),
        rows * row_bytes(p),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("rope_append/fwd/{shape}/bf16/naive")).expect("valid").problem
    }

    #[test]
    fn threads_share_a_head_as_vectors() {
        for (shape, caps, want) in [
            ("b1,h1,d128", &hopper(), (8, 8, 8)),
            ("b1,h1,d128", &caps(), (4, 16, 16)),
            ("b1,h1,d6", &hopper(), (1, 3, 4)),
            ("b1,h1,d136,int8", &hopper(), (4, 17, 32)),
        ] {
            let Share { width, vectors, lanes } = Share::of(&problem(shape), caps);
            assert_eq!((width, vectors, lanes), want, "{shape}");
        }
        let long = problem("b1,h1,d1024,int8");
        assert!(fused_available(&long, &hopper()).is_err_and(|why| why.contains("64 vectors")));
        assert_eq!(separate_available(&problem("b1,h1,d1024"), &hopper()), Ok(()));
    }

    #[test]
    fn three_stages_are_separate_with_codes_and_two_without() {
        for (shape, count) in [("b1,h1,d128", 2), ("b1,h1,d128,e4m3", 3)] {
            assert_eq!(separate(&problem(shape), &hopper()).stages.len(), count, "{shape}");
        }
    }
}
