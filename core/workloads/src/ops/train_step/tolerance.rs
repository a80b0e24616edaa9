//! Tolerances of a step.

use parallax_ir::stress::{smallest_normal, sums_of_zeros};
use parallax_ir::{Problem, Tolerance};

use super::super::attention_block::Rounding;
use super::PRED;

const U: f64 = 1.0 / (1u64 << 24) as f64;

const REASON: &str = "errors of random sign, eight times their standard deviation, which almost certainly bound all of them: \
                      sums of products wander by the root of their number of f32 roundings, and each step starts from the rounded \
                      results of the one before it; targets keep clear of the kinks of the loss";

/// Magnitudes of intermediates, and standard deviations of their errors.
struct Along {
    x: [f64; 2],
    hidden: [f64; 2],
    pred: f64,
    /// The gradient of a prediction.
    dpred: [f64; 2],
    /// Gradient of GELU's argument.
    dpre: [f64; 2],
    dx: [f64; 2],
}

impl Along {
    /// Intermediates for a loss scaled by `scale` times a seeded one.
    fn new(p: &Problem, scale: f64) -> Along {
        let (d, f) = (p["d"] as f64, p["f"] as f64);
        let [by_width, by_middle] = [p["d"], p["f"]].map(|terms| Rounding::new(p, terms).sum);
        let features = p["e"] as f64;
        let x = 1.0 + (features / d).sqrt();
        let x_off = U * x * (1.0 + features.sqrt());
        let pre_off = x_off + x * by_width + U * (1.0 + x);
        // GELU's formula is off by some units in the last place, and its slope is at most 1.13.
        let hidden_off = 1.13 * pre_off + 16.0 * U * x;
        let pred = 0.1 * (hidden_off + x * by_middle) + 8.0 * U;
        // Shares of the mean are at most two. Slopes are at most 1.4, and change by a third of the prediction's change.
        let dpred = 3.0 * scale;
        let dpred_off = dpred * (16.0 * U + pred);
        let dpre = 0.3 * dpred / f.sqrt();
        let dpre_off = dpre * (dpred_off / dpred + pre_off + 64.0 * U);
        // A row of w1 along the middle: its elements are about 1/√d.
        let dx = dpre * (f / d).sqrt();
        let dx_off = dx * (dpre_off / dpre + by_middle);
        Along {
            x: [x, x_off],
            hidden: [x, hidden_off],
            pred,
            dpred: [dpred, dpred_off],
            dpre: [dpre, dpre_off],
            dx: [dx, dx_off],
        }
    }
}

/// Magnitude and error of a product of two numbers.
fn product([a, a_off]: [f64; 2], [b, b_off]: [f64; 2]) -> [f64; 2] {
    [a * b, a * b_off + a_off * b]
}

/// Magnitude and error of a sum over `rows` rows. Its terms may all have the same sign, and its roundings grow with it. Errors of
/// terms are those of their own rows. A sum of the sums of several GPUs has no more roundings: `rows / gpus + gpus - 1` of them.
fn summed(rows: f64, [size, off]: [f64; 2]) -> [f64; 2] {
    [rows * size, rows.sqrt() * off + rows * size * U * (rows.sqrt() + 8.0)]
}

/// Magnitude and error of the gradient of a parameter, with `takers` samples on the same row of the table.
fn gradient(p: &Problem, which: usize, scale: f64, takers: f64) -> [f64; 2] {
    let (along, rows) = (Along::new(p, scale), p["n"] as f64);
    match which {
        0 => summed(takers, along.dx),
        1 => summed(rows, product(along.x, along.dpre)),
        2 => summed(rows, along.dpre),
        3 => summed(rows, product(along.hidden, along.dpred)),
        _ => summed(rows, along.dpred),
    }
}

/// Tolerance of a parameter or an average after a step along a gradient of this magnitude and error.
fn stepped(p: &Problem, part: usize, [size, off]: [f64; 2]) -> Tolerance {
    let abs = match part {
        // The step is a thousandth of a direction, which changes by at most as much as the gradient. Its divisor, the root of the
        // bias-corrected average of squares, is at least a tenth. A tenth of the gradient enters the average.
        0 => 8.0 * (U * 4.0 + 1e-3 * (off + 8.0 * U)),
        1 => 8.0 * (0.1 * off + U * (0.35 + 0.1 * size)),
        _ => 8.0 * 0.002 * size * off,
    };
    let rel = if part == 2 { 8.0 * U } else { 2.0 * U };
    Tolerance { abs: abs + 2.0 * smallest_normal(p), rel, reason: REASON }
}

fn of_all(p: &Problem, output: usize, scale: f64, takers: f64) -> Tolerance {
    match output {
        PRED => Tolerance { abs: 8.0 * Along::new(p, scale).pred, rel: 0.0, reason: REASON },
        output if output < PRED => stepped(p, output % 3, gradient(p, output / 3, scale, takers)),
        // Terms change by less than twice the predictions' change, and their mean is summed in f32.
        _ => Tolerance {
            abs: 16.0 * Along::new(p, scale).pred,
            rel: U * (64.0 + 8.0 * (p["n"] as f64 / 512.0 + 1.0).sqrt()),
            reason: REASON,
        },
    }
}

/// Tolerance for seeded inputs, with a loss scaled by `scale`.
pub(super) fn seeded(p: &Problem, output: usize, scale: f64) -> Tolerance {
    // Samples of one category: the mean, with a margin for chance.
    let mean = p["n"] as f64 / p["v"] as f64;
    of_all(p, output, scale, (mean + 8.0 * mean.sqrt() + 16.0).min(p["n"] as f64))
}

/// Tolerance for categories that many samples may have.
pub(super) fn crowded(p: &Problem, output: usize) -> Tolerance {
    of_all(p, output, 1.0, p["n"] as f64)
}

/// Tolerance without a gradient: predictions and loss are zero, and steps are those of the averages.
pub(super) fn of_zeros(p: &Problem, output: usize) -> Tolerance {
    match output {
        output if output < PRED => stepped(p, output % 3, [0.0; 2]),
        _ => sums_of_zeros(p),
    }
}

#[cfg(test)]
mod tests {
    use super::super::NAMES;
    use super::*;
    use crate::find;
    use parallax_schema::case::{DType, Direction};

    /// A tolerance as wide as a sample's contribution would accept a step that omits one.
    #[test]
    fn averages_show_whether_every_sample_went_in() {
        let workload = find("train_step").expect("here");
        let shapes = workload.forms[0].awkward.iter().chain(&workload.forms[0].headline);
        for shape in shapes {
            let p = Problem::new(workload, Direction::FwdBwd, shape, DType::F32).expect("valid");
            for (which, names) in NAMES.iter().enumerate() {
                let [size, _] = gradient(&p, which, 1.0, 1.0);
                // Contribution of one sample, of which a tenth enters.
                let one = 0.1 * size / if which == 0 { 1.0 } else { p["n"] as f64 };
                let allowed = seeded(&p, 3 * which + 1, 1.0).abs;
                assert!(allowed < 0.2 * one, "{p}, {}: {allowed} of {one}", names.param);
            }
        }
    }
}
