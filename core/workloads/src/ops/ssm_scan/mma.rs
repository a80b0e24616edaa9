//! Variant on tensor cores: one stage, whose blocks go through the chunks of a sequence.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{CudaLaunch, Gemm, NotOn, Problem, Program, spread};
use parallax_schema::device::{Caps, CudaCaps};

use super::chunked::{CHUNK, of_chunks};

const THREADS: u32 = 128;
/// Columns of the head dim of a block.
const COLUMNS: u64 = 64;
/// Rows of a matrix instruction.
const ROWS: u64 = 16;
/// Most elements of a row of the state: accumulators hold 64 columns of them.
const MOST: u64 = 128;

/// Stress inputs with NaN behind a chunk's first token.
pub const NOT_ON: &[NotOn] = &[NotOn {
    sets: &["nan"],
    reason: "later tokens of a chunk have weights of zero, whose product with NaN is NaN: it reaches up to 63 tokens before its own",
}];

/// Bytes of shared memory: two stages of B, C and X, the state in 16 bits, and steps and exponents of two chunks.
fn shared_bytes(p: &Problem) -> u64 {
    let (row_n, row_d) = (p["n"] + 8, COLUMNS + 8);
    2 * (2 * CHUNK * (2 * row_n + row_d) + p["n"] * row_d) + 2 * 2 * CHUNK * 4
}

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(p.dtype, caps)?;
    let (d, n) = (p["d"], p["n"]);
    if !d.is_multiple_of(COLUMNS) || !n.is_multiple_of(ROWS) || n > MOST {
        return Err(format!(
            "mma takes {COLUMNS} columns and rows of {ROWS} to {MOST} elements in sixteens, not d{d} and n{n}"
        ));
    }
    let room = u64::from(caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes);
    match shared_bytes(p) {
        needed if needed <= room => Ok(()),
        needed => Err(format!("mma needs {needed} bytes of shared memory, a block has {room}")),
    }
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    of_chunks(p, "ssm_scan_mma", "ssm_scan/mma", THREADS)
        .args([("x", Read), ("dt", Read), ("b", Read), ("c", Read), ("heads", Read), ("out", Write), ("state", Write)])
        .grid(spread(p["b"] * p["h"] * p["d"] / COLUMNS))
        .cuda(CudaLaunch { dynamic_shared_bytes: shared_bytes(p) as u32, ..CudaLaunch::default() })
        .cost(p.cost())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    #[test]
    fn matrix_units_take_whole_tiles_of_16_bit_elements() {
        let of = |shape: &str, dtype: &str, caps: &Caps| {
            let case = parse_case(&format!("ssm_scan/fwd/{shape}/{dtype}/naive")).expect("valid");
            available(&case.problem, caps)
        };
        assert_eq!(of("b1,s1,h1,d64,n128", "f16", &hopper()), Ok(()));
        assert!(of("b1,s1,h1,d64,n128", "f32", &hopper()).is_err_and(|why| why.contains("f32")));
        assert!(of("b1,s1,h1,d64,n128", "f16", &caps()).is_err_and(|why| why.contains("8.0")));
        for shape in ["b1,s1,h1,d32,n128", "b1,s1,h1,d64,n24", "b1,s1,h1,d64,n256"] {
            assert!(of(shape, "f16", &hopper()).is_err_and(|why| why.contains("sixteens")), "{shape}");
        }
    }

    #[test]
    fn two_blocks_fit_into_a_multiprocessor() {
        let case = parse_case("ssm_scan/fwd/b1,s1,h1,d64,n128/f16/naive").expect("valid");
        // One block has 1 KiB of the system beside its own.
        assert!(2 * (shared_bytes(&case.problem) + 1024) <= 228 * 1024);
    }
}
