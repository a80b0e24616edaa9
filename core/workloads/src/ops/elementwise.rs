//! Element-wise operations of one or two tensors: arithmetic, activations, and gated activations.
//!
//! Tensors are matrices of `r` rows and `c` columns. With two operands `out = a ∘ b` for `add`, `sub`, `mul` and `div`, and
//! `out = silu(a) · b` or `gelu(a) · b` for `swiglu` and `geglu`. With `row` the operand `b` is one row of `c` elements, and with
//! `column` one column of `r`, both repeated. With one operand: `relu`, `silu`, `sigmoid`, `tanh`, `hardswish`.
//!
//! Formulas: `silu(x) = x / (1 + e⁻ˣ)`, also called swish; `hardswish(x) = x · min(max(x + 3, 0), 6) / 6` (Howard et al. (2019));
//! gated units as in Shazeer, "GLU Variants Improve Transformer" (2020), with the tanh formula of the workload `gelu`.
//!
//! Operations: one an element of arithmetic, five of an activation, ten of GELU. Bytes: each tensor read or written once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{scattered_nan, smallest_normal, subnormal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, OfNan, OpSpec, Problem, Program, Reference, Shape, StressInput,
    Tolerance, Variant, Workload, by_pieces, indexable, normal, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::gelu::{gelu_tanh, wide};

use crate::real::logistic;
use crate::vector;

const A: usize = 0;
const B: usize = 1;

/// Names of the operations; their places are the constant `OP` of the kernels.
const OPS: &[&str] = &["add", "sub", "mul", "div", "swiglu", "geglu", "relu", "silu", "sigmoid", "tanh", "hardswish"];
/// Number of operations with two operands, which come first.
const BINARY: usize = 6;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "element-wise arithmetic, activations and gated activations",
        axes: const {
            &[
                Axis::extent("r", "rows"),
                Axis::extent("c", "columns"),
                Axis::word("op", "operation", OPS),
                Axis::word("b", "extent of the second operand", &["", "row", "column"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| {
            indexable(shape["r"] * shape["c"])?;
            match (shape.has("row") || shape.has("column"), binary(shape)) {
                (true, false) => Err(format!("{} has one operand", OPS[op(shape)])),
                _ => Ok(()),
            }
        },
        forms: vec![forward()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        tolerance,
        Reference::new(
            |p, _| 4 * p["c"],
            |p, inputs| {
                Box::new(move |_, row, out| {
                    for (column, out) in (0..).zip(out) {
                        let a = inputs.at(A, row * p["c"] + column);
                        let b = binary(&p.shape).then(|| inputs.at(B, second(p, row, column)));
                        *out = value(p, a, b.unwrap_or_default());
                    }
                })
            },
        ),
        OfNan::Kept,
    )
    .headline("r4096,c4096,add")
    .shapes(shapes)
    .awkward(&[
        "r1,c1,add",
        "r3,c5,sub,row",
        "r7,c12,mul,column",
        "r2,c1009,div",
        "r5,c264,div,row",
        "r9,c6,swiglu",
        "r3,c1032,geglu",
        "r1,c2051,relu",
        "r4,c10,silu",
        "r2,c72,sigmoid",
        "r11,c8,tanh",
        "r33,c513,hardswish",
        "r513,c16,add,column",
        "r65,c1000,swiglu,row",
    ])
    .huge(&["r2049,c1048576,relu"])
    .host(host)
    .variants(vec![
        Variant::kernel("scalar", "one element per thread", |p, _| program(p, 1)),
        Variant::kernel("vector", "a vector per thread in one access", |p, caps| {
            program(p, width(p["c"], p.dtype, caps))
        })
        .available(|p, _: &Caps| match p.shape.has("column") {
            true => Err("a repeated column is read by elements; `scalar` does it".to_owned()),
            false => Ok(()),
        }),
    ])
    .fallback(&["vector", "scalar"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r4096,c4096,add", "r4096,c4096,add,row", "r4096,c4096,silu", "r2048,c8192,swiglu"],
        _ => &[
            "r4096,c4096,add",
            "r4096,c4096,add,row",
            "r4096,c4096,mul,column",
            "r4096,c4096,relu",
            "r4096,c4096,silu",
            "r2048,c8192,swiglu",
            "r2048,c8192,geglu",
            "r16384,c8192,add",
        ],
    }
}

/// Place of the operation in [`OPS`].
fn op(shape: &Shape) -> usize {
    OPS.iter().position(|name| shape.has(name)).expect("a word of the axis")
}

/// Whether the operation has two operands.
fn binary(shape: &Shape) -> bool {
    op(shape) < BINARY
}

/// Extents of the second operand.
fn second_extents(p: &Problem) -> Vec<u64> {
    match (p.shape.has("row"), p.shape.has("column")) {
        (true, _) => vec![p["c"]],
        (_, true) => vec![p["r"]],
        _ => vec![p["r"], p["c"]],
    }
}

/// Index of the second operand for an element.
fn second(p: &Problem, row: u64, column: u64) -> u64 {
    match (p.shape.has("row"), p.shape.has("column")) {
        (true, _) => column,
        (_, true) => row,
        _ => row * p["c"] + column,
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let extents = [p["r"], p["c"]];
    let activates = op(&p.shape) >= 4;
    let mut buffers = vec![BufferSpec::input("a", Elem::Real, &extents, if activates { wide } else { normal })];
    if binary(&p.shape) {
        let fill = if p.shape.has("div") { divisor } else { normal };
        buffers.push(BufferSpec::input("b", Elem::Real, &second_extents(p), fill));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &extents));
    buffers
}

/// Number of a magnitude between a half and two, of either sign.
fn divisor(_: &Shape, draw: Draw) -> f64 {
    let magnitude = 0.5 + 1.5 * draw.uniform();
    if draw.bits() & 1 == 0 { magnitude } else { -magnitude }
}

fn cost(p: &Problem) -> Cost {
    let each = match op(&p.shape) {
        0..=3 => 1,
        4 => 6,
        5 => 11,
        6 => 1,
        _ => 5,
    };
    p.each_once(each * p["r"] * p["c"])
}

fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    let rounding = 2.0 * p.dtype.unit_roundoff();
    match op(&p.shape) {
        0..=2 | 6 => Tolerance {
            abs: smallest_normal(p),
            rel: rounding,
            reason: "one operation in f32, rounded once to the element type; numbers too small to be normal may become zero",
        },
        3 => Tolerance {
            abs: smallest_normal(p),
            rel: rounding + 3.0 * 2f64.powi(-23),
            reason: "WGSL's division is off by at most 2.5 units in the last place; the quotient is rounded once",
        },
        _ => Tolerance {
            abs: 4e-6 + smallest_normal(p),
            rel: 1e-5 + rounding,
            reason: "exponents up to 34, of which WGSL's exp may be off by 3 + 2·34 units in the last place; tanh is twice a logistic \
                     function less one, whose error of a few units of 2⁻²⁴ stays where the result is small; rounded once",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new("nan", "NaN among numbers: so are results", |_| vec![("a", scattered_nan)], tolerance),
        StressInput::new("zeros", "the first operand is zero", |_| vec![("a", zero)], tolerance),
        StressInput::new(
            "subnormal",
            "a first operand too small to be normal: kept, or zero where the device flushes it",
            |p| vec![("a", subnormal(p))],
            |p, output| Tolerance { abs: tolerance(p, output).abs + 4.0 * smallest_normal(p), ..tolerance(p, output) },
        ),
        StressInput::new(
            "far",
            "±1000: activations are at their limits, and exponentials would overflow",
            |_| vec![("a", |_, draw| if draw.bits() & 1 == 0 { 1000.0 } else { -1000.0 })],
            |p, output| Tolerance { abs: 2.0 * tolerance(p, output).abs, ..tolerance(p, output) },
        )
        .applies(|p| op(&p.shape) >= BINARY),
    ]
}

/// Value of the operation in f64; `b` is ignored by operations of one operand.
fn value(p: &Problem, a: f64, b: f64) -> f64 {
    match OPS[op(&p.shape)] {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "div" => a / b,
        "swiglu" => a * logistic(a) * b,
        "geglu" => gelu_tanh(a) * b,
        // `f64::max` loses NaN.
        "relu" => {
            if a < 0.0 {
                0.0
            } else {
                a
            }
        }
        "silu" => a * logistic(a),
        "sigmoid" => logistic(a),
        "tanh" => a.tanh(),
        _ => a * (a + 3.0).clamp(0.0, 6.0) / 6.0,
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let columns = p["c"] as usize;
    let a = inputs[A].f32();
    let b = binary(&p.shape).then(|| inputs[B].f32());
    let rows = outputs[0].par_chunks_mut(columns).zip(a.par_chunks(columns));
    rows.enumerate().for_each(|(row, (out, a))| match (b, p.shape.has("row"), p.shape.has("column")) {
        (None, ..) => over(p, out, a, Operand::One(0.0)),
        (Some(b), true, _) => over(p, out, a, Operand::Row(b)),
        (Some(b), _, true) => over(p, out, a, Operand::One(b[row])),
        (Some(b), ..) => over(p, out, a, Operand::Row(&b[row * columns..][..columns])),
    });
}

/// Second operand of a row.
#[derive(Clone, Copy)]
enum Operand<'a> {
    One(f32),
    Row(&'a [f32]),
}

/// Computes one row. The choice of the operation is outside of the loop, so that arithmetic is vectorised.
fn over(p: &Problem, out: &mut [f32], a: &[f32], b: Operand) {
    fn each(out: &mut [f32], a: &[f32], b: Operand, function: impl Fn(f32, f32) -> f32) {
        match b {
            Operand::One(b) => vector::map(out, a, |a| function(a, b)),
            Operand::Row(b) => vector::zip(out, [a, b], function),
        }
    }
    match OPS[op(&p.shape)] {
        "add" => each(out, a, b, |a, b| a + b),
        "sub" => each(out, a, b, |a, b| a - b),
        "mul" => each(out, a, b, |a, b| a * b),
        "div" => each(out, a, b, |a, b| a / b),
        "swiglu" => each(out, a, b, |a, b| a * logistic(a) * b),
        "geglu" => each(out, a, b, |a, b| gelu_tanh(a) * b),
        "relu" => each(out, a, b, |a, _| if a < 0.0 { 0.0 } else { a }),
        "silu" => vector::map(out, a, |a| a * logistic(a)),
        "sigmoid" => vector::map(out, a, logistic),
        "tanh" => each(out, a, b, |a, _| a.tanh()),
        _ => each(out, a, b, |a, _| a * (a + 3.0).clamp(0.0, 6.0) / 6.0),
    }
}

/// Program in pieces of `width` elements of a row.
fn program(p: &Problem, width: u64) -> Program {
    let (columns, binary) = (p["c"] / width, binary(&p.shape));
    let entry = if binary { "elementwise_binary" } else { "elementwise_unary" };
    let stage = by_pieces(p["r"] * columns, width, "elementwise", entry)
        .consts(&[("OP", op(&p.shape) as u32), ("COLUMNS", columns as u32)])
        .consts(&[("ROW", p.shape.has("row")), ("COLUMN", p.shape.has("column"))]);
    let stage = match binary {
        true => stage.args([("a", Read), ("b", Read), ("out", Write)]),
        false => stage.args([("a", "a", Read), ("result", "out", Write)]),
    };
    stage.cost(p.cost()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn a_repeated_operand_needs_two_operands() {
        assert!(parse_case("elementwise/fwd/r2,c2,add,row/f32/scalar").is_ok());
        let error = parse_case("elementwise/fwd/r2,c2,relu,row/f32/scalar").expect_err("one operand").to_string();
        assert!(error.contains("relu has one operand"), "{error}");
    }

    #[test]
    fn values_are_those_of_the_definitions() {
        for (shape, a, b, want) in [
            ("r1,c1,sub", 3.0, 5.0, -2.0),
            ("r1,c1,div", 3.0, 2.0, 1.5),
            ("r1,c1,silu", 0.0, 0.0, 0.0),
            ("r1,c1,silu", 2.0, 0.0, 1.761_594_155_955_765),
            ("r1,c1,sigmoid", -1.0, 0.0, 0.268_941_421_369_995),
            ("r1,c1,swiglu", 2.0, 3.0, 5.284_782_467_867_294),
            ("r1,c1,hardswish", -4.0, 0.0, 0.0),
            ("r1,c1,hardswish", 1.0, 0.0, 2.0 / 3.0),
            ("r1,c1,hardswish", 4.0, 0.0, 4.0),
        ] {
            let case = parse_case(&format!("elementwise/fwd/{shape}/f32/scalar")).expect("valid");
            let found = value(&case.problem, a, b);
            assert!((found - want).abs() < 1e-12, "{shape} of {a} and {b}: {found}");
        }
    }

    #[test]
    fn a_repeated_operand_is_read_once() {
        let cost =
            |shape: &str| parse_case(&format!("elementwise/fwd/{shape}/f32/scalar")).expect("valid").least_cost();
        assert_eq!(cost("r8,c4,add").read.0, 2 * 128);
        assert_eq!(cost("r8,c4,add,row").read.0, 128 + 16);
        assert_eq!(cost("r8,c4,add,column").read.0, 128 + 32);
        assert_eq!(cost("r8,c4,relu").read.0, 128);
    }
}
