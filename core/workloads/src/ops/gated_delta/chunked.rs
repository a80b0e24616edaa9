//! Chunks of 64 tokens as GEMMs. Let `c` be the sums of the logarithms `g` of a chunk up to each token, and `S` the state
//! before it.
//!
//! - `solve`: for all chunks at once, the inverse of the system `1 + A`, with columns multiplied by `βⱼ`. It is the UT transform, by
//!   forward substitution. `Aᵢⱼ` is `βᵢ · e^(cᵢ − cⱼ) · (kᵢ · kⱼ)` for `j < i`. Also the scores, which are
//!   `e^(cᵢ − cⱼ) · (qᵢ · kⱼ) / √dk` for `j ≤ i`.
//! - `chunks`: chunk by chunk, `δ = inverse · (V − e^c · K · S)`, and the results `e^c · Q · S / √dk + scores · δ`. The state becomes
//!   `e^total · S + (K · e^(total − c))ᵀ · δ`.
//!
//! Application of the inverse to `V − e^c · K · S` needs fewer operations than its application to both parts (the WY form). An
//! exponent below −64 is taken for −64, so that sums of exponents stay small, and so do their errors.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{BufferSpec, Elem, Problem, Program, Shape, Stage, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::Caps;

use super::stage;

/// Tokens of a chunk.
pub const CHUNK: u64 = 64;
/// Depth of the tiles of `solve` in shared memory, and of those of `chunks`.
const DEPTH: u64 = 16;
const CHUNKS_DEPTH: u64 = 8;
/// Threads of `solve`, with eight rows and four columns of a tile each.
const THREADS: u32 = 128;
/// Columns of a state in a workgroup of `chunks`, whose threads have four of them each, and four of 64 rows.
const COLUMNS: u64 = 16;
/// Bytes of a vector of four floats.
const QUAD: u64 = 16;

/// Number of chunks of a sequence.
pub fn chunks(shape: &Shape) -> u64 {
    shape["s"].div_ceil(CHUNK)
}

/// Elements of the factors of all chunks.
pub fn factors(shape: &Shape) -> u64 {
    shape["b"] * chunks(shape) * shape["h"] * CHUNK * CHUNK
}

/// Scratch buffers. Rows are earlier tokens, and columns later ones: tiles have neighbouring later tokens as vectors.
pub fn scratch(p: &Problem) -> [BufferSpec; 3] {
    let dims = [p["b"], chunks(&p.shape), p["h"], CHUNK, CHUNK];
    // Tensor cores take the inverse in the element type, and compute scores themselves.
    [("inverse", Elem::F32), ("scores", Elem::F32), ("rounded_inverse", Elem::Real)]
        .map(|(name, elem)| BufferSpec::scratch(name, elem, &dims))
}

/// Stage with the constants of chunks.
pub fn of_chunks(p: &Problem, entry: &'static str, text: &'static str, threads: u32) -> Stage {
    stage(p, entry, text)
        .consts(&[("CHUNKS", chunks(&p.shape) as u32), ("CHUNK", CHUNK as u32), ("THREADS", threads)])
        .threads([threads, 1, 1])
}

/// Bytes of the inputs `[q or k, v, g or beta]` of all tokens.
fn token_bytes(p: &Problem) -> [u64; 3] {
    let (tokens, element) = (p["b"] * p["s"] * p["h"], Elem::Real.storage(p.dtype).bytes());
    [tokens * p["dk"] * element, tokens * p["dv"] * element, tokens * 4]
}

/// Cost of the factors of chunks, written in elements of this many bytes each.
pub fn solve_cost(p: &Problem, bytes: u64) -> Cost {
    let [keys, _, numbers] = token_bytes(p);
    let of_token = 4 * CHUNK * p["dk"] + CHUNK * CHUNK / 3;
    Cost::new(p["b"] * p["s"] * p["h"] * of_token, 2 * keys + 2 * numbers, bytes * factors(&p.shape))
}

/// Cost of results and states from factors in elements of this many bytes each.
pub fn chunks_cost(p: &Problem, bytes: u64) -> Cost {
    let [keys, values, numbers] = token_bytes(p);
    let of_column = 6 * p["dk"] + 2 * CHUNK;
    let states = 4 * p["b"] * p["h"] * p["dk"] * p["dv"];
    let read = 2 * keys + values + numbers + bytes * factors(&p.shape);
    Cost::new(p["b"] * p["s"] * p["h"] * p["dv"] * of_column, read, values + states)
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let tiles = 2 * DEPTH * (CHUNK / 4 + 1) * QUAD;
    let solve = of_chunks(p, "gated_delta_solve", "gated_delta/solve", THREADS)
        .consts(&[("DEPTH", DEPTH as u32), ("WIDTH", 1)])
        .args([("q", Read), ("k", Read), ("g", Read), ("beta", Read), ("inverse", Write), ("scores", Write)])
        .grid(spread(p["b"] * chunks(&p.shape) * p["h"]))
        .shared((tiles + 4 * CHUNK * (CHUNK + 2)) as u32)
        .cost(solve_cost(p, 8));
    let parts = p["dv"].div_ceil(COLUMNS);
    let tile = CHUNKS_DEPTH * (CHUNK / 4 + 1) * QUAD;
    let rows = p["dk"].next_multiple_of(CHUNKS_DEPTH) + CHUNK;
    let chunks = of_chunks(p, "gated_delta_chunks", "gated_delta/chunks", (4 * COLUMNS) as u32)
        .consts(&[("DEPTH", CHUNKS_DEPTH as u32), ("COLUMNS", COLUMNS as u32), ("PARTS", parts as u32)])
        .args([
            ("q", Read),
            ("k", Read),
            ("v", Read),
            ("g", Read),
            ("inverse", Read),
            ("scores", Read),
            ("out", Write),
            ("state", Write),
        ])
        .grid(spread(p["b"] * p["h"] * parts))
        .shared((tile + 4 * (COLUMNS * rows + CHUNK)) as u32)
        .cost(chunks_cost(p, 8));
    Program { stages: vec![solve, chunks] }
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn stages_need_about_as_many_operations_as_the_recurrence() {
        let case = parse_case("gated_delta/fwd/b1,s1024,h16,dk128/f16/chunked").expect("valid");
        let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
        let stages: u64 = program.stages.iter().map(|stage| stage.cost.flops.0).sum();
        let share = stages as f64 / case.problem.cost().flops.0 as f64;
        assert!((0.9..1.5).contains(&share), "{share}");
    }
}
