//! Functions of many numbers on the host. They have no branches and no chain from one number to the next, so that compilers vectorise
//! them, for the vector instructions that the processor has.

use std::marker::PhantomData;

use pulp::{Arch, NullaryFnOnce};

use crate::real::{Real, maximum, narrow, wide};

/// Independent partial results, which fit the vector units of any processor.
const LANES: usize = 16;

/// Function that is compiled for each kind of vectors. Its implementations are `#[inline(always)]`: a closure or the name of a function
/// need not be inlined, and would have no vectors then.
trait Function<A> {
    type Output;

    fn call(arguments: A) -> Self::Output;
}

/// Calls a function with the vectors that the processor has.
fn vectorised<F: Function<A>, A>(arguments: A) -> F::Output {
    Arch::new().dispatch(Call::<F, A>(PhantomData, arguments))
}

/// Call of a function.
struct Call<F, A>(PhantomData<F>, A);

impl<A, F: Function<A>> NullaryFnOnce for Call<F, A> {
    type Output = F::Output;

    #[inline(always)]
    fn call(self) -> F::Output {
        F::call(self.1)
    }
}

/// Largest of the numbers; NaN if any is NaN, negative infinity if there are none.
pub fn largest<T: Real>(x: &[T]) -> T {
    struct Body;
    impl<T: Real> Function<&[T]> for Body {
        type Output = T;

        #[inline(always)]
        fn call(x: &[T]) -> T {
            let chunks = x.chunks_exact(LANES);
            let rest = chunks.remainder().iter().copied().fold(T::neg_infinity(), maximum);
            let mut lanes = [T::neg_infinity(); LANES];
            for chunk in chunks {
                lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = maximum(*lane, *x));
            }
            lanes.into_iter().fold(rest, maximum)
        }
    }
    vectorised::<Body, _>(x)
}

/// Sum of a function of each number, in f64.
#[inline(always)]
fn sum_of<T: Real>(x: &[T], function: impl Fn(T) -> T) -> f64 {
    let chunks = x.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().map(|x| wide(function(*x))).sum();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += wide(function(*x)));
    }
    rest + lanes.iter().sum::<f64>()
}

/// Sum in f64.
pub fn total<T: Real>(x: &[T]) -> f64 {
    struct Body;
    impl<T: Real> Function<&[T]> for Body {
        type Output = f64;

        #[inline(always)]
        fn call(x: &[T]) -> f64 {
            sum_of(x, |x| x)
        }
    }
    vectorised::<Body, _>(x)
}

/// Sum of the second powers of differences to `base`, in f64.
pub fn scatter<T: Real>(x: &[T], base: T) -> f64 {
    struct Body;
    impl<T: Real> Function<(&[T], T)> for Body {
        type Output = f64;

        #[inline(always)]
        fn call((x, base): (&[T], T)) -> f64 {
            sum_of(x, |x| (x - base) * (x - base))
        }
    }
    vectorised::<Body, _>((x, base))
}

/// Dot product `a·b`.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    struct Body;
    impl<T: Real> Function<(&[T], &[T])> for Body {
        type Output = T;

        #[inline(always)]
        fn call((a, b): (&[T], &[T])) -> T {
            let (heads, tails) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
            let rest: T = heads.remainder().iter().zip(tails.remainder()).map(|(a, b)| *a * *b).sum();
            let mut sums = [T::zero(); LANES];
            for (a, b) in heads.zip(tails) {
                sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum = *sum + *a * *b);
            }
            sums.into_iter().sum::<T>() + rest
        }
    }
    vectorised::<Body, _>((a, b))
}

/// Unpacks int8 numbers, four to a word and the first in its lowest byte, and multiplies them by a factor.
pub fn unpack_i8(out: &mut [f32], words: &[u32], factor: f32) {
    struct Body;
    impl Function<(&mut [f32], &[u32], f32)> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, words, factor): (&mut [f32], &[u32], f32)) {
            for (out, word) in out.chunks_exact_mut(4).zip(words) {
                let numbers = word.to_le_bytes().map(|byte| f32::from(byte as i8));
                out.iter_mut().zip(numbers).for_each(|(out, number)| *out = number * factor);
            }
        }
    }
    vectorised::<Body, _>((out, words, factor));
}

/// Computes `out += factor · row`.
pub fn add<T: Real>(out: &mut [T], factor: T, row: &[T]) {
    struct Body;
    impl<T: Real> Function<(&mut [T], T, &[T])> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, factor, row): (&mut [T], T, &[T])) {
            out.iter_mut().zip(row).for_each(|(out, x)| *out = *out + factor * *x);
        }
    }
    vectorised::<Body, _>((out, factor, row));
}

/// Adds the product of each pair of numbers.
pub fn add_products<T: Real>(out: &mut [T], [a, b]: [&[T]; 2]) {
    struct Body;
    impl<T: Real> Function<(&mut [T], [&[T]; 2])> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, [a, b]): (&mut [T], [&[T]; 2])) {
            out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = *out + *a * *b);
        }
    }
    vectorised::<Body, _>((out, [a, b]));
}

/// Replaces numbers by exponentials of their difference to `base`, and returns the sum of these, computed in f64.
pub fn weigh<T: Real>(x: &mut [T], base: T) -> T {
    struct Body;
    impl<T: Real> Function<(&mut [T], T)> for Body {
        type Output = T;

        #[inline(always)]
        fn call((x, base): (&mut [T], T)) -> T {
            x.iter_mut().for_each(|x| *x = (*x - base).exponential());
            narrow(sum_of(x, |x| x))
        }
    }
    vectorised::<Body, _>((x, base))
}

/// Divides numbers by one number.
pub fn divide<T: Real>(x: &mut [T], by: T) {
    struct Body;
    impl<T: Real> Function<(&mut [T], T)> for Body {
        type Output = ();

        #[inline(always)]
        fn call((x, by): (&mut [T], T)) {
            x.iter_mut().for_each(|x| *x = *x / by);
        }
    }
    vectorised::<Body, _>((x, by));
}

/// Computes `out = (x - mean) · rstd · gamma + beta` for each number of a row.
pub fn normalise(out: &mut [f32], x: &[f32], [mean, rstd]: [f32; 2], [gamma, beta]: [&[f32]; 2]) {
    type Arguments<'a> = (&'a mut [f32], &'a [f32], [f32; 2], [&'a [f32]; 2]);
    struct Body;
    impl Function<Arguments<'_>> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, x, [mean, rstd], [gamma, beta]): Arguments<'_>) {
            for (((out, x), gamma), beta) in out.iter_mut().zip(x).zip(gamma).zip(beta) {
                *out = (x - mean) * rstd * gamma + beta;
            }
        }
    }
    vectorised::<Body, _>((out, x, [mean, rstd], [gamma, beta]));
}

/// Computes `out = x · factor · gamma` for each number of a row.
pub fn scale(out: &mut [f32], x: &[f32], factor: f32, gamma: &[f32]) {
    struct Body;
    impl Function<(&mut [f32], &[f32], f32, &[f32])> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, x, factor, gamma): (&mut [f32], &[f32], f32, &[f32])) {
            for ((out, x), gamma) in out.iter_mut().zip(x).zip(gamma) {
                *out = x * factor * gamma;
            }
        }
    }
    vectorised::<Body, _>((out, x, factor, gamma));
}

/// Computes a function of each number.
pub fn map<T: Real>(out: &mut [T], x: &[T], function: impl Fn(T) -> T) {
    struct Body;
    impl<T: Real, F: Fn(T) -> T> Function<(&mut [T], &[T], F)> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, x, function): (&mut [T], &[T], F)) {
            out.iter_mut().zip(x).for_each(|(out, x)| *out = function(*x));
        }
    }
    vectorised::<Body, _>((out, x, function));
}

/// Replaces each number by a function of it.
pub fn replace<T: Real>(x: &mut [T], function: impl Fn(T) -> T) {
    struct Body;
    impl<T: Real, F: Fn(T) -> T> Function<(&mut [T], F)> for Body {
        type Output = ();

        #[inline(always)]
        fn call((x, function): (&mut [T], F)) {
            x.iter_mut().for_each(|x| *x = function(*x));
        }
    }
    vectorised::<Body, _>((x, function));
}

/// Computes a function of each pair of numbers.
pub fn zip<T: Real>(out: &mut [T], [a, b]: [&[T]; 2], function: impl Fn(T, T) -> T) {
    struct Body;
    impl<T: Real, F: Fn(T, T) -> T> Function<(&mut [T], [&[T]; 2], F)> for Body {
        type Output = ();

        #[inline(always)]
        fn call((out, [a, b], function): (&mut [T], [&[T]; 2], F)) {
            out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = function(*a, *b));
        }
    }
    vectorised::<Body, _>((out, [a, b], function));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37) % 101) as f32 - 50.0).collect()
    }

    #[test]
    fn the_largest_number_and_sums_take_every_element() {
        for length in [0, 1, LANES - 1, LANES, LANES + 1, 100] {
            let x = numbers(length);
            assert_eq!(largest(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max), "{length}");
            assert_eq!(total(&x), f64::from(x.iter().sum::<f32>()), "{length}");
            let powers: f32 = x.iter().map(|x| (x - 3.0) * (x - 3.0)).sum();
            assert_eq!(scatter(&x, 3.0), f64::from(powers), "{length}");
            assert_eq!(dot(&x, &vec![2.0; length]), 2.0 * x.iter().sum::<f32>(), "{length}");
            for at in 0..length {
                let mut with_nan = x.clone();
                with_nan[at] = f32::NAN;
                assert!(largest(&with_nan).is_nan() && total(&with_nan).is_nan(), "{length} {at}");
                assert!(scatter(&with_nan, 3.0).is_nan() && dot(&with_nan, &x).is_nan(), "{length} {at}");
            }
        }
    }

    #[test]
    fn weights_are_exponentials_and_their_sum() {
        let x = [-1.0f32, 0.0, -0.5];
        let mut weights = x;
        let sum = weigh(&mut weights, 0.0);
        assert!(weights.iter().zip(x).all(|(weight, x)| (weight - x.exp()).abs() < 1e-6), "{weights:?}");
        assert!((sum - x.iter().map(|x| x.exp()).sum::<f32>()).abs() < 1e-6, "{sum}");
        divide(&mut weights, sum);
        assert!((total(&weights) - 1.0).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn functions_of_each_number_take_every_element() {
        for length in [0, 1, LANES + 3] {
            let (x, ones) = (numbers(length), vec![1.0; length]);
            let all = |found: &[f32], function: &dyn Fn(f32) -> f32| {
                assert_eq!(found, x.iter().map(|x| function(*x)).collect::<Vec<f32>>(), "{length}");
            };
            let mut out = vec![f32::NAN; length];
            map(&mut out, &x, |x| 2.0 * x);
            all(&out, &|x| 2.0 * x);
            replace(&mut out, |x| x + 1.0);
            all(&out, &|x| 2.0 * x + 1.0);
            add(&mut out, 3.0, &x);
            all(&out, &|x| 5.0 * x + 1.0);
            zip(&mut out, [&x, &ones], |a, b| a - b);
            all(&out, &|x| x - 1.0);
            normalise(&mut out, &x, [1.0, 2.0], [&ones, &x]);
            all(&out, &|x| (x - 1.0) * 2.0 + x);
            scale(&mut out, &x, 4.0, &x);
            all(&out, &|x| 4.0 * x * x);
            add_products(&mut out, [&x, &x]);
            all(&out, &|x| 5.0 * x * x);
        }
    }
}
