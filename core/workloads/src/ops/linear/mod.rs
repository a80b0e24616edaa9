//! Linear layer with bias and optional epilogue: `out = x·w + bias`, its GELU, or its GELU added to a residual.
//!
//! `x` is `[b, m, k]`, `w` `[b, k, n]`, `bias` `[n]`, `residual` and `out` `[b, m, n]`. All are dense and row-major. With `nt` the
//! weights are stored as `[b, n, k]`, as in PyTorch's `Linear`. With `tn` the inputs are stored as `[b, k, m]`. GELU uses the tanh
//! formula of the workload `gelu`.
//!
//! Operations: `2·b·m·n·k`, those of the GEMM. Sums are kept in f32 for every element type. A fused epilogue is computed in f32
//! before the only rounding.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Gemm, HostBuffer, Inputs, Layout, LibraryEpilogue, OfNan, OpSpec, Problem, Program,
    Reference, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use self::stages::{Epilogue, GemmKind, Stages, few_rows_in_parts, few_rows_scratch};
use super::add_layernorm;
use super::gelu::gelu_tanh;
use crate::dense;
use crate::vector;

pub(super) mod backward;
pub(super) mod stages;

const X: usize = 0;
const W: usize = 1;
const BIAS: usize = 2;
const RESIDUAL: usize = 3;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "product with bias, and optionally GELU or a residual",
        axes: const {
            &[
                Axis::optional("b", "batch", 1, 1),
                Axis::extent("m", "rows"),
                Axis::extent("n", "outputs"),
                Axis::extent("k", "inputs"),
                Axis::word(
                    "stored",
                    "whose columns lie one after the other: the weights' or the inputs'",
                    &["", "nt", "tn"],
                ),
                Axis::word("then", "epilogue after the bias", &["", "gelu", "residual"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| gemm_of(shape).elements().into_iter().try_for_each(indexable),
        forms: vec![forward(), backward::form()],
    }
}

fn gemm_of(shape: &Shape) -> Gemm {
    let layout = match (shape.has("nt"), shape.has("tn")) {
        (true, _) => Layout::Nt,
        (_, true) => Layout::Tn,
        _ => Layout::Nn,
    };
    Gemm::new(shape["m"], shape["n"], shape["k"]).batch(shape["b"]).layout(layout)
}

fn gemm(p: &Problem) -> Gemm {
    gemm_of(&p.shape)
}

/// Shapes that cross the edges of all tiles, in each layout and with each epilogue. The last two are enough for large tiles if the
/// number of multiprocessors is unknown.
const AWKWARD: &[&str] = &[
    "m1,n1,k1",
    "b3,m5,n3,k7,gelu",
    "m65,n67,k33",
    "m131,n72,k40,nt,residual",
    "b2,m66,n200,k17,nt,gelu",
    "m136,n130,k72,tn",
    "b2,m33,n8,k65,tn,residual",
    // Rows of all three matrices are whole vectors, in a batch.
    "b3,m200,n72,k136,gelu",
    "b2,m72,n136,k200,tn",
    // Few rows: depths and rows of weights of whole vectors, of parts of them, and of single elements; several steps of each warp.
    "m1,n65,k4104,nt",
    "m3,n33,k260,nt,gelu",
    "b2,m16,n40,k520,nt,residual",
    "m7,n20,k66,nt",
    "b2,m2,n100,k300,gelu",
    "m12,n48,k1032,residual",
    "m17,n32,k64,nt",
    // Few rows, and a depth in parts.
    "m24,n72,k2056,nt,residual",
    "m9,n136,k2248,gelu",
    "m1409,n1283,k3,nt",
    "m1416,n1288,k8,tn,gelu",
    // Rows enough for a gradient of the weights in parts.
    "m4104,n72,k40",
];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Flops,
        buffers,
        cost,
        |p, output| tolerance(p, output, Sizes::seeded(p)),
        Reference::new(
            |p, _| p["n"] * p["k"],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::MIXED,
    )
    .headline("m512,n1024,k1024,nt,gelu")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel(
            "naive",
            "two stages: a product with one element per thread, straight from device memory, and the epilogue",
            |p, caps| apart(p, caps, GemmKind::Elements),
        ),
        Variant::kernel("separate", "two stages: a product by tiles in workgroup memory, and the epilogue", |p, caps| {
            apart(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel("tiled", "one stage: the epilogue works on sums in registers", |p, caps| {
            fused(p, caps, GemmKind::Tiles)
        }),
        Variant::kernel(
            "rows",
            "one stage for few rows: vectors of weights are read once, their depth is shared by the threads of a workgroup",
            |p, caps| {
                let entries = ["linear_rows_bias", "linear_rows_gelu", "linear_rows_residual"];
                with_epilogue(p, entries, |entry| gemm(p).rows(p.dtype, caps, "linear/rows", entry))
            },
        )
        .available(|p, _| gemm(p).rows_available()),
        Variant::kernel(
            "rows_mma",
            "the same on tensor cores: vectors of weights go from device memory to registers as the left factor",
            |p, caps| {
                let entries = ["linear_rows_mma_bias", "linear_rows_mma_gelu", "linear_rows_mma_residual"];
                with_epilogue(p, entries, |entry| gemm(p).rows_mma(caps, "linear/rows_mma", entry))
            },
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| gemm(p).rows_mma_available(p.dtype, caps)),
        Variant::kernel("mma", "`tiled` on tensor cores by warp-wide instructions", |p, caps| fused(p, caps, GemmKind::Mma))
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| Gemm::mma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma",
            "the same on tensor cores by four warps together; the copy engine loads and stores tiles",
            |p, caps| fused(p, caps, GemmKind::Wgmma),
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| gemm(p).wgmma_available(p.dtype, caps)),
        Variant::kernel(
            "wgmma_parts",
            "up to 64 rows: `wgmma` on parts of the depth with sums in f32, and a stage that adds them before the epilogue",
            |p, caps| Program {
                stages: stages(p, caps, GemmKind::Wgmma)
                    .in_parts_then(gemm(p), epilogue(p), ["x", "w", "out"], taken(p)),
            },
        )
        .only_in(&[Dialect::Cuda])
        .available(|p, caps| few_rows_in_parts(gemm(p), p.dtype, caps)),
        Variant::kernel("coopmat", "`tiled` on matrix units through WGSL's cooperative matrices", |p, caps| {
            fused(p, caps, GemmKind::Coopmat)
        })
        .only_in(&[Dialect::Wgsl])
        .available(|p, caps| Gemm::coopmat_available(p.dtype, caps)),
        Variant::kernel(
            "vendor",
            "the vendor's library, cuBLASLt, with its own epilogue; it has none for the residual, which is a stage of ours",
            vendor,
        )
        .only_in(&[Dialect::Cuda]),
    ])
    // Without `vendor`: a time of the library must not come from another kernel.
    .fallback(&["rows_mma", "rows", "wgmma_parts", "coopmat", "wgmma", "mma", "tiled", "separate", "naive"])
    .stress(stress_inputs())
}

/// Shapes of a preset. The second and third are of a vision transformer's MLP: 1152 wide, 4304 in the middle.
/// The last are projections of language models for few tokens.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "m512,n1024,k1024,nt,gelu",
            "m4096,n4304,k1152,gelu",
            "m4096,n1152,k4304,residual",
            "m4096,n4096,k4096,nt",
            "m1,n4096,k4096,nt",
            "m8,n14336,k4096,nt",
        ],
        _ => &[
            "m512,n1024,k1024,nt,gelu",
            "m65536,n4304,k1152,gelu",
            "m65536,n1152,k4304,residual",
            "m8192,n8192,k8192",
            "m8192,n8192,k8192,nt,gelu",
            "b16,m2048,n2048,k2048,tn",
            "m1,n4096,k4096,nt",
            "m1,n14336,k4096,nt",
            "m1,n14336,k4096",
            "m4,n14336,k4096,nt",
            "m8,n14336,k4096,nt",
            "m8,n14336,k4096",
            "m16,n14336,k4096,nt",
            "m64,n14336,k4096,nt",
            "m64,n4096,k14336,nt",
        ],
    }
}

/// Weight scaled so that sums over normal inputs have about the magnitude of the inputs.
fn weight(shape: &Shape, draw: Draw) -> f64 {
    draw.normal() / (shape["k"] as f64).sqrt()
}

/// Stored extents of `x`.
fn x_dims(p: &Problem) -> [u64; 3] {
    if p.shape.has("tn") { [p["b"], p["k"], p["m"]] } else { [p["b"], p["m"], p["k"]] }
}

/// Stored extents of `w`.
fn w_dims(p: &Problem) -> [u64; 3] {
    if p.shape.has("nt") { [p["b"], p["n"], p["k"]] } else { [p["b"], p["k"], p["n"]] }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let out = [p["b"], p["m"], p["n"]];
    let mut buffers = vec![
        BufferSpec::input("x", Elem::Real, &x_dims(p), normal),
        BufferSpec::input("w", Elem::Real, &w_dims(p), weight),
        BufferSpec::input("bias", Elem::Real, &[p["n"]], normal),
    ];
    if p.shape.has("residual") {
        buffers.push(BufferSpec::input("residual", Elem::Real, &out, normal));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &out));
    // GEMM result for a separate epilogue stage.
    buffers.push(BufferSpec::scratch("product", Elem::Real, &out));
    buffers.extend(few_rows_scratch(gemm(p), p.dtype));
    buffers
}

/// Bytes of x, of w, of the result, and of the bias.
fn sizes(p: &Problem) -> [u64; 4] {
    let [x, w, out] = gemm(p).elements();
    [x, w, out, p["n"]].map(|elements| elements * Elem::Real.storage(p.dtype).bytes())
}

fn cost(p: &Problem) -> Cost {
    let [x, w, out, bias] = sizes(p);
    let residual = if p.shape.has("residual") { out } else { 0 };
    Cost::new(gemm(p).flops(), x + w + bias + residual, out)
}

/// Bound of sums, and of their error.
#[derive(Clone, Copy)]
struct Sizes {
    largest: f64,
    error: f64,
}

impl Sizes {
    /// Bounds for normal inputs and weights that make sums of about one.
    fn seeded(p: &Problem) -> Sizes {
        let k = p["k"] as f64;
        Sizes { largest: 12.0, error: 8.0 * 2f64.powi(-24) * (k + 12.0 * k.sqrt()) }
    }
}

fn tolerance(p: &Problem, _output: usize, sizes: Sizes) -> Tolerance {
    let u = p.dtype.unit_roundoff();
    Tolerance {
        abs: 1.13 * (sizes.error + u * sizes.largest) + u * (sizes.largest + 4.0) + 2e-6 + smallest_normal(p),
        rel: 2.0 * u + 1e-5,
        reason: "k products are summed in f32: 8·√k·2^-24 times the sum of magnitudes holds for any order but with \
                 probability e^-32 (Higham and Mary 2019); the sum may be rounded to the element type before the bias, and \
                 again before the residual; GELU, of slope 1.13 at most, is off as in the workload of that name",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "zeros",
            "all zero: half-way down GELU's slope",
            |_| vec![("x", zero), ("bias", zero)],
            |p, output| tolerance(p, output, Sizes { largest: 0.0, error: 0.0 }),
        ),
        StressInput::new(
            "equal",
            "all one: the depth and one",
            |_| vec![("x", one), ("w", one), ("bias", one)],
            |p, output| tolerance(p, output, Sizes { largest: p["k"] as f64 + 1.0, error: 0.0 }),
        ),
        StressInput::new(
            "far",
            "sums far out on either side, where GELU is its argument or nothing",
            |_| vec![("x", |_, draw| 64.0 * draw.normal())],
            |p, output| {
                let seeded = Sizes::seeded(p);
                tolerance(p, output, Sizes { largest: 64.0 * seeded.largest, error: 64.0 * seeded.error })
            },
        ),
    ]
}

/// Returns the index function of element `(row, column)` of a batch of matrices with these extents, transposed if `transposed`. It
/// captures the extents, because a look-up by name per element is too slow.
fn at([_, rows, columns]: [u64; 3], transposed: bool) -> impl Fn(u64, u64, u64) -> u64 + Copy {
    move |batch, row, column| {
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        (batch * rows + row) * columns + column
    }
}

/// Index of element `(i, l)` of a batch's inputs.
fn x_at(p: &Problem) -> impl Fn(u64, u64, u64) -> u64 + Copy + use<> {
    at(x_dims(p), p.shape.has("tn"))
}

/// Index of element `(l, j)` of a batch's weights.
fn w_at(p: &Problem) -> impl Fn(u64, u64, u64) -> u64 + Copy + use<> {
    at(w_dims(p), p.shape.has("nt"))
}

/// Computes a row of `x·w + bias`; `row` counts through the batch.
fn biased(p: &Problem, inputs: &Inputs, bias: usize, row: u64, out: &mut [f64]) {
    let (batch, i) = (row / p["m"], row % p["m"]);
    for (out, j) in out.iter_mut().zip(0..) {
        *out = inputs.at(bias, j);
    }
    let (x_at, w_at) = (x_at(p), w_at(p));
    let x: Vec<f64> = (0..p["k"]).map(|l| inputs.at(X, x_at(batch, i, l))).collect();
    let add = |out: &mut f64, x: &f64, l, j| *out += x * inputs.at(W, w_at(batch, l, j));
    // Traverses the weights in their stored order, once per row. Each sum has the same order in both cases.
    match p.shape.has("nt") {
        true => out.iter_mut().zip(0..).for_each(|(out, j)| x.iter().zip(0..).for_each(|(x, l)| add(out, x, l, j))),
        false => x.iter().zip(0..).for_each(|(x, l)| out.iter_mut().zip(0..).for_each(|(out, j)| add(out, x, l, j))),
    }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    biased(p, inputs, BIAS, row, out);
    if p.shape.has("gelu") || p.shape.has("residual") {
        out.iter_mut().for_each(|out| *out = gelu_tanh(*out));
    }
    if p.shape.has("residual") {
        for (out, at) in out.iter_mut().zip(row * p["n"]..) {
            *out += inputs.at(RESIDUAL, at);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let n = p["n"] as usize;
    let out = &mut outputs[0];
    out.par_chunks_mut(n).for_each(|out| out.copy_from_slice(inputs[BIAS].f32()));
    dense::add_gemm(gemm(p), inputs[X].f32(), inputs[W].f32(), out);
    out.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        if p.shape.has("gelu") || p.shape.has("residual") {
            vector::replace(out, gelu_tanh);
        }
        if p.shape.has("residual") {
            vector::add(out, 1.0, &inputs[RESIDUAL].f32()[row * n..][..n]);
        }
    });
}

/// Epilogue of the problem.
fn epilogue(p: &Problem) -> Epilogue {
    match (p.shape.has("gelu"), p.shape.has("residual")) {
        (true, _) => Epilogue::Gelu,
        (_, true) => Epilogue::Residual,
        _ => Epilogue::Bias,
    }
}

/// Input buffers of the epilogue.
fn taken(p: &Problem) -> &'static [&'static str] {
    if p.shape.has("residual") { &["bias", "residual"] } else { &["bias"] }
}

fn stages<'a>(p: &Problem, caps: &'a Caps, kind: GemmKind) -> Stages<'a> {
    Stages { dtype: p.dtype, caps, kind }
}

/// Program with the GEMM and its epilogue in separate stages.
fn apart(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    let stages = stages(p, caps, kind);
    let rows = [p["b"] * p["m"], p["n"]];
    let gemm = stages.gemm(gemm(p), ["x", "w", "product"]);
    Program { stages: vec![gemm, stages.finish(rows, epilogue(p), ["product", "out"], taken(p))] }
}

fn fused(p: &Problem, caps: &Caps, kind: GemmKind) -> Program {
    stages(p, caps, kind).fused(gemm(p), epilogue(p), ["x", "w", "out"], taken(p)).into()
}

/// Program of one stage, whose entry point is that of the problem's epilogue: bias, GELU or residual.
fn with_epilogue(
    p: &Problem,
    [bias, gelu, residual]: [&'static str; 3],
    stage: impl Fn(&'static str) -> Stage,
) -> Program {
    let (name, entry) = match epilogue(p) {
        Epilogue::Gelu => ("gelu", gelu),
        Epilogue::Residual => ("residual", residual),
        _ => ("bias", bias),
    };
    let taken = taken(p).iter().map(|buffer| (*buffer, *buffer, Read));
    stage(entry)
        .consts(&[("EPILOGUE", name)])
        .args([("a", "x", Read), ("b", "w", Read), ("c", "out", Write)].into_iter().chain(taken))
        .cost(cost(p))
        .into()
}

fn vendor(p: &Problem, caps: &Caps) -> Program {
    let stages = stages(p, caps, GemmKind::Library);
    let gemm = gemm(p);
    let [.., elements] = gemm.elements();
    let library = |epilogue, to| stages.library(gemm, epilogue, ["x", "w", to], "bias");
    match epilogue(p) {
        Epilogue::Bias => library(LibraryEpilogue::Bias, "out").into(),
        Epilogue::Gelu => library(LibraryEpilogue::BiasGelu, "out").into(),
        _ => {
            let sum = add_layernorm::sum_stage(elements, p.dtype, caps, ["product", "residual", "out"]);
            Program { stages: vec![library(LibraryEpilogue::BiasGelu, "product"), sum] }
        }
    }
}
