//! GEMM with weights of 4 bits, as in local inference: `c[i,j] = Σ a[i,d] · (b[j,d] − zero[j,⌊d/g⌋]) · scale[j,⌊d/g⌋]`.
//!
//! A is `[m, k]`, one row per token. B is `[n, k]`, one row per output channel; a 32-bit word has eight neighbours along k, the first
//! in its lowest bits. `g` neighbours along k share a scale of the element type and a zero point of 4 bits. Zero points are `[n,
//! ⌈k/g⌉]`, packed as B is, and each row begins with a new word. ONNX Runtime's MatMulNBits and AWQ define the same product.
//!
//! Operations: `2·m·n·k`. Bytes are those of the packed weights, of scales and zero points, of A and of C, each once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, nan_in_rows, one};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, normal, spread,
};
use parallax_schema::case::{DType, Direction, Rate};
use parallax_schema::device::{Caps, Dialect};

use crate::packed::{Packing, groups, mma_available, shapes};
use crate::result_tiles::tiles;
use crate::{products, vector};

const A: usize = 0;
const B: usize = 1;
const ZERO: usize = 2;
const SCALE: usize = 3;

/// Numbers in a word.
const PACKED: u64 = 8;
const WORD: Packing = Packing { numbers: PACKED };

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "matrix product with weights of 4 bits, scaled by groups",
        axes: const {
            &[
                Axis::extent("m", "rows"),
                Axis::extent("n", "columns"),
                Axis::extent("k", "depth, a multiple of 8"),
                Axis::optional("g", "depth of a group with one scale, a multiple of 8", PACKED, 128),
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
        // One word; groups that end within a row, and within four words; several rows of A a workgroup, and more than one holds;
        // columns that no workgroup fills. Whole groups of 128 for matrix units, with up to five tiles of rows.
        .awkward(&[
            "m1,n1,k8",
            "m2,n3,k24,g16",
            "m3,n17,k200,g64",
            "m5,n33,k1032,g8",
            "m9,n16,k96,g32",
            "m8,n40,k256",
            "m17,n31,k1160",
            "m1,n257,k2048",
            "m7,n65,k1280,g256",
            "m16,n96,k1152",
            "m33,n48,k512",
        ])
        .huge(&["m1,n1048576,k16448"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one output element per thread, each weight unpacked by itself", naive),
            Variant::kernel(
                "rows",
                "32 threads for four columns: vectors of 32 weights, unpacked by f32 bits, times up to eight rows of A",
                rows,
            ),
            Variant::kernel(
                "mma",
                "tensor cores by warp-wide instructions: weights are the left factor, unpacked in the order of their words",
                mma,
            )
            .only_in(&[Dialect::Cuda])
            .available(mma_available),
        ])
        .fallback(&["mma", "rows", "naive"])
        .stress(stress_inputs())],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (m, n, k, groups) = (p["m"], p["n"], p["k"], groups(p));
    vec![
        BufferSpec::input("a", Elem::Real, &[m, k], normal),
        BufferSpec::input("b", Elem::U32, &[n, k / PACKED], numbers),
        BufferSpec::input("zero", Elem::U32, &[n, groups.div_ceil(PACKED)], numbers),
        BufferSpec::input("scale", Elem::Real, &[n, groups], scale),
        BufferSpec::output("c", Elem::Real, &[m, n]),
    ]
}

/// Word of eight equal numbers.
fn filled(number: u32) -> f64 {
    f64::from(number * 0x1111_1111)
}

/// Eight numbers from 0 to 15.
fn numbers(_: &Shape, draw: Draw) -> f64 {
    f64::from(draw.bits() as u32)
}

/// Scale of weights of about unit size.
fn scale(_: &Shape, draw: Draw) -> f64 {
    (1.0 + draw.uniform()) / 16.0
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    // A normal draw times a weight of at most 15/8 and about one half.
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
            "points",
            "weights at their zero points are zero",
            |_| vec![("b", |_, _| filled(11)), ("zero", |_, _| filled(11))],
            exact,
        ),
        StressInput::new(
            "equal",
            "all one: the depth",
            |_| vec![("a", one), ("b", |_, _| filled(9)), ("zero", |_, _| filled(8)), ("scale", one)],
            products::of_ones,
        ),
        StressInput::new(
            "ends",
            "zero points of 15, and numbers of 0 and 15 alone",
            |_| vec![("b", ends), ("zero", |_, _| filled(15))],
            tolerance_of_ends,
        ),
    ]
}

/// Eight numbers, each 0 or 15.
fn ends(_: &Shape, draw: Draw) -> f64 {
    f64::from((0..8).fold(0, |word, place| word | (((draw.bits() >> place) & 1) as u32 * 15) << (4 * place)))
}

fn tolerance_of_ends(p: &Problem, output: usize) -> Tolerance {
    // Half of the weights are zero, the others up to -15/8.
    let usual = tolerance(p, output);
    Tolerance { abs: 2.0 * usual.abs, ..usual }
}

/// Eight numbers of a word.
fn unpacked(word: u32) -> [u32; 8] {
    std::array::from_fn(|place| (word >> (4 * place)) & 15)
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let (words, groups, g) = (p["k"] / PACKED, groups(p), p["g"]);
    let zero_words = groups.div_ceil(PACKED);
    let left = inputs.values(A, row * p["k"]..(row + 1) * p["k"]);
    for (column, out) in out.iter_mut().enumerate() {
        let column = column as u64;
        let point = |group: u64| {
            let word = inputs.at(ZERO, column * zero_words + group / PACKED) as u32;
            f64::from(unpacked(word)[(group % PACKED) as usize])
        };
        let mut sum = 0.0;
        for word in 0..words {
            let group = word * PACKED / g;
            let (point, scale) = (point(group), inputs.at(SCALE, column * groups + group));
            let numbers = unpacked(inputs.at(B, column * words + word) as u32);
            let products = left[(word * PACKED) as usize..].iter().zip(numbers);
            sum += products.map(|(a, number)| a * (f64::from(number) - point) * scale).sum::<f64>();
        }
        *out = sum;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (a, b, zero, scale) = (inputs[A].f32(), inputs[B].u32(), inputs[ZERO].u32(), inputs[SCALE].f32());
    let (n, k, groups) = (p["n"] as usize, p["k"] as usize, groups(p) as usize);
    let (words, zero_words) = (k / 8, groups.div_ceil(8));
    let in_group = (p["g"] / PACKED) as usize;
    // The weights of a column are unpacked once for all rows of A.
    let column = |column: usize| {
        let mut weights = vec![0.0; k];
        let packed = &b[column * words..][..words];
        for (group, (packed, weights)) in packed.chunks(in_group).zip(weights.chunks_mut(in_group * 8)).enumerate() {
            let point = unpacked(zero[column * zero_words + group / 8])[group % 8] as f32;
            let scale = scale[column * groups + group];
            for (word, weights) in packed.iter().zip(weights.chunks_exact_mut(8)) {
                let numbers = unpacked(*word);
                weights.iter_mut().zip(numbers).for_each(|(weight, number)| *weight = (number as f32 - point) * scale);
            }
        }
        a.chunks_exact(k).map(|row| vector::dot(row, &weights)).collect::<Vec<f32>>()
    };
    let columns: Vec<Vec<f32>> = (0..n).into_par_iter().map(column).collect();
    outputs[0].par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        out.iter_mut().zip(&columns).for_each(|(out, column)| *out = column[row]);
    });
}

/// Stage with the extents as constants.
fn stage(p: &Problem, text: &'static str, entry: &'static str) -> Stage {
    WORD.stage(p, text, entry).consts(&[("ZERO_WORDS", groups(p).div_ceil(PACKED) as u32)])
}

/// Program of one stage.
fn program(p: &Problem, stage: Stage) -> Program {
    let args = [("a", Read), ("b", Read), ("zero", Read), ("scale", Read), ("c", Write)];
    stage.args(args).cost(p.cost()).into()
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    program(p, stage(p, "matmul_q4/naive", "matmul_q4_naive").threads([16, 16, 1]).grid(spread(tiles(p, 16, 16))))
}

/// Columns of a workgroup of `rows`: four for each of its groups of 32 threads.
const COLUMNS: u32 = 16;
/// Most rows of A in a workgroup of `rows`.
const MOST_ROWS: u64 = 8;

fn rows(p: &Problem, _caps: &Caps) -> Program {
    const LANES: u32 = 32;
    let rows = p["m"].next_power_of_two().min(MOST_ROWS);
    let stage = stage(p, "matmul_q4/rows", "matmul_q4_rows")
        .consts(&[("ROWS", rows as u32), ("WIDTH", if WORD.in_fours(p) { 4 } else { 1 })])
        .threads([LANES * COLUMNS / 4, 1, 1])
        .grid(spread(tiles(p, rows, u64::from(COLUMNS))))
        .shared(LANES * COLUMNS * rows as u32 * 4);
    program(p, stage)
}

fn mma(p: &Problem, _caps: &Caps) -> Program {
    const COLUMNS: u32 = 32;
    const WARPS: u32 = 8;
    // Tiles of eight rows of A in a block.
    let tiles_m = p["m"].div_ceil(8).next_power_of_two().min(4);
    let shared = WARPS * 8 * tiles_m as u32 * (COLUMNS + 1) * 4;
    let stage = stage(p, "matmul_q4/mma", "matmul_q4_mma")
        .consts(&[("TILES", tiles_m as u32), ("WARPS", WARPS)])
        .threads([WARPS * 32, 1, 1])
        .grid(spread(tiles(p, 8 * tiles_m, u64::from(COLUMNS))))
        .shared(shared);
    program(p, stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::case::CaseError;
    use parallax_schema::testing::{caps, hopper};

    fn problem(shape: &str, dtype: &str) -> Result<Problem, CaseError> {
        parse_case(&format!("matmul_q4/fwd/{shape}/{dtype}/naive")).map(|case| case.problem)
    }

    #[test]
    fn depths_and_groups_are_whole_words() {
        for (shape, part) in [("m1,n1,k12", "a depth of 12"), ("m1,n1,k16,g12", "a group of 12")] {
            let refused = problem(shape, "f16").expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(groups(&problem("m1,n1,k136", "f16").expect("valid")), 2);
    }

    #[test]
    fn words_hold_numbers_with_the_first_lowest() {
        assert_eq!(unpacked(0xFEDC_3210), [0, 1, 2, 3, 12, 13, 14, 15]);
        assert_eq!(filled(11), f64::from(0xBBBB_BBBBu32));
    }

    #[test]
    fn the_reference_follows_the_definition() {
        let p = problem("m2,n1,k16,g8", "f32").expect("valid");
        let inputs = p.inputs(3);
        let mut out = [0.0];
        reference(&p, &inputs, 1, &mut out);
        let words = [inputs.at(B, 0) as u32, inputs.at(B, 1) as u32];
        let points = inputs.at(ZERO, 0) as u32;
        let mut want = 0.0;
        for d in 0..16u64 {
            let (word, group) = (words[(d / 8) as usize], d / 8);
            let number = f64::from((word >> (4 * (d % 8))) & 15) - f64::from((points >> (4 * group)) & 15);
            want += inputs.at(A, 16 + d) * number * inputs.at(SCALE, group);
        }
        assert!((out[0] - want).abs() < 1e-12, "{} {want}", out[0]);
    }

    #[test]
    fn matrix_units_take_whole_chunks_of_16_bit_elements() {
        let of = |shape: &str, dtype: &str, caps: &Caps| mma_available(&problem(shape, dtype).expect("valid"), caps);
        assert_eq!(of("m1,n1,k256", "f16", &hopper()), Ok(()));
        assert!(of("m1,n1,k256", "f32", &hopper()).is_err_and(|why| why.contains("f32")));
        assert!(of("m1,n1,k136", "f16", &hopper()).is_err_and(|why| why.contains("multiples")));
        assert!(of("m1,n1,k256,g64", "f16", &hopper()).is_err_and(|why| why.contains("multiples")));
        assert!(of("m1,n1,k256", "f16", &caps()).is_err_and(|why| why.contains("8.0")));
    }
}
