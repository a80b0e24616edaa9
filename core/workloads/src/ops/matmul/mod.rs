//! Dense GEMM: `C = A·B`, A is `[m, k]`, B is `[k, n]`, C is `[m, n]`, all row-major.
//!
//! Operations: `2·m·n·k`, the usual count. Sums are kept in f32 for every element type.

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{nan_in_rows, smallest_normal, subnormal, wide};
use parallax_ir::{
    Axis, BufferSpec, Elem, Finds, Gemm, HostBuffer, Inputs, LibraryEpilogue, MatrixTiles, OfNan, OpSpec, Probe,
    Problem, Program, Reference, Stage, StressInput, Tiles, Tolerance, Tunable, Variant, Workload, normal, spread,
    width,
};
use parallax_schema::case::{Allowed, CPU_VARIANT, Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::{Bytes, Flops};

use super::linear::stages::{GemmKind, Stages, few_rows_in_parts, few_rows_scratch};
use crate::dense;
use crate::products::{equal, saturating, tolerance, zeros};

mod split;

const A: usize = 0;
const B: usize = 1;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[
            Probe {
                finds: Finds::Matrix,
                // Emulated devices have no matrix units.
                shape: |s| (!s.emulated).then(|| "m4096,n4096,k4096".to_owned()),
                variants: &["vendor", "wgmma", "mma", "coopmat"],
            },
            Probe {
                finds: Finds::Arithmetic,
                // The host uses a library with kernels for its vectors. These may be faster than loops that a compiler vectorises.
                shape: |s| s.emulated.then(|| "m1024,n1024,k1024".to_owned()),
                variants: &[CPU_VARIANT],
            },
        ],
        about: "dense matrix product",
        axes: const { &[Axis::extent("m", "rows"), Axis::extent("n", "columns"), Axis::extent("k", "depth")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |_| Ok(()),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Flops,
            buffers,
            cost,
            tolerance,
            Reference::new(
                row_cost,
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("m1024,n1024,k1024")
        .shapes(shapes)
        .awkward(&[
            "m1,n1,k1",
            "m5,n3,k7",
            "m16,n16,k16",
            "m65,n67,k33",
            "m1,n257,k31",
            "m131,n1,k17",
            "m129,n136,k40",
            "m200,n72,k136",
            // More than eight rows of tiles: the order of tiles has a second band, and a short last one.
            "m1160,n264,k8",
            // Few rows: depths and rows of B of whole vectors, of parts of them, and of single elements; several steps of each warp.
            "m1,n256,k1048",
            "m2,n33,k515",
            "m3,n40,k129",
            "m8,n100,k2052",
            "m16,n36,k260",
            "m17,n32,k64",
            // Few rows, and a depth in parts.
            "m24,n72,k2056",
            // Enough for tiles of 128 if the number of multiprocessors is unknown; ragged, and in whole vectors.
            "m1409,n1283,k3",
            "m1416,n1288,k8",
            // Tiles in parts of several blocks: more blocks than tiles, and a wave and a part.
            "m72,n264,k2056",
            "m1544,n2824,k136",
        ])
        .huge(&["m46344,n46344,k8"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one output element per thread, straight from device memory", naive),
            Variant::kernel(
                "tiled",
                "a workgroup stages tiles of A and B in workgroup memory; a thread keeps 16 or 64 sums in \
                 registers",
                tiled,
            )
            .tunables(&[DEPTH, LARGE_FROM]),
            Variant::kernel(
                "rows",
                "few rows of A: vectors of B are read once, its depth is shared by the threads of a workgroup",
                rows,
            )
            .available(|p, _| gemm(p).rows_available()),
            Variant::kernel(
                "rows_mma",
                "the same on tensor cores: vectors of B go from device memory to registers as the left factor",
                rows_mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| gemm(p).rows_mma_available(p.dtype, caps)),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions, tiles copied asynchronously two steps ahead",
                mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(mma_available),
            Variant::kernel(
                "wgmma",
                "tensor cores by four warps together; tiles are loaded and stored by the copy engine, in a ring across tiles",
                wgmma,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| gemm(p).wgmma_available(p.dtype, caps)),
            Variant::kernel(
                "stream",
                "the same with the steps of the last waves of tiles divided evenly among multiprocessors (stream-K); sums of parts \
                 pass through memory in f32; not by default",
                stream,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| gemm(p).wgmma_available(p.dtype, caps)),
            Variant::kernel(
                "wgmma_parts",
                "up to 64 rows of A: `wgmma` on parts of the depth with sums in f32, and a stage that adds them",
                wgmma_parts,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| few_rows_in_parts(gemm(p), p.dtype, caps)),
            Variant::kernel(
                "split_wgmma",
                "f32 on tensor cores: elements are sums of three bf16 pieces, and six products of pieces are added; not by default",
                split::split_wgmma,
            )
            .only_in(&[Dialect::Cuda])
            .available(split::available)
            // No unit of f32 multiplies, so its ceiling is none.
            .by_fewer(|_| f64::INFINITY),
            Variant::kernel(
                "coopmat",
                "matrix units through WGSL's cooperative matrices, an extension of native wgpu and of Chromium",
                coopmat,
            )
            .only_in(&[Dialect::Wgsl])
            .available(coopmat_available)
            .tunables(&[WIDE_FROM, SQUARE_BELOW]),
            Variant::kernel("vendor", "the vendor's library, cuBLASLt", vendor)
                .only_in(&[Dialect::Cuda]),
            Variant::cube(
                "one source in CubeCL: tiles of A and B in workgroup memory, 16 or 64 sums in a thread's registers, as in `tiled`",
                cube,
            ),
            Variant::cubek(
                "CubeK's own product, with the tiles, threads and instructions that it chooses for the device",
                cubek,
            ),
        ])
        // Without `vendor`: a time of the library must not come from another kernel.
        .fallback(&["rows_mma", "rows", "wgmma_parts", "coopmat", "wgmma", "mma", "tiled", "naive"])
        .stress(stress_inputs())],
    }
}

/// Shapes of a preset: large GEMMs, then projections of language models for few tokens.
fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m1024,n1024,k1024", "m4096,n4096,k4096", "m1,n4096,k4096", "m8,n14336,k4096"],
        // 2304 rows and columns are 162 tiles of 128 × 256: one wave and a quarter.
        _ => &[
            "m1024,n1024,k1024",
            "m4096,n4096,k4096",
            "m2304,n2304,k8192",
            "m1,n4096,k4096",
            "m1,n14336,k4096",
            "m4,n14336,k4096",
            "m8,n14336,k4096",
            "m16,n14336,k4096",
            "m64,n14336,k4096",
            "m64,n4096,k14336",
            "m8192,n8192,k8192",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, n, k) = (p["m"], p["n"], p["k"]);
    let mut buffers = vec![
        BufferSpec::input("a", Elem::Real, &[m, k], normal),
        BufferSpec::input("b", Elem::Real, &[k, n], normal),
        BufferSpec::output("c", Elem::Real, &[m, n]),
    ];
    buffers.extend(split::scratch(p));
    buffers.push(gemm(p).stream_parts("stream_parts"));
    buffers.extend(few_rows_scratch(gemm(p), p.dtype));
    buffers
}

fn cost(p: &Problem) -> Cost {
    let (m, n, k) = (p["m"], p["n"], p["k"]);
    let element = Elem::Real.storage(p.dtype).bytes();
    Cost { flops: Flops(2 * m * n * k), read: Bytes((m * k + k * n) * element), written: Bytes(m * n * element) }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "nan",
            "rows of A with NaN: so are those of the result",
            |_| vec![("a", |shape, draw| nan_in_rows(draw, shape["k"]))],
            tolerance,
        ),
        zeros(),
        equal(),
        saturating(),
        StressInput::new(
            "huge",
            "products of up to 1e36, whose sums stay within f32; f16 has no such numbers",
            |_| vec![("a", |_, draw| 1e18 * draw.uniform()), ("b", |_, draw| 1e18 * draw.uniform())],
            |p, _| Tolerance { abs: tolerance(p, 0).abs * 1e36, ..tolerance(p, 0) },
        )
        .applies(|p| wide(p) && p["k"] <= 256),
        StressInput::new(
            "subnormal",
            "one factor too small to be normal: the sum is small, or zero where the device flushes them",
            |p| vec![("a", subnormal(p))],
            |p, _| Tolerance {
                abs: (3.47 * p["k"] as f64 + 1.0) * smallest_normal(p),
                rel: 0.0,
                reason: "each product of at most 3.47 times such a number may be taken for zero, and so may the sum",
            },
        ),
    ]
}

fn row_cost(p: &Problem, _output: usize) -> u64 {
    p["n"] * p["k"]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (n, k) = (p["n"], p["k"]);
    out.fill(0.0);
    for depth in 0..k {
        let left = inputs.at(A, row * k + depth);
        for column in 0..n {
            out[column as usize] += left * inputs.at(B, depth * n + column);
        }
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    outputs[0].fill(0.0);
    dense::add_gemm(gemm(p), inputs[A].f32(), inputs[B].f32(), &mut outputs[0]);
}

/// GEMM of the problem.
fn gemm(p: &Problem) -> Gemm {
    Gemm::new(p["m"], p["n"], p["k"])
}

/// Program with a stage that computes C from A and B.
fn program(p: &Problem, stage: Stage) -> Program {
    stage.args([("a", Read), ("b", Read), ("c", Write)]).cost(cost(p)).into()
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    program(p, gemm(p).naive("matmul/naive", "matmul_naive"))
}

/// Tunables of `tiled`.
const DEPTH: Tunable = Tunable {
    name: "DEPTH",
    about: "depth of the staged tiles of A and B; half of it for large tiles",
    allowed: Allowed::OneOf(&[8, 16, 32]),
    default: Tiles::DEFAULT.depth,
};
const LARGE_FROM: Tunable = Tunable {
    name: "LARGE_FROM",
    about: "number of tiles from which their width is 128, not 64, in per cent of the multiprocessors",
    allowed: Allowed::OneOf(&[0, 25, 50, 100, 200, 400, 100_000_000]),
    default: Tiles::DEFAULT.large_from,
};

fn tiled(p: &Problem, caps: &Caps) -> Program {
    let tuned = |tunable| p.tuned(caps, "tiled", tunable);
    let tiles = Tiles { depth: tuned(&DEPTH), large_from: tuned(&LARGE_FROM) };
    program(p, gemm(p).tiled(caps, tiles))
}

fn cube(p: &Problem, caps: &Caps) -> Program {
    const EDGE: u64 = 16;
    const DEPTH: u32 = 16;
    let tiles = |each: u64| p["m"].div_ceil(EDGE * each) * p["n"].div_ceil(EDGE * each);
    // Large tiles if they are enough for the device, as in `tiled`.
    let each = if tiles(8) >= u64::from(caps.compute_units.unwrap_or(100)) { 8 } else { 4 };
    let width = width(p["n"], p.dtype, caps).min(4);
    let stage = Stage::cube("cube_matmul")
        .consts(&[("M", "m"), ("N", "n"), ("K", "k")].map(|(name, key)| (name, p[key] as u32)))
        .consts(&[("DEPTH", DEPTH), ("EACH", each as u32), ("WIDTH", width as u32)])
        .threads([(EDGE * EDGE) as u32, 1, 1])
        .grid(spread(tiles(each)))
        .cube_shared(2 * 4 * DEPTH * (EDGE * each) as u32, caps);
    program(p, stage)
}

fn cubek(p: &Problem, caps: &Caps) -> Program {
    let extents = [("M", "m"), ("N", "n"), ("K", "k")].map(|(name, key)| (name, p[key] as u32));
    program(p, Stage::cubek("cubek_matmul", caps).consts(&extents))
}

fn rows(p: &Problem, caps: &Caps) -> Program {
    program(p, gemm(p).rows(p.dtype, caps, "matmul/rows", "matmul_rows"))
}

fn rows_mma(p: &Problem, caps: &Caps) -> Program {
    program(p, gemm(p).rows_mma(caps, "matmul/rows_mma", "matmul_rows_mma"))
}

fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::mma_available(p.dtype, caps)
}

fn mma(p: &Problem, _caps: &Caps) -> Program {
    program(p, gemm(p).mma("matmul/mma", "matmul_mma"))
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    gemm(p).wgmma(caps, "matmul/wgmma", "matmul_wgmma", ["a", "b", "c"], [], &[]).cost(cost(p)).into()
}

fn stream(p: &Problem, caps: &Caps) -> Program {
    Program { stages: gemm(p).stream(caps, ["a", "b", "c", "stream_parts"], cost(p)) }
}

fn wgmma_parts(p: &Problem, caps: &Caps) -> Program {
    let stages = Stages { dtype: p.dtype, caps, kind: GemmKind::Wgmma };
    Program { stages: stages.of_weight(gemm(p), ["a", "b", "c"], "parts") }
}

fn coopmat_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::coopmat_available(p.dtype, caps)
}

/// Tunables of `coopmat`.
const WIDE_FROM: Tunable = Tunable {
    name: "WIDE_FROM",
    about: "number of tiles from which their width is 256, not 128, in per cent of 128",
    allowed: Allowed::OneOf(&[0, 25, 50, 100, 200, 400, 100_000_000]),
    default: MatrixTiles::DEFAULT.wide_from,
};
const SQUARE_BELOW: Tunable = Tunable {
    name: "SQUARE_BELOW",
    about: "percentage of the wide tiles' work, in whole waves, below which tiles are 192 by 192",
    allowed: Allowed::OneOf(&[0, 50, 65, 80, 95, 1000]),
    default: MatrixTiles::DEFAULT.square_below,
};

fn coopmat(p: &Problem, caps: &Caps) -> Program {
    let tuned = |tunable| p.tuned(caps, "coopmat", tunable);
    let tiles = MatrixTiles { wide_from: tuned(&WIDE_FROM), square_below: tuned(&SQUARE_BELOW) };
    program(p, gemm(p).coopmat(caps, tiles, "matmul/coopmat"))
}

fn vendor(p: &Problem, _caps: &Caps) -> Program {
    program(p, gemm(p).library("cublaslt_matmul", LibraryEpilogue::Plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::Case;
    use parallax_schema::device::MatrixShape;
    use parallax_schema::testing::caps;

    fn case(shape: &str, rest: &str) -> Case {
        parse_case(&format!("matmul/fwd/{shape}/{rest}")).expect("valid")
    }

    #[test]
    fn awkward_shapes_reach_both_tile_sizes_with_and_without_whole_vectors() {
        let large = |shape: &&&str| {
            let program = case(shape, "f32/tiled").program(&caps()).expect("a kernel");
            program.kernels().any(|kernel| kernel.consts.contains(&("REG_TILES_M", 2.into())))
        };
        let (large, small): (Vec<_>, Vec<_>) = workload().forms[0].awkward.iter().partition(large);
        for shapes in [large, small] {
            let whole = |shape: &&&str| {
                let p = &case(shape, "f32/tiled").problem;
                p["n"].is_multiple_of(4) && p["k"].is_multiple_of(4)
            };
            assert!(shapes.iter().any(whole) && !shapes.iter().all(whole), "{shapes:?}");
        }
    }

    #[test]
    fn matrix_units_are_used_only_where_they_are() {
        let matrix = Caps { matrices: vec![MatrixShape::F16_IN_F32], subgroup: Some((32, 32)), ..caps() };
        let f16 = case("m1,n1,k1", "f16/coopmat").problem;
        assert_eq!(coopmat_available(&f16, &matrix), Ok(()));
        assert!(coopmat_available(&f16, &caps()).is_err_and(|why| why.contains("no cooperative matrices")));
        let wide = Caps { subgroup: Some((32, 64)), ..matrix.clone() };
        assert!(coopmat_available(&f16, &wide).is_err_and(|why| why.contains("subgroups of 32")));
        let f32 = case("m1,n1,k1", "f32/mma").problem;
        assert!(coopmat_available(&f32, &matrix).is_err());

        let volta = Caps { dialect: Dialect::Cuda, compute_capability: Some((7, 0)), ..caps() };
        let ampere = Caps { compute_capability: Some((8, 0)), ..volta.clone() };
        assert_eq!(mma_available(&f16, &ampere), Ok(()));
        assert!(mma_available(&f16, &volta).is_err_and(|why| why.contains("8.0")));
        assert!(mma_available(&f32, &ampere).is_err_and(|why| why.contains("TF32")));
    }
}
