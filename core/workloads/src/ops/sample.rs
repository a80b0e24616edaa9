//! One token of each row of logits `[r, n]`, as in the decoding of language models.
//!
//! The `k` largest logits are kept, in the order of `top_k`: falling, of equal ones the lower index first. Their weights are those of
//! a softmax at temperature `t`. The shortest beginning of these is kept whose weights sum to `p` of all (nucleus sampling: Holtzman
//! et al., "The Curious Case of Neural Text Degeneration", 2020). Of this, tokens with at least `m` times the largest weight are kept
//! (min-p). The result is the first token at which the running sum exceeds `u` times the sum of the kept ones. `u` is a number per row,
//! from zero up to one: an input, so that the result is a function of inputs. The second output is the token's share of the kept
//! weights. If the largest value of a row is no finite number, the result is its index, and the share is NaN. `k1` is greedy decoding.
//!
//! Operations: one comparison a logit. Bytes: logits and `u` read once, results written once.
//!
//! Logits of all rows have the same values, in an order that depends on the seed. The shares then depend on the shape alone. So `u`
//! can be far from the running sums, where rounding would choose another token. A test checks the distance for all shapes.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Role, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, splitmix64, spread,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::{Caps, Dialect};

use super::top_k;

const X: usize = 0;
const U: usize = 1;
/// Index of the token among the outputs; the share is the other one.
const TOKEN: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "tokens drawn from logits by temperature, top-k, top-p and min-p",
        axes: const {
            &[
                Axis::extent("r", "rows"),
                Axis::extent("n", "logits of a row"),
                Axis::extent("k", "largest logits that are kept, at most 1024"),
                Axis::decimal("t", "temperature", (0, 100), "1"),
                Axis::decimal("p", "kept share of the weights", (0, 1), "1"),
                Axis::decimal("m", "least weight, of the largest", (0, 1), "0"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match shape.decimal("t") {
            0.0 => Err("logits are divided by the temperature: k1 is the limit of zero".to_owned()),
            _ => top_k::validate(shape),
        },
        forms: vec![OpSpec::new(
            Direction::Fwd,
            Rate::Bytes,
            buffers,
            |p| p.each_once(p["r"] * p["n"]),
            tolerance,
            Reference::new(
                |p, _| 16 * p["n"],
                |p, inputs| Box::new(move |output, row, out| out[0] = reference(p, inputs, row)[output]),
            ),
            OfNan::Kept,
        )
        .headline("r64,n32000,k64,t0.8,p0.95")
        .shapes(shapes)
        // Greedy; all of a row; cuts by each rule and by none; more rows than a workgroup has threads; weights of several warps.
        .awkward(&[
            "r1,n1,k1",
            "r5,n3,k2",
            "r3,n17,k17,t0.5",
            "r259,n130,k1",
            "r67,n130,k5,p0.5",
            "r4,n1009,k64,t0.7,p0.9",
            "r3,n1024,k1024,t2",
            "r2,n5003,k700,p0.8,m0.05",
            "r1,n40008,k40,m0.1",
            "r3,n4100,k33,t1.5,p0",
        ])
        .host(host)
        .variants(vec![
            Variant::kernel(
                "naive",
                "`naive` of `top_k`; then a thread a row adds weights three times: all of them, the kept ones, and up to u",
                |p, caps| with(p, top_k::naive(p, caps), one_thread(p)),
            )
            .deterministic(),
            Variant::kernel(
                "groups",
                "`groups` of `top_k`; then the running sums of a row are computed at once, by a workgroup (CUDA: a warp)",
                |p, caps| with(p, top_k::groups(p, caps), pick(p, caps)),
            )
            .deterministic(),
            Variant::kernel("fused", "the same after `fused` of `top_k`", |p, caps| {
                with(p, top_k::fused(p, caps), pick(p, caps))
            })
            .only_in(&[Dialect::Cuda])
            .available(top_k::fused_available)
            .deterministic(),
        ])
        .fallback(&["groups", "fused", "naive"])
        .stress(stress_inputs())],
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["r1,n128256,k64,t0.8,p0.95", "r64,n128256,k64,t0.8,p0.95", "r64,n128256,k1"],
        _ => &[
            "r1,n128256,k64,t0.8,p0.95",
            "r64,n32000,k40,t0.8,p0.95,m0.05",
            "r64,n128256,k64,t0.8,p0.95",
            "r64,n128256,k1",
            "r256,n128256,k64,t0.8,p0.95",
        ],
    }
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let (r, n, k) = (p["r"], p["n"], p["k"]);
    vec![
        BufferSpec::input("x", Elem::Real, &[r, n], logit),
        BufferSpec::input("u", Elem::F32, &[r], amid_a_share),
        BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output("token", Elem::U32, &[r]) },
        BufferSpec { role: Role::Output { row_len: 1 }, ..BufferSpec::output("probability", Elem::F32, &[r]) },
        BufferSpec::scratch("values", Elem::Real, &[r, k]),
        BufferSpec::scratch("indices", Elem::U32, &[r, k]),
        top_k::maxima(p),
    ]
}

/// Sixteenths by which the logit of a rank is below the largest one: eight steps an octave of ranks, so that the weights have a
/// long tail. Logits are then exact in 16 bits, and many are equal.
fn sixteenths(rank: u64) -> u64 {
    let place = rank + 1;
    let octave = u64::from(place.ilog2());
    8 * octave + (((place - (1 << octave)) * 8) >> octave)
}

/// Rank of an element in its row. Ranks of a row are a permutation, which depends on the row and on the seed.
fn rank(shape: &Shape, draw: Draw) -> u64 {
    // A prime number above all lengths of rows.
    const STEP: u64 = 2_654_435_761;
    let (n, of_seed) = (shape["n"], draw.repeating(1).bits());
    let (row, column) = (draw.index / n, draw.index % n);
    (column * STEP + splitmix64(of_seed ^ row) % n) % n
}

fn logit(shape: &Shape, draw: Draw) -> f64 {
    8.0 - sixteenths(rank(shape, draw)) as f64 / 16.0
}

/// Number of kept tokens, for weights in falling order.
fn kept(shape: &Shape, weights: &[f64]) -> usize {
    let least = shape.decimal("p") * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let of_p = weights.iter().position(|weight| {
        sum += weight;
        sum >= least
    });
    let count = match shape.decimal("p") {
        1.0 => weights.len(),
        _ => of_p.map_or(weights.len(), |at| at + 1),
    };
    let below = weights[..count].iter().position(|weight| *weight < shape.decimal("m"));
    below.unwrap_or(count).max(1)
}

/// Weights of the usual logits, in falling order.
fn usual_weights(shape: &Shape) -> Vec<f64> {
    let weight = |rank| (-(sixteenths(rank) as f64) / 16.0 / shape.decimal("t")).exp();
    (0..shape["k"]).map(weight).collect()
}

/// Least share in whose middle `u` lies: far more than the errors of sums in f32.
const LEAST_SHARE: f64 = 1.0 / 4096.0;

/// Number in the middle of a token's share of the running sums. Tokens are drawn by their weights.
fn amid_a_share(shape: &Shape, draw: Draw) -> f64 {
    let weights = usual_weights(shape);
    let weights = &weights[..kept(shape, &weights)];
    let total: f64 = weights.iter().sum();
    // Shares fall, and the first is large enough: there are at most 1024.
    let large = weights.iter().take_while(|weight| **weight >= LEAST_SHARE * total).count().max(1);
    let (mut before, mut left) = (0.0, draw.uniform() * total);
    for weight in &weights[..large] {
        if left < *weight {
            return (before + weight / 2.0) / total;
        }
        left -= weight;
        before += weight;
    }
    (before - weights[large - 1] / 2.0) / total
}

fn tolerance(_p: &Problem, output: usize) -> Tolerance {
    match output {
        TOKEN => Tolerance {
            abs: 0.5,
            rel: 0.0,
            reason: "running sums of weights in f32 are off by less than 2^-16 of all, and `u` is at least 2^-13 away from them",
        },
        _ => Tolerance {
            abs: 0.0,
            rel: 2f64.powi(-16),
            reason: "weights of shares above 2^-12 have exponents of at most 9: WGSL's exp is then off by at most 21 units in the \
                     last place, and the rounded exponent by 9; sums of falling weights are off by the depth of a scan, or by the root \
                     of their number",
        },
    }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, tolerance);
    let all = |p: &Problem| p.shape.decimal("p") == 1.0;
    // The middle of one of k equal shares.
    fn amid_equals(shape: &Shape, draw: Draw) -> f64 {
        (draw.below(shape["k"]) as f64 + 0.5) / shape["k"] as f64
    }
    vec![
        set("zeros", "logits all zero: equal shares, by index", |_| vec![("x", zero), ("u", amid_equals)]).applies(all),
        set("equal", "logits all one: equal shares, by index", |_| vec![("x", one), ("u", amid_equals)]).applies(all),
        set("least", "u zero: the largest logit", |_| vec![("u", zero)]),
        set("peak", "one logit far above the others has all of the weight", |_| {
            vec![
                ("x", |shape, draw| if rank(shape, draw) == 0 { 8192.0 } else { draw.normal() }),
                ("u", |_, draw| draw.uniform().min(0.999)),
            ]
        })
        .applies(|p| p.shape.decimal("t") <= 10.0),
        set("not finite", "rows with NaN or infinity, whose index is the token; and rows of mostly -inf", |_| {
            vec![("x", not_finite), ("u", zero)]
        })
        .applies(all),
    ]
}

/// Rows whose largest logit is NaN, or infinity; and rows in which the second half of the ranks is negative infinity.
fn not_finite(shape: &Shape, draw: Draw) -> f64 {
    match (draw.index / shape["n"] % 3, rank(shape, draw)) {
        (1, 0) => f64::NAN,
        (2, 0) => f64::INFINITY,
        (0, lower) if 2 * lower > shape["n"] => f64::NEG_INFINITY,
        _ => logit(shape, draw),
    }
}

/// Token and its share, of the logits of a row in the order of results.
fn drawn(shape: &Shape, logits: &[f64], u: f64) -> (usize, f64) {
    let top = logits[0];
    if !top.is_finite() {
        return (0, f64::NAN);
    }
    let weights: Vec<f64> = logits.iter().map(|x| ((x - top) / shape.decimal("t")).exp()).collect();
    let weights = &weights[..kept(shape, &weights)];
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let beyond = weights.iter().position(|weight| {
        sum += weight;
        sum > u * total
    });
    let place = beyond.unwrap_or(weights.len() - 1);
    (place, weights[place] / total)
}

fn reference(p: &Problem, inputs: &Inputs, row: u64) -> [f64; 2] {
    let x = inputs.values(X, row * p["n"]..(row + 1) * p["n"]);
    let mut order: Vec<usize> = (0..x.len()).collect();
    // A stable sort: equal values stay in the order of their indices.
    order.sort_by(|a, b| top_k::falling(x[*a], x[*b]));
    order.truncate(p["k"] as usize);
    let logits: Vec<f64> = order.iter().map(|at| x[*at]).collect();
    let (place, share) = drawn(&p.shape, &logits, inputs.at(U, row));
    [order[place] as f64, share]
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (n, k, x, u) = (p["n"] as usize, p["k"] as usize, inputs[X].f32(), inputs[U].f32());
    let (tokens, shares) = outputs.split_at_mut(1);
    let rows = tokens[0].par_chunks_mut(1).zip(shares[0].par_chunks_mut(1)).zip(x.par_chunks(n)).zip(u.par_chunks(1));
    rows.for_each(|(((token, share), x), u)| {
        let order: Vec<u32> = top_k::largest_of(x, k).collect();
        let logits: Vec<f64> = order.iter().map(|at| f64::from(x[*at as usize])).collect();
        let (place, of_all) = drawn(&p.shape, &logits, f64::from(u[0]));
        (token[0], share[0]) = (f32::from_bits(order[place]), of_all as f32);
    });
}

/// Program of the stages that find the largest logits, and of one that draws.
fn with(p: &Problem, largest: Program, draw: Stage) -> Program {
    let args = [("values", Read), ("indices", Read), ("u", Read), ("token", Write), ("probability", Write)];
    let bytes = Elem::Real.storage(p.dtype).bytes();
    let cost = Cost::new(2 * p["r"] * p["k"], p["r"] * (p["k"] * bytes + 8), 8 * p["r"]);
    Program { stages: largest.stages.into_iter().chain([draw.args(args).cost(cost)]).collect() }
}

/// Stage that draws, with the constants of all kernels.
fn stage(p: &Problem, text: &'static str, entry: &'static str, threads: u64) -> Stage {
    Stage::kernel(entry, text, entry)
        .consts(&[("ROWS", p["r"] as u32), ("K", p["k"] as u32), ("THREADS", threads as u32)])
        .consts(&["TEMPERATURE", "TOP_P", "MIN_P"].map(|name| {
            let key = match name {
                "TEMPERATURE" => "t",
                "TOP_P" => "p",
                _ => "m",
            };
            (name, p.shape.decimal(key) as f32)
        }))
        .consts(&[("ALL_P", p.shape.decimal("p") == 1.0)])
        .threads([threads as u32, 1, 1])
}

fn one_thread(p: &Problem) -> Stage {
    const THREADS: u64 = 64;
    stage(p, "sample/naive", "sample_naive", THREADS).grid(spread(p["r"].div_ceil(THREADS)))
}

fn pick(p: &Problem, caps: &Caps) -> Stage {
    let (text, entry, k) = ("sample/pick", "sample_pick", p["k"]);
    let own = |stage: Stage, threads: u64| stage.consts(&[("OWN", k.div_ceil(threads) as u32)]);
    match caps.dialect {
        Dialect::Cuda => {
            // Few rows are spread over multiprocessors.
            const WARPS: u64 = 4;
            own(stage(p, text, entry, 32 * WARPS), 32).grid(spread(p["r"].div_ceil(WARPS)))
        }
        _ => {
            let threads = k.next_power_of_two().clamp(32, 256);
            let shared = 4 * (threads + threads * k.div_ceil(threads) + 3);
            own(stage(p, text, entry, threads), threads).shared(shared as u32).grid(spread(p["r"]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("sample/fwd/{shape}/f16/naive")).expect("valid").problem
    }

    #[test]
    fn a_temperature_of_zero_and_rows_without_enough_logits_are_refused() {
        for (shape, part) in [("r1,n9,k2,t0", "k1 is the limit"), ("r1,n9,k10", "no 10 largest")] {
            let refused = parse_case(&format!("sample/fwd/{shape}/f32/naive")).map(|_| ()).expect_err("refused");
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }

    #[test]
    fn cuts_and_tokens_of_all_shapes_are_far_from_rounding() {
        let form = &workload().forms[0];
        let presets = [Preset::Quick, Preset::Standard, Preset::Full, Preset::Awkward];
        for shape in presets.iter().flat_map(|preset| form.preset(*preset)) {
            let p = problem(shape);
            let weights = usual_weights(&p.shape);
            let (share, least) = (p.shape.decimal("p"), p.shape.decimal("m"));
            let (all, mut sum) = (weights.iter().sum::<f64>(), 0.0);
            for weight in &weights {
                sum += weight;
                assert!(share == 1.0 || (sum / all - share).abs() > 2f64.powi(-14), "{shape}: {sum} of {all}");
                assert!(least == 0.0 || (weight / least - 1.0).abs() > 1e-3, "{shape}: {weight}");
            }
            let weights = &weights[..kept(&p.shape, &weights)];
            let total: f64 = weights.iter().sum();
            let inputs = p.inputs(5);
            for row in 0..p["r"] {
                let (u, mut sum) = (inputs.at(U, row), 0.0);
                assert!((0.0..1.0).contains(&u), "{shape}: {u}");
                for weight in &weights[..weights.len() - 1] {
                    sum += weight;
                    assert!((sum / total - u).abs() > 2f64.powi(-14), "{shape}: {u} beside {}", sum / total);
                }
            }
        }
    }

    #[test]
    fn ranks_are_permutations_that_depend_on_the_seed_and_logits_are_exact() {
        let p = problem("r3,n1009,k4");
        let (one, other) = (p.inputs(1), p.inputs(2));
        let mut firsts = Vec::new();
        for (inputs, row) in [(&one, 0), (&one, 1), (&other, 0)] {
            let mut logits = inputs.values(X, row * 1009..(row + 1) * 1009);
            firsts.push(logits.iter().position(|x| *x == 8.0).expect("the largest"));
            logits.sort_by(|a, b| b.total_cmp(a));
            let want: Vec<f64> = (0..1009).map(|rank| 8.0 - sixteenths(rank) as f64 / 16.0).collect();
            assert_eq!(logits, want);
        }
        assert!(firsts[0] != firsts[1] && firsts[0] != firsts[2], "{firsts:?}");
        assert!((1..1 << 20).all(|rank| sixteenths(rank) >= sixteenths(rank - 1)));
    }

    #[test]
    fn tokens_follow_the_definition() {
        let logits = [4.0f64, 2.0, 1.0].map(f64::ln);
        for (shape, u, token, share) in [
            ("r1,n3,k3", 0.0, 0, 4.0 / 7.0),
            ("r1,n3,k3", 0.6, 1, 2.0 / 7.0),
            ("r1,n3,k3", 0.99, 2, 1.0 / 7.0),
            ("r1,n3,k3,p0.5", 0.99, 0, 1.0),
            ("r1,n3,k3,p0.6", 0.99, 1, 2.0 / 6.0),
            ("r1,n3,k3,m0.4", 0.99, 1, 2.0 / 6.0),
            ("r1,n3,k3,t0.5", 0.8, 1, 4.0 / 21.0),
            ("r1,n3,k3,p0", 0.99, 0, 1.0),
        ] {
            let (place, found) = drawn(&problem(shape).shape, &logits, u);
            assert!(place == token && (found - share).abs() < 1e-12, "{shape} {u}: {place} {found}");
        }
        let (place, share) = drawn(&problem("r1,n3,k3").shape, &[f64::INFINITY, 0.0, 0.0], 0.9);
        assert!(place == 0 && share.is_nan());
    }
}
