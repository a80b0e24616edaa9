//! GEMM with weights of 8 bits, as in local inference: `c[i,j] = Σ a[i,d] · b[j,d] · scale[j,⌊d/g⌋]`.
//!
//! A is `[m, k]`, one row per token. B is `[n, k]`, one row per output channel, of numbers from −128 to 127. A 32-bit word has four
//! neighbours along k, the first in its lowest byte. `g` neighbours along k share a scale of the element type; with `g` = k each
//! channel has one. There are no zero points. GGUF's Q8_0 and "W8A16" of vLLM define the same product.
//!
//! Operations: `2·m·n·k`. Bytes are those of the packed weights, of scales, of A and of C, each once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{nan_in_rows, one};
use parallax_ir::{
    Axis, BufferSpec, CudaLaunch, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape,
    Stage, StressInput, Tolerance, Tunable, Variant, Workload, normal, spread,
};
use parallax_schema::case::{Allowed, DType, Direction, Rate};
use parallax_schema::device::{Caps, CudaCaps, Dialect};

use crate::packed::{Packing, groups, mma_available, shapes, signed, word};
use crate::result_tiles::{multiprocessors, tiles};
use crate::{products, vector};

const A: usize = 0;
const B: usize = 1;
const SCALE: usize = 2;

/// Numbers in a word.
const PACKED: u64 = 4;
const WORD: Packing = Packing { numbers: PACKED };

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "matrix product with weights of 8 bits, scaled by groups",
        axes: const {
            &[
                Axis::extent("m", "rows"),
                Axis::extent("n", "columns"),
                Axis::extent("k", "depth, a multiple of 4"),
                Axis::optional("g", "depth of a group with one scale, a multiple of 4", PACKED, 128),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| WORD.validate(shape),
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| p.each_once(2 * p["m"] * p["n"] * p["k"]),
            tolerance,
            Reference::new(
                |p, _| p["n"] * p["k"],
                |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("m1,n4096,k4096")
        .shapes(shapes)
        // One word; groups of one word, that end within a row, and of a whole row; several rows of A a workgroup, and more than one
        // holds; columns that no workgroup fills. Whole groups of 128 for matrix units: more chunks than stages, up to five tiles.
        .awkward(&[
            "m1,n1,k4",
            "m2,n3,k12,g4",
            "m3,n17,k100,g32",
            "m5,n33,k516,g8",
            "m9,n16,k48,g16",
            "m8,n40,k256",
            "m17,n31,k1160",
            "m1,n257,k2048",
            "m7,n65,k1280,g256",
            "m2,n33,k4224",
            "m16,n96,k1152",
            "m24,n70,k640,g640",
            "m33,n48,k512",
        ])
        .huge(&["m1,n1048576,k8320"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one output element per thread, each weight unpacked by itself", naive),
            Variant::kernel(
                "rows",
                "vectors of 16 weights of four columns or more per thread, unpacked by f32 bits, times up to eight rows of A",
                rows,
            ),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions: weights are the left factor, copied asynchronously to each warp's stages",
                mma,
            )
            .only_in(&[Dialect::Cuda])
            .tunables(&[WARPS, STAGES])
            .available(mma_available),
        ])
        .fallback(&["mma", "rows", "naive"])
        .stress(stress_inputs())],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, n, k) = (p["m"], p["n"], p["k"]);
    vec![
        BufferSpec::input("a", Elem::Real, &[m, k], normal),
        BufferSpec::input("b", Elem::U32, &[n, k / PACKED], numbers),
        BufferSpec::input("scale", Elem::Real, &[n, groups(p)], scale),
        BufferSpec::output("c", Elem::Real, &[m, n]),
    ]
}

/// Word of four numbers.
fn pack(number: impl Fn(u32) -> i8) -> f64 {
    word(|place| number(place) as u8)
}

/// Four numbers from −128 to 127.
fn numbers(_: &Shape, draw: Draw) -> f64 {
    f64::from(draw.bits() as u32)
}

/// Scale of weights of about unit size.
fn scale(_: &Shape, draw: Draw) -> f64 {
    (1.0 + draw.uniform()) / 128.0
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    // A normal draw times a weight of at most 2, of magnitude 3/4 on average.
    Tolerance {
        reason: "weights without their scale are exact; k products, scaled by groups, are summed in f32: 8·√k·u times the sum of \
                 magnitudes holds for any order but with probability e^-32 (Higham and Mary 2019); the result is rounded once to the \
                 element type",
        ..products::tolerance(p, output)
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "nan",
            "rows of A with NaN: so are those of the result",
            |_| vec![("a", |shape, draw| nan_in_rows(draw, shape["k"]))],
            tolerance,
        ),
        products::zeros(),
        StressInput::new(
            "equal",
            "all one: the depth",
            |_| vec![("a", one), ("b", |_, _| pack(|_| 1)), ("scale", one)],
            products::of_ones,
        ),
        StressInput::new(
            "signs",
            "weights of −1: the depth, negative; bytes whose sign is lost are 255",
            |_| vec![("a", one), ("b", |_, _| pack(|_| -1)), ("scale", one)],
            products::of_ones,
        ),
        StressInput::new("ends", "−128 and 127 alone", |_| vec![("b", ends)], of_ends),
        StressInput::new(
            "scales",
            "scales of zero, and of either sign",
            |_| {
                vec![("scale", |shape, draw| f64::from(draw.below(3) as u32) * scale(shape, draw) - scale(shape, draw))]
            },
            tolerance,
        ),
    ]
}

/// Four numbers, each −128 or 127.
fn ends(_: &Shape, draw: Draw) -> f64 {
    pack(|place| if (draw.bits() >> place) & 1 == 1 { i8::MIN } else { i8::MAX })
}

fn of_ends(p: &Problem, output: usize) -> Tolerance {
    // Weights have twice the magnitude of the usual ones.
    let usual = tolerance(p, output);
    Tolerance { abs: 2.0 * usual.abs, ..usual }
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (words, groups, g) = (p["k"] / PACKED, groups(p), p["g"]);
    let left = inputs.values(A, row * p["k"]..(row + 1) * p["k"]);
    for (column, out) in out.iter_mut().enumerate() {
        let column = column as u64;
        let mut sum = 0.0;
        for word in 0..words {
            let scale = inputs.at(SCALE, column * groups + word * PACKED / g);
            let numbers = signed(inputs.at(B, column * words + word) as u32);
            let products = left[(word * PACKED) as usize..].iter().zip(numbers);
            sum += products.map(|(a, number)| a * f64::from(number) * scale).sum::<f64>();
        }
        *out = sum;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (a, b, scale) = (inputs[A].f32(), inputs[B].u32(), inputs[SCALE].f32());
    let [m, n, k, g] = ["m", "n", "k", "g"].map(|axis| p[axis] as usize);
    let (words, groups) = (k / 4, groups(p) as usize);
    // The weights of a column are unpacked once for all rows of A.
    let column = |weights: &mut Vec<f32>, (column, out): (usize, &mut [f32])| {
        let packed = b[column * words..][..words].chunks(g / 4);
        for ((packed, weights), scale) in packed.zip(weights.chunks_mut(g)).zip(&scale[column * groups..]) {
            vector::unpack_i8(weights, packed, *scale);
        }
        out.iter_mut().zip(a.chunks_exact(k)).for_each(|(out, row)| *out = vector::dot(row, weights));
    };
    let by_column = |out: &mut [f32]| out.par_chunks_mut(m).enumerate().for_each_init(|| vec![0.0; k], column);
    if m == 1 {
        return by_column(&mut outputs[0]);
    }
    let mut columns = vec![0.0; m * n];
    by_column(&mut columns);
    outputs[0].par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        out.iter_mut().zip(columns.chunks_exact(m)).for_each(|(out, column)| *out = column[row]);
    });
}

/// Program of one stage.
fn program(p: &Problem, stage: Stage) -> Program {
    stage.args([("a", Read), ("b", Read), ("scale", Read), ("c", Write)]).cost(p.cost()).into()
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let stage = WORD.stage(p, "matmul_q8/naive", "matmul_q8_naive");
    program(p, stage.threads([16, 16, 1]).grid(spread(tiles(p, 16, 16))))
}

/// Lanes of a warp.
const LANES: u64 = 32;
/// Warps with loads in flight that keep the memory of a multiprocessor busy.
const BUSY: u64 = 16;

/// Number of warps, up to `most`, that share the depth of their columns. `works` is the number of such columns, and `units` that of
/// vectors of the depth, of which each lane has one.
fn split(caps: &Caps, works: u64, units: u64, most: u64) -> u64 {
    let wanted = BUSY * multiprocessors(caps);
    let mut warps = 1;
    while warps < most && warps * works < wanted && warps * LANES < units {
        warps *= 2;
    }
    warps
}

fn rows(p: &Problem, caps: &Caps) -> Program {
    let width = if WORD.in_fours(p) { 4 } else { 1 };
    let units = p["k"] / PACKED / width;
    let rows = p["m"].next_power_of_two().min(8);
    let stage =
        WORD.stage(p, "matmul_q8/rows", "matmul_q8_rows").consts(&[("ROWS", rows as u32), ("WIDTH", width as u32)]);
    if caps.dialect == Dialect::Wgsl {
        let lanes = LANES * split(caps, tiles(p, rows, 4), units, 4);
        let stage = stage
            .consts(&[("LANES", lanes as u32)])
            .threads([128, 1, 1])
            .grid(spread(tiles(p, rows, 512 / lanes)))
            .shared(512 * rows as u32 * 4);
        return program(p, stage);
    }
    // More columns leave no registers for the sums of more rows.
    let columns = if rows > 2 { 4 } else { 8 };
    let split = split(caps, tiles(p, rows, columns), units, 8);
    let stage = stage
        .consts(&[("COLUMNS", columns as u32), ("SPLIT", split as u32)])
        .threads([256, 1, 1])
        .grid(spread(tiles(p, rows, 8 / split * columns)))
        .shared(8 * (rows * columns) as u32 * 4);
    program(p, stage)
}

const WARPS: Tunable = Tunable {
    name: "WARPS",
    about: "warps per block, which share the depth",
    allowed: Allowed::OneOf(&[4, 8, 16]),
    default: 8,
};
const STAGES: Tunable = Tunable {
    name: "STAGES",
    about: "stages per warp, all but one in flight; fewer if shared memory is too small",
    allowed: Allowed::OneOf(&[2, 3, 4]),
    default: 3,
};

fn mma(p: &Problem, caps: &Caps) -> Program {
    const COLUMNS: u64 = 32;
    /// Bytes of a stage: 128 weights of each column.
    const STAGE: u32 = 128 * 32;
    let warps = p.tuned(caps, "mma", &WARPS);
    let room = caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes;
    let stages = p.tuned(caps, "mma", &STAGES).min(room / (warps * STAGE)).max(2);
    // Tiles of eight rows of A in a block: up to four, as many in each block.
    let tiles_m = p["m"].div_ceil(8);
    let tiles_of_block = tiles_m.div_ceil(tiles_m.div_ceil(4));
    let stage = WORD
        .stage(p, "matmul_q8/mma", "matmul_q8_mma")
        .consts(&[("TILES", tiles_of_block as u32), ("WARPS", warps), ("STAGES", stages)])
        .threads([warps * 32, 1, 1])
        .grid(spread(tiles(p, 8 * tiles_of_block, COLUMNS)))
        .cuda(CudaLaunch { dynamic_shared_bytes: warps * stages * STAGE, ..CudaLaunch::default() });
    program(p, stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::Value;
    use parallax_schema::case::CaseError;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str, dtype: &str) -> Result<Problem, CaseError> {
        parse_case(&format!("matmul_q8/fwd/{shape}/{dtype}/naive")).map(|case| case.problem)
    }

    fn number(program: &Program, name: &str) -> u32 {
        let consts = &program.kernels().next().expect("a kernel").consts;
        match consts.iter().find(|(known, _)| *known == name) {
            Some((_, Value::U32(number))) => *number,
            found => panic!("{name}: {found:?}"),
        }
    }

    #[test]
    fn depths_and_groups_are_whole_words() {
        for (shape, part) in [("m1,n1,k6", "a depth of 6"), ("m1,n1,k16,g6", "a group of 6")] {
            let refused = problem(shape, "f16").expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(groups(&problem("m1,n1,k132", "f16").expect("valid")), 2);
        assert_eq!(groups(&problem("m1,n1,k512,g512", "f16").expect("valid")), 1);
    }

    #[test]
    fn words_hold_numbers_of_either_sign_with_the_first_lowest() {
        assert_eq!(pack(|place| [1, -2, 127, -128][place as usize]), f64::from(0x807F_FE01u32));
        assert_eq!(signed(0x807F_FE01), [1, -2, 127, -128]);
        let mut out = [0.0; 8];
        vector::unpack_i8(&mut out, &[0x807F_FE01, 3], 0.5);
        assert_eq!(out, [0.5, -1.0, 63.5, -64.0, 1.5, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_reference_follows_the_definition() {
        let p = problem("m2,n1,k16,g8", "f32").expect("valid");
        let inputs = p.inputs(3);
        let mut out = [0.0];
        reference(&p, &inputs, 1, &mut out);
        let mut want = 0.0;
        for d in 0..16u64 {
            let byte = (inputs.at(B, d / 4) as u32) >> (8 * (d % 4)) & 0xFF;
            let weight = f64::from(byte) - if byte > 127 { 256.0 } else { 0.0 };
            want += inputs.at(A, 16 + d) * weight * inputs.at(SCALE, d / 8);
        }
        assert!((out[0] - want).abs() < 1e-12, "{} {want}", out[0]);
    }

    #[test]
    fn few_columns_are_split_along_the_depth() {
        let of = |shape: &str, units: u32| {
            number(
                &rows(&problem(shape, "f32").expect("valid"), &Caps { compute_units: Some(units), ..hopper() }),
                "SPLIT",
            )
        };
        assert_eq!(of("m1,n4096,k4096", 132), 8);
        assert_eq!(of("m1,n14336,k4096", 132), 2);
        assert_eq!(of("m1,n28672,k8192", 132), 1);
        // A vector for each lane at least.
        assert_eq!(of("m1,n4096,k512", 132), 1);
        assert_eq!(of("m1,n4096,k1024", 132), 2);
    }

    #[test]
    fn tiles_of_rows_are_shared_evenly_and_stages_fit() {
        let of = |shape: &str, caps: &Caps| {
            let program = mma(&problem(shape, "bf16").expect("valid"), caps);
            (number(&program, "TILES"), number(&program, "STAGES"))
        };
        assert_eq!(of("m1,n32,k128", &hopper()), (1, 3));
        assert_eq!(of("m33,n32,k128", &hopper()), (3, 3));
        assert_eq!(of("m64,n32,k128", &hopper()), (4, 3));
        let small = CudaCaps { max_block_shared_bytes: 65_536, ..hopper().cuda.expect("CUDA") };
        assert_eq!(of("m1,n32,k128", &Caps { cuda: Some(small), ..hopper() }), (1, 2));
        assert!(mma_available(&problem("m1,n1,k256", "f16").expect("valid"), &caps()).is_err());
    }
}
