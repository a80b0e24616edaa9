//! Variant on tensor cores, in the two stages of `chunked`. The blocks of the second compute the scores themselves.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{CudaLaunch, Gemm, NotOn, Problem, Program, Tunable, spread};
use parallax_schema::case::Allowed;
use parallax_schema::device::{Caps, CudaCaps};

use super::chunked::{CHUNK, chunks, chunks_cost, of_chunks, solve_cost};

const THREADS: u32 = 128;
/// Rows of a matrix instruction, and fewest columns of a block.
const ROWS: u64 = 16;
/// Most rows of a state: accumulators hold four sixteens of them.
const MOST: u64 = 256;
/// Elements of padding of a row in shared memory, against bank conflicts.
const PAD: u64 = 8;

/// Fewer columns make more blocks, each of which reads all keys and queries of its head.
pub const COLUMNS: Tunable = Tunable {
    name: "COLUMNS",
    about: "columns of a state that a block has, if they divide it",
    allowed: Allowed::OneOf(&[16, 32, 64]),
    default: 32,
};

/// Stress inputs with NaN behind a chunk's first token.
pub const NOT_ON: &[NotOn] = &[NotOn {
    sets: &["nan"],
    reason: "later tokens of a chunk have weights of zero, whose product with NaN is NaN: it reaches up to 63 tokens before its own",
}];

/// Columns of a block: the tuned number, or the most below it that divide the state.
fn columns(p: &Problem, caps: &Caps) -> u64 {
    let tuned = u64::from(p.tuned(caps, "chunked_mma", &COLUMNS));
    [64, 32, ROWS].into_iter().find(|columns| *columns <= tuned && p["dv"].is_multiple_of(*columns)).unwrap_or(ROWS)
}

/// Bytes of dynamic shared memory: two stages of keys, queries, values, the inverse, rests, deltas, and the state in 16 bits.
fn shared_bytes(p: &Problem, columns: u64) -> u64 {
    let (row_k, row_v) = (p["dk"] + PAD, columns + PAD);
    2 * (CHUNK * (3 * row_k + 3 * row_v + CHUNK + PAD) + p["dk"] * row_v)
}

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(p.dtype, caps)?;
    let (dk, dv) = (p["dk"], p["dv"]);
    if !dk.is_multiple_of(ROWS) || !dv.is_multiple_of(ROWS) || dk > MOST {
        return Err(format!("mma takes rows and columns in sixteens, and at most {MOST} rows, not dk{dk} and dv{dv}"));
    }
    let room = u64::from(caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes);
    // The kernel has exponents of two chunks beside it.
    match shared_bytes(p, columns(p, caps)) + 2 * 4 * CHUNK {
        needed if needed <= room => Ok(()),
        needed => Err(format!("mma needs {needed} bytes of shared memory, a block has {room}")),
    }
}

pub fn program(p: &Problem, caps: &Caps) -> Program {
    let columns = columns(p, caps);
    let dynamic = |bytes: u64| CudaLaunch { dynamic_shared_bytes: bytes as u32, ..CudaLaunch::default() };
    let inverse = ("inverse", "rounded_inverse");
    let solve = of_chunks(p, "gated_delta_solve_mma", "gated_delta/solve_mma", THREADS)
        .args([("k", "k", Read), ("g", "g", Read), ("beta", "beta", Read), (inverse.0, inverse.1, Write)])
        .grid(spread(p["b"] * chunks(&p.shape) * p["h"]))
        .shared((4 * CHUNK * (CHUNK + 2)) as u32)
        .cuda(dynamic(2 * CHUNK * (p["dk"] + PAD)))
        .cost(solve_cost(p, 2));
    let chunks = of_chunks(p, "gated_delta_mma", "gated_delta/mma", THREADS)
        .consts(&[("COLUMNS", columns as u32)])
        .args([
            ("q", "q", Read),
            ("k", "k", Read),
            ("v", "v", Read),
            ("g", "g", Read),
            (inverse.0, inverse.1, Read),
            ("out", "out", Write),
            ("state", "state", Write),
        ])
        .grid(spread(p["b"] * p["h"] * p["dv"] / columns))
        .shared((2 * 4 * CHUNK) as u32)
        .cuda(dynamic(shared_bytes(p, columns)))
        .cost(chunks_cost(p, 2));
    Program { stages: vec![solve, chunks] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str, dtype: &str) -> Problem {
        parse_case(&format!("gated_delta/fwd/{shape}/{dtype}/naive")).expect("valid").problem
    }

    #[test]
    fn matrix_units_take_whole_tiles_of_16_bit_elements() {
        let of = |shape: &str, dtype: &str, caps: &Caps| available(&problem(shape, dtype), caps);
        assert_eq!(of("b1,s1,h1,dk128", "f16", &hopper()), Ok(()));
        assert!(of("b1,s1,h1,dk128", "f32", &hopper()).is_err_and(|why| why.contains("f32")));
        assert!(of("b1,s1,h1,dk128", "f16", &caps()).is_err_and(|why| why.contains("8.0")));
        for shape in ["b1,s1,h1,dk24", "b1,s1,h1,dk64,dv24", "b1,s1,h1,dk272"] {
            assert!(of(shape, "f16", &hopper()).is_err_and(|why| why.contains("sixteens")), "{shape}");
        }
    }

    #[test]
    fn blocks_have_as_many_columns_as_divide_the_state() {
        for (columns_of_state, want) in [(128, 32), (48, 16), (32, 32), (16, 16)] {
            let p = problem(&format!("b1,s1,h1,dk32,dv{columns_of_state}"), "f16");
            assert_eq!(columns(&p, &hopper()), want, "{columns_of_state}");
        }
    }

    #[test]
    fn two_blocks_fit_into_a_multiprocessor() {
        // One block has 1 KiB of the system beside its own.
        let bytes = shared_bytes(&problem("b1,s1,h1,dk128", "f16"), 32) + 2 * 4 * CHUNK;
        assert!(2 * (bytes + 1024) <= 228 * 1024, "{bytes}");
    }
}
