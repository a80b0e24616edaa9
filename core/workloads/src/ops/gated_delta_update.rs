//! One token of the gated delta rule, as in generation: each state decays, takes the token in, and gives a result.
//!
//! Formula: the recurrence of [`super::gated_delta`], Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024). For a head, with
//! the decay `α = e^g`: `S ← α · (S − β · k · (kᵀS)) + β · k · vᵀ`, and `out = Sᵀq / √dk`.
//!
//! `state` is `[b, h, dk, dv]` in f32, changed in place. `q` and `k` are `[b, h, dk]`, `v` and `out` are `[b, h, dv]`. `g`, in f32,
//! and `beta` are `[b, h]`. Keys have unit length.
//!
//! Operations: seven an element of the state and four a result. Bytes: the state read and written once, which is nearly all, and
//! the others once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, nan_in_rows, one, zero};
use parallax_ir::{
    Axis, BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage, StressInput,
    Tolerance, Tunable, Variant, Workload, indexable, normal, spread, width,
};
use parallax_schema::case::{Allowed, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use crate::delta_rule::{HostToken, Ranges, decay, key, read, scale, strength, take_in, take_in_on_host};

const STATE: usize = 0;
const Q: usize = 1;
const K: usize = 2;
const V: usize = 3;
const G: usize = 4;
const BETA: usize = 5;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "one token of the gated delta rule (Gated DeltaNet, Qwen3-Next)",
        axes: const {
            &[
                Axis::extent("b", "sequences"),
                Axis::extent("h", "heads"),
                Axis::extent("dk", "elements of a key: rows of a state"),
                Axis::same_as("dv", "elements of a value: columns of a state", "dk"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| p.each_once(p["b"] * p["h"] * p["dv"] * (7 * p["dk"] + 4)),
            |p, output| tolerance(p, output, Ranges::USUAL),
            Reference::new(
                |p, _| 5 * p["dk"] * p["dv"],
                |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
            ),
            OfNan::Kept,
        )
        .headline("b8,h32,dk128")
        .shapes(shapes)
        // One element; odd rows and columns; more rows than a column's threads have at once; several parts of a head, of which the
        // last one is not whole; few rows and many columns.
        .awkward(&[
            "b1,h1,dk1",
            "b2,h3,dk5,dv7",
            "b3,h4,dk9,dv16",
            "b2,h2,dk33,dv20",
            "b1,h5,dk17,dv127",
            "b2,h3,dk256,dv8",
            "b1,h2,dk3,dv1032",
            "b5,h8,dk64",
            "b1,h7,dk130,dv4",
            "b1,h6,dk128",
        ])
        .huge(&["b2049,h128,dk128,dv64"])
        .host(host)
        .variants(vec![
            Variant::kernel("naive", "one column of a state per thread", naive),
            Variant::kernel(
                "rows",
                "a workgroup has some columns of a head in accesses of 16 bytes, and its threads read all rows before they use the first",
                rows,
            )
            .available(rows_fit)
            .tunables(&[LANES]),
        ])
        .fallback(&["rows", "naive"])
        .stress(stress_inputs())],
    }
}

fn validate(shape: &Shape) -> Result<(), String> {
    indexable(shape["b"] * shape["h"] * shape["dk"] * shape["dv"])
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["b1,h32,dk128", "b8,h32,dk128", "b64,h32,dk128"],
        _ => &["b1,h32,dk128", "b8,h32,dk128", "b64,h32,dk128", "b256,h32,dk128", "b64,h16,dk64,dv128"],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (b, h, dk, dv) = (p["b"], p["h"], p["dk"], p["dv"]);
    vec![
        BufferSpec::in_out("state", Elem::F32, &[b, h, dk, dv], normal),
        BufferSpec::input("q", Elem::Real, &[b, h, dk], normal),
        BufferSpec::input("k", Elem::Real, &[b, h, dk], key),
        BufferSpec::input("v", Elem::Real, &[b, h, dv], normal),
        BufferSpec::input("g", Elem::F32, &[b, h], decay),
        BufferSpec::input("beta", Elem::Real, &[b, h], strength),
        BufferSpec::output("out", Elem::Real, &[b, h, dv]),
    ]
}

fn tolerance(p: &Problem, output: usize, ranges: Ranges) -> Tolerance {
    if output == 0 { ranges.states(p, 1) } else { ranges.results(p, 1) }
}

/// Tolerance for the usual ranges.
fn usual(p: &Problem, output: usize) -> Tolerance {
    tolerance(p, output, Ranges::USUAL)
}

fn stress_inputs() -> Vec<StressInput> {
    const LARGE: f64 = 1000.0;
    vec![
        StressInput::new(
            "nan",
            "NaN in the first column of each third head: so are this column of its state and its result",
            |_| vec![("v", |shape, draw| nan_in_rows(draw, shape["dv"]))],
            usual,
        ),
        StressInput::new(
            "nan state",
            "NaN as the first element of each third row of the states: a column with one is NaN, and so is its result",
            |_| vec![("state", |shape, draw| nan_in_rows(draw, shape["dv"]))],
            usual,
        ),
        StressInput::new(
            "zeros",
            "no state and no value: none after it",
            |_| vec![("state", zero), ("v", zero)],
            exact,
        ),
        StressInput::new("no decay", "decays of one: only the key changes the state", |_| vec![("g", zero)], usual),
        StressInput::new(
            "strong decay",
            "decays of e^-1000000, which are zero: the state is the token alone",
            |_| vec![("g", |_, _| -1e6)],
            usual,
        ),
        StressInput::new("no strength", "strengths of zero: the state decays", |_| vec![("beta", zero)], usual),
        StressInput::new(
            "full strength",
            "strengths and decays of one: the token replaces the value of its key",
            |_| vec![("beta", one), ("g", zero)],
            |p, output| tolerance(p, output, Ranges { deviation: 1.5, ..Ranges::USUAL }),
        ),
        StressInput::new(
            "large",
            "values and states of about 1000",
            |_| vec![("v", |_, draw| LARGE * draw.normal()), ("state", |_, draw| LARGE * draw.normal())],
            |p, output| tolerance(p, output, Ranges { deviation: LARGE, ..Ranges::USUAL }),
        ),
    ]
}

/// Columns of a head's state after the token, one after the other.
fn updated(p: &Problem, inputs: &Inputs, of_head: u64) -> Vec<f64> {
    let (dk, dv) = (p["dk"], p["dv"]);
    let places = (0..dv).flat_map(|column| (0..dk).map(move |row| (of_head * dk + row) * dv + column));
    let mut state: Vec<f64> = places.map(|at| inputs.at(STATE, at)).collect();
    let values = inputs.values(V, of_head * dv..(of_head + 1) * dv);
    let key = inputs.values(K, of_head * dk..(of_head + 1) * dk);
    take_in(&mut state, &key, &values, inputs.at(G, of_head), inputs.at(BETA, of_head));
    state
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    let dk = p["dk"];
    if output == 0 {
        let state = updated(p, inputs, row / dk);
        out.iter_mut().zip(state.chunks(dk as usize)).for_each(|(out, column)| *out = column[(row % dk) as usize]);
        return;
    }
    let state = updated(p, inputs, row);
    let query = inputs.values(Q, row * dk..(row + 1) * dk);
    read(p, &state, &query, out);
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (dk, dv) = (p["dk"] as usize, p["dv"] as usize);
    let [before, q, k, v, g, beta] = [STATE, Q, K, V, G, BETA].map(|buffer| inputs[buffer].f32());
    let [states, out] = outputs else { unreachable!("two outputs") };
    let scale = scale(p) as f32;
    let of_heads = states.par_chunks_mut(dk * dv).zip(before.par_chunks(dk * dv)).zip(out.par_chunks_mut(dv));
    of_heads.enumerate().for_each(|(at, ((state, before), out))| {
        state.copy_from_slice(before);
        let [query, key] = [q, k].map(|rows| &rows[at * dk..][..dk]);
        let value = &v[at * dv..][..dv];
        let token = HostToken { query, key, value, decay: g[at], strength: beta[at], scale };
        take_in_on_host(state, &token, &mut vec![0.0; dv], out);
    });
}

/// Threads of a workgroup.
const THREADS: u32 = 128;

/// Stage with the extents as constants, and rows of the state in accesses of `width` elements.
fn stage(p: &Problem, width: u64, entry: &'static str, text: &'static str) -> Stage {
    let extents = [
        ("ALL_HEADS", p["b"] * p["h"]),
        ("DK", p["dk"]),
        ("PIECES", p["dv"] / width),
        ("WIDTH", width),
        ("THREADS", u64::from(THREADS)),
    ];
    let args = [("state", Write), ("q", Read), ("k", Read), ("v", Read), ("g", Read), ("beta", Read), ("out", Write)];
    Stage::kernel(entry, text, entry)
        .consts(&extents.map(|(name, value)| (name, value as u32)))
        .consts(&[("SCALE", scale(p) as f32)])
        .args(args)
        .threads([THREADS, 1, 1])
        .cost(p.cost())
}

fn naive(p: &Problem, _caps: &Caps) -> Program {
    let columns = p["b"] * p["h"] * p["dv"];
    stage(p, 1, "gated_delta_update_naive", "gated_delta_update/naive")
        .grid(spread(columns.div_ceil(u64::from(THREADS))))
        .into()
}

/// Bytes in flight are 16 for each thread and row. More threads along a row leave fewer rows in flight at once, and longer
/// accesses.
const LANES: Tunable = Tunable {
    name: "LANES",
    about: "neighbouring threads along a row of the state",
    allowed: Allowed::OneOf(&[4, 8, 16, 32]),
    default: 8,
};

/// Most rows of a thread, which its registers hold.
const MOST_ROWS: u64 = 32;

/// Elements of an access, threads along a row, and rows of each thread.
fn share(p: &Problem, caps: &Caps) -> [u64; 3] {
    // Values are read in as many elements as the state, so that the state's type decides.
    let width = width(p["dv"], DType::F32, caps);
    let lanes = (p["dv"] / width).next_power_of_two().min(u64::from(p.tuned(caps, "rows", &LANES)));
    [width, lanes, p["dk"].div_ceil(u64::from(THREADS) / lanes)]
}

fn rows_fit(p: &Problem, caps: &Caps) -> Result<(), String> {
    match share(p, caps) {
        [.., rows] if rows <= MOST_ROWS => Ok(()),
        [.., rows] => Err(format!("a thread has at most {MOST_ROWS} rows in registers, not {rows}")),
    }
}

fn rows(p: &Problem, caps: &Caps) -> Program {
    let [width, lanes, rows] = share(p, caps);
    let (down, parts) = (u64::from(THREADS) / lanes, (p["dv"] / width).div_ceil(lanes));
    // Two sums of each thread, and one for each of its rows' threads.
    let shared = 4 * (2 * u64::from(THREADS) * width + down);
    stage(p, width, "gated_delta_update_rows", "gated_delta_update/rows")
        .consts(&[("LANES", lanes as u32), ("ROWS", rows as u32), ("PARTS", parts as u32)])
        .grid(spread(p["b"] * p["h"] * parts))
        .shared(shared as u32)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("gated_delta_update/fwd/{shape}/f32/naive")).expect("valid").problem
    }

    #[test]
    fn a_state_takes_a_token_in_and_gives_the_result() {
        let p = problem("b1,h2,dk2,dv1");
        let mut inputs = p.inputs(1);
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        for (buffer, values) in [
            (STATE, &[8.0, 4.0, 8.0, 4.0][..]),
            (Q, &[1.0, 10.0, 0.0, 1.0]),
            (K, &[1.0, 0.0, 0.0, 1.0]),
            (V, &[2.0, 1.0]),
            (G, &[0.0, 0.5f32.ln()]),
            (BETA, &[0.5, 1.0]),
        ] {
            inputs.replace(buffer, bytes(values)).expect("as long");
        }
        let near = |found: f64, want: f64| assert!((found - want).abs() < 1e-6, "{found}, not {want}");
        // The value of the first key goes half of the way from 8 to 2; that of the second is replaced by 1.
        for (of_head, want, result) in [(0, [5.0, 4.0], 45.0), (1, [4.0, 1.0], 1.0)] {
            let state = updated(&p, &inputs, of_head);
            state.iter().zip(want).for_each(|(found, want)| near(*found, want));
            let mut out = [0.0];
            reference(&p, &inputs, 1, of_head, &mut out);
            near(out[0] * 2f64.sqrt(), result);
        }
    }

    #[test]
    fn the_state_is_nearly_all_that_is_moved() {
        let p = problem("b64,h32,dk128");
        let state = 2 * 64 * 32 * 128 * 128 * 4;
        let moved = p.cost().moved().0;
        assert!(moved > state && moved < state + state / 50, "{moved}");
    }

    #[test]
    fn rows_fit_into_registers_for_usual_heads() {
        let caps = parallax_schema::testing::caps();
        assert!(rows_fit(&problem("b1,h1,dk128"), &caps).is_ok());
        assert!(rows_fit(&problem("b1,h1,dk2000,dv128"), &caps).is_err_and(|why| why.contains("registers")));
    }
}
