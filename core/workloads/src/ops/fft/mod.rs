//! Discrete Fourier transforms: `out[k] = Σ x[j]·exp(∓2πi·jk/n)`, in one dimension or two, without a scale.
//!
//! A complex number is two neighbouring floats. `c2c` transforms complex numbers, and `inverse` has the other sign in the exponent, as
//! cuFFT and FFTW have it. `r2c` transforms real numbers, and gives the first ⌊n/2⌋ + 1 results; the others mirror them. With `m`, each
//! of `b` arrays has m rows of n elements, and both dimensions are transformed.
//!
//! Roots of unity are an input, a table: see `roots`. NaN spreads to all of its transform.
//!
//! Operations: `5·n·m·log₂(n·m)` a transform, the field's count, and half as many for real numbers. Bytes: the input read once and the
//! output written once, without the table.

mod host;
mod lines;
mod roots;

use parallax_ir::Access::{Read, Write};
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fourier, Library, NotOn, OfNan, OpSpec, Problem, Program, Reference, Role, Shape,
    Stage, StressInput, Tolerance, Variant, Workload, by_pieces, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

const X: usize = 0;
const ROOTS: usize = 1;

/// Largest extent: its table has 64 MiB.
const MOST: u64 = 1 << 22;
/// Longest transform of `naive`, whose work grows with the second power of the length.
const MOST_NAIVE: u64 = 8192;

/// Stress inputs that fail in cuFFT 12.0 on an H200.
const NOT_ON: &[NotOn] = &[
    NotOn {
        sets: &["nan"],
        reason: "cuFFT writes zero for imaginary parts that are zero without NaN, as of the first result of r2c",
    },
    NotOn { sets: &["tone"], reason: "cuFFT exceeds the error bound of 131072 elements by half" },
];

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "discrete Fourier transforms of one or two dimensions",
        axes: const {
            &[
                Axis::extent("b", "transforms"),
                Axis::extent("n", "elements of a row"),
                Axis::optional("m", "rows of a transform of two dimensions", 1, 1),
                Axis::word("kind", "complex numbers, or real ones and half of their spectrum", &["c2c", "r2c"]),
                Axis::word("sign", "sign in the exponent: negative, or positive", &["", "inverse"]),
            ]
        },
        dtypes: &[DType::F32],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            cost,
            tolerance,
            Reference::new(host::row_cost, |p, inputs| {
                Box::new(move |_, row, out| host::reference(p, inputs, row, out))
            }),
            OfNan::Kept,
        )
        .headline("b256,n1024,c2c")
        .shapes(shapes)
        // Lengths of no power of two and short ones; lines of which a workgroup takes several; each first radix, and several passes;
        // halves of spectra; rows and columns of one stage and of two.
        .awkward(&[
            "b1,n1,c2c",
            "b3,n2,r2c",
            "b2,n7,c2c,inverse",
            "b5,n15,r2c",
            "b2,n1009,c2c",
            "b131,n8,c2c",
            "b67,n16,c2c,inverse",
            "b9,n32,r2c",
            "b33,n64,c2c",
            "b17,n128,c2c,inverse",
            "b5,n256,r2c",
            "b9,n512,c2c",
            "b3,n1024,c2c,inverse",
            "b2,n2048,r2c",
            "b3,n2048,c2c",
            "b2,n4096,c2c,inverse",
            "b1,n8192,c2c",
            "b1,n32768,c2c,inverse",
            "b2,n65536,r2c",
            "b1,n131072,c2c",
            "b2,n5,m3,c2c",
            "b3,n16,m32,c2c,inverse",
            "b2,n64,m16,c2c",
            "b1,n32,m1024,c2c,inverse",
            "b1,n2048,m64,c2c",
        ])
        .huge(&["b131088,n8192,c2c"])
        .host(host::host)
        .variants(vec![
            Variant::kernel(
                "naive",
                "one result per thread by the definition, for each dimension; the root is looked up for every term",
                naive,
            )
            .available(|p, _| match p["n"].max(p["m"]) {
                long if long > MOST_NAIVE => Err(format!("naive sums {long} terms a result: at most {MOST_NAIVE}")),
                _ => Ok(()),
            }),
            Variant::kernel(
                "lines",
                "Stockham's order, by radix 8, in CUDA 16: lines stay in registers and change places in workgroup memory; longer \
                 ones and columns take a further pass; real numbers are transformed in pairs",
                lines::program,
            )
            .available(lines::available),
            Variant::kernel("vendor", "the vendor's library, cuFFT", vendor).only_in(&[Dialect::Cuda]).not_on(NOT_ON),
        ])
        // Without `vendor`: a time of the library must not come from another kernel.
        .fallback(&["lines", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (b, n, m) = (shape["b"], shape["n"], shape["m"]);
    if n > MOST || m > MOST {
        return Err(format!("an extent is at most {MOST}"));
    }
    if shape.has("r2c") && m > 1 {
        return Err("real numbers are transformed in one dimension: m is 1".to_owned());
    }
    if shape.has("r2c") && shape.has("inverse") {
        return Err("r2c has one sign: `inverse` is of c2c".to_owned());
    }
    // Results of r2c are at most one more than the input for each transform.
    indexable(2 * b * (n + 2) * m)
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => {
            &["b256,n1024,c2c", "b16384,n1024,c2c", "b4096,n4096,r2c", "b16,n1048576,c2c", "b1,n2048,m2048,c2c"]
        }
        _ => &[
            "b256,n1024,c2c",
            "b1048576,n64,c2c",
            "b262144,n256,c2c",
            "b65536,n1024,c2c",
            "b16384,n4096,c2c",
            "b16384,n4096,c2c,inverse",
            "b16384,n4096,r2c",
            "b8192,n8192,c2c",
            "b64,n1048576,c2c",
            "b1,n4096,m4096,c2c",
            "b64,n1024,m1024,c2c",
            "b1000,n1000,c2c",
        ],
    }
}

/// Whether the input is real.
fn real(p: &Problem) -> bool {
    p.shape.has("r2c")
}

fn inverse(p: &Problem) -> bool {
    p.shape.has("inverse")
}

/// Complex numbers of all inputs. Two real numbers count as one.
fn complex(p: &Problem) -> u64 {
    let numbers = p["b"] * p["n"] * p["m"];
    if real(p) { numbers / 2 } else { numbers }
}

/// Results of a row.
fn outputs(p: &Problem) -> u64 {
    if real(p) { p["n"] / 2 + 1 } else { p["n"] }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, n, m) = (p["b"], p["n"], p["m"]);
    let x = if real(p) { vec![b, n] } else { vec![b, m, n, 2] };
    let out = if real(p) { vec![b, outputs(p), 2] } else { x.clone() };
    // A NaN reaches all of a transform, so that it is a row of the check.
    let role = Role::Output { row_len: outputs(p) * m * 2 };
    vec![
        BufferSpec::input("x", Elem::F32, &x, normal),
        BufferSpec::input("roots", Elem::F32, &[roots::entries(&p.shape), 2], roots::fill),
        BufferSpec { role, ..BufferSpec::output("out", Elem::F32, &out) },
        BufferSpec::scratch("between", Elem::F32, &out),
    ]
}

/// Doublings of one element that make a transform, rounded up.
fn doublings(p: &Problem) -> f64 {
    ((p["n"] * p["m"]) as f64).log2().ceil()
}

fn cost(p: &Problem) -> Cost {
    let numbers = p["b"] * p["n"] * p["m"];
    let all = 5 * numbers * doublings(p) as u64;
    let read = if real(p) { 4 * numbers } else { 8 * numbers };
    Cost::new(if real(p) { all / 2 } else { all }, read, 8 * p["b"] * outputs(p) * p["m"])
}

/// Tolerance for numbers of about `size`.
fn of_size(p: &Problem, size: f64) -> Tolerance {
    let steps = doublings(p) + 4.0;
    Tolerance {
        abs: 8.0 * 2f64.powi(-24) * steps * size * (2.0 * (p["n"] * p["m"]) as f64).sqrt() + smallest_normal(p),
        rel: 4.0 * 2f64.powi(-24) * steps,
        reason: "each of log₂(n·m) doublings is off by at most 7·u times the norm of all elements (Higham 2002, theorem 24.2), \
                 spread over as many results; factors of a second part and of half a spectrum count as four; a sum by the definition \
                 in parts of 64 terms is off by less",
    }
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    of_size(p, 1.0)
}

fn stress_inputs() -> Vec<StressInput> {
    fn of_ones(p: &Problem, _: usize) -> Tolerance {
        Tolerance {
            abs: 4.0 * 2f64.powi(-24) * (doublings(p) + 4.0),
            reason: "a result is a root, or a sum of one root and zeros: a product of few roots for each doubling",
            ..of_size(p, 1.0)
        }
    }
    fn of_equal_rows(p: &Problem, output: usize) -> Tolerance {
        let usual = tolerance(p, output);
        Tolerance {
            abs: (p["m"] as f64).sqrt() * usual.abs,
            reason: "as usual; rows are equal and so are their errors, which add up over m rows, to √m times as much",
            ..usual
        }
    }
    vec![
        StressInput::new("zeros", "all zero: so is the result", |_| vec![("x", zero)], of_ones),
        StressInput::new(
            "constant",
            "all one: the first result is the number of elements, and all others are zero",
            |_| vec![("x", one)],
            of_equal_rows,
        ),
        StressInput::new(
            "impulse",
            "a one in each transform, at another place in each: every result is a root of unity",
            |_| vec![("x", impulse)],
            of_ones,
        ),
        StressInput::new(
            "tone",
            "one frequency: all but one or two results are nearly zero",
            |_| vec![("x", tone)],
            of_equal_rows,
        ),
        StressInput::new(
            "nan",
            "NaN in every third transform: so is all of it, and no other",
            |_| vec![("x", nan)],
            tolerance,
        ),
        StressInput::new(
            "range",
            "numbers from 2^-40 to 2^40: results are as far off as the largest demand",
            |_| vec![("x", range)],
            |p, _| of_size(p, 3.47 * 2f64.powi(40)),
        ),
        StressInput::new(
            "huge",
            "up to 3e29: sums of all elements stay within f32",
            |_| vec![("x", |_, draw| 1e29 * draw.normal())],
            |p, _| of_size(p, 1e29),
        ),
    ]
}

/// Floats of the input of a transform.
fn floats(shape: &Shape) -> u64 {
    if shape.has("r2c") { shape["n"] } else { 2 * shape["n"] * shape["m"] }
}

fn impulse(shape: &Shape, draw: Draw) -> f64 {
    let (transform, at) = (draw.index / floats(shape), draw.index % floats(shape));
    if at == transform * 7 % floats(shape) { 1.0 } else { 0.0 }
}

/// Tone of a third of the length: at most 2^22 different angles.
fn tone(shape: &Shape, draw: Draw) -> f64 {
    let at = draw.index % floats(shape);
    let (column, part) = if shape.has("r2c") { (at, 0) } else { (at / 2 % shape["n"], at % 2) };
    let n = shape["n"];
    let [cosine, sine] = roots::root(column * (n / 3) % n, n);
    if part == 0 { cosine } else { sine }
}

/// NaN at both floats that begin every third transform: a real NaN alone would leave the imaginary part of some results open.
fn nan(shape: &Shape, draw: Draw) -> f64 {
    let (transform, at) = (draw.index / floats(shape), draw.index % floats(shape));
    if at < 2 && transform.is_multiple_of(3) { f64::NAN } else { draw.normal() }
}

fn range(_: &Shape, draw: Draw) -> f64 {
    draw.normal() * 2f64.powi((draw.bits() % 81) as i32 - 40)
}

/// Stage of `naive` for one dimension: `len` elements, `inner` apart.
fn sums(p: &Problem, rows: bool, [from, to]: [&'static str; 2]) -> Stage {
    let (len, inner) = if rows { (p["n"], 1) } else { (p["m"], p["n"]) };
    let results = if rows { outputs(p) } else { len };
    let count = p["b"] * p["m"] * outputs(p);
    let entry = if rows { "rows" } else { "columns" };
    let consts = [("LEN", len), ("RESULTS", results), ("INNER", inner), ("ROOT", roots::first_of(p, rows))];
    let once = 8 * count;
    by_pieces(count, 1, "fft/naive", "fft_naive")
        .label(entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("INVERSE", inverse(p)), ("REAL", real(p))])
        .args([("x", from, Read), ("roots", "roots", Read), ("out", to, Write)])
        .cost(Cost::new(8 * count * len, 8 * complex(p), once))
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    match p["m"] {
        1 => sums(p, true, ["x", "out"]).into(),
        _ => Program { stages: vec![sums(p, true, ["x", "between"]), sums(p, false, ["between", "out"])] },
    }
}

fn vendor(p: &Problem, _caps: &Caps) -> Program {
    let wanted = Fourier { batch: p["b"], rows: p["m"], columns: p["n"], real: real(p), inverse: inverse(p) };
    let call = Library::Fourier(wanted);
    Stage::library(call.name(), call).args([("x", Read), ("out", Write)]).cost(cost(p)).into()
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn shapes_without_a_definition_are_refused() {
        for (shape, part) in [
            ("b1,n8,m8,r2c", "one dimension"),
            ("b1,n8,r2c,inverse", "one sign"),
            ("b1,n4194305,c2c", "at most 4194304"),
            ("b1048576,n4096,c2c", "32 bits"),
        ] {
            let refused = parse_case(&format!("fft/fwd/{shape}/f32/naive")).expect_err("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
