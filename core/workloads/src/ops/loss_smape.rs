//! Symmetric mean absolute percentage error with a penalty for predictions outside a band around their target.
//!
//! `loss = 1/n Σ 2|p − t| / (|p| + |t| + ε) + w · outside / (|t| + ε)` over predictions `p` and targets `t`, `ε = 10⁻⁸`. The first
//! term is that of Armstrong, "Long-Range Forecasting" (1985), as Makridakis and Hibon scale it (2000).
//!
//! The band extends from a `k`-th of the target to `k` times it. With `a = p · sgn t`, a prediction is `outside` by `max(0, a −
//! k|t|, |t|/k − a)`. The sign of zero is zero, as in `torch.sign`: no prediction is outside for a target of zero.
//!
//! Backward, the gradient of predictions; the slope at a kink of a term is zero.
//!
//! Operations: twelve an element forward and fifteen backward. Bytes: each array read or written once.

use std::sync::OnceLock;

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, Fill, HostBuffer, Inputs, MOST_PARTS, OfNan, OpSpec, Problem, Program, Reference,
    Role, Rows, Stage, StressInput, Tolerance, Variant, Workload, by_pieces, indexable, pieces_in_parts, sum_of_parts,
    width,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};
use parallax_schema::device::Caps;

use super::copy::row_len;
use crate::real::{Real, narrow};
use crate::vector;

const PRED: usize = 0;
const TARGETS: usize = 1;
/// Index of the loss gradient in the backward direction.
const DLOSS: usize = 2;

/// Constant ε, which keeps terms with a target of zero finite.
const EPS: f64 = 1e-8;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "symmetric mean absolute percentage error with a penalty outside a band",
        axes: const {
            &[
                Axis::extent("n", "elements"),
                Axis::optional("k", "factor of the band, a power of two", 1, 2),
                Axis::decimal("w", "weight of the penalty", (0, 100), "0.5"),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate: |shape| match indexable(shape["n"]) {
            // The band's edges are then exact, and every implementation finds the same predictions outside.
            Ok(()) if !shape["k"].is_power_of_two() || shape["k"] > 64 => {
                Err("the factor of the band is a power of two, at most 64".to_owned())
            }
            counted => counted,
        },
        forms: vec![forward(), backward()],
    }
}

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            let [pred, targets] = given(p);
            let parts = BufferSpec::scratch("parts", Elem::F32, &[2, p["n"].min(MOST_PARTS)]);
            vec![pred, targets, BufferSpec::output("loss", Elem::F32, &[1]), parts]
        },
        |p| Cost::new(12 * p["n"], 2 * bytes(p), 4),
        |p, _| tolerance(p),
        Reference::new(|p, _| 4 * p["n"], reference),
        OfNan::Kept,
    )
    .headline("n4194304")
    .shapes(shapes)
    .awkward(&["n1", "n3,k1", "n1009", "n2050,w0", "n4100,k4,w2.5", "n4104", "n65544"])
    .host(host)
    .variants(vec![
        Variant::kernel(
            "separate",
            "a pass over both arrays for each term, and the sum of the workgroups' parts",
            separate,
        ),
        Variant::kernel("fused", "one pass for both terms, and the sum", fused),
    ])
    .fallback(&["fused", "separate"])
    .stress(stress_inputs(|p, _| tolerance(p), |p, _| tolerance(p)))
}

fn backward() -> OpSpec {
    OpSpec {
        direction: Direction::Bwd,
        buffers: |p| {
            let [pred, targets] = given(p);
            // Share of an element in the mean, times 64 to 128, as with losses scaled to keep gradients within f16.
            let dloss: Fill = |shape, draw| shape["n"] as f64 * 64.0 * (1.0 + draw.uniform());
            let dpred = BufferSpec::output("dpred", Elem::Real, &[p["n"]]);
            vec![
                pred,
                targets,
                BufferSpec::input("dloss", Elem::F32, &[1], dloss),
                BufferSpec { role: Role::Output { row_len: row_len(p) }, ..dpred },
            ]
        },
        cost: |p| Cost::new(15 * p["n"], 2 * bytes(p), bytes(p)),
        tolerance: |p, _| slope_tolerance(p, 0.5),
        reference: Reference::new(
            |p, _| 8 * row_len(p),
            |p, inputs| {
                let band = Band::new(p);
                Box::new(move |_, row, out| {
                    for (out, at) in out.iter_mut().zip(row * row_len(p)..) {
                        let slope = slope(band, inputs.at(PRED, at), inputs.at(TARGETS, at));
                        *out = inputs.at(DLOSS, 0) / p["n"] as f64 * slope;
                    }
                })
            },
        ),
        host: Some(host_backward),
        variants: vec![
            Variant::kernel("scalar", "one element per thread", |p, _| gradient(p, 1)),
            Variant::kernel("vector", "a vector per thread in one access", |p, caps| {
                gradient(p, width(p["n"], p.dtype, caps))
            }),
        ],
        fallback: &["vector", "scalar"],
        stress: stress_inputs(|p, _| slope_tolerance(p, 0.5), |p, _| slope_tolerance(p, largest(p) / 2.0)),
        nan: OfNan::Kept,
        ..forward()
    }
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["n4194304", "n67108864"],
        _ => &["n4194304", "n67108864", "n268435456"],
    }
}

/// Predictions and targets: targets between 0.5 and 7.5, and predictions on every side of their bands.
fn given(p: &Problem) -> [BufferSpec; 2] {
    [
        BufferSpec::input("pred", Elem::Real, &[p["n"]], |_, draw| 4.0 + 3.0 * draw.normal()),
        BufferSpec::input("targets", Elem::Real, &[p["n"]], |_, draw| 4.0 + draw.normal()),
    ]
}

/// Bytes of one array.
fn bytes(p: &Problem) -> u64 {
    p["n"] * Elem::Real.storage(p.dtype).bytes()
}

fn tolerance(p: &Problem) -> Tolerance {
    let chain = p["n"] as f64 / 1024.0 + 1.0;
    Tolerance {
        abs: 2f64.powi(-126),
        rel: 2f64.powi(-24) * (64.0 + 8.0 * chain.sqrt()),
        reason: "terms are positive, and off by some units in the last place, their divisions among them; they are added in \
                 f32, at most n/1024 in a chain, whose rounding grows with its root: 8·√n·u holds for n terms in any order but \
                 with probability e^-32 (Higham and Mary 2019)",
    }
}

/// Tolerance of slopes for targets of at least `smallest`.
fn slope_tolerance(p: &Problem, smallest: f64) -> Tolerance {
    Tolerance {
        abs: 128.0 * 2f64.powi(-24) * (32.0 + 8.0 * p.shape.decimal("w")) / smallest + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "two slopes of about one over the target may cancel, each off by some units in its last place; factors are \
                 at most 128, and the result is rounded once",
    }
}

fn largest(p: &Problem) -> f64 {
    if p.dtype == DType::F16 { 6e4 } else { 1e30 }
}

/// Numbers from half the largest to the largest, of either sign.
fn huge(p: &Problem) -> Fill {
    fn fill(largest: f64, draw: Draw) -> f64 {
        let sign = if draw.bits().is_multiple_of(2) { 0.5 } else { -0.5 };
        sign * largest * (1.0 + draw.uniform())
    }
    match p.dtype {
        DType::F16 => |_, draw| fill(6e4, draw),
        DType::F32 | DType::BF16 => |_, draw| fill(1e30, draw),
    }
}

fn stress_inputs(
    usual: fn(&Problem, usize) -> Tolerance,
    of_huge: fn(&Problem, usize) -> Tolerance,
) -> Vec<StressInput> {
    let set = |name, about, fills| StressInput::new(name, about, fills, usual);
    vec![
        set("zeros", "all zero: no error, and no slope", |_| vec![("pred", zero), ("targets", zero)]),
        set("equal", "all one: no error, and no slope", |_| vec![("pred", one), ("targets", one)]),
        set("opposite", "one where the target is minus one: the largest error", |_| {
            vec![("pred", one), ("targets", |_, _| -1.0)]
        }),
        set("no target", "one where the target is zero: an error of two, and nothing outside a band", |_| {
            vec![("pred", one), ("targets", zero)]
        }),
        set("nan", "NaN among predictions: so are the loss and their slopes", |_| {
            vec![("pred", |shape, draw| if draw.index == shape["n"] / 2 { f64::NAN } else { draw.normal() })]
        }),
        StressInput {
            tolerance: of_huge,
            ..set(
                "huge",
                "3e4 to 6e4 in f16 and 5e29 to 1e30 otherwise, of either sign: no square of them is taken",
                |p| vec![("pred", huge(p)), ("targets", huge(p))],
            )
        },
    ]
}

/// Term of an element in the loss.
#[inline(always)]
pub(super) fn term<T: Real>(Band { factor, weight, eps }: Band<T>, pred: T, target: T) -> T {
    let size = target.abs();
    let along = pred * sign(target);
    let outside = (along - factor * size).max(size / factor - along).max(T::zero());
    let error = (pred - target).abs() / (pred.abs() + size + eps);
    error + error + weight * outside / (size + eps)
}

#[inline(always)]
fn sign<T: Real>(x: T) -> T {
    if x == T::zero() { T::zero() } else { x.signum() }
}

/// Derivative of that term by the prediction.
#[inline(always)]
pub(super) fn slope<T: Real>(Band { factor, weight, eps }: Band<T>, pred: T, target: T) -> T {
    let size = target.abs();
    let toward = sign(target);
    let along = toward * pred;
    let above = if along > factor * size { toward } else { T::zero() };
    let outside = if along < size / factor { -toward } else { above };
    let sum = pred.abs() + size + eps;
    let error = (sign(pred - target) - (pred - target).abs() / sum * sign(pred)) / sum;
    error + error + weight * outside / (size + eps)
}

/// Constants of the loss.
#[derive(Clone, Copy)]
pub(super) struct Band<T> {
    /// Largest quotient of a prediction inside and its target.
    factor: T,
    /// Weight of the penalty.
    weight: T,
    eps: T,
}

impl<T: Real> Band<T> {
    pub(super) fn new(p: &Problem) -> Band<T> {
        Band { factor: narrow(p["k"] as f64), weight: narrow(p.shape.decimal("w")), eps: narrow(EPS) }
    }
}

fn reference<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let mean = OnceLock::new();
    let of_all = move || {
        let band = Band::new(p);
        let terms = (0..p["n"]).into_par_iter().map(|at| term(band, inputs.at(PRED, at), inputs.at(TARGETS, at)));
        terms.sum::<f64>() / p["n"] as f64
    };
    Box::new(move |_, _, out| out[0] = *mean.get_or_init(of_all))
}

/// Elements that a thread of the host processes together.
const PIECE: usize = 1 << 12;

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let band = Band::new(p);
    let sum_of = |(pred, targets): (&[f32], &[f32])| {
        let mut terms = [0.0; PIECE];
        let terms = &mut terms[..pred.len()];
        vector::zip(terms, [pred, targets], |pred, target| term(band, pred, target));
        vector::total(terms)
    };
    let pieces = inputs[PRED].f32().par_chunks(PIECE).zip(inputs[TARGETS].f32().par_chunks(PIECE));
    let sums: Vec<f64> = pieces.map(sum_of).collect();
    outputs[0][0] = (sums.iter().sum::<f64>() / p["n"] as f64) as f32;
}

fn host_backward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let (band, share) = (Band::new(p), inputs[DLOSS].f32()[0] / p["n"] as f32);
    let pieces = inputs[PRED].f32().par_chunks(PIECE).zip(inputs[TARGETS].f32().par_chunks(PIECE));
    outputs[0].par_chunks_mut(PIECE).zip(pieces).for_each(|(out, (pred, targets))| {
        vector::zip(out, [pred, targets], |pred, target| share * slope(band, pred, target));
    });
}

/// Adds the constants of kernels that compute terms.
fn knowing(stage: Stage, p: &Problem) -> Stage {
    stage.consts(
        &[("EPS", EPS), ("BAND", p["k"] as f64), ("WEIGHT", p.shape.decimal("w"))]
            .map(|(name, value)| (name, value as f32)),
    )
}

/// Stage of a pass over both arrays, and the number of its partial sums.
fn pass(p: &Problem, caps: &Caps, entry: &'static str) -> (Stage, u64) {
    let width = width(p["n"], p.dtype, caps);
    let text = "loss_smape/forward";
    let (stage, parts) = pieces_in_parts(p["n"] / width, width, caps, text, entry);
    (knowing(stage, p).args([("pred", Read), ("targets", Read), ("parts", Write)]), parts)
}

/// Stage of the mean, from `parts` parts of its sum.
fn mean(p: &Problem, caps: &Caps, parts: u64) -> Stage {
    sum_of_parts(parts, 1, caps, "lib/total", "total_of_parts")
        .consts(&[("SCALE", 1.0 / p["n"] as f32)])
        .args([("parts", "parts", Read), ("total", "loss", Write)])
}

fn fused(p: &Problem, caps: &Caps) -> Program {
    let (pass, parts) = pass(p, caps, "loss_smape_fused");
    let pass = pass.cost(Cost::new(12 * p["n"], 2 * bytes(p), 4 * parts));
    Program { stages: vec![pass, mean(p, caps, parts)] }
}

fn separate(p: &Problem, caps: &Caps) -> Program {
    let of_one = |entry, flops| {
        let (pass, parts) = pass(p, caps, entry);
        (pass.cost(Cost::new(flops * p["n"], 2 * bytes(p), 4 * parts)), parts)
    };
    // One pass stores its parts after those of the other.
    let ((error, parts), (outside, _)) = (of_one("loss_smape_error", 6), of_one("loss_smape_outside", 6));
    Program { stages: vec![error, outside, mean(p, caps, 2 * parts)] }
}

fn gradient(p: &Problem, width: u64) -> Program {
    let text = "loss_smape/backward";
    knowing(by_pieces(p["n"] / width, width, text, "loss_smape_backward"), p)
        .consts(&[("SHARE", 1.0 / p["n"] as f32)])
        .args([("pred", Read), ("targets", Read), ("dloss", Read), ("dpred", Write)])
        .cost(Cost::new(15 * p["n"], 2 * bytes(p), bytes(p)))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn slopes_are_those_of_the_terms() {
        let case = parse_case("loss_smape/bwd/n1,k2,w0.7/f32/scalar").expect("valid");
        let band = Band::<f64>::new(&case.problem);
        for (pred, target) in [(1.5, 1.0), (2.5, 1.0), (0.3, 1.0), (-1.0, 1.0), (-5.0, -2.0), (-0.5, -2.0), (3.0, -2.0)]
        {
            let difference = (term(band, pred + 1e-6, target) - term(band, pred - 1e-6, target)) / 2e-6;
            assert!((slope(band, pred, target) - difference).abs() < 1e-7, "{pred} {target}");
        }
    }

    #[test]
    fn a_prediction_is_outside_beyond_the_factor() {
        let case = parse_case("loss_smape/fwd/n1,k2,w1/f32/fused").expect("valid");
        for (pred, want) in [(2.0, 2.0 / 3.0), (4.0, 6.0 / 5.0 + 2.0), (0.25, 1.5 / 1.25 + 0.25), (0.5, 2.0 / 3.0)] {
            let term = term(Band::<f64>::new(&case.problem), pred, 1.0);
            assert!((term - want).abs() < 1e-7, "{pred}: {term}");
        }
    }
}
