//! Variant that splits sequences and multiplies on tensor cores.

use parallax_ir::{CudaLaunch, Gemm, Problem, Program, Stage, Tunable};
use parallax_schema::case::Allowed;
use parallax_schema::device::{Caps, CudaCaps};

use super::split::{Division, Extent, as_const, available as short_rows, stages};
use super::{append, element, pages, stage};

/// Query heads that are rows of one GEMM: the rows of a matrix instruction.
const ROWS: u64 = 16;
/// Fewest stages: one is written while another is read.
const FEWEST_STAGES: u64 = 2;

const WARPS: Tunable = Tunable {
    name: "WARPS",
    about: "warps per block, each with tokens and stages of its own",
    allowed: Allowed::OneOf(&[2, 4, 8]),
    default: 4,
};
const TOKENS: Tunable =
    Tunable { name: "TOKENS", about: "tokens per stage of a warp", allowed: Allowed::OneOf(&[16, 32]), default: 16 };
/// Stages of a warp. With the other defaults at head_dim 128, a multiprocessor of compute capability 9.0 runs two blocks. These
/// have 128 KiB in flight while they compute.
const STAGES: Tunable = Tunable {
    name: "STAGES",
    about: "stages per warp, all but one in flight; fewer if shared memory is too small",
    allowed: Allowed::OneOf(&[2, 3, 4, 6]),
    default: 3,
};
const BLOCKS: Tunable = Tunable {
    name: "BLOCKS",
    about: "blocks per multiprocessor, if the sequences can be split that far",
    allowed: Allowed::OneOf(&[2, 4, 8, 16]),
    default: 2,
};

/// Tunables of the variant.
pub const TUNABLES: &[Tunable] = &[WARPS, TOKENS, STAGES, BLOCKS];

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(p.dtype, caps)?;
    short_rows(p)?;
    if !p["d"].is_multiple_of(8) {
        return Err(format!("split_mma copies 16 bytes at a time: head_dim {} is not a multiple of 8", p["d"]));
    }
    match pages(p) * p["p"] {
        places if places <= u64::from(u32::MAX) => Ok(()),
        places => Err(format!("split_mma counts the places of tokens in 32 bits: there are {places}")),
    }
}

pub fn split_mma(p: &Problem, caps: &Caps) -> Program {
    Program { stages: stages(p, caps, vec![first(p, Extent::whole(p), caps)], append::asked(p)) }
}

/// Stage of an extent, without the arguments of all such stages.
pub(super) fn first(p: &Problem, extent: Extent, caps: &Caps) -> (Stage, Division) {
    let tuned = |tunable| u64::from(p.tuned(caps, "split_mma", tunable));
    let (warps, tokens) = (tuned(&WARPS), tuned(&TOKENS));
    // Keys and values in the kernel source's layout: head_dim is padded to whole instructions, and rows by one more piece.
    let row = p["d"].next_multiple_of(16) + 8;
    let stage_bytes = 2 * tokens * row * element(p);
    // Largest score and sum of weights of each row, for each warp.
    let numbers = 8 * warps * ROWS;
    let room = u64::from(caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes).saturating_sub(numbers);
    let stages = tuned(&STAGES).min(room / (warps * stage_bytes)).max(FEWEST_STAGES);
    // Rows of a set, divided as evenly as possible.
    let shares = extent.rows.div_ceil(ROWS);
    let held = extent.rows.div_ceil(shares);
    let division = Division::new(p, extent, caps, [warps * tokens, held, tuned(&BLOCKS)]);
    let dynamic_shared_bytes = (warps * stages * stage_bytes) as u32;
    let stage = stage(p, "attention_decode/split_mma", "attention_decode_split_mma")
        .consts(&[("T", p["t"]), ("WARPS", warps), ("TOKENS", tokens), ("STAGES", stages)].map(as_const))
        .threads([32 * warps as u32, 1, 1])
        .shared(numbers as u32)
        .cuda(CudaLaunch { dynamic_shared_bytes, ..CudaLaunch::default() });
    (stage, division)
}
