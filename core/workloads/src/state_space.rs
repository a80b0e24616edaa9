//! Parts of selective state-space models: softplus, the inputs of steps and heads, and their ranges.
//!
//! Dao and Gu, "Transformers are SSMs" (2024): a head has one rate `A < 0` and one step `softplus(dt + bias)` per token. Fills have the
//! ranges of Mamba-2 at the begin of training: rates from −16 to −1, steps of 0.0009 to 0.13 for a `dt` of zero.

use parallax_ir::{BufferSpec, Draw, Elem, Shape};

use crate::real::Real;

/// Largest magnitude of [`Draw::normal`].
pub const MOST_NORMAL: f64 = 3.47;
/// Largest step of [`step`] and [`heads`]: the softplus of a `dt` of 1.735 with a bias of −2.
pub const MOST_STEP: f64 = 0.58;

/// Numbers of a head in the input `heads`, in order.
pub const RATE: u64 = 0;
/// Place of the factor of the input that skips the state.
pub const SKIP: u64 = 1;
/// Place of the bias of the step.
pub const BIAS: u64 = 2;

/// Logarithm of `1 + eˣ`. NaN stays NaN.
pub fn softplus<T: Real>(x: T) -> T {
    // The logarithm of a sum near one would lose the digits of a small exponential.
    if x > T::zero() { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// Draw of `dt`: half a normal number.
pub fn step(_: &Shape, draw: Draw) -> f64 {
    0.5 * draw.normal()
}

/// Input `heads`, `[3, h]`: rates, skips and biases of all heads, as f32.
pub fn heads_buffer(heads: u64) -> BufferSpec {
    BufferSpec::input("heads", Elem::F32, &[3, heads], heads_fill)
}

fn heads_fill(shape: &Shape, draw: Draw) -> f64 {
    of_head(shape, draw, -1.0 - 15.0 * draw.uniform())
}

/// Number of the input `heads` with this rate, and a usual skip and bias.
pub fn of_head(shape: &Shape, draw: Draw, rate: f64) -> f64 {
    match draw.index / shape["h"] {
        RATE => rate,
        SKIP => 2.0 * draw.uniform(),
        _ => 5.0 * draw.uniform() - 7.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_keeps_small_exponentials_large_numbers_and_nan() {
        for (x, want) in
            [(0.0, 2f64.ln()), (-30.0, 9.357_622_968_839_737e-14), (40.0, 40.0), (-1000.0, 0.0), (1e4, 1e4)]
        {
            let found = softplus(x);
            assert!((found - want).abs() <= 1e-15 * want, "{x}: {found}");
            assert!((f64::from(softplus(x as f32)) - want).abs() <= 1e-6 * want, "{x}");
        }
        assert!(softplus(f64::NAN).is_nan() && softplus(f32::NAN).is_nan());
        assert!(softplus(0.5 * MOST_NORMAL - 2.0) < MOST_STEP);
    }
}
