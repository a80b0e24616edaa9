//! GEMM of int8 matrices, as in inference with quantised weights: `c[i,j] = a_scale[i] · b_scale[j] · Σ a[i,d] · b[j,d]`.
//!
//! A is `[m, k]`, one row per token. B is `[n, k]`, one row per output channel, as weights are stored. A 32-bit word has four
//! neighbours along k, the first in its lowest byte. Sums are exact in 32 bits. Each is scaled in f32 by the scales of its row and
//! column, and rounded once to the element type.
//!
//! Operations: `2·m·n·k`, on integers. No ceiling of this suite applies, because all are of floats.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{any, smallest_normal, wide, zero};
use parallax_ir::{
    Arg, Axis, BufferSpec, CudaLaunch, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference,
    RowProducts, Shape, Stage, StressInput, Tolerance, Variant, Workload, indexable, spread,
};
use parallax_schema::case::{DType, Direction, Preset, Rate, Storage};
use parallax_schema::device::{Caps, Dialect, MatrixShape};

use crate::packed::{signed, word};
use crate::result_tiles::{LARGE_FROM, WIDE_FROM, enough, tiles};

const A: usize = 0;
const B: usize = 1;
const A_SCALE: usize = 2;
const B_SCALE: usize = 3;

/// Numbers in a word.
const PACKED: u64 = 4;
/// Largest k for which a sum of products −128 · −128 fits into 32 bits, in whole words.
const MOST_DEPTH: u64 = 131_068;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "matrix product of int8 with a scale for each row and column",
        axes: const { &[Axis::extent("m", "rows"), Axis::extent("n", "columns"), Axis::extent("k", "depth")] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Ops,
            buffers,
            |p| p.each_once(2 * p["m"] * p["n"] * p["k"]),
            tolerance,
            Reference::new(
                |p, _| p["n"] * p["k"],
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::WHOLE_NUMBERS,
        )
        .headline("m1024,n1024,k1024")
        .shapes(shapes)
        .awkward(&[
            "m1,n1,k4",
            "m5,n3,k28",
            "m16,n16,k32",
            "m65,n67,k132",
            "m1,n257,k124",
            "m131,n1,k68",
            "m129,n136,k160",
            "m200,n72,k336",
            // More than eight rows of tiles: the order of tiles has a second band, and a short last one.
            "m1160,n264,k16",
            // Enough tiles for 64 sums a thread if the number of multiprocessors is unknown; ragged, and in whole vectors.
            "m1409,n1283,k12",
            "m1412,n1284,k16",
            // Tiles are whole.
            "m256,n512,k256",
            // Enough for wide tiles.
            "m2056,n2310,k12",
        ])
        .huge(&["m46344,n46344,k8"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one output element per thread, each number unpacked and multiplied by itself", naive),
            Variant::kernel(
                "dot4",
                "one instruction for four products (WGSL: dot4I8Packed), on tiles in workgroup memory, with 16 or 64 sums in a \
                 thread's registers",
                dot4,
            )
            .tunables(&[LARGE_FROM]),
            Variant::kernel(
                "coopmat",
                "matrix units through the matrices of a subgroup, which Chromium has behind flags",
                coopmat,
            )
            .only_in(&[Dialect::Wgsl])
            .available(coopmat_available),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions, tiles copied asynchronously two steps ahead",
                mma,
            )
            .only_in(&[Dialect::Cuda])
            .tunables(&[WIDE_FROM])
            .available(mma_available),
            Variant::kernel(
                "wgmma",
                "tensor cores by four warps together; tiles are loaded and stored by the copy engine, in a ring across tiles",
                wgmma,
            )
            .only_in(&[Dialect::Cuda])
            .available(|p, caps| row_products(p).stores_available(Elem::Real.storage(p.dtype), caps)),
        ])
        .fallback(&["coopmat", "wgmma", "mma", "dot4", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (m, n, k) = (shape["m"], shape["n"], shape["k"]);
    if !k.is_multiple_of(PACKED) {
        return Err(format!("four numbers are packed in a word: a depth of {k} is not a multiple of 4"));
    }
    if k > MOST_DEPTH {
        return Err(format!("sums are kept in 32 bits, which hold {MOST_DEPTH} products of int8 at most, not {k}"));
    }
    [m * (k / PACKED), n * (k / PACKED), m * n].into_iter().try_for_each(indexable)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m1024,n1024,k1024", "m4096,n4096,k4096"],
        _ => &["m1024,n1024,k1024", "m4096,n4096,k4096", "m8192,n8192,k8192"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, n, words) = (p["m"], p["n"], p["k"] / PACKED);
    vec![
        BufferSpec::input("a", Elem::U32, &[m, words], numbers),
        BufferSpec::input("b", Elem::U32, &[n, words], numbers),
        BufferSpec::input("a_scale", Elem::F32, &[m], scale),
        BufferSpec::input("b_scale", Elem::F32, &[n], scale),
        BufferSpec::output("c", Elem::Real, &[m, n]),
    ]
}

/// Word of four numbers.
fn pack(number: impl Fn(u32) -> i8) -> f64 {
    word(|place| number(place) as u8)
}

/// Four numbers from -127 to 127, as in symmetric quantisation.
fn numbers(_: &Shape, draw: Draw) -> f64 {
    pack(|place| (((((draw.bits() >> (16 * place)) & 0xFFFF) * 255) >> 16) as i32 - 127) as i8)
}

/// Scale of a row: the divisor of its largest number at about unit variance.
fn scale(_: &Shape, draw: Draw) -> f64 {
    (1.0 + draw.uniform()) / 128.0
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: smallest_normal(p),
        rel: 4.0 * 2f64.powi(-24) + 2.0 * p.dtype.unit_roundoff(),
        reason: "sums are exact; one is rounded to f32, as are the product of both scales and that of it and the sum, and the result \
                 once to the element type. Subnormal numbers may be flushed to zero",
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, applies, fills| StressInput::new(name, about, fills, tolerance).applies(applies);
    vec![
        StressInput {
            tolerance: |p, _| Tolerance { abs: smallest_normal(p), rel: 0.0, reason: "sums of zeros are zero" },
            ..set("zeros", "zero times anything is zero", any, |_| vec![("a", zero)])
        },
        set("equal", "all one: the depth, scaled", any, |_| vec![("a", ones), ("b", ones)]),
        set("ends", "−128 and 127 alone", within, |_| vec![("a", ends), ("b", ends)]),
        set("lowest", "−128 everywhere: the largest sums that there are", within, |_| {
            vec![("a", lowest), ("b", lowest)]
        }),
        set("signs", "1 times −1: bytes whose sign is lost are 255", within, |_| {
            vec![("a", ones), ("b", minus_ones)]
        }),
    ]
}

/// Whether the largest sums, scaled by at most 2^-12, fit into the problem's element type.
fn within(p: &Problem) -> bool {
    wide(p) || p["k"] <= 8192
}

fn ones(_: &Shape, _: Draw) -> f64 {
    pack(|_| 1)
}

fn minus_ones(_: &Shape, _: Draw) -> f64 {
    pack(|_| -1)
}

fn lowest(_: &Shape, _: Draw) -> f64 {
    pack(|_| i8::MIN)
}

fn ends(_: &Shape, draw: Draw) -> f64 {
    pack(|place| if (draw.bits() >> (63 - place)) & 1 == 1 { i8::MIN } else { i8::MAX })
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let words = p["k"] / PACKED;
    let of_row = |buffer, row: u64| {
        let each = move |word| signed(inputs.at(buffer, row * words + word) as u32);
        (0..words).flat_map(each).map(f64::from)
    };
    let left: Vec<f64> = of_row(A, row).collect();
    for (column, out) in out.iter_mut().enumerate() {
        let sum: f64 = left.iter().zip(of_row(B, column as u64)).map(|(a, b)| a * b).sum();
        *out = inputs.at(A_SCALE, row) * inputs.at(B_SCALE, column as u64) * sum;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [a, b] = [A, B].map(|buffer| inputs[buffer].u32().iter().flat_map(|word| signed(*word)).collect::<Vec<_>>());
    let (a_scale, b_scale) = (inputs[A_SCALE].f32(), inputs[B_SCALE].f32());
    let (n, k) = (p["n"] as usize, p["k"] as usize);
    outputs[0].par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        let left = &a[row * k..][..k];
        for ((out, right), scale) in out.iter_mut().zip(b.chunks_exact(k)).zip(b_scale) {
            let sum: i32 = left.iter().zip(right).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            *out = a_scale[row] * scale * sum as f32;
        }
    });
}

/// Stage with the extents as constants.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    let extents = [("M", p["m"]), ("N", p["n"]), ("WORDS", p["k"] / PACKED)];
    Stage::kernel(entry, text, entry).consts(&extents.map(|(name, value)| (name, value as u32)))
}

/// Program of one stage.
fn program(p: &Problem, stage: Stage) -> Program {
    let args = [("a", Read), ("b", Read), ("a_scale", Read), ("b_scale", Read), ("c", Write)];
    stage.args(args).cost(p.cost()).into()
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    program(p, stage(p, "matmul_i8/naive", "matmul_i8_naive").threads([16, 16, 1]).grid(spread(tiles(p, 16, 16))))
}

/// Bytes of one copy.
const PIECE: u32 = 16;

/// Whether the problem divides into whole tiles of these rows, columns and bytes of depth, without bounds checks.
fn whole(p: &Problem, edges: [u32; 3]) -> bool {
    ["m", "n", "k"].into_iter().zip(edges).all(|(axis, edge)| p[axis].is_multiple_of(u64::from(edge)))
}

/// Tiling of `dot4`: edge of a square tile, threads along each edge, and pieces of a staged row. One more piece pads a row, so that
/// neighbouring rows start in different memory banks.
struct Squares {
    tile: u32,
    across: u32,
    pieces: u32,
}

impl Squares {
    /// Tiling with 16 sums a thread, or with 64. In WGSL the latter has 64 threads: more workgroups fit on a multiprocessor and
    /// wait for each other less.
    fn new(large: bool, dialect: Dialect) -> Squares {
        match (large, dialect) {
            (false, _) => Squares { tile: 64, across: 16, pieces: 4 },
            (true, Dialect::Wgsl) => Squares { tile: 64, across: 8, pieces: 2 },
            (true, _) => Squares { tile: 128, across: 16, pieces: 4 },
        }
    }

    fn count(&self, p: &Problem) -> u64 {
        tiles(p, u64::from(self.tile), u64::from(self.tile))
    }
}

fn dot4(p: &Problem, caps: &Caps) -> Program {
    let large = enough(Squares::new(true, caps.dialect).count(p), caps, p.tuned(caps, "dot4", &LARGE_FROM));
    let squares = Squares::new(large, caps.dialect);
    let Squares { tile, across, pieces } = squares;
    let stage = stage(p, "matmul_i8/dot4", "matmul_i8_dot4")
        .consts(&[("BLOCK_MN", tile), ("THREADS_MN", across), ("PIECES", pieces)])
        .consts(&[("LARGE", large), ("WHOLE", whole(p, [tile, tile, pieces * PIECE]))])
        .threads([across * across, 1, 1])
        .grid(spread(squares.count(p)))
        .shared(2 * tile * (pieces + 1) * PIECE);
    program(p, stage)
}

fn coopmat_available(_p: &Problem, caps: &Caps) -> Result<(), String> {
    match (caps.matrices.contains(&MatrixShape::I8_IN_I32), caps.subgroup) {
        (false, _) => {
            Err("this device offers no matrices of 16×32 int8 (in a page, Chromium has them behind flags: --features \
                           unsafe; naga, which compiles WGSL natively, has none of int8)"
                .to_owned())
        }
        (_, Some((32, 32))) => Ok(()),
        (_, found) => Err(format!("coopmat deals tiles out to subgroups of 32, this device has {found:?}")),
    }
}

fn coopmat(p: &Problem, _caps: &Caps) -> Program {
    const ROWS: u32 = 128;
    const COLUMNS: u32 = 256;
    const PIECES: u32 = 4;
    const SUBGROUPS: u32 = 8;
    // In addition to the tiles, each subgroup has a strip of 16 rows of two accumulator matrices, padded by a vector.
    let stage = stage(p, "matmul_i8/coopmat", "matmul_i8_coopmat")
        .consts(&[("BLOCK_M", ROWS), ("BLOCK_N", COLUMNS), ("PIECES", PIECES)])
        .consts(&[("VEC4_STORES", p["n"].is_multiple_of(4)), ("WHOLE", whole(p, [ROWS, COLUMNS, PIECES * PIECE]))])
        .threads([SUBGROUPS * 32, 1, 1])
        .grid(spread(tiles(p, u64::from(ROWS), u64::from(COLUMNS))))
        .shared(((ROWS + COLUMNS) * (PIECES + 1) + SUBGROUPS * 16 * (8 + 1)) * PIECE);
    program(p, stage)
}

fn mma_available(_p: &Problem, caps: &Caps) -> Result<(), String> {
    match caps.compute_capability {
        Some((major, _)) if major >= 8 => Ok(()),
        found => Err(format!("mma needs compute capability 8.0, not {found:?}")),
    }
}

fn mma(p: &Problem, caps: &Caps) -> Program {
    const ROWS: u32 = 128;
    // Bytes of a staged row without padding. Steps in shared memory: one in use, two in flight.
    const DEPTH: u32 = 64;
    const STAGES: u32 = 3;
    // A wide tile reads three quarters of the bytes from the cache, but there must be enough tiles for the device.
    let wide = enough(tiles(p, u64::from(ROWS), 256), caps, p.tuned(caps, "mma", &WIDE_FROM));
    let columns = if wide { 256 } else { 128 };
    // One warp for each 64 by 64 elements.
    let threads = ROWS / 64 * (columns / 64) * 32;
    let stage = stage(p, "matmul_i8/mma", "matmul_i8_mma")
        .consts(&[("BLOCK_M", ROWS), ("BLOCK_N", columns), ("BLOCK_K", DEPTH), ("PADDING", PIECE)])
        .consts(&[("STAGES", STAGES), ("THREADS", threads)])
        .threads([threads, 1, 1])
        .grid(spread(tiles(p, u64::from(ROWS), u64::from(columns))))
        .cuda(CudaLaunch {
            dynamic_shared_bytes: STAGES * (ROWS + columns) * (DEPTH + PIECE),
            ..CudaLaunch::default()
        });
    program(p, stage)
}

/// Products of rows of words: the copy engine does not distinguish bytes from words.
fn row_products(p: &Problem) -> RowProducts {
    RowProducts::new([p["m"], p["n"]], p["k"] / PACKED, Storage::U32)
}

fn wgmma(p: &Problem, caps: &Caps) -> Program {
    let products = row_products(p);
    let [a, b] = products.operands(caps);
    let extents = [("M", p["m"]), ("N", p["n"])];
    products
        .stage(caps, "matmul_i8/wgmma", "matmul_i8_wgmma")
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .args([
            Arg::from(("a", Read)).mapped(a),
            Arg::from(("b", Read)).mapped(b),
            ("a_scale", Read).into(),
            ("b_scale", Read).into(),
            Arg::from(("c", Write)).mapped(products.results(Elem::Real.storage(p.dtype))),
        ])
        .cost(p.cost())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::case::CaseError;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str) -> Result<Problem, CaseError> {
        parse_case(&format!("matmul_i8/fwd/{shape}/f16/naive")).map(|case| case.problem)
    }

    #[test]
    fn depths_are_whole_words_whose_sums_fit() {
        for (k, part) in [(6, "not a multiple of 4"), (131_072, "131068 products")] {
            let refused = problem(&format!("m1,n1,k{k}")).expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
        assert!(problem("m1,n1,k131068").is_ok());
        assert!(i64::from(i32::MAX) >= 128 * 128 * MOST_DEPTH as i64);
    }

    #[test]
    fn words_hold_numbers_of_either_sign_with_the_first_lowest() {
        assert_eq!(pack(|place| [1, -2, 127, -128][place as usize]), f64::from(0x807F_FE01u32));
        assert_eq!(signed(0x807F_FE01), [1, -2, 127, -128]);
        let p = problem("m64,n64,k256").expect("valid");
        let inputs = p.inputs(1);
        let all: Vec<i8> = inputs.values(A, ..).iter().flat_map(|word| signed(*word as u32)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&-127), Some(&127)));
        let mean = all.iter().map(|x| f64::from(*x)).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 3.0, "{mean}");
    }

    #[test]
    fn matrix_units_are_used_only_where_they_are() {
        let p = problem("m1,n1,k4").expect("valid");
        let bytes = Caps { matrices: vec![MatrixShape::I8_IN_I32], subgroup: Some((32, 32)), ..caps() };
        assert_eq!(coopmat_available(&p, &bytes), Ok(()));
        let floats = Caps { matrices: vec![MatrixShape::F16_IN_F32], ..bytes.clone() };
        assert!(coopmat_available(&p, &floats).is_err_and(|why| why.contains("naga")));
        let wide = Caps { subgroup: Some((32, 64)), ..bytes };
        assert!(coopmat_available(&p, &wide).is_err_and(|why| why.contains("subgroups of 32")));
        assert_eq!(mma_available(&p, &hopper()), Ok(()));
        assert!(mma_available(&p, &caps()).is_err_and(|why| why.contains("8.0")));
        assert!(row_products(&p).available(&hopper()).is_err_and(|why| why.contains("a row has 4")));
    }
}
