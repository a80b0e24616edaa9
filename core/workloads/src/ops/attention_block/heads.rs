//! Attention over heads that are adjacent in rows, on the host: for references in f64 and host code in f32.

use parallax_ir::parallel::*;

use crate::dense::{Real, add, dot, maximum, total};

/// Extents of queries, keys and values: `s` rows of each, `heads` heads of `d` elements.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) s: usize,
    pub(crate) heads: usize,
    pub(crate) d: usize,
    /// Whether a query sees only keys up to its own position.
    pub(crate) causal: bool,
}

/// Output of attention with adjacent heads, and the values that the backward pass needs.
pub(crate) struct Attended<T> {
    pub(crate) out: Vec<T>,
    /// Weights of each head, query and key.
    pub(crate) weights: Vec<T>,
    /// Log-sum-exp of the scores of each head and query.
    pub(crate) lse: Vec<T>,
}

impl Heads {
    /// Number of elements in a row.
    pub(crate) fn width(self) -> usize {
        self.heads * self.d
    }

    fn of(self, head: usize) -> std::ops::Range<usize> {
        head * self.d..(head + 1) * self.d
    }

    fn scale<T: Real>(self) -> T {
        T::one() / T::from(self.d).expect("a small number").sqrt()
    }

    /// Computes `softmax(q·kᵀ/√d)·v` of each head.
    pub(crate) fn attend<T: Real>(self, q: &[T], k: &[T], v: &[T]) -> Attended<T> {
        let (width, s) = (self.width(), self.s);
        let mut weights = vec![T::zero(); self.heads * s * s];
        let mut lse = vec![T::zero(); self.heads * s];
        weights.par_chunks_mut(s).zip(&mut lse).enumerate().for_each(|(at, (weights, lse))| {
            let (head, i) = (self.of(at / s), at % s);
            let seen = if self.causal { i + 1 } else { s };
            let query = &q[i * width..][head.clone()];
            for (weight, key) in weights.iter_mut().zip(k.chunks_exact(width)).take(seen) {
                *weight = dot(query, &key[head.clone()]) * self.scale();
            }
            let top = weights[..seen].iter().copied().fold(T::neg_infinity(), maximum);
            weights[..seen].iter_mut().for_each(|weight| *weight = (*weight - top).exp());
            let sum = total(weights[..seen].iter().copied());
            weights[..seen].iter_mut().for_each(|weight| *weight = *weight / sum);
            *lse = top + sum.ln();
        });
        let mut out = vec![T::zero(); s * width];
        out.par_chunks_mut(width).enumerate().for_each(|(i, out)| {
            for head in 0..self.heads {
                for (weight, value) in weights[(head * s + i) * s..][..s].iter().zip(v.chunks_exact(width)) {
                    add(&mut out[self.of(head)], *weight, &value[self.of(head)]);
                }
            }
        });
        Attended { out, weights, lse }
    }

    /// Gradients of queries, keys and values.
    pub(crate) fn backward<T: Real>(self, [q, k, v]: [&[T]; 3], attended: &Attended<T>, dout: &[T]) -> [Vec<T>; 3] {
        let (width, s) = (self.width(), self.s);
        let mut dscores = vec![T::zero(); attended.weights.len()];
        dscores.par_chunks_mut(s).zip(attended.weights.par_chunks(s)).enumerate().for_each(
            |(at, (dscores, weights))| {
                let (head, i) = (self.of(at / s), at % s);
                let gradient = &dout[i * width..][head.clone()];
                let delta = dot(gradient, &attended.out[i * width..][head.clone()]);
                for ((dscore, weight), value) in dscores.iter_mut().zip(weights).zip(v.chunks_exact(width)) {
                    *dscore = *weight * (dot(gradient, &value[head.clone()]) - delta) * self.scale();
                }
            },
        );
        // Sum over all rows of the other side; `at` returns the index of a factor.
        let mixed = |factors: &[T], rows: &[T], at: &(dyn Fn(usize, usize, usize) -> usize + Sync)| {
            let mut out = vec![T::zero(); s * width];
            out.par_chunks_mut(width).enumerate().for_each(|(i, out)| {
                for head in 0..self.heads {
                    for (j, row) in rows.chunks_exact(width).enumerate() {
                        add(&mut out[self.of(head)], factors[at(head, i, j)], &row[self.of(head)]);
                    }
                }
            });
            out
        };
        let by_query = move |head: usize, i: usize, j: usize| (head * s + i) * s + j;
        let by_key = move |head: usize, j: usize, i: usize| (head * s + i) * s + j;
        [mixed(&dscores, k, &by_query), mixed(&dscores, q, &by_key), mixed(&attended.weights, dout, &by_key)]
    }
}
