//! Programs of the forward direction.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Gemm, Problem, Program, RowProducts, Stage, spread};
use parallax_schema::case::{Cost, DType, Direction};
use parallax_schema::device::Caps;

use super::{cost, gemm, sizes};
use crate::inner::SubOp;

/// Rows and columns of a tile on CUDA cores and in WGSL, as in the kernel sources.
pub(super) const TILE: u64 = 64;
/// Bytes of workgroup memory of WGSL: two tiles of 16 terms, and the reduction over the threads of four rows.
pub(super) const TILE_BYTES: u32 = 2 * 64 * 16 * 4;
const REDUCTION_BYTES: u32 = 2 * 256 * 4;
/// Threads of a workgroup, and those of them that share a row of a tile.
pub(super) const THREADS: u32 = 256;
const LANES: u32 = 16;
/// Columns of a part on tensor cores by warp-wide instructions.
const WARP_COLUMNS: u64 = 64;
/// Threads that share the parts of a row.
const DOWN: u32 = 8;
/// Most multiply-adds of the plainest kernel: seconds on a large GPU.
const MOST_NAIVE: u64 = 1 << 38;

/// Scratch of fused variants: parts of rows, and the logits of targets.
pub(super) fn parts(p: &Problem) -> [BufferSpec; 2] {
    let (n, v) = (p["n"], p["v"]);
    [BufferSpec::scratch("parts", Elem::F32, &[v.div_ceil(TILE), n, 2]), BufferSpec::scratch("picked", Elem::F32, &[n])]
}

/// Scratch of separate variants.
pub(super) fn stored_logits(p: &Problem) -> [BufferSpec; 3] {
    let (n, v) = (p["n"], p["v"]);
    [
        BufferSpec::scratch("logits", Elem::F32, &[n, v]),
        // Targets and losses of `cross_entropy`, which has no ignored ones.
        BufferSpec::scratch("first_class", Elem::U32, &[n]),
        BufferSpec::scratch("first_loss", Elem::F32, &[n, 1]),
    ]
}

/// Adds the extents, and the number of parts of a row.
pub(super) fn with_extents(stage: Stage, p: &Problem, parts: u64) -> Stage {
    let consts = [("ROWS", p["n"]), ("CLASSES", p["v"]), ("DEPTH", p["d"]), ("PARTS", parts)];
    stage.consts(&consts.map(|(name, value)| (name, value as u32)))
}

/// Checks that a row of threads for each logit ends within seconds.
///
/// # Errors
/// Number of multiply-adds that is too large.
pub(super) fn naive_available(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match p["n"] * p["v"] * p["d"] {
        few if few <= MOST_NAIVE => Ok(()),
        _ => Err(format!("it takes many seconds beyond {MOST_NAIVE} multiply-adds")),
    }
}

pub(super) fn naive(p: &Problem, _caps: &Caps) -> Program {
    let name = "linear_cross_entropy_naive";
    let stage = Stage::kernel(name, "linear_cross_entropy/naive", name)
        .consts(&[("ROW_THREADS", THREADS)])
        .threads([THREADS, 1, 1])
        .grid(spread(p["n"]))
        .shared(4 * THREADS)
        .args([("x", Read), ("w", Read), ("targets", Read), ("loss", Write), ("lse", Write)])
        .cost(cost(p));
    with_extents(stage, p, 1).into()
}

/// Stage by tiles on CUDA cores or in WGSL.
fn tiles(p: &Problem, entry: &'static str, parts: u64) -> Stage {
    let stage = Stage::kernel(entry, "linear_cross_entropy/logits", entry)
        .consts(&[("THREADS", THREADS), ("LANES", LANES)])
        .consts(&[("LEFT_ALONG", true), ("RIGHT_ALONG", true)])
        .threads([THREADS, 1, 1])
        .grid(spread(p["n"].div_ceil(TILE) * p["v"].div_ceil(TILE)));
    with_extents(stage, p, parts)
}

/// Cost of the stage that stores logits.
fn cost_of_logits(p: &Problem) -> Cost {
    let [x, w, _] = sizes(p);
    Cost::new(gemm(p).flops(), x + w, 4 * p["n"] * p["v"])
}

/// Cost of the stage that stores this number of parts of each row.
fn cost_of_parts(p: &Problem, parts: u64) -> Cost {
    let [x, w, of_rows] = sizes(p);
    Cost::new(gemm(p).flops(), x + w + of_rows, (2 * parts + 1) * of_rows)
}

/// Program with stored logits, computed by the given stage.
fn stored(p: &Problem, caps: &Caps, make: Stage) -> Program {
    let [.., of_rows] = sizes(p);
    let shape = format!("r{},c{}", p["n"], p["v"]);
    let inner = SubOp::new("cross_entropy", Direction::Fwd, &shape, DType::F32);
    let buffers = [("targets", "first_class"), ("loss", "first_loss")];
    let rows = inner.stages(inner.best(&["row", "online"], caps), caps, &buffers);
    let name = "linear_cross_entropy_pick";
    let pick = Stage::kernel(name, "linear_cross_entropy/pick", name)
        .consts(&[("ROWS", p["n"] as u32), ("CLASSES", p["v"] as u32), ("ROW_THREADS", THREADS)])
        .threads([THREADS, 1, 1])
        .grid(spread(p["n"].div_ceil(u64::from(THREADS))))
        .args([("logits", Read), ("lse", Read), ("targets", Read), ("loss", Write)])
        .cost(Cost::new(p["n"], 3 * of_rows, of_rows));
    let before = [make.label("logits").cost(cost_of_logits(p)), Stage::fill("first_class", "first_class", 0)];
    let rows = rows.into_iter().map(|stage| stage.elem(DType::F32));
    Program { stages: before.into_iter().chain(rows).chain([pick]).collect() }
}

/// Arguments of the stages that store logits.
const STORED: [(&str, parallax_ir::Access); 3] = [("x", Read), ("w", Read), ("logits", Write)];

pub(super) fn separate(p: &Problem, caps: &Caps) -> Program {
    stored(p, caps, tiles(p, "linear_cross_entropy_logits", 1).shared(TILE_BYTES).args(STORED))
}

/// Checks that a device can multiply by warp-wide instructions.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(p.dtype, caps)
}

fn mma(p: &Problem, entry: &'static str) -> Stage {
    with_extents(gemm(p).mma("linear_cross_entropy/mma", entry), p, p["v"].div_ceil(WARP_COLUMNS))
}

pub(super) fn separate_mma(p: &Problem, caps: &Caps) -> Program {
    stored(p, caps, mma(p, "linear_cross_entropy_mma_logits").args(STORED))
}

/// Checks that a device can store the logits in f32 by warpgroups.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn separate_wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    let gemm = gemm(p);
    gemm.wgmma_available(p.dtype, caps)?;
    match gemm.parts_of_k() {
        1 => Ok(()),
        parts => Err(format!("few logits: their sums would be stored in {parts} parts")),
    }
}

pub(super) fn separate_wgmma(p: &Problem, caps: &Caps) -> Program {
    stored(p, caps, gemm(p).wgmma_parts(caps, "matmul/wgmma", "matmul_wgmma_parts", ["x", "w", "logits"]))
}

/// Stage that joins the parts of each row.
fn combine(p: &Problem, parts: u64) -> Stage {
    let [.., of_rows] = sizes(p);
    let name = "linear_cross_entropy_combine";
    let stage = Stage::kernel(name, "linear_cross_entropy/combine", name)
        .consts(&[("DOWN", DOWN)])
        .threads([32, DOWN, 1])
        .grid(spread(p["n"].div_ceil(32)))
        .shared(32 * DOWN * 8)
        .args([("parts", Read), ("picked", Read), ("targets", Read), ("loss", Write), ("lse", Write)])
        .cost(Cost::new(4 * p["n"] * parts, (2 * parts + 2) * of_rows, 2 * of_rows));
    with_extents(stage, p, parts)
}

/// Program whose first stage, the given one, stores this number of parts of each row.
fn in_parts(p: &Problem, parts: u64, make: Stage, [x, w]: [Arg; 2]) -> Program {
    let rest = [("targets", Read), ("parts", Write), ("picked", Write)].map(Arg::from);
    let make = make.args([x, w].into_iter().chain(rest)).label("parts").cost(cost_of_parts(p, parts));
    Program { stages: vec![make, combine(p, parts)] }
}

/// X and W by their addresses.
fn operands() -> [Arg; 2] {
    ["x", "w"].map(|name| Arg::from((name, Read)))
}

pub(super) fn fused(p: &Problem, _caps: &Caps) -> Program {
    let parts = p["v"].div_ceil(TILE);
    let make = tiles(p, "linear_cross_entropy_parts", parts).shared(TILE_BYTES + REDUCTION_BYTES);
    in_parts(p, parts, make, operands())
}

pub(super) fn fused_mma(p: &Problem, _caps: &Caps) -> Program {
    in_parts(p, p["v"].div_ceil(WARP_COLUMNS), mma(p, "linear_cross_entropy_mma"), operands())
}

/// Products of all rows of X with all rows of W.
pub(super) fn row_products(p: &Problem) -> RowProducts {
    RowProducts::new([p["n"], p["v"]], p["d"], Elem::Real.storage(p.dtype))
}

/// Checks that a device can multiply by warpgroups.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn fused_wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    mma_available(p, caps)?;
    row_products(p).available(caps)
}

pub(super) fn fused_wgmma(p: &Problem, caps: &Caps) -> Program {
    let of = row_products(p);
    let parts = p["v"].div_ceil(of.columns(caps));
    let make = with_extents(of.stage(caps, "linear_cross_entropy/wgmma", "linear_cross_entropy_wgmma"), p, parts);
    let [x, w] = of.operands(caps);
    in_parts(p, parts, make, [Arg::from(("x", Read)).mapped(x), Arg::from(("w", Read)).mapped(w)])
}
