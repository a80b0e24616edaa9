//! Floats of the host.

use num_traits::Float;

/// Float of the host.
pub trait Real: Float + Send + Sync + std::iter::Sum + 'static {
    /// Exponential function without branches in f32, within two units in the last place. NaN stays NaN.
    fn exponential(self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn exponential(self) -> f32 {
        exp(self)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn exponential(self) -> f64 {
        self.exp()
    }
}

/// Converts a float of the host to f64.
#[inline(always)]
pub fn wide<T: Real>(x: T) -> f64 {
    x.to_f64().expect("a float")
}

/// Converts an f64 to a float of the host.
#[inline(always)]
pub fn narrow<T: Real>(x: f64) -> T {
    T::from(x).expect("a float")
}

/// Larger of two numbers; NaN if either is NaN.
#[inline(always)]
pub fn maximum<T: Real>(a: T, b: T) -> T {
    if (a > b) | a.is_nan() { a } else { b }
}

/// ReLU. NaN stays NaN.
pub fn relu<T: Real>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

/// Gradient before ReLU: zero if the result is zero or below. A NaN result passes the gradient.
pub fn gated<T: Real>(result: T, gradient: T) -> T {
    if result <= T::zero() { T::zero() } else { gradient }
}

/// Logistic function `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub fn logistic<T: Real>(x: T) -> T {
    T::one() / (T::one() + (-x).exponential())
}

/// SiLU, `x / (1 + e⁻ˣ)`.
#[inline(always)]
pub fn silu<T: Real>(x: T) -> T {
    x * logistic(x)
}

/// Exponential function.
///
/// A power of two times a polynomial of the rest, of at most half the logarithm of two (Cody and Waite, "Software Manual for the Elementary
/// Functions", 1980). The power is two factors: one alone would overflow or be subnormal too early.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // An addition of this number rounds to whole numbers, which are then its lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    // Beyond these, the result is zero or infinite.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let whole = shifted - ROUND;
    let r = x - whole * LN_2[0] - whole * LN_2[1];
    let tail = 0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r / 5040.0))));
    let near = 1.0 + (r + r * r * tail);
    let of_two = |power: i32| f32::from_bits((power.wrapping_add(127) as u32) << 23);
    near * of_two(power >> 1) * of_two(power - (power >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_within_two_units_in_the_last_place() {
        for step in -110_000..95_000 {
            let x = step as f32 / 1000.0;
            let (found, exact) = (f64::from(x.exponential()), f64::from(x).exponential());
            let unit = f64::from(f32::EPSILON) * exact.max(f64::from(f32::MIN_POSITIVE));
            match exact > f64::from(f32::MAX) {
                true => assert!(found > 3.3e38, "{x}: {found}"),
                false => assert!((found - exact).abs() <= 2.0 * unit, "{x}: {found}, not {exact}"),
            }
        }
        assert_eq!([exp(f32::NEG_INFINITY), exp(f32::INFINITY), exp(0.0), exp(-0.0)], [0.0, f32::INFINITY, 1.0, 1.0]);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!([f32::INFINITY, 0.0, f32::NEG_INFINITY].map(logistic), [1.0, 0.5, 0.0]);
    }

    #[test]
    fn a_maximum_and_what_relu_leaves_are_nan_where_a_number_is() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for (a, b, larger) in [(1.0, 2.0, 2.0), (2.0, 1.0, 2.0), (-inf, -1.0, -1.0), (inf, -inf, inf)] {
            assert_eq!(maximum(a, b), larger);
            assert!(maximum(a, nan).is_nan() && maximum(nan, b).is_nan());
        }
        assert_eq!([-inf, -1.0, 0.0, 1.0, inf].map(relu), [0.0, 0.0, 0.0, 1.0, inf]);
        assert!(relu(nan).is_nan());
        assert_eq!([-1.0, 0.0, 1.0, nan].map(|result| gated(result, 3.0)), [0.0, 0.0, 3.0, 3.0]);
    }
}
