//! Inputs of both directions, and stress inputs.

use parallax_ir::stress::{nan_in_rows, one, zero};
use parallax_ir::{BufferSpec, Draw, Elem, Fill, Problem, Shape, StressInput, Tolerance};

/// One of this number of targets is ignored.
const IGNORED: u64 = 16;

/// X, W and the targets. Logits have a variance of one.
pub(super) fn given(p: &Problem) -> [BufferSpec; 3] {
    let (n, d, v) = (p["n"], p["d"], p["v"]);
    [
        BufferSpec::input("x", Elem::Real, &[n, d], |_: &Shape, draw: Draw| draw.normal()),
        BufferSpec::input("w", Elem::Real, &[v, d], |shape, draw| draw.normal() / (shape["d"] as f64).sqrt()),
        BufferSpec::input("targets", Elem::U32, &[n], target),
    ]
}

/// A class, or the first number that is none.
fn target(shape: &Shape, draw: Draw) -> f64 {
    match draw.index % IGNORED == IGNORED - 3 {
        true => shape["v"] as f64,
        false => draw.below(shape["v"]) as f64,
    }
}

/// Magnitudes of large elements of X and of W.
pub(super) const LARGE: [f64; 2] = [8.0, 1.0];

/// Tolerances of one direction, by stress input.
pub(super) struct OfStress {
    pub(super) usual: fn(&Problem, usize) -> Tolerance,
    pub(super) ones: fn(&Problem, usize) -> Tolerance,
    pub(super) one_class: fn(&Problem, usize) -> Tolerance,
    pub(super) ignored: fn(&Problem, usize) -> Tolerance,
    pub(super) large: fn(&Problem, usize) -> Tolerance,
}

/// Stress inputs with these tolerances.
pub(super) fn stress(of: OfStress) -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "X of zeros: every loss is the logarithm of v", |_| vec![("x", zero)], of.usual),
        set("equal", "all one: every logit is d", |_| vec![("x", one), ("w", one)], of.ones),
        set(
            "last",
            "every target is the last class",
            |_| vec![("targets", |shape, _| (shape["v"] - 1) as f64)],
            of.one_class,
        ),
        set(
            "ignored",
            "every target is ignored: v, or the largest number",
            |_| {
                let fill: Fill = |shape, draw| match draw.index % 2 {
                    0 => shape["v"] as f64,
                    _ => f64::from(u32::MAX),
                };
                vec![("targets", fill)]
            },
            of.ignored,
        ),
        set(
            "large",
            "elements of X up to 8 and of W up to 1, of either sign: few classes have a weight",
            |_| {
                let x: Fill = |_, draw| LARGE[0] * (2.0 * draw.uniform() - 1.0);
                let w: Fill = |_, draw| LARGE[1] * (2.0 * draw.uniform() - 1.0);
                vec![("x", x), ("w", w)]
            },
            of.large,
        ),
        set(
            "not finite",
            "every third row of X has NaN: so have its loss, its log-sum-exp and its gradient",
            |_| vec![("x", |shape, draw| nan_in_rows(draw, shape["d"]))],
            of.usual,
        ),
    ]
}
