//! Variants that keep scores on chip: an online softmax over key tiles, on plain threads and on CUDA's tensor cores.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, Stage, Tunable, spread};
use parallax_schema::case::{Allowed, DType};
use parallax_schema::device::{Caps, Dialect};

use super::masks::{Looks, looking};
use super::scores::{Computes, changing};
use super::{KEEPS_LSE, cost_of_one_stage, group, stage};

/// Largest head_dim for `flash`: eight threads per row, each with eight 4-element vectors of the output.
pub(super) const MAX_FLASH_DIM: u64 = 256;
/// Query rows of a tile of `flash_mma`.
const MMA_ROWS: u32 = 64;
/// Tunable of `flash`; `flash_mma` has a fixed depth.
pub(super) const DEPTH: Tunable = Tunable {
    name: "DEPTH",
    about: "columns of Q and K that are staged at a time",
    allowed: Allowed::OneOf(&[4, 8, 16, 32]),
    default: 16,
};

/// Checks that a row of the output fits into registers.
pub(super) fn short_rows(p: &Problem) -> Result<(), String> {
    match p["d"] {
        d if d <= MAX_FLASH_DIM => Ok(()),
        d => Err(format!("flash keeps a row of the output in registers: head_dim {d} > {MAX_FLASH_DIM}")),
    }
}

pub(super) fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match (p.dtype, caps.compute_capability) {
        (DType::F32, _) => Err("flash_mma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned()),
        (_, Some((major, _))) if major >= 8 => short_rows(p),
        (_, found) => Err(format!("flash_mma needs compute capability 8.0, not {found:?}")),
    }
}

pub(super) fn flash_mma(p: &Problem, _caps: &Caps) -> Program {
    let stage = stage(p, "attention/flash_mma", "attention_flash_mma")
        .consts(&[("ROWS", MMA_ROWS)])
        .consts(&[(KEEPS_LSE, false)])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([16, 16, 1])
        .grid(spread(p["b"] * p["h"] * p["s"].div_ceil(u64::from(MMA_ROWS))))
        .cost(cost_of_one_stage(p));
    looking(p, Looks::Both, changing(p, Computes::Both, stage)).into()
}

pub(super) fn flash(p: &Problem, caps: &Caps) -> Program {
    let stage = Share::new(p, caps)
        .stage(p, caps.dialect)
        .consts(&[(KEEPS_LSE, false)])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .cost(cost_of_one_stage(p));
    looking(p, Looks::Both, changing(p, Computes::Both, stage)).into()
}

/// Partition of a tile of scores, and of the output, among the threads of a workgroup. Each thread has four rows, four keys and
/// `columns` vectors of four columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    /// Number of threads that share rows (`across`), and that share keys (`down`).
    across: u32,
    down: u32,
    /// Number of output column vectors of a thread.
    columns: u32,
    /// Number of columns of Q and K (`depth`), and of keys of V (`values`), that are staged at a time.
    depth: u32,
    values: u32,
    /// Number of staging buffers, and of vectors that pad them against bank conflicts.
    buffers: u32,
    pad: u32,
}

/// Threads across and down for long sequences, and for fewer workgroups of 64 rows than multiprocessors.
const LONG: [u32; 2] = [8, 16];
const SHORT: [u32; 2] = [16, 8];
/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;

impl Share {
    /// Partition that fits into the device's workgroup memory.
    fn new(p: &Problem, caps: &Caps) -> Share {
        let new = |[across, down]: [u32; 2], buffers, pad| {
            let columns = p["d"].div_ceil(4 * u64::from(across)) as u32;
            let depth = p.tuned(caps, "flash", &DEPTH);
            let share = Share { across, down, columns, depth, values: 1, buffers, pad };
            // Keys of V that fit into the stage.
            let values = (share.of_scores() / (across * columns)).clamp(1, 4 * across);
            Share { values: 1 << values.ilog2(), ..share }
        };
        let workgroups = p["b"] * p["h"] * p["s"].div_ceil(4 * u64::from(LONG[1]));
        let threads = if workgroups < caps.compute_units.map_or(UNITS, u64::from) { SHORT } else { LONG };
        let choices = [new(threads, 2, 1), new(threads, 1, 1)];
        // With the default depth the last choice fits into the portable 16 KiB.
        choices
            .into_iter()
            .find(|share| share.bytes(caps.dialect) <= caps.shared_bytes)
            .unwrap_or_else(|| new(LONG, 1, 0))
    }

    /// Vectors of Q and K that are staged at a time.
    fn of_scores(&self) -> u32 {
        self.depth * (self.down + self.across + 2 * self.pad)
    }

    /// Bytes of workgroup memory: weights, the stage, and the exchange of row values between threads. CUDA exchanges them
    /// otherwise.
    fn bytes(&self, dialect: Dialect) -> u32 {
        let weights = 4 * self.across * (self.down + 2 * self.pad);
        let stage = self.of_scores().max(self.values * self.across * self.columns);
        let told = if dialect == Dialect::Cuda { 0 } else { self.across * self.down };
        16 * (weights + self.buffers * stage + told)
    }

    fn stage(&self, p: &Problem, dialect: Dialect) -> Stage {
        let consts = [
            ("THREADS_N", self.across),
            ("THREADS_M", self.down),
            ("COLUMNS", self.columns),
            ("DEPTH", self.depth),
            ("VALUES", self.values),
            ("STAGES", self.buffers),
            ("PAD", self.pad),
        ];
        stage(p, "attention/flash", "attention_flash")
            .consts(&consts)
            .threads([self.across * self.down, 1, 1])
            .grid(spread(p["b"] * p["h"] * p["s"].div_ceil(4 * u64::from(self.down))))
            .shared(self.bytes(dialect))
    }
}

pub(super) fn cube(p: &Problem, caps: &Caps) -> Program {
    let numbers = [("S", p["s"]), ("T", p["t"]), ("D", p["d"]), ("HEADS", p["b"] * p["h"]), ("GROUP", group(p))];
    // Score rows padded by one, the stage for queries and keys, one number per thread, and one per query.
    let shared = 4 * (64 * 33 + (64 + 32) * 16 + 256 + 64);
    let stage = Stage::cube("cube_attention")
        .consts(&numbers.map(|(name, value)| (name, value as u32)))
        .consts(&[("CAUSAL", p.shape.has("causal"))])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([256, 1, 1])
        .grid(spread(p["b"] * p["h"] * p["s"].div_ceil(64)))
        .cube_shared(shared, caps)
        .cost(cost_of_one_stage(p));
    looking(p, Looks::Both, stage).into()
}
