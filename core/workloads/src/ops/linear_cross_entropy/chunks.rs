//! Programs of the backward direction: slopes of a chunk of classes, and their products with W and X.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Gemm, Layout, Problem, Program, RowProducts, Stage, Tiles, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::stages::{THREADS, TILE, TILE_BYTES, mma_available, row_products, with_extents};
use super::{gemm, sizes};

/// Most chunks of classes, and the number of classes that divides all but the last.
const MOST: u64 = 8;
const MULTIPLE: u64 = 256;

/// Some neighbouring classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) width: u64,
}

/// Classes of a chunk, but for the last one.
fn widest(p: &Problem) -> u64 {
    p["v"].div_ceil(MOST).next_multiple_of(MULTIPLE).min(p["v"])
}

/// All chunks.
pub(super) fn all(p: &Problem) -> Vec<Chunk> {
    let (v, widest) = (p["v"], widest(p));
    (0..v).step_by(widest as usize).map(|first| Chunk { first, width: widest.min(v - first) }).collect()
}

fn whole(p: &Problem) -> Chunk {
    Chunk { first: 0, width: p["v"] }
}

impl Chunk {
    fn is_last(self, p: &Problem) -> bool {
        self.first + self.width == p["v"]
    }

    /// Operations of one GEMM of this chunk.
    fn flops(self, p: &Problem) -> u64 {
        2 * p["n"] * p["d"] * self.width
    }

    /// Bytes of its rows of W, and of its slopes of `element` bytes.
    fn bytes(self, p: &Problem, element: u64) -> [u64; 2] {
        [self.width * p["d"] * Elem::Real.storage(p.dtype).bytes(), self.width * p["n"] * element]
    }

    /// Cost of its slopes.
    fn cost_of_slopes(self, p: &Problem, element: u64) -> Cost {
        let ([x, _, of_rows], [w, slopes]) = (sizes(p), self.bytes(p, element));
        Cost::new(self.flops(p), x + w + 3 * of_rows, slopes)
    }

    /// Cost of its part of the gradient of X, with sums in f32 between chunks.
    fn cost_of_dx(self, p: &Problem, element: u64) -> Cost {
        let ([x, ..], [w, slopes], sums) = (sizes(p), self.bytes(p, element), 4 * p["n"] * p["d"]);
        let read = if self.first > 0 { sums } else { 0 };
        Cost::new(self.flops(p), w + slopes + read, if self.is_last(p) { x } else { sums })
    }

    /// Cost of its rows of the gradient of W.
    fn cost_of_dw(self, p: &Problem, element: u64) -> Cost {
        let ([x, ..], [w, slopes]) = (sizes(p), self.bytes(p, element));
        Cost::new(self.flops(p), x + slopes, w)
    }

    fn gemm_of_dx(self, p: &Problem) -> Gemm {
        Gemm::new(p["n"], p["d"], self.width)
    }

    fn gemm_of_dw(self, p: &Problem) -> Gemm {
        Gemm::new(self.width, p["d"], p["n"]).layout(Layout::Tn)
    }

    fn label(self, of: &str, p: &Problem) -> String {
        match self == whole(p) {
            true => of.to_owned(),
            false => format!("{of} {}", self.first),
        }
    }
}

/// Scratch of the backward direction: slopes of all classes or of a chunk, in f32 and in the element type, and the gradient of X.
pub(super) fn scratch(p: &Problem) -> [BufferSpec; 5] {
    let (n, v, widest) = (p["n"], p["v"], widest(p));
    [
        BufferSpec::scratch("slopes", Elem::F32, &[n, v]),
        BufferSpec::scratch("slopes_of_chunk", Elem::F32, &[n, widest]),
        BufferSpec::scratch("dlogits", Elem::Real, &[n, v]),
        BufferSpec::scratch("dlogits_of_chunk", Elem::Real, &[n, widest]),
        BufferSpec::scratch("dx_sums", Elem::F32, &[n, p["d"]]),
    ]
}

/// Arguments of a stage that computes slopes.
fn of_slopes(to: &'static str) -> impl Iterator<Item = Arg> {
    let read = ["x", "w", "targets", "lse", "dloss"].map(|name| Arg::from((name, Read)));
    read.into_iter().chain([Arg::from(("slopes", to, Write))])
}

pub(super) fn naive(p: &Problem, _caps: &Caps) -> Program {
    let (all, text) = (whole(p), "linear_cross_entropy/naive_backward");
    let stage = |entry: &'static str, groups: u64| {
        let stage = Stage::kernel(entry, text, entry).consts(&[("ROW_THREADS", THREADS), ("FIRST", 0)]);
        with_extents(stage.threads([THREADS, 1, 1]).grid(spread(groups)), p, 1)
    };
    let slopes = stage("linear_cross_entropy_naive_slopes", p["n"]).consts(&[("BY_COLUMNS", false)]);
    let gradient = |rows: u64, by_columns: bool, other: &'static str, to: &'static str| {
        stage("linear_cross_entropy_naive_gradient", (rows * p["d"]).div_ceil(u64::from(THREADS)))
            .consts(&[("BY_COLUMNS", by_columns)])
            .args([("all_slopes", "slopes", Read), ("other", other, Read), ("gradient", to, Write)])
            .label(to)
    };
    Program {
        stages: vec![
            slopes.args(of_slopes("slopes")).label("slopes").cost(all.cost_of_slopes(p, 4)),
            gradient(p["n"], false, "w", "dx").cost(all.cost_of_dx(p, 4)),
            gradient(p["v"], true, "x", "dw").cost(all.cost_of_dw(p, 4)),
        ],
    }
}

/// Stages of WGSL for a chunk, with its slopes in this buffer.
fn in_wgsl(p: &Problem, chunk: Chunk, slopes: &'static str) -> [Stage; 3] {
    let Chunk { first, width } = chunk;
    let stage = |entry: &'static str, text: &'static str, [rows, columns]: [u64; 2], consts: &[(&'static str, u64)]| {
        Stage::kernel(entry, text, entry)
            .consts(&consts.iter().map(|(name, value)| (*name, *value as u32)).collect::<Vec<_>>())
            .consts(&[("THREADS", THREADS), ("WIDTH", width as u32)])
            .threads([THREADS, 1, 1])
            .grid(spread(rows.div_ceil(TILE) * columns.div_ceil(TILE)))
            .shared(TILE_BYTES)
    };
    let (n, d) = (p["n"], p["d"]);
    let consts = [("ROWS", n), ("CLASSES", p["v"]), ("DEPTH", d), ("FIRST", first)];
    let make = stage("linear_cross_entropy_slopes", "linear_cross_entropy/slopes", [n, width], &consts)
        .consts(&[("LEFT_ALONG", true), ("RIGHT_ALONG", true)])
        .args(of_slopes(slopes));
    let gradient = |entry, [rows, terms, from, to]: [u64; 4], by_columns: bool| {
        let consts = [("LINES", rows), ("LENGTH", d), ("DEPTH", terms), ("FROM", from), ("TO", to)];
        stage(entry, "linear_cross_entropy/gradients", [rows, d], &consts).consts(&[
            ("BY_COLUMNS", by_columns),
            ("LEFT_ALONG", !by_columns),
            ("RIGHT_ALONG", false),
        ])
    };
    let args = |other: &'static str, to: &'static str| {
        [("slopes", slopes, Read), ("other", other, Read), ("gradient", to, Write)].map(Arg::from)
    };
    let [plain, added] = ["linear_cross_entropy_gradient", "linear_cross_entropy_dx"];
    let dx = match chunk == whole(p) {
        true => gradient(plain, [n, width, 0, 0], false).args(args("w", "dx")),
        false => gradient(added, [n, width, first, 0], false)
            .args(args("w", "dx").into_iter().chain([Arg::from(("sums", "dx_sums", Write))])),
    };
    let dw = gradient(plain, [width, n, 0, first], true).args(args("x", "dw"));
    labelled(p, chunk, 4, [make, dx, dw])
}

/// Adds labels and costs to the stages of a chunk whose slopes have `element` bytes.
fn labelled(p: &Problem, chunk: Chunk, element: u64, [make, dx, dw]: [Stage; 3]) -> [Stage; 3] {
    [
        make.label(chunk.label("slopes", p)).cost(chunk.cost_of_slopes(p, element)),
        dx.label(chunk.label("dx", p)).cost(chunk.cost_of_dx(p, element)),
        dw.label(chunk.label("dw", p)).cost(chunk.cost_of_dw(p, element)),
    ]
}

/// GEMM kernels of CUDA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tiled,
    Mma,
}

impl Kind {
    /// Stage of an entry point for slopes, for the gradient of X (1) or for that of W (2).
    fn stage(self, caps: &Caps, gemm: Gemm, entry: usize) -> Stage {
        match self {
            Kind::Tiled => {
                let entries = [
                    "linear_cross_entropy_tiled_dlogits",
                    "linear_cross_entropy_tiled_dx",
                    "linear_cross_entropy_tiled_dw",
                ];
                gemm.tiled_then(caps, Tiles::DEFAULT, "linear_cross_entropy/gradients_tiled", entries[entry], false)
            }
            Kind::Mma => {
                let entries =
                    ["linear_cross_entropy_mma_dlogits", "linear_cross_entropy_mma_dx", "linear_cross_entropy_mma_dw"];
                gemm.mma("linear_cross_entropy/gradients_mma", entries[entry])
            }
        }
    }
}

/// Stages of CUDA for a chunk, with its slopes in this buffer.
fn in_cuda(p: &Problem, caps: &Caps, kind: Kind, chunk: Chunk, slopes: &'static str) -> [Stage; 3] {
    let Chunk { first, width } = chunk;
    let stage = |gemm: Gemm, entry: usize| {
        kind.stage(caps, gemm, entry)
            .consts(&[("FIRST", first as u32), ("CLASSES", p["v"] as u32)])
            .consts(&[("LAST", chunk.is_last(p))])
    };
    let row = ["targets", "lse", "dloss"].map(|name| Arg::from((name, Read)));
    let operands = |a: &'static str, b: &'static str| [Arg::from(("a", a, Read)), Arg::from(("b", b, Read))];
    let to = |buffer: &'static str| [Arg::from(("c", buffer, Write))];
    let make = stage(Gemm::new(p["n"], width, p["d"]).layout(Layout::Nt), 0)
        .args(operands("x", "w").into_iter().chain(row).chain(to(slopes)));
    let sums = [Arg::from(("sums", "dx_sums", Write))];
    let dx = stage(chunk.gemm_of_dx(p), 1).args(operands(slopes, "w").into_iter().chain(sums).chain(to("dx")));
    let dw = stage(chunk.gemm_of_dw(p), 2).args(operands(slopes, "x").into_iter().chain(to("dw")));
    labelled(p, chunk, Elem::Real.storage(p.dtype).bytes(), [make, dx, dw])
}

/// Program of these chunks, with slopes in one of two buffers: for f32, and for the element type.
fn program(p: &Problem, caps: &Caps, kind: Kind, chunks: &[Chunk], [f32s, elements]: [&'static str; 2]) -> Program {
    let stages = |chunk: &Chunk| match caps.dialect {
        Dialect::Cuda => in_cuda(p, caps, kind, *chunk, elements),
        _ => in_wgsl(p, *chunk, f32s),
    };
    Program { stages: chunks.iter().flat_map(stages).collect() }
}

/// Buffers of slopes of all classes, and of a chunk.
const OF_ALL: [&str; 2] = ["slopes", "dlogits"];
const OF_CHUNK: [&str; 2] = ["slopes_of_chunk", "dlogits_of_chunk"];

pub(super) fn separate(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Kind::Tiled, &[whole(p)], OF_ALL)
}

pub(super) fn separate_mma(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Kind::Mma, &[whole(p)], OF_ALL)
}

pub(super) fn fused(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Kind::Tiled, &all(p), OF_CHUNK)
}

pub(super) fn fused_mma(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Kind::Mma, &all(p), OF_CHUNK)
}

/// Checks that a device can compute slopes and both gradients by warpgroups.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn wgmma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    mma_available(p, caps)?;
    row_products(p).stores_available(Elem::Real.storage(p.dtype), caps)?;
    [whole(p).gemm_of_dx(p), whole(p).gemm_of_dw(p), gemm(p)]
        .iter()
        .try_for_each(|gemm| gemm.wgmma_available(p.dtype, caps))
}

/// Stage of the slopes of all classes by warpgroups.
fn slopes_by_warpgroups(p: &Problem, caps: &Caps, of: &RowProducts, to: &'static str) -> Stage {
    let [x, w] = of.operands(caps);
    let row = ["targets", "lse", "dloss"].map(|name| Arg::from((name, Read)));
    let operands = [Arg::from(("x", Read)).mapped(x), Arg::from(("w", Read)).mapped(w)];
    let results = Arg::from(("dlogits", to, Write)).mapped(of.results(Elem::Real.storage(p.dtype)));
    of.stage(caps, "linear_cross_entropy/wgmma_backward", "linear_cross_entropy_wgmma_dlogits")
        .consts(&[("FIRST", 0), ("CLASSES", p["v"] as u32)])
        .args(operands.into_iter().chain(row).chain([results]))
}

pub(super) fn separate_wgmma(p: &Problem, caps: &Caps) -> Program {
    let (all, to) = (whole(p), "dlogits");
    let product = |gemm: Gemm, buffers| gemm.wgmma(caps, "matmul/wgmma", "matmul_wgmma", buffers, [], &[]);
    let stages = [
        slopes_by_warpgroups(p, caps, &row_products(p), to),
        product(all.gemm_of_dx(p), [to, "w", "dx"]),
        product(all.gemm_of_dw(p), [to, "x", "dw"]),
    ];
    Program { stages: labelled(p, all, Elem::Real.storage(p.dtype).bytes(), stages).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn chunks_have_every_class_once() {
        for (v, count, first) in
            [(1, 1, 1), (256, 1, 256), (257, 2, 256), (1304, 6, 256), (32_000, 8, 4096), (128_256, 8, 16_128)]
        {
            let case = format!("linear_cross_entropy/bwd/n2,d8,v{v}/f32/fused");
            let chunks = all(&parse_case(&case).expect("valid").problem);
            assert_eq!((chunks.len(), chunks[0].width), (count, first), "{v}");
            assert_eq!(chunks.iter().map(|chunk| chunk.width).sum::<u64>(), v);
            assert!(chunks.windows(2).all(|two| two[0].first + two[0].width == two[1].first));
        }
    }
}
