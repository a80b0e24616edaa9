//! Layer on the host, one item at a time: for the reference in f64 and host code in f32.

use std::borrow::Cow;

use super::super::attention_block::heads::{Attended, Heads};
use super::super::gelu::{gelu_tanh, slope_tanh};
use super::super::layernorm::EPS;
use super::dropout::Factors;
use crate::dense::{add, add_to_rows, gemm_nn, gemm_nt, gemm_tn, mapped, rows_summed, sum, zipped};
use crate::real::{Real, narrow};
use crate::vector;

/// Parameters of a layer, each in the order of its buffer. Host code borrows them from its inputs.
#[derive(Clone)]
pub(crate) struct Parameters<'a, T: Clone> {
    pub(super) gamma1: Cow<'a, [T]>,
    pub(super) beta1: Cow<'a, [T]>,
    /// Of queries, keys and values.
    pub(super) w: [Cow<'a, [T]>; 3],
    pub(super) b: [Cow<'a, [T]>; 3],
    pub(super) wo: Cow<'a, [T]>,
    pub(super) bo: Cow<'a, [T]>,
    pub(super) gamma2: Cow<'a, [T]>,
    pub(super) beta2: Cow<'a, [T]>,
    pub(super) w1: Cow<'a, [T]>,
    pub(super) b1: Cow<'a, [T]>,
    pub(super) w2: Cow<'a, [T]>,
    pub(super) b2: Cow<'a, [T]>,
}

/// Extents of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Layer {
    pub(super) heads: Heads,
    /// Width in the middle of the MLP.
    pub(super) f: usize,
}

/// Normalised rows and their statistics.
pub(super) struct Normed<T> {
    /// Before factors and offsets.
    pub(super) normalised: Vec<T>,
    pub(super) out: Vec<T>,
    pub(super) mean: Vec<T>,
    pub(super) rstd: Vec<T>,
}

/// Forward values of an item.
pub(crate) struct Passed<T> {
    pub(super) norm1: Normed<T>,
    pub(super) qkv: [Vec<T>; 3],
    pub(super) attended: Attended<T>,
    /// Dropout factors of both parts.
    factors: Factors<T>,
    pub(super) sum: Vec<T>,
    pub(super) norm2: Normed<T>,
    pub(super) pre: Vec<T>,
    pub(super) hidden: Vec<T>,
    pub(crate) out: Vec<T>,
}

/// Gradients of an item.
pub(crate) struct Gradients<T> {
    pub(crate) dx: Vec<T>,
    /// Of the layer's parameters, in the order of the outputs.
    pub(crate) learned: [Vec<T>; 12],
}

impl<T: Real> Gradients<T> {
    /// Adds the parameter gradients to sums over items, `count` times.
    pub(crate) fn add_to(&self, sums: &mut [Vec<T>], count: T) {
        sums.iter_mut().zip(&self.learned).for_each(|(sums, gradient)| add(sums, count, gradient));
    }
}

fn norm<T: Real>(x: &[T], gamma: &[T], beta: &[T]) -> Normed<T> {
    let (width, count) = (gamma.len(), narrow::<T>(gamma.len() as f64));
    let (mut normalised, mut mean, mut rstd) = (x.to_vec(), Vec::new(), Vec::new());
    let mut out = Vec::with_capacity(x.len());
    for row in normalised.chunks_exact_mut(width) {
        let level = narrow::<T>(vector::total(row)) / count;
        let squares = narrow::<T>(vector::scatter(row, level));
        let factor = T::one() / (squares / count + narrow(EPS)).sqrt();
        row.iter_mut().for_each(|x| *x = (*x - level) * factor);
        out.extend(row.iter().zip(gamma).zip(beta).map(|((x, gamma), beta)| *x * *gamma + *beta));
        mean.push(level);
        rstd.push(factor);
    }
    Normed { normalised, out, mean, rstd }
}

/// Gradients of the rows, of factors and of offsets.
fn norm_backward<T: Real>(normed: &Normed<T>, gamma: &[T], dout: &[T]) -> [Vec<T>; 3] {
    let (width, count) = (gamma.len(), narrow::<T>(gamma.len() as f64));
    let mut dx = Vec::with_capacity(dout.len());
    let along: Vec<T> = dout.iter().zip(&normed.normalised).map(|(g, n)| *g * *n).collect();
    for ((row, dout), rstd) in normed.normalised.chunks_exact(width).zip(dout.chunks_exact(width)).zip(&normed.rstd) {
        let g: Vec<T> = dout.iter().zip(gamma).map(|(d, gamma)| *d * *gamma).collect();
        let level = g.iter().copied().sum::<T>() / count;
        let slope = g.iter().zip(row).map(|(g, n)| *g * *n).sum::<T>() / count;
        dx.extend(g.iter().zip(row).map(|(g, n)| *rstd * (*g - level - *n * slope)));
    }
    [dx, rows_summed(&along, width), rows_summed(dout, width)]
}

/// Rows of the first or second part, or their gradients, after dropout.
fn dropped<T: Real>(rows: &[T], factors: &Factors<T>, which: usize) -> Vec<T> {
    match factors {
        Some(factors) => rows.iter().zip(&factors[which]).map(|(x, factor)| *x * *factor).collect(),
        None => rows.to_vec(),
    }
}

impl Layer {
    /// Computes the forward pass of an item's `x`.
    pub(crate) fn forward<T: Real>(self, x: &[T], of: &Parameters<'_, T>, factors: Factors<T>) -> Passed<T> {
        let Layer { heads, f } = self;
        let (s, c) = (heads.s, heads.width());
        let norm1 = norm(x, &of.gamma1, &of.beta1);
        let qkv = [0, 1, 2].map(|i| add_to_rows(gemm_nn(&norm1.out, &of.w[i], [s, c, c]), &of.b[i]));
        let attended = heads.attend(&qkv[0], &qkv[1], &qkv[2]);
        let projected = add_to_rows(gemm_nn(&attended.out, &of.wo, [s, c, c]), &of.bo);
        let added = sum(x, &dropped(&projected, &factors, 0));
        let norm2 = norm(&added, &of.gamma2, &of.beta2);
        let pre = add_to_rows(gemm_nn(&norm2.out, &of.w1, [s, f, c]), &of.b1);
        let hidden = mapped(&pre, gelu_tanh);
        let second = add_to_rows(gemm_nn(&hidden, &of.w2, [s, c, f]), &of.b2);
        let out = sum(&added, &dropped(&second, &factors, 1));
        Passed { norm1, qkv, attended, factors, sum: added, norm2, pre, hidden, out }
    }

    /// Gradients from a gradient of an item's result.
    pub(crate) fn backward<T: Real>(self, of: &Parameters<'_, T>, passed: &Passed<T>, dout: &[T]) -> Gradients<T> {
        let Layer { heads, f } = self;
        let (s, c) = (heads.s, heads.width());
        let dsecond = dropped(dout, &passed.factors, 1);
        let dw2 = gemm_tn(&passed.hidden, &dsecond, [f, c, s]);
        let dhidden = gemm_nt(&dsecond, &of.w2, [s, f, c]);
        let dpre = zipped([&dhidden, &passed.pre], |g, x| g * slope_tanh(x));
        let dw1 = gemm_tn(&passed.norm2.out, &dpre, [c, f, s]);
        let dnormed2 = gemm_nt(&dpre, &of.w1, [s, c, f]);
        let [through, dgamma2, dbeta2] = norm_backward(&passed.norm2, &of.gamma2, &dnormed2);
        let dsum = sum(dout, &through);
        let dprojected = dropped(&dsum, &passed.factors, 0);
        let dwo = gemm_tn(&passed.attended.out, &dprojected, [c, c, s]);
        let dmixed = gemm_nt(&dprojected, &of.wo, [s, c, c]);
        let [q, k, v] = passed.qkv.each_ref().map(|rows| &rows[..]);
        let dqkv = heads.backward([q, k, v], &passed.attended, &dmixed);
        let dw = dqkv.each_ref().map(|rows| gemm_tn(&passed.norm1.out, rows, [c, c, s]));
        let mut dnormed1 = vec![T::zero(); s * c];
        for (rows, weights) in dqkv.iter().zip(&of.w) {
            dnormed1 = sum(&dnormed1, &gemm_nt(rows, weights, [s, c, c]));
        }
        let [through, dgamma1, dbeta1] = norm_backward(&passed.norm1, &of.gamma1, &dnormed1);
        let dbqkv = dqkv.iter().flat_map(|rows| rows_summed(rows, c)).collect();
        let learned = [
            dgamma1,
            dbeta1,
            beside(&dw, c),
            dbqkv,
            dwo,
            rows_summed(&dprojected, c),
            dgamma2,
            dbeta2,
            dw1,
            rows_summed(&dpre, f),
            dw2,
            rows_summed(&dsecond, c),
        ];
        Gradients { dx: sum(&dsum, &through), learned }
    }
}

/// Concatenates three matrices of `columns` columns by row.
pub(super) fn beside<T: Real>(matrices: &[Vec<T>; 3], columns: usize) -> Vec<T> {
    let rows = |row: usize| matrices.iter().flat_map(move |m| m[row * columns..][..columns].iter().copied());
    (0..matrices[0].len() / columns).flat_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Independent pseudo-random numbers.
    fn some(count: usize, salt: u64) -> Vec<f64> {
        let mixed = |i: usize| parallax_ir::splitmix64(salt ^ ((i as u64) << 8)) >> 40;
        (0..count).map(|i| mixed(i) as f64 / f64::from(1 << 23) - 1.0).collect()
    }

    #[test]
    fn gradients_are_the_slopes_of_the_result() {
        gradients_are_slopes(None);
    }

    #[test]
    fn gradients_are_the_slopes_of_a_result_with_dropout() {
        let some_are_zero = |salt: u64| some(12, salt).into_iter().map(|x| if x < 0.0 { 0.0 } else { 2.0 }).collect();
        gradients_are_slopes(Some([19, 20].map(some_are_zero)));
    }

    fn gradients_are_slopes(factors: Factors<f64>) {
        let layer = Layer { heads: Heads { s: 3, heads: 2, d: 2, causal: false }, f: 5 };
        let (c, f) = (4, 5);
        let of = |count, salt| Cow::from(some(count, salt));
        let mut of = Parameters {
            gamma1: of(c, 1),
            beta1: of(c, 2),
            w: [of(c * c, 3), of(c * c, 4), of(c * c, 5)],
            b: [of(c, 6), of(c, 7), of(c, 8)],
            wo: of(c * c, 9),
            bo: of(c, 10),
            gamma2: of(c, 11),
            beta2: of(c, 12),
            w1: of(c * f, 13),
            b1: of(f, 14),
            w2: of(f * c, 15),
            b2: of(c, 16),
        };
        let (mut x, dout) = (some(3 * c, 17), some(3 * c, 18));
        let gradients = layer.backward(&of, &layer.forward(&x, &of, factors.clone()), &dout);
        const STEP: f64 = 1e-5;
        let value = |x: &[f64], of: &Parameters<'_, f64>| -> f64 {
            layer.forward(x, of, factors.clone()).out.iter().zip(&dout).map(|(out, dout)| out * dout).sum()
        };
        let near = |slope: f64, gradient: f64, what: &str| {
            assert!((slope - gradient).abs() < 1e-6 * (1.0 + gradient.abs()), "{what}: {slope} and {gradient}");
        };
        for at in 0..x.len() {
            let here = x[at];
            x[at] = here + STEP;
            let above = value(&x, &of);
            x[at] = here - STEP;
            let below = value(&x, &of);
            x[at] = here;
            near((above - below) / (2.0 * STEP), gradients.dx[at], "x");
        }
        // One element of each parameter; of the concatenated ones, one of the second.
        type Place = for<'a> fn(&'a mut Parameters<'_, f64>) -> &'a mut f64;
        let places: [(Place, usize); 12] = [
            (|of| &mut of.gamma1.to_mut()[1], 1),
            (|of| &mut of.beta1.to_mut()[1], 1),
            (|of| &mut of.w[1].to_mut()[6], 3 * c + c + 2),
            (|of| &mut of.b[1].to_mut()[3], c + 3),
            (|of| &mut of.wo.to_mut()[7], 7),
            (|of| &mut of.bo.to_mut()[2], 2),
            (|of| &mut of.gamma2.to_mut()[3], 3),
            (|of| &mut of.beta2.to_mut()[0], 0),
            (|of| &mut of.w1.to_mut()[11], 11),
            (|of| &mut of.b1.to_mut()[4], 4),
            (|of| &mut of.w2.to_mut()[9], 9),
            (|of| &mut of.b2.to_mut()[1], 1),
        ];
        for (which, (place, at)) in places.into_iter().enumerate() {
            *place(&mut of) += STEP;
            let above = value(&x, &of);
            *place(&mut of) -= 2.0 * STEP;
            let below = value(&x, &of);
            *place(&mut of) += STEP;
            near((above - below) / (2.0 * STEP), gradients.learned[which][at], &format!("output {which}"));
        }
    }
}
