//! Attention over heads that are adjacent in rows, on the host: for references in f64 and host code in f32.

use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use parallax_ir::parallel::*;

use crate::dense::{add_product, dot, viewed, viewed_mut};
use crate::real::Real;
use crate::vector;

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

    fn scale<T: Real>(self) -> T {
        T::one() / T::from(self.d).expect("a small number").sqrt()
    }

    /// Computes `softmax(q·kᵀ/√d)·v` of each head.
    pub(crate) fn attend<T: Real>(self, q: &[T], k: &[T], v: &[T]) -> Attended<T> {
        let s = self.s;
        let mut weights = vec![T::zero(); self.heads * s * s];
        let mut lse = vec![T::zero(); self.heads * s];
        weights.par_chunks_mut(s * s).zip(lse.par_chunks_mut(s)).enumerate().for_each(|(head, (weights, lse))| {
            let (queries, keys) = (self.of_head(q, head), self.of_head(k, head));
            add_product(self.scale(), queries, keys.reversed_axes(), viewed_mut([s, s], weights));
            for (i, (weights, lse)) in weights.chunks_exact_mut(s).zip(lse).enumerate() {
                let (seen, unseen) = weights.split_at_mut(if self.causal { i + 1 } else { s });
                unseen.fill(T::zero());
                let top = vector::largest(seen);
                let sum = vector::weigh(seen, top);
                vector::divide(seen, sum);
                *lse = top + sum.ln();
            }
        });
        let out = self.each_head(|head, out| {
            let weights = viewed([s, s], &weights[head * s * s..][..s * s]);
            add_product(T::one(), weights, self.of_head(v, head), out);
        });
        Attended { out, weights, lse }
    }

    /// Rows of one head.
    fn of_head<T>(self, rows: &[T], head: usize) -> ArrayView2<'_, T> {
        viewed([self.s, self.width()], rows).slice_move(s![.., head * self.d..(head + 1) * self.d])
    }

    /// Rows whose part of each head is computed by a function, from zeros.
    fn each_head<T: Real>(self, function: impl Fn(usize, ArrayViewMut2<'_, T>) + Sync + Send) -> Vec<T> {
        let mut rows = vec![T::zero(); self.s * self.width()];
        let mut all = viewed_mut([self.s, self.width()], &mut rows);
        let heads: Vec<ArrayViewMut2<'_, T>> = all.axis_chunks_iter_mut(Axis(1), self.d).collect();
        heads.into_par_iter().enumerate().for_each(|(head, rows)| function(head, rows));
        rows
    }

    /// Gradients of queries, keys and values.
    pub(crate) fn backward<T: Real>(self, [q, k, v]: [&[T]; 3], attended: &Attended<T>, dout: &[T]) -> [Vec<T>; 3] {
        let (width, s) = (self.width(), self.s);
        let mut dscores = vec![T::zero(); attended.weights.len()];
        let heads = dscores.par_chunks_mut(s * s).zip(attended.weights.par_chunks(s * s));
        heads.enumerate().for_each(|(head, (dscores, weights))| {
            let (gradients, values) = (self.of_head(dout, head), self.of_head(v, head));
            add_product(T::one(), gradients, values.reversed_axes(), viewed_mut([s, s], dscores));
            for (i, (dscores, weights)) in dscores.chunks_exact_mut(s).zip(weights.chunks_exact(s)).enumerate() {
                let row = i * width + head * self.d..i * width + (head + 1) * self.d;
                let delta = dot(&dout[row.clone()], &attended.out[row]);
                for (dscore, weight) in dscores.iter_mut().zip(weights) {
                    *dscore = *weight * (*dscore - delta) * self.scale();
                }
            }
        });
        // Sums over the rows of the other side, with a weight for each query and key.
        let mixed = |weights: &[T], rows: &[T], by_key: bool| {
            self.each_head(|head, out| {
                let weights = viewed([s, s], &weights[head * s * s..][..s * s]);
                let weights = if by_key { weights.reversed_axes() } else { weights };
                add_product(T::one(), weights, self.of_head(rows, head), out);
            })
        };
        [mixed(&dscores, k, false), mixed(&dscores, q, true), mixed(&attended.weights, dout, true)]
    }
}
