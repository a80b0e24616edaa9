//! Chunks of 64 tokens as GEMMs. Let `c` be the sums of the exponents `δA` of a chunk up to each token. The weight of token `j` for a
//! later token `i` is then `e^(cᵢ − cⱼ) · δⱼ`.
//!
//! - `scores`: the products `Cᵢ · Bⱼ` of a chunk's tokens, once for all heads of a group.
//! - `states`: the state after each chunk, if it began with zeros.
//! - `pass`: the states before each chunk, from those of all chunks before it.
//! - `outputs`: results from the tokens of the chunk, with `scores`, and from the state before it.
//!
//! An exponent below −128 is taken for −128, whose exponential is zero in f32 too. Sums of exponents then stay small, and so do their
//! errors.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{BufferSpec, Elem, Problem, Program, Shape, Stage, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::stage;

/// Tokens of a chunk.
pub const CHUNK: u64 = 64;
/// Rows and columns of a tile of results, and its depth in shared memory.
const TILE: u64 = 64;
const DEPTH: u64 = 16;
/// Threads with eight rows and four columns of a tile each.
const THREADS: u32 = 128;
/// Threads of the pass.
const PASSING: u64 = 128;
/// Bytes of two tiles in shared memory, with one vector of padding for each index of the depth.
const TILES: u32 = (2 * (TILE + 4) * DEPTH * 4) as u32;
/// Bytes of a chunk's steps and sums.
const STEPS: u32 = (2 * CHUNK * 4) as u32;

/// Number of chunks of a sequence.
fn chunks(shape: &Shape) -> u64 {
    shape["s"].div_ceil(CHUNK)
}

/// Elements of the states of all chunks.
pub fn states(shape: &Shape) -> u64 {
    shape["b"] * chunks(shape) * shape["h"] * shape["n"] * shape["d"]
}

/// Elements of the scores of all chunks.
pub fn scores(shape: &Shape) -> u64 {
    shape["b"] * chunks(shape) * shape["g"] * CHUNK * CHUNK
}

/// Scratch buffers.
pub fn scratch(p: &Problem) -> [BufferSpec; 3] {
    let (b, h, chunks) = (p["b"], p["h"], chunks(&p.shape));
    [
        // Rows are earlier tokens, and columns later ones: tiles have neighbouring later tokens as vectors.
        BufferSpec::scratch("scores", Elem::F32, &[b, chunks, p["g"], CHUNK, CHUNK]),
        BufferSpec::scratch("states", Elem::F32, &[b, chunks, h, p["n"], p["d"]]),
        BufferSpec::scratch("totals", Elem::F32, &[b, chunks, h]),
    ]
}

/// Elements of an access: four, if rows of both extents have whole vectors.
fn width(p: &Problem) -> u64 {
    if p["d"].is_multiple_of(4) && p["n"].is_multiple_of(4) { 4 } else { 1 }
}

/// Stage with the constants of chunks.
pub fn of_chunks(p: &Problem, entry: &'static str, text: &'static str, threads: u32) -> Stage {
    let consts = [("CHUNKS", chunks(&p.shape)), ("CHUNK", CHUNK), ("DEPTH", DEPTH), ("WIDTH", width(p))];
    stage(p, entry, text)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("THREADS", threads)])
        .threads([threads, 1, 1])
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let (b, s, h, g, d, n) = (p["b"], p["s"], p["h"], p["g"], p["d"], p["n"]);
    let element = Elem::Real.storage(p.dtype).bytes();
    let chunks = b * chunks(&p.shape);
    let (scored, kept) = (4 * scores(&p.shape), 4 * states(&p.shape));
    let (token, shared) = (b * s * h * d * element, b * s * g * n * element);
    let numbers = b * s * h * element + 12 * h;
    let totals = 4 * chunks * h;
    let (across_d, across_n) = (d.div_ceil(TILE), n.div_ceil(TILE));

    let scores = of_chunks(p, "ssm_scan_scores", "ssm_scan/scores", THREADS)
        .args([("b", Read), ("c", Read), ("scores", Write)])
        .grid(spread(chunks * g))
        .shared(TILES)
        .cost(Cost::new(2 * b * s * g * CHUNK * n, 2 * shared, scored));
    let states = of_chunks(p, "ssm_scan_states", "ssm_scan/states", THREADS)
        .args([("x", Read), ("dt", Read), ("b", Read), ("heads", Read), ("states", Write), ("totals", Write)])
        .grid(spread(chunks * h * across_n * across_d))
        .shared(TILES + STEPS)
        .cost(Cost::new(2 * b * s * h * d * n, token + shared + numbers, kept + totals));
    let pieces = n * d / width(p);
    let pass = of_chunks(p, "ssm_scan_pass", "ssm_scan/pass", PASSING as u32)
        .args([("totals", Read), ("states", Write), ("state", Write)])
        .grid(spread((b * h * pieces).div_ceil(PASSING)))
        .cost(Cost::new(2 * kept / 4, kept + totals, kept + 4 * b * h * d * n));
    let outputs = of_chunks(p, "ssm_scan_outputs", "ssm_scan/outputs", THREADS)
        .args([
            ("x", Read),
            ("dt", Read),
            ("c", Read),
            ("heads", Read),
            ("scores", Read),
            ("states", Read),
            ("out", Write),
        ])
        .grid(spread(chunks * h * across_d))
        .shared(TILES + STEPS)
        .cost(Cost::new(2 * b * s * h * d * (CHUNK / 2 + n + 1), token + shared + numbers + scored + kept, token));
    Program { stages: vec![scores, states, pass, outputs] }
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn stages_need_about_as_many_operations_as_the_recurrence() {
        let case = parse_case("ssm_scan/fwd/b1,s1024,h24,d64,n128/f16/chunked").expect("valid");
        let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
        let stages: u64 = program.stages.iter().map(|stage| stage.cost.flops.0).sum();
        let share = stages as f64 / case.problem.cost().flops.0 as f64;
        assert!((0.8..1.2).contains(&share), "{share}");
    }
}
