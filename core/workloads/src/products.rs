//! Accuracy of sums of products, and stress inputs of the operands `a` and `b` of a GEMM of depth `k`.

use parallax_ir::stress::{exact, one, wide, zero};
use parallax_ir::{Draw, Problem, Shape, StressInput, Tolerance};

/// Tolerance of a sum of this number of products of normal draws.
pub fn of_terms(p: &Problem, terms: u64) -> Tolerance {
    let k = terms as f64;
    // Sum of the magnitudes of k products of normal draws: a third below their number, with a margin for chance.
    let magnitudes = k + 12.0 * k.sqrt();
    Tolerance {
        abs: 8.0 * k.sqrt() * 2f64.powi(-24) * magnitudes,
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "k products are summed in f32: 8·√k·u times the sum of magnitudes holds for any order but with \
                 probability e^-32 (Higham and Mary 2019); the result is rounded once to the element type",
    }
}

/// Tolerance of the result of a GEMM.
pub fn tolerance(p: &Problem, _output: usize) -> Tolerance {
    of_terms(p, p["k"])
}

/// Tolerance of a sum of ones.
pub fn of_ones(p: &Problem, _output: usize) -> Tolerance {
    Tolerance {
        abs: 0.0,
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "the sum of ones is exact in f32, and rounded once to the element type",
    }
}

/// A of zeros.
pub fn zeros() -> StressInput {
    StressInput::new("zeros", "zero times anything finite is zero", |_| vec![("a", zero)], exact)
}

/// A and B of ones.
pub fn equal() -> StressInput {
    StressInput::new("equal", "all one: the depth", |_| vec![("a", one), ("b", one)], of_ones)
}

/// A and B of magnitudes 1000.
pub fn saturating() -> StressInput {
    StressInput::new(
        "saturating",
        "±1000 times ±1000: sums that f16 cannot hold, so it has no such set",
        |_| vec![("a", plus_minus), ("b", plus_minus)],
        |p, output| Tolerance { abs: tolerance(p, output).abs * 1e6, ..tolerance(p, output) },
    )
    .applies(wide)
}

/// ±1000.
fn plus_minus(_: &Shape, draw: Draw) -> f64 {
    if draw.bits() >> 63 == 1 { -1000.0 } else { 1000.0 }
}
