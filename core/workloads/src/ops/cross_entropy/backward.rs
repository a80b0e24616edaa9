//! Backward direction: `dlogits[r, j] = (softmax(logits[r])[j] − [j = targets[r]]) · dloss / R` for a gradient `dloss` of the mean
//! of all `R` losses.
//!
//! The logarithm of each row's sum comes from the forward pass, which runs before the timing. A weight is then one exponential.
//! Operations: four an element. Bytes: one matrix read, one written, and the per-row numbers.

use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{one, smallest_normal, zero};
use parallax_ir::{
    BufferSpec, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Stage, StressInput, Tolerance,
    Variant, by_pieces, width,
};
use parallax_schema::case::{Cost, Direction, Rate};
use parallax_schema::device::Caps;

use super::{
    AWKWARD, NOT_FINITE, TARGETS, TARGETS_ARE_CLASSES, by_rows, given, not_finite, results, sizes, top_and_sum,
};
use crate::real::Real;
use crate::vector;

const LOGITS: usize = 0;
const DLOSS: usize = 2;

/// Index of the gradient, the last checked buffer.
const DLOGITS: usize = 2;

/// Specification of the backward direction.
pub fn form() -> OpSpec {
    OpSpec::new(
        Direction::Bwd,
        Rate::Bytes,
        buffers,
        cost,
        |p, output| tolerance(p, output, 3.47, largest(p)),
        Reference::new(
            |p, _| 3 * p["c"],
            |p, inputs| Box::new(move |output, row, out| reference(p, inputs, output, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("r4096,c1024")
    .shapes(super::shapes)
    .awkward(AWKWARD)
    .setup(|p, caps| super::online(p, caps).into())
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "a workgroup a row, by single elements", |p, _| {
            let stage = by_rows(p, "cross_entropy/naive_backward", "cross_entropy_backward_naive");
            given_rows(stage.consts(&[share(p)]), p).into()
        }),
        Variant::kernel(
            "separate",
            "two stages: the softmax is stored, in f32, and then one is taken from the target's; vectors",
            separate,
        ),
        Variant::kernel("fused", "one stage, a vector per thread", |p, caps| {
            given_rows(pieces(p, caps, WEIGHTS, "cross_entropy_backward"), p).into()
        }),
    ])
    .fallback(&["fused", "separate", "naive"])
    .preconditions(vec![TARGETS_ARE_CLASSES])
    .stress(stress_inputs())
}

fn buffers(p: &Problem) -> Vec<BufferSpec> {
    let [logits, targets] = given(p);
    let [loss, lse] = results(p, BufferSpec::setup);
    // Share of a row in the mean, times 64 to 128, as with losses scaled to keep gradients within f16.
    let dloss =
        BufferSpec::input("dloss", Elem::F32, &[1], |shape, draw| shape["r"] as f64 * 64.0 * (1.0 + draw.uniform()));
    let dims = [p["r"], p["c"]];
    vec![
        logits,
        targets,
        dloss,
        loss,
        lse,
        BufferSpec::output("dlogits", Elem::Real, &dims),
        BufferSpec::scratch("softmax", Elem::F32, &dims),
    ]
}

/// Host implementation. The results of the forward pass follow the inputs.
fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let c = p["c"] as usize;
    let (lse, share) = (inputs[DLOSS + 2].f32(), inputs[DLOSS].f32()[0] / p["r"] as f32);
    let rows = inputs[LOGITS].f32().par_chunks(c).zip(inputs[TARGETS].u32()).zip(lse);
    outputs[0].par_chunks_mut(c).zip(rows).for_each(|(dlogits, ((logits, target), lse))| {
        vector::map(dlogits, logits, |logit| (logit - lse).exponential());
        dlogits[*target as usize] -= 1.0;
        vector::replace(dlogits, |dlogit| dlogit * share);
    });
}

fn cost(p: &Problem) -> Cost {
    let (matrix, of_rows) = sizes(p);
    Cost::new(4 * p["r"] * p["c"], matrix + 2 * of_rows, matrix)
}

/// Approximate largest weight of a row of normal logits: others are smaller by e^(3.47 - 0.5) on average.
fn largest(p: &Problem) -> f64 {
    1.0 / (1.0 + p["c"] as f64 / 40.0)
}

/// Tolerance for logits of at most `largest`, and weights of at most `weight`.
fn tolerance(p: &Problem, output: usize, largest: f64, weight: f64) -> Tolerance {
    let of_the_sum = super::tolerance(p, largest);
    if output != DLOGITS {
        return of_the_sum;
    }
    let relative = of_the_sum.abs + 2f64.powi(-24) * 64.0;
    Tolerance {
        abs: smallest_normal(p) + 128.0 * (relative * weight + 2f64.powi(-22)),
        rel: 2.0 * p.dtype.unit_roundoff() + relative,
        reason: "a weight has the relative error of the logarithm of its row's sum, and the rounding of an \
                 exponent of at most 20 and its exponential; one is taken from it; factors are at most 128, and the result \
                 is rounded once",
    }
}

/// Stress inputs: rows with equal weights, and rows with all weight in few elements.
fn stress_inputs() -> Vec<StressInput> {
    let even = |p: &Problem, output: usize| tolerance(p, output, 1.0, 1.0 / p["c"] as f64);
    let set = |name, about, fills| StressInput::new(name, about, fills, even);
    vec![
        set("zeros", "all zero: weights are equal", |_| vec![("logits", zero)]),
        set("equal", "all one: weights are equal", |_| vec![("logits", one)]),
        StressInput {
            tolerance: |p, output| tolerance(p, output, 3.47, largest(p)),
            ..set("last", "every target is the last class", |_| vec![("targets", |shape, _| (shape["c"] - 1) as f64)])
        },
        StressInput {
            tolerance: |p, output| tolerance(p, output, 6e4, 1.0),
            ..set("huge", "logits up to 6e4 of either sign: few weights are not zero", |_| {
                vec![("logits", |_, draw| 6e4 * (2.0 * draw.uniform() - 1.0))]
            })
        },
        StressInput {
            tolerance: |p, output| tolerance(p, output, 3.47, largest(p)),
            ..set("not finite", NOT_FINITE, not_finite)
        },
    ]
}

fn reference(p: &Problem, inputs: &Inputs, output: usize, row: u64, out: &mut [f64]) {
    if output != DLOGITS {
        out[0] = super::reference(p, inputs, output, row);
        return;
    }
    let (top, sum) = top_and_sum(p, inputs, row);
    for (out, at) in out.iter_mut().zip(row * p["c"]..) {
        *out = (inputs.at(LOGITS, at) - top).exp() / sum;
    }
    out[inputs.at(TARGETS, row) as usize] -= 1.0;
    let factor = inputs.at(DLOSS, 0) / p["r"] as f64;
    out.iter_mut().for_each(|x| *x *= factor);
}

/// Arguments and cost of a stage that computes everything.
fn given_rows(stage: Stage, p: &Problem) -> Stage {
    let read = ["logits", "lse", "targets", "dloss"].map(|name| (name, Read));
    stage.args(read.into_iter().chain([("dlogits", Write)])).cost(cost(p))
}

/// Share of a row in the mean.
fn share(p: &Problem) -> (&'static str, f32) {
    ("SHARE", 1.0 / p["r"] as f32)
}

/// Kernel sources for weights from logits, and for the subtraction of one from the weights of targets.
const WEIGHTS: &str = "cross_entropy/weights";
const SUBTRACT: &str = "cross_entropy/subtract";

fn pieces(p: &Problem, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
    let width = width(p["c"], p.dtype, caps);
    by_pieces(p["r"] * p["c"] / width, width, text, entry).consts(&[("COLUMNS", p["c"] as u32)]).consts(&[share(p)])
}

fn separate(p: &Problem, caps: &Caps) -> Program {
    let ((matrix, of_rows), n) = (sizes(p), p["r"] * p["c"]);
    let weights = pieces(p, caps, WEIGHTS, "cross_entropy_softmax")
        .args([("logits", Read), ("lse", Read), ("softmax", Write)])
        .cost(Cost::new(2 * n, matrix + of_rows, 4 * n));
    let subtract = pieces(p, caps, SUBTRACT, "cross_entropy_subtract")
        .args([("softmax", Read), ("targets", Read), ("dloss", Read), ("dlogits", Write)])
        .cost(Cost::new(2 * n, 4 * n + of_rows, matrix));
    Program { stages: vec![weights, subtract] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::bytes_of;

    /// Compares with central differences of the mean loss in each logit of a row.
    #[test]
    fn gradients_are_those_of_the_mean_loss() {
        let case = parse_case("cross_entropy/bwd/r3,c5/f32/naive").expect("valid");
        let p = &case.problem;
        let inputs = p.inputs(4);
        let moved = |at: u64, by: f64| {
            let mut moved = p.inputs(4);
            let values: Vec<f64> = (0..15).map(|i| inputs.at(LOGITS, i) + if i == at { by } else { 0.0 }).collect();
            moved.replace(LOGITS, bytes_of(Elem::F32.storage(p.dtype), values.into_iter())).expect("as many");
            let mean = (0..3).map(|row| super::super::reference(p, &moved, 0, row)).sum::<f64>() / 3.0;
            (mean, moved.at(LOGITS, at))
        };
        let mut out = [0.0; 5];
        reference(p, &inputs, DLOGITS, 1, &mut out);
        for (got, at) in out.iter().zip(5..) {
            let ((up, right), (down, left)) = (moved(at, 1e-3), moved(at, -1e-3));
            let want = (up - down) / (right - left);
            assert!((got / inputs.at(DLOSS, 0) - want).abs() < 1e-7, "{at}: {got} for {want}");
        }
    }
}
