//! One step of AdamW, in place: parameters follow the ratio of the moving averages of gradient and squared gradient.
//!
//! Formula: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019). In step `t`, counted from one: `m ← β₁ m + (1 −
//! β₁) g`, `v ← β₂ v + (1 − β₂) g²`, `param ← (1 − ηλ) param − η · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)`, with `η = 10⁻³`, `β₁ =
//! 0.9`, `β₂ = 0.999`, `ε = 10⁻⁸` and `λ = 0.01`. The averages `m` and `v` are f32, as in training.
//!
//! Operations: fourteen an element. Bytes: parameter and averages read and written once, and the gradient read.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, Fill, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Role, Stage,
    StressInput, Tolerance, Variant, Workload, by_pieces, indexable, normal, width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::copy::row_len;

const PARAM: usize = 0;
const GRAD: usize = 1;
const M: usize = 2;
const V: usize = 3;

const RATE: f64 = 1e-3;
const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;
const DECAY: f64 = 0.01;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "a step of AdamW",
        axes: const { &[Axis::extent("n", "parameters"), Axis::optional("t", "step, counted from one", 1, 100)] },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| indexable(shape["n"]),
        forms: vec![form()],
    }
}

fn form() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, 3.47),
        Reference::new(
            |p, _| 8 * row_len(p),
            |p, inputs| {
                Box::new(move |output, row, out| {
                    for (out, at) in out.iter_mut().zip(row * row_len(p)..) {
                        *out = step(p, inputs, at)[output];
                    }
                })
            },
        ),
        OfNan::MIXED,
    )
    .headline("n4194304")
    .shapes(|preset| match preset {
        Preset::Standard => &["n4194304", "n67108864"],
        _ => &["n4194304", "n67108864", "n268435456"],
    })
    .awkward(&["n1,t1", "n3", "n1009,t1", "n2050", "n4100,t1000000", "n65544"])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "separate",
            "four stages in vectors, as a framework chains them: each average, the direction of the step, the step",
            separate,
        ),
        Variant::kernel("scalar", "one stage, one element per thread", |p, _| fused(p, 1)),
        Variant::kernel("vector", "one stage, a vector per thread in one access of each array", |p, caps| {
            fused(p, across(p, caps))
        }),
    ])
    .fallback(&["vector", "scalar", "separate"])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let dims = [p["n"]];
    // Checked in the longest rows of equal length.
    let changed = |name, elem, fill: Fill| BufferSpec {
        role: Role::InOut { fill, row_len: row_len(p) },
        ..BufferSpec::in_out(name, elem, &dims, fill)
    };
    vec![
        changed("param", Elem::Real, normal),
        BufferSpec::input("grad", Elem::Real, &dims, normal),
        changed("m", Elem::F32, |_, draw| 0.1 * draw.normal()),
        changed("v", Elem::F32, |_, draw| 0.01 * (1.0 + draw.uniform())),
        BufferSpec::scratch("direction", Elem::F32, &dims),
    ]
}

/// Cost of `flops` operations an element, with these reals and averages read and written per element.
fn costing(p: &Problem, flops: u64, read: [u64; 2], written: [u64; 2]) -> Cost {
    let bytes = |[reals, averages]: [u64; 2]| p["n"] * (reals * Elem::Real.storage(p.dtype).bytes() + averages * 4);
    Cost::new(flops * p["n"], bytes(read), bytes(written))
}

fn cost(p: &Problem) -> Cost {
    costing(p, 14, [2, 2], [1, 2])
}

/// Tolerance for gradients of at most `largest`.
fn tolerance(p: &Problem, output: usize, largest: f64) -> Tolerance {
    let f32u = 2f64.powi(-24);
    match output {
        0 => Tolerance {
            abs: 8.0 * f32u * 3.47 + smallest_normal(p),
            rel: 2.0 * p.dtype.unit_roundoff(),
            reason: "a product of a parameter of at most 3.47 in f32, less a step of at most a fiftieth, which is off by some \
                     units in its last place; the result is rounded once",
        },
        1 => Tolerance {
            abs: 4.0 * f32u * (0.35 + largest) + 2f64.powi(-126),
            rel: 0.0,
            reason: "two products and their sum in f32; a device may flush subnormal numbers to zero",
        },
        _ => Tolerance {
            abs: 2f64.powi(-125),
            rel: 8.0 * f32u,
            reason: "three products and a sum of positive terms in f32; a device may flush subnormal numbers to zero",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let usual = |p: &Problem, output: usize| tolerance(p, output, 3.47);
    let set = |name, about, fills| StressInput::new(name, about, fills, usual);
    vec![
        set("zeros", "no gradient yet: a step of zero over ε, and the decay", |_| {
            vec![("grad", zero), ("m", zero), ("v", zero)]
        }),
        set("equal", "all one", |_| vec![("param", one), ("grad", one), ("m", one), ("v", one)]),
        StressInput {
            tolerance: |p, output| tolerance(p, output, largest(p)),
            ..set(
                "huge",
                "gradients up to 6e4 in f16 and 1e15 otherwise: squares stay within f32, and steps small",
                |p| {
                    let fill: Fill = match p.dtype {
                        DType::F16 => |_, draw| 6e4 * (2.0 * draw.uniform() - 1.0),
                        _ => |_, draw| 1e15 * (2.0 * draw.uniform() - 1.0),
                    };
                    vec![("grad", fill)]
                },
            )
        },
        StressInput {
            applies: wide,
            ..set("tiny", "gradients around 1e-20 in the first step: squares underflow, and the divisor is ε", |_| {
                vec![("grad", |_, draw| 1e-20 * draw.normal()), ("m", zero), ("v", zero)]
            })
        },
    ]
}

fn largest(p: &Problem) -> f64 {
    if p.dtype == DType::F16 { 6e4 } else { 1e15 }
}

/// Bias correction of an average in the first steps: `1 − βᵗ`.
fn unbiased(p: &Problem, beta: f64) -> f64 {
    1.0 - beta.powf(p["t"] as f64)
}

/// Parameter and averages of an element after the step.
fn step(p: &Problem, inputs: &Inputs, at: u64) -> [f64; 3] {
    stepped(p, inputs.at(GRAD, at), [PARAM, M, V].map(|buffer| inputs.at(buffer, at)))
}

/// Parameter and averages after the step, from a gradient and the values before it.
pub(super) fn stepped(p: &Problem, gradient: f64, [param, m, v]: [f64; 3]) -> [f64; 3] {
    let m = BETA1 * m + (1.0 - BETA1) * gradient;
    let v = BETA2 * v + (1.0 - BETA2) * gradient * gradient;
    let direction = m / unbiased(p, BETA1) / ((v / unbiased(p, BETA2)).sqrt() + EPS);
    [(1.0 - RATE * DECAY) * param - RATE * direction, m, v]
}

/// Kernel constants. Differences from one are computed in f64: f32 would lose most digits of `1 − β₂`.
fn constants(p: &Problem) -> [(&'static str, f32); 8] {
    [
        ("BETA1", BETA1),
        ("REST1", 1.0 - BETA1),
        ("BETA2", BETA2),
        ("REST2", 1.0 - BETA2),
        ("UNBIASED", 1.0 / unbiased(p, BETA2)),
        ("EPS", EPS),
        ("DECAYED", 1.0 - RATE * DECAY),
        ("STEP", RATE / unbiased(p, BETA1)),
    ]
    .map(|(name, value)| (name, value as f32))
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [beta1, rest1, beta2, rest2, unbiased, eps, decayed, rate] = constants(p).map(|(_, value)| value);
    let given =
        inputs[PARAM].f32().par_iter().zip(inputs[GRAD].f32()).zip(inputs[M].f32().par_iter().zip(inputs[V].f32()));
    let [param, m, v] = outputs else { unreachable!("three outputs") };
    let changed = param.par_iter_mut().zip(m.par_iter_mut().zip(v.par_iter_mut()));
    changed.zip(given).for_each(|((param, (m, v)), ((old_param, gradient), (old_m, old_v)))| {
        *m = beta1 * old_m + rest1 * gradient;
        *v = beta2 * old_v + rest2 * gradient * gradient;
        *param = decayed * old_param - rate * *m / ((*v * unbiased).sqrt() + eps);
    });
}

/// Elements per thread at a time: vectors of 16 bytes of the averages.
fn across(p: &Problem, caps: &Caps) -> u64 {
    width(p["n"], DType::F32, caps)
}

fn stage(p: &Problem, width: u64, text: &'static str, entry: &'static str) -> Stage {
    by_pieces(p["n"] / width, width, text, entry).consts(&constants(p))
}

fn fused(p: &Problem, width: u64) -> Program {
    stage(p, width, "adamw/fused", "adamw_step")
        .args([("param", Write), ("grad", Read), ("m", Write), ("v", Write)])
        .cost(cost(p))
        .into()
}

fn separate(p: &Problem, caps: &Caps) -> Program {
    let stage = |entry| stage(p, across(p, caps), "adamw/separate", entry);
    let first = stage("adamw_first").args([("m", Write), ("grad", Read)]).cost(costing(p, 3, [1, 1], [0, 1]));
    let second = stage("adamw_second").args([("v", Write), ("grad", Read)]).cost(costing(p, 4, [1, 1], [0, 1]));
    let direction = stage("adamw_direction")
        .args([("direction", "direction", Write), ("first", "m", Read), ("second", "v", Read)])
        .cost(costing(p, 4, [0, 2], [0, 1]));
    let apply = stage("adamw_apply").args([("param", "param", Write), ("along", "direction", Read)]).cost(costing(
        p,
        3,
        [1, 1],
        [1, 0],
    ));
    Program { stages: vec![first, second, direction, apply] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn the_first_step_goes_by_the_rate_against_the_gradient() {
        let case = parse_case("adamw/fwd/n3,t1/f32/scalar").expect("valid");
        let mut inputs = case.problem.inputs(1);
        let bytes = |values: [f32; 3]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        for (buffer, values) in [(PARAM, [0.0; 3]), (GRAD, [5.0, -0.1, 0.0]), (M, [0.0; 3]), (V, [0.0; 3])] {
            inputs.replace(buffer, bytes(values)).expect("three of them");
        }
        for (at, want) in [(0, -RATE), (1, RATE), (2, 0.0)] {
            let [param, _, _] = step(&case.problem, &inputs, at);
            assert!((param - want).abs() < 1e-9, "{at}: {param}");
        }
    }

    #[test]
    fn one_stage_moves_less_than_four() {
        let moved = |variant: &str| {
            let case = parse_case(&format!("adamw/fwd/n4096/f32/{variant}")).expect("valid");
            let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
            program.stages.iter().map(|stage| stage.cost.moved().0).sum::<u64>()
        };
        assert_eq!((moved("vector"), moved("separate")), (28 * 4096, 48 * 4096));
    }
}
