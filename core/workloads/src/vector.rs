//! Functions of many f32 on the host. They have no branches and no chain from one number to the next, so that compilers vectorise them, for
//! the vector instructions that the processor has.

use pulp::{Arch, NullaryFnOnce};

/// Independent partial results, which fit the vector units of any processor.
const LANES: usize = 16;

/// Exponential function, within two units in the last place. NaN stays NaN.
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

/// Logistic function `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Largest of the numbers; NaN if any is NaN, negative infinity if there are none.
pub fn largest(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if (a > b) | a.is_nan() { a } else { b };
    Arch::new().dispatch(move || {
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
        let mut lanes = [f32::NEG_INFINITY; LANES];
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = larger(*lane, *x));
        }
        lanes.into_iter().fold(rest, larger)
    })
}

/// Sum in f64, rounded once.
#[inline(always)]
fn sum(x: &[f32]) -> f32 {
    let chunks = x.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().copied().map(f64::from).sum();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += f64::from(*x));
    }
    (rest + lanes.iter().sum::<f64>()) as f32
}

/// Replaces numbers by exponentials of their difference to `base`, and returns the sum of these.
pub fn weigh(x: &mut [f32], base: f32) -> f32 {
    Arch::new().dispatch(Weigh { x, base })
}

/// Work of [`weigh`]. A closure would not be compiled for each kind of vectors.
struct Weigh<'x> {
    x: &'x mut [f32],
    base: f32,
}

impl NullaryFnOnce for Weigh<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        let Weigh { x, base } = self;
        x.iter_mut().for_each(|x| *x = exp(*x - base));
        sum(x)
    }
}

/// Computes a function of each number.
#[inline(always)]
pub fn map(out: &mut [f32], x: &[f32], function: impl Fn(f32) -> f32) {
    Arch::new().dispatch(move || out.iter_mut().zip(x).for_each(|(out, x)| *out = function(*x)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_within_two_units_in_the_last_place() {
        for step in -110_000..95_000 {
            let x = step as f32 / 1000.0;
            let (found, exact) = (f64::from(exp(x)), f64::from(x).exp());
            let unit = f64::from(f32::EPSILON) * exact.max(f64::from(f32::MIN_POSITIVE));
            match exact > f64::from(f32::MAX) {
                true => assert!(found > 3.3e38, "{x}: {found}"),
                false => assert!((found - exact).abs() <= 2.0 * unit, "{x}: {found}, not {exact}"),
            }
        }
        assert_eq!([exp(f32::NEG_INFINITY), exp(f32::INFINITY), exp(0.0), exp(-0.0)], [0.0, f32::INFINITY, 1.0, 1.0]);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!([logistic(f32::INFINITY), logistic(0.0), logistic(f32::NEG_INFINITY)], [1.0, 0.5, 0.0]);
    }

    #[test]
    fn the_largest_number_and_the_sum_take_every_element() {
        for length in [0, 1, 15, 16, 17, 100] {
            let x: Vec<f32> = (0..length).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
            assert_eq!(largest(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max), "{length}");
            assert_eq!(sum(&x), x.iter().sum::<f32>(), "{length}");
            for at in 0..length {
                let mut with_nan = x.clone();
                with_nan[at] = f32::NAN;
                assert!(largest(&with_nan).is_nan() && sum(&with_nan).is_nan(), "{length} {at}");
            }
        }
    }
}
