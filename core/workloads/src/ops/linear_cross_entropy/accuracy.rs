//! Tolerances of both directions, with their argument.

use parallax_ir::stress::{exact, smallest_normal};
use parallax_ir::{Problem, Tolerance};
use parallax_schema::case::DType;

use super::backward::DX;
use super::inputs::{LARGE, OfStress};

/// Unit roundoff of f32.
const U: f64 = 1.0 / 16_777_216.0;

/// Largest magnitudes of inputs.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    /// X of normal draws, and W of normal draws over the root of d.
    Usual,
    /// Elements of X and W of at most these numbers.
    Within([f64; 2]),
}

impl Elements {
    /// Sum of the magnitudes of the products of a logit.
    fn products(self, d: f64) -> f64 {
        match self {
            // A third below √d on average, with a margin for chance.
            Elements::Usual => d.sqrt() + 12.0,
            Elements::Within([x, w]) => d * x * w,
        }
    }

    /// Error of a logit.
    pub(super) fn error(self, p: &Problem) -> f64 {
        let d = p["d"] as f64;
        8.0 * d.sqrt() * U * self.products(d)
    }
}

/// Tolerance of a loss or a log-sum-exp for these elements.
pub(super) fn of_losses(p: &Problem, elements: Elements) -> Tolerance {
    let classes = p["v"] as f64;
    let largest = elements.products(p["d"] as f64);
    Tolerance {
        abs: 2f64.powi(-21) + U * (64.0 + classes / 64.0 + 8.0 * (largest + classes.ln())) + 2.0 * elements.error(p),
        rel: 0.0,
        reason: "d products of a logit are summed in f32, 8·√d·u of the sum of their magnitudes but with probability e^-32 (Higham \
                 and Mary 2019); a log-sum-exp is off by no more than its logits; a loss is off by both; exponentials, their \
                 positive sum and the logarithm as in `cross_entropy`, and the parts of a row are rescaled twice",
    }
}

/// Tolerance for the usual inputs.
pub(super) fn of_usual(p: &Problem, _output: usize) -> Tolerance {
    of_losses(p, Elements::Usual)
}

/// Tolerances of the forward direction.
pub(super) const FORWARD: OfStress = OfStress {
    usual: of_usual,
    ones: |p, _| of_losses(p, Elements::Within([1.0, 1.0])),
    one_class: of_usual,
    ignored: of_usual,
    large: |p, _| of_losses(p, Elements::Within(LARGE)),
};

/// Largest gradient of a loss, and of a normal draw.
const DLOSS: f64 = 16.0;
const NORMAL: f64 = 3.47;

/// Number of rows of one class, in sums over rows.
#[derive(Clone, Copy)]
struct OfClass {
    /// Rows whose target it is.
    targets: f64,
    /// Sum of its weights over all rows.
    weights: f64,
}

impl OfClass {
    /// Usual targets, and weights of logits with a variance of about one.
    fn usual(p: &Problem) -> OfClass {
        let (n, v) = (p["n"] as f64, p["v"] as f64);
        let mean = n / v;
        // Poisson's law with a margin for chance. Short rows have logits with heavy tails.
        let weights = if p["d"] < 64 { n } else { 4.0 * mean + 200.0 / v };
        OfClass { targets: (mean + 12.0 * mean.sqrt() + 12.0).min(n), weights: weights.min(n) }
    }

    /// All rows.
    fn all(p: &Problem) -> OfClass {
        OfClass { targets: p["n"] as f64, weights: p["n"] as f64 }
    }
}

/// Tolerance of a gradient for these elements. A result of the forward pass has that of [`of_losses`].
fn of_gradients(p: &Problem, output: usize, elements: Elements, class: OfClass) -> Tolerance {
    let losses = of_losses(p, elements);
    if output < DX {
        return losses;
    }
    let [x, w] = match elements {
        Elements::Usual => [NORMAL, NORMAL / (p["d"] as f64).sqrt()],
        Elements::Within(within) => within,
    };
    // Error of a weight relative to itself, but at most the weight.
    let weight = (losses.abs + elements.error(p) + 64.0 * U).exp_m1().min(1.0);
    // Terms of a gradient, the largest factor, the sum of the weights, and that of all slopes without `dloss`.
    let (terms, factor, weights, slopes) = match output {
        DX => (p["v"] as f64, w, 1.0, 2.0),
        _ => (p["n"] as f64, x, class.weights, class.weights + class.targets),
    };
    let u = p.dtype.unit_roundoff();
    // Slopes of f16 below the smallest normal number have a fixed spacing.
    let spacing = if p.dtype == DType::F16 { terms * 2f64.powi(-25) } else { 0.0 };
    let rounding = u * slopes.min(8.0 * slopes.sqrt());
    let sum = (8.0 * terms.sqrt()).max(16.0) * U * slopes;
    Tolerance {
        abs: DLOSS * factor * (weight * weights + rounding + sum) + factor * spacing + smallest_normal(p),
        rel: 2.0 * u,
        reason: "a weight is off as its logit and its row's log-sum-exp are, relative to itself; slopes may be rounded to \
                 the element type, which is 8·√n·u of the largest but with probability e^-32, or half the spacing of \
                 subnormal numbers; they are at most dloss, which is below 16, and are summed in f32 with elements of the \
                 other matrix; the result is rounded once",
    }
}

/// Tolerance of the backward direction for the usual inputs.
pub(super) fn of_usual_gradients(p: &Problem, output: usize) -> Tolerance {
    of_gradients(p, output, Elements::Usual, OfClass::usual(p))
}

/// Tolerances of the backward direction.
pub(super) const BACKWARD: OfStress = OfStress {
    usual: of_usual_gradients,
    ones: |p, output| of_gradients(p, output, Elements::Within([1.0, 1.0]), OfClass::usual(p)),
    one_class: |p, output| {
        of_gradients(p, output, Elements::Usual, OfClass { targets: p["n"] as f64, ..OfClass::usual(p) })
    },
    ignored: |p, output| match output < DX {
        true => of_usual(p, output),
        false => exact(p, output),
    },
    large: |p, output| of_gradients(p, output, Elements::Within(LARGE), OfClass::all(p)),
};
