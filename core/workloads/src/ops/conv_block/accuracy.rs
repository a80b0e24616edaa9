//! Tolerances and stress inputs of the block.

use parallax_ir::conv::Conv;
use parallax_ir::stress::{any, closed, exact, nan_of_first, no_gradient, one, smallest_normal, zero};
use parallax_ir::{Problem, StressInput, Tolerance};
use parallax_schema::case::DType;

use super::buffers::{DBETA, DGAMMA, DW, DX};
use super::inference;
use crate::products::of_terms;

/// Quantity in an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Mean,
    Variance,
    Out,
}

/// Quantity in each output, in buffer order.
pub(super) fn holds(p: &Problem, output: usize) -> Holds {
    match (inference(p), output) {
        (false, 0) => Holds::Mean,
        (false, 1) => Holds::Variance,
        _ => Holds::Out,
    }
}

/// Lower bound of the standard deviation of a channel's values: weights are bounded below, and there are dozens of positions.
const DEVIATION: f64 = 0.3;
/// Upper bound of the mean of a channel's values, which is mostly its bias.
const MEAN: f64 = 0.75;
/// Largest factor, rounded up, and largest normalised value.
const FACTOR: f64 = 1.9;
const NORMALISED: f64 = 6.0;

const REASON: &str = "products are summed in f32: 8·√k·u times the sum of magnitudes holds for any order but with probability e^-32 \
                      (Higham and Mary 2019); the sums, without and with the bias, may each be rounded to the element type. Such \
                      errors average out in means, and in variances, of which f32 sums in blocks are otherwise off by the root of \
                      their length, except for the rounding of the bias: sums lie on a grid, so it is the same for all values of \
                      one exponent, half a unit at most, and moves the variance by twice its product with the mean; a result has the errors of its value and of the mean, over the deviation, and its share \
                      of the variance's error, and is rounded to the element type";

/// Tolerance for values of about one plus an offset of size `shared` common to all values of a channel.
fn of_size(p: &Problem, output: usize, shared: f64) -> Tolerance {
    let (conv, u, f32u) = (Conv::new(&p.shape), p.dtype.unit_roundoff(), 2f64.powi(-24));
    let (k, positions) = (conv.terms() as f64, conv.pixels()[1] as f64);
    let size = 8.0 + shared;
    // Worst error of one value: weights are at most 2.25/√k, pixels 3.47, the mean of their products below 0.75/√k.
    let summed = f32u * (6.0 * k + 96.0 * k.sqrt()) + f32u * size;
    let worst = summed + 2.0 * u * size;
    // Error of the mean of all values.
    let average = ((summed + 2.0 * u * (1.0 + shared)) * 8.0 / positions.sqrt()).min(worst);
    let common = 1.5 * u * (1.0 + shared);
    let chain = 8.0 * f32u * (64.0 + positions / 1024.0).sqrt();
    let mean = average + common + size * chain;
    let variance = 3.0 * average
        + 2.0 * MEAN * common
        + worst * worst
        + 16.0 * chain
        + (size * chain).powi(2)
        + 16.0 * size * f32u;
    let out = match inference(p) {
        true => FACTOR * worst / 0.7 + 4.0 * f32u * FACTOR * size,
        false => FACTOR * ((worst + mean) / DEVIATION + NORMALISED * variance / (2.0 * DEVIATION * DEVIATION)),
    };
    match holds(p, output) {
        Holds::Mean => Tolerance { abs: mean, rel: 0.0, reason: REASON },
        Holds::Variance => Tolerance { abs: variance, rel: 16.0 * chain, reason: REASON },
        Holds::Out => Tolerance { abs: out + smallest_normal(p), rel: 2.0 * u, reason: REASON },
    }
}

pub(super) fn tolerance(p: &Problem, output: usize) -> Tolerance {
    of_size(p, output, 0.0)
}

/// Common offset of all values of a channel that f32 represents, a thousand times their deviation.
const FAR: f64 = 1024.0;

pub(super) fn stress_inputs() -> Vec<StressInput> {
    vec![
        StressInput::new(
            "nan",
            "NaN as the first channel's β, which ReLU lets through",
            |_| vec![("beta", |shape, draw| 0.5 * nan_of_first(shape, draw))],
            tolerance,
        ),
        StressInput::new(
            "zeros",
            "images of zeros: every value is its channel's bias, the variance zero, and the result β above zero",
            |_| vec![("x", zero)],
            |p, output| {
                let mean = 64.0 * 2f64.powi(-24);
                let reason = "the mean of equal numbers up to one is off by at most 64 roundings, and that over the root of ε bounds the \
                              error of a result";
                match holds(p, output) {
                    Holds::Mean => Tolerance { abs: mean, rel: 0.0, reason },
                    Holds::Variance => Tolerance { abs: mean * mean, rel: 0.0, reason },
                    Holds::Out => {
                        let abs = FACTOR * mean / super::EPS.sqrt() + smallest_normal(p);
                        Tolerance { abs, rel: 2.0 * p.dtype.unit_roundoff(), reason }
                    }
                }
            },
        )
        .applies(|p| !inference(p)),
        StressInput::new(
            "closed",
            "β so far below zero that nothing comes through ReLU",
            |_| vec![("beta", |_, _| -64.0)],
            |p, output| match holds(p, output) {
                Holds::Out => exact(p, output),
                Holds::Mean | Holds::Variance => tolerance(p, output),
            },
        ),
        StressInput::new(
            "offset",
            "means a thousand times the deviation: the mean of squares minus the square of the mean would lose it",
            |_| vec![("bias", |_, draw| FAR + 0.25 * draw.normal())],
            |p, output| of_size(p, output, FAR),
        )
        .applies(|p| p.dtype == DType::F32 && !inference(p)),
    ]
}

/// Upper bound of gamma over the deviation, for variances of at least a half.
const SCALED: f64 = 3.1;
/// Bound of gradients in standard deviations: the root mean square of the rounded values, with a margin for shapes of few elements.
const FARTHEST: f64 = 4.0;

/// Tolerance of the gradients.
pub(super) fn backward_tolerance(p: &Problem, output: usize) -> Tolerance {
    let (conv, u, f32u) = (Conv::new(&p.shape), p.dtype.unit_roundoff(), 2f64.powi(-24));
    let n = conv.pixels()[1] as f64;
    // Sums over positions: strips, then sums of strips, some dozens at a time.
    let chain = 8.0 * f32u * (64.0 + n / 32.0).sqrt();
    // Sum of the magnitudes of n normal numbers, half of them zero: below their number, with a margin for chance in small sets.
    let magnitudes = n + 12.0 * n.sqrt();
    let reason = "f32 sums in parts: 8·√l·u times the sum of magnitudes holds for sums of l terms each but with probability e^-32 \
                  (Higham and Mary 2019); the result is rounded once to the element type";
    let numbers = |size: f64| Tolerance { abs: size * chain * magnitudes, rel: 2.0 * u + 8.0 * f32u, reason };
    let products = |k: u64| {
        let of_sums = of_terms(p, k);
        // Own error of each value, and the error common to a channel: errors of the two sums over their number. The second sum has
        // terms three times as large.
        let (own, common) = (u + 8.0 * f32u, 5.0 * chain * magnitudes / n);
        Tolerance {
            abs: SCALED * (of_sums.abs + 8.0 * (k as f64).sqrt() * (own * FARTHEST + common)) + smallest_normal(p),
            rel: of_sums.rel,
            reason: "as of the convolution, whose gradient here is up to 3.1 times as large, is rounded to the element type where it is \
                     stored, and has the errors of the sums that were subtracted from it: independent of its factors, \
                     so that the squares of errors add up",
        }
    };
    match output {
        DX => products(conv.group_channels()[1] * conv.taps()),
        DW => products(conv.pixels()[1]),
        DGAMMA => numbers(3.0),
        DBETA => numbers(1.0),
        _ => numbers(SCALED),
    }
}

pub(super) fn backward_stress_inputs() -> Vec<StressInput> {
    vec![
        no_gradient(exact),
        closed(any, exact),
        StressInput::new(
            "equal",
            "the same gradient everywhere, which normalisation removes except for the sample's chance in the values",
            |_| vec![("dout", one), ("out", one)],
            backward_tolerance,
        )
        // Their sum is their number, and f16 holds no large count.
        .applies(|p| Conv::new(&p.shape).pixels()[1] < 60_000),
    ]
}
