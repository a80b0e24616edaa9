//! The variant that splits sequences and multiplies on tensor cores.

use super::split::{Division, as_const, available as short_rows, group, stages};
use super::{append, element, pages, stage};
use crate::suite::{Allowed, Caps, CudaCaps, CudaLaunch, Problem, Product, Program, Stage, Tunable};

/// Heads of queries that are rows of one product: those of a matrix instruction.
const ROWS: u64 = 16;
/// Fewest stages: one that is copied to while another is read.
const FEWEST_STAGES: u64 = 2;

const WARPS: Tunable = Tunable {
    name: "WARPS",
    about: "warps of a block, each with tokens and stages of its own",
    allowed: Allowed::OneOf(&[2, 4, 8]),
    default: 4,
};
const TOKENS: Tunable =
    Tunable { name: "TOKENS", about: "tokens of a stage of a warp", allowed: Allowed::OneOf(&[16, 32]), default: 16 };
/// With the other defaults at head_dim 128: two blocks on a multiprocessor of compute capability 9.0, which have 128 KiB under
/// way while they compute.
const STAGES: Tunable = Tunable {
    name: "STAGES",
    about: "stages of a warp, all but one of them under way; fewer where shared memory does not hold them",
    allowed: Allowed::OneOf(&[2, 3, 4, 6]),
    default: 3,
};
const BLOCKS: Tunable = Tunable {
    name: "BLOCKS",
    about: "blocks for each multiprocessor, where sequences can be split into so many",
    allowed: Allowed::OneOf(&[2, 4, 8, 16]),
    default: 8,
};

/// What it leaves open.
pub const TUNABLES: &[Tunable] = &[WARPS, TOKENS, STAGES, BLOCKS];

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Product::mma_available(p.dtype, caps)?;
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
    Program { stages: stages(p, caps, first(p, caps), append::asked(p)).into() }
}

fn first(p: &Problem, caps: &Caps) -> (Stage, Division) {
    let tuned = |tunable| u64::from(caps.tuned(p, "split_mma", tunable));
    let (warps, tokens) = (tuned(&WARPS), tuned(&TOKENS));
    // Keys and values, as the text lays them out: head_dim is padded to whole instructions, and rows by one piece more.
    let row = p["d"].next_multiple_of(16) + 8;
    let stage_bytes = 2 * tokens * row * element(p);
    // The largest score and the sum of weights of each row, for each warp.
    let numbers = 8 * warps * ROWS;
    let room = u64::from(caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes).saturating_sub(numbers);
    let stages = tuned(&STAGES).min(room / (warps * stage_bytes)).max(FEWEST_STAGES);
    // Heads of a group as even as they can be shared.
    let shares = group(p).div_ceil(ROWS);
    let held = group(p).div_ceil(shares);
    let division = Division::of(p, caps, warps * tokens, held, tuned(&BLOCKS));
    let dynamic_shared_bytes = (warps * stages * stage_bytes) as u32;
    let stage = stage(p, "attention_decode/split_mma", "attention_decode_split_mma")
        .consts(&[("T", p["t"]), ("WARPS", warps), ("TOKENS", tokens), ("STAGES", stages)].map(as_const))
        .threads([32 * warps as u32, 1, 1])
        .shared(numbers as u32)
        .cuda(CudaLaunch { dynamic_shared_bytes, ..CudaLaunch::default() });
    (stage, division)
}
