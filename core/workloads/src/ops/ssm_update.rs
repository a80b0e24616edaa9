//! One token of a selective state-space model, as in generation: each state decays, takes the token in, and gives a result.
//!
//! Formula: Dao and Gu, "Transformers are SSMs" (2024), in the form of `selective_state_update` of their package. A head has a rate
//! `A`, a skip `D` and a bias. With `δ = softplus(dt + bias)`, row `r` of its state and the result follow from the token.
//! `state[r,j] ← state[r,j] · e^(δA) + δ · B[j] · x[r]`, and `out[r] = Σ C[j] · state[r,j] + D · x[r]`. With `gated` the result is
//! `out[r] · silu(z[r])`.
//!
//! `state` is `[b, h, d, n]`, changed in place. `x`, `z` and `out` are `[b, h, d]`, and `dt` is `[b, h]`. `B` and `C` are `[b, g, n]` with
//! `h/g` neighbouring heads per group. `heads` is `[3, h]`: rates, skips, biases.
//!
//! The state is f32 for each element type, and so are the numbers of heads. A rate near zero adds tokens up over thousands of steps. A
//! state of 16 bits would lose each addend below half a unit in its last place.
//!
//! Operations: five an element of the state, two of the skip and six of the gate for each result. Bytes: the state read and written once,
//! which is nearly all, and the others once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, nan_in_rows, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage, StressInput,
    Tolerance, Tunable, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Allowed, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use crate::real::silu;
use crate::state_space::{BIAS, MOST_NORMAL, MOST_STEP, RATE, SKIP, heads_buffer, of_head, softplus, step};
use crate::vector;

const STATE: usize = 0;
const X: usize = 1;
const DT: usize = 2;
const B: usize = 3;
const C: usize = 4;
const HEADS: usize = 5;
const Z: usize = 6;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "one token of a selective state-space model (Mamba-2)",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("h", "heads"),
                Axis::optional("g", "groups of heads with the same B and C, a divisor of h", 1, 1),
                Axis::extent("d", "head dim"),
                Axis::extent("n", "elements of a row of the state"),
                Axis::word("gate", "factor of the result", &["", "gated"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| {
                let rows = p["b"] * p["h"] * p["d"];
                p.each_once(rows * (5 * p["n"] + if gated(p) { 8 } else { 2 }))
            },
            tolerance,
            Reference::new(|p, output| if output == 0 { 2 * p["n"] } else { 4 * p["d"] * p["n"] }, |p, inputs| {
                Box::new(move |output, row, out| reference(p, inputs, output, row, out))
            }),
            OfNan::Kept,
        )
        .headline("b8,h80,d64,n128")
        .shapes(shapes)
        // One element; odd rows; rows of a prime length, shorter and longer than a warp reads at once; parts of a head that end
        // within it; groups of one head and of several; more rows than one workgroup has.
        .awkward(&[
            "b1,h1,d1,n1",
            "b2,h3,d5,n7,gated",
            "b3,h4,g2,d9,n16",
            "b2,h2,g2,d33,n20",
            "b1,h5,d17,n127",
            "b2,h3,g3,d8,n256,gated",
            "b1,h2,d3,n1032",
            "b5,h8,g2,d64,n64",
            "b1,h7,d130,n4,gated",
            "b1,h6,g3,d64,n128,gated",
        ])
        .huge(&["b2049,h128,g8,d64,n128"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one row of the state per thread", naive),
            Variant::kernel(
                "rows",
                "neighbouring threads share a row in accesses of 16 bytes, and read several rows of a head before they use the first",
                rows,
            )
            .tunables(&[ROWS]),
        ])
        .fallback(&["rows", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (h, g) = (shape["h"], shape["g"]);
    if !h.is_multiple_of(g) {
        return Err(format!("{h} heads cannot share {g} groups evenly"));
    }
    indexable(shape["b"] * h * shape["d"] * shape["n"])
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,h80,d64,n128", "b8,h80,d64,n128", "b64,h80,d64,n128"],
        _ => &[
            "b1,h80,d64,n128",
            "b8,h80,d64,n128",
            "b64,h80,d64,n128",
            "b64,h80,d64,n128,gated",
            "b256,h80,d64,n128",
            "b64,h128,g8,d64,n128",
            "b256,h128,g8,d64,n128",
        ],
    }
}

/// Whether the result has a gate.
fn gated(p: &Problem) -> bool {
    p.shape.has("gated")
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, g, d, n) = (p["b"], p["h"], p["g"], p["d"], p["n"]);
    let mut buffers = vec![
        BufferSpec::in_out("state", Elem::F32, &[b, h, d, n], normal),
        BufferSpec::input("x", Elem::Real, &[b, h, d], normal),
        BufferSpec::input("dt", Elem::Real, &[b, h], step),
        BufferSpec::input("b", Elem::Real, &[b, g, n], normal),
        BufferSpec::input("c", Elem::Real, &[b, g, n], normal),
        heads_buffer(h),
    ];
    if gated(p) {
        buffers.push(BufferSpec::input("z", Elem::Real, &[b, h, d], normal));
    }
    buffers.push(BufferSpec::output("out", Elem::Real, &[b, h, d]));
    buffers
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    of_ranges(p, output, MOST_STEP, MOST_NORMAL)
}

/// Tolerance for steps of at most `step` and gates of at most `gate`.
fn of_ranges(p: &Problem, output: usize, step: f64, gate: f64) -> Tolerance {
    let (u, n) = (2f64.powi(-24), p["n"] as f64);
    // Relative error of a step, whose exponential has an argument of at most 9, and absolute error of a decay.
    let (of_step, of_decay) = (64.0 * u, 36.0 * u);
    let taken = step * MOST_NORMAL;
    if output == 0 {
        return Tolerance {
            abs: MOST_NORMAL * (of_decay + taken * (of_step + 4.0 * u)) + smallest_of_state(step),
            rel: 2.0 * u,
            reason: "the step is off by 64 units of 2^-24 in WGSL, whose exponential is off by 3 + 2|x| units in the last place; an \
                     exponent v carries that to e^v, where |v·e^v| is at most 1/e; both products and their sum are rounded in f32",
        };
    }
    let (root, gate) = (n.sqrt(), if gated(p) { gate } else { 1.0 });
    Tolerance {
        abs: gate * (8.0 * (root * (of_decay + taken * of_step) + n * u * (1.0 + taken)) + n * smallest_of_state(step))
            + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff() + 4e-6,
        reason: "a head's errors of step and decay are factors of sums of n products of either sign, which are 8·√n times their deviation \
                 with a probability of e^-32; partial sums of m products are about √m, so that roundings in any order stay below 8·n·u; \
                 the gate is off by at most 20 units in the last place, and the result is rounded once",
    }
}

/// Bound of numbers of a state that a device may flush to zero.
fn smallest_of_state(step: f64) -> f64 {
    2f64.powi(-126) * MOST_NORMAL * (1.0 + step * MOST_NORMAL)
}

fn stress_inputs() -> Vec<StressInput> {
    /// Step whose decay with the usual rates is below e^-20.
    const LONG: f64 = 24.0;
    const FAR: f64 = 200.0;
    vec![
        StressInput::new(
            "nan",
            "NaN in the first row of each third head: so are these rows of the state and their results",
            |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["d"]))],
            tolerance,
        ),
        StressInput::new(
            "nan state",
            "NaN as the first element of each third row of the state: it stays, and reaches the row's result alone",
            |_| vec![("state", |shape, draw| nan_in_rows(draw, shape["n"]))],
            tolerance,
        ),
        StressInput::new(
            "zeros",
            "no state and no input: none after it",
            |_| vec![("state", zero), ("x", zero)],
            exact,
        ),
        StressInput::new(
            "no decay",
            "rates of zero: the state is a sum",
            |_| vec![("heads", |shape, draw| of_head(shape, draw, 0.0))],
            tolerance,
        ),
        StressInput::new(
            "strong decay",
            "rates of -1e6, whose exponentials underflow: the state is the token alone",
            |_| vec![("heads", |shape, draw| of_head(shape, draw, -1e6))],
            tolerance,
        ),
        StressInput::new(
            "long steps",
            "steps of about 20, where softplus is its argument",
            |_| vec![("dt", |_, draw| 20.0 + draw.normal())],
            |p, output| of_ranges(p, output, LONG, MOST_NORMAL),
        ),
        StressInput::new(
            "no steps",
            "steps of e^-100, which f32 has not: the state stays",
            |_| vec![("dt", |_, _| -100.0)],
            tolerance,
        ),
        StressInput::new(
            "far gates",
            "gates of ±200, whose exponentials would overflow: the result times 200, and zero",
            |_| vec![("z", |_, draw| if draw.bits() & 1 == 0 { FAR } else { -FAR })],
            |p, output| of_ranges(p, output, MOST_STEP, FAR),
        )
        .applies(gated),
    ]
}

/// Row of the state after the token, and its result without the gate.
fn updated(p: &Problem, inputs: &Inputs, row: u64) -> (Vec<f64>, f64) {
    let (h, n) = (p["h"], p["n"]);
    let (sequence, head) = (row / p["d"] / h, row / p["d"] % h);
    let of_head = |place: u64| inputs.at(HEADS, place * h + head);
    let step = softplus(inputs.at(DT, row / p["d"]) + of_head(BIAS));
    let decay = (step * of_head(RATE)).exp();
    let x = inputs.at(X, row);
    let shared = (sequence * p["g"] + head / (h / p["g"])) * n;
    let mut result = of_head(SKIP) * x;
    let mut state = inputs.values(STATE, row * n..(row + 1) * n);
    for (j, state) in (0..).zip(&mut state) {
        *state = *state * decay + step * inputs.at(B, shared + j) * x;
        result += inputs.at(C, shared + j) * *state;
    }
    (state, result)
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    if output == 0 {
        out.copy_from_slice(&updated(p, inputs, row).0);
        return;
    }
    for (at, out) in (row * p["d"]..).zip(out) {
        let gate = if gated(p) { silu(inputs.at(Z, at)) } else { 1.0 };
        *out = updated(p, inputs, at).1 * gate;
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (h, g, d, n) = (p["h"] as usize, p["g"] as usize, p["d"] as usize, p["n"] as usize);
    let [before, x, dt, b, c, heads] = [STATE, X, DT, B, C, HEADS].map(|buffer| inputs[buffer].f32());
    let z = gated(p).then(|| inputs[Z].f32());
    let [state, out] = outputs else { unreachable!("two outputs") };
    let of_heads = state.par_chunks_mut(d * n).zip(before.par_chunks(d * n)).zip(out.par_chunks_mut(d));
    of_heads.enumerate().for_each(|(at, ((state, before), out))| {
        let (sequence, head) = (at / h, at % h);
        let of_head = |place: u64| heads[place as usize * h + head];
        let step = softplus(dt[at] + of_head(BIAS));
        let decay = (step * of_head(RATE)).exp();
        let shared = (sequence * g + head / (h / g)) * n;
        let (b, c) = (&b[shared..][..n], &c[shared..][..n]);
        for (row, (state, before)) in state.chunks_exact_mut(n).zip(before.chunks_exact(n)).enumerate() {
            let x = x[at * d + row];
            vector::map(state, before, |state| state * decay);
            vector::add(state, step * x, b);
            let gate = z.map_or(1.0, |z| silu(z[at * d + row]));
            out[row] = (vector::dot(c, state) + of_head(SKIP) * x) * gate;
        }
    });
}

/// Stage with the extents as constants, and rows of the state in accesses of `width` elements.
fn stage(p: &Problem, width: u64, entry: &'static str, text: &'static str) -> Stage {
    let extents = [
        ("SEQUENCES", p["b"]),
        ("HEADS", p["h"]),
        ("GROUPS", p["g"]),
        ("D", p["d"]),
        ("PIECES", p["n"] / width),
        ("WIDTH", width),
        ("THREADS", u64::from(THREADS)),
    ];
    let args = [("state", Write), ("x", Read), ("dt", Read), ("b", Read), ("c", Read), ("heads", Read)];
    Stage::kernel(entry, text, entry)
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .consts(&[("GATED", gated(p))])
        .args(args.into_iter().chain(gated(p).then_some(("z", Read))).chain([("out", Write)]))
        .threads([THREADS, 1, 1])
        .cost(p.cost())
}

/// Threads of a workgroup.
const THREADS: u32 = 128;

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let groups = (p["b"] * p["h"] * p["d"]).div_ceil(u64::from(THREADS));
    stage(p, 1, "ssm_update_naive", "ssm_update/naive").grid(spread(groups)).into()
}

/// Bytes in flight are 16 for each thread and row. More rows share the reads of B and C, and leave fewer workgroups.
const ROWS: Tunable = Tunable {
    name: "ROWS",
    about: "rows of the state that a thread reads before it uses the first",
    allowed: Allowed::OneOf(&[1, 2, 4, 8]),
    default: 4,
};

fn rows(p: &Problem, caps: &Caps) -> Program {
    // B and C are read in as many elements as the state, so that the state's type decides.
    let width = width(p["n"], DType::F32, caps);
    let lanes = (p["n"] / width).next_power_of_two().min(32) as u32;
    let rows = p.tuned(caps, "rows", &ROWS);
    let parts = p["d"].div_ceil(u64::from(rows));
    let teams = p["b"] * p["h"] * parts;
    stage(p, width, "ssm_update_rows", "ssm_update/rows")
        .consts(&[("LANES", lanes), ("ROWS", rows), ("PARTS", parts as u32)])
        .grid(spread(teams.div_ceil(u64::from(THREADS / lanes))))
        .shared(THREADS * rows * 4)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("ssm_update/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn heads_share_groups_evenly() {
        let refused = parse_case("ssm_update/fwd/b1,h6,g4,d1,n1/f32/naive").expect_err("refused").to_string();
        assert!(refused.contains("6 heads cannot share 4 groups"), "{refused}");
    }

    #[test]
    fn a_state_decays_takes_the_token_in_and_gives_the_result() {
        let p = problem("b1,h2,d1,n2,gated");
        let mut inputs = p.inputs(1);
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        // The softplus of zero is the logarithm of two: a rate of -1 halves the state, one of -2 quarters it.
        for (buffer, values) in [
            (STATE, &[8.0, 4.0, 8.0, 4.0][..]),
            (X, &[3.0, 0.0]),
            (DT, &[1.0, -1.0]),
            (B, &[0.0, 2.0]),
            (C, &[1.0, 10.0]),
            (HEADS, &[-1.0, -2.0, 5.0, 7.0, -1.0, 1.0]),
            (Z, &[0.0, 0.0]),
        ] {
            inputs.replace(buffer, bytes(values)).expect("as long");
        }
        let ln_2 = 2f64.ln();
        let near = |found: f64, want: f64| assert!((found - want).abs() < 1e-12, "{found}, not {want}");
        let (state, result) = updated(&p, &inputs, 0);
        near(state[0], 4.0);
        near(state[1], 2.0 + ln_2 * 6.0);
        near(result, 4.0 + 10.0 * state[1] + 15.0);
        let (state, result) = updated(&p, &inputs, 1);
        near(state[0] + 10.0 * state[1], result);
        near(result, 12.0);
        let mut out = [1.0];
        reference(&p, &inputs, 1, 0, &mut out);
        near(out[0], 0.0);
    }

    #[test]
    fn the_state_is_nearly_all_that_is_moved() {
        let p = problem("b64,h80,d64,n128");
        let state = 2 * 64 * 80 * 64 * 128 * 4;
        let moved = p.cost().moved().0;
        assert!(moved > state && moved < state + state / 50, "{moved}");
    }
}
