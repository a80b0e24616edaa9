//! Attention on the host: GEMMs with blocks of queries, whose scores fit the caches.

use std::ops::Range;

use ndarray::s;
use parallax_ir::parallel::*;
use parallax_ir::{HostBuffer, Problem};

use super::masks::Masks;
use super::scores::{Sinks, cap, change_on_host, slope_of_cap};
use super::{K, Q, V, backward, group};
use crate::dense::{self, add_product, viewed, viewed_mut};
use crate::real::Real;
use crate::vector;

/// Queries of a block.
const ROWS: usize = 64;

/// Neighbouring queries of a head, and the keys that each sees.
struct Block<'a> {
    masks: Masks<'a>,
    inputs: &'a [HostBuffer],
    /// First query, counted through all heads.
    first: usize,
    seen: Vec<Range<usize>>,
    /// Keys that any query sees.
    any: Range<usize>,
    /// Keys that each query sees, among those of any.
    each: Range<usize>,
    /// Elements of a query.
    d: usize,
}

impl<'a> Block<'a> {
    fn new(masks: Masks<'a>, inputs: &'a [HostBuffer], first: usize, [rows, d]: [usize; 2]) -> Block<'a> {
        let seen: Vec<Range<usize>> = (first..first + rows).map(|row| masks.seen_by_host(inputs, row)).collect();
        let ends = || seen.iter().map(|seen| seen.end);
        let starts = || seen.iter().map(|seen| seen.start);
        let any = starts().min().unwrap_or(0)..ends().max().unwrap_or(0);
        let each = starts().max().unwrap_or(0)..ends().min().unwrap_or(0);
        // Without a common key, the range is empty and lies within the others.
        let each = if each.is_empty() { any.start..any.start } else { each };
        Block { masks, inputs, first, seen, any, each, d }
    }

    /// Elements of a range of rows.
    fn elements(&self, rows: &Range<usize>) -> Range<usize> {
        rows.start * self.d..rows.end * self.d
    }

    /// Keys that a query sees and some other does not.
    fn others(&self, seen: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
        if self.each.is_empty() {
            return seen.clone().chain(0..0);
        }
        (seen.start..self.each.start).chain(self.each.end..seen.end)
    }

    /// Keys that each query sees, as columns of a matrix with those of any.
    fn columns_of_each(&self) -> Range<usize> {
        self.each.start - self.any.start..self.each.end - self.any.start
    }

    /// Rows of this block in an array of all queries.
    fn rows_of<'x>(&self, array: &'x [f32]) -> &'x [f32] {
        &array[self.first * self.d..][..self.seen.len() * self.d]
    }

    /// Computes products of queries with keys: a row for each query, an element for each key that any query sees.
    fn products(&self, factor: f32, queries: &[f32], keys: &[f32], products: &mut Vec<f32>) {
        let (rows, any) = (self.seen.len(), self.any.len());
        products.clear();
        products.resize(rows * any, 0.0);
        let keys = viewed([any, self.d], &keys[self.elements(&self.any)]).reversed_axes();
        add_product(factor, viewed([rows, self.d], queries), keys, viewed_mut([rows, any], products));
    }

    /// Calls a function with the index of each query and its row, cut to the keys that it sees. The rest of a row becomes zero: the
    /// product of an unseen key may be NaN.
    fn each_row(&self, rows: &mut [f32], mut function: impl FnMut(usize, &mut [f32])) {
        if self.any.is_empty() {
            return;
        }
        for (i, row) in rows.chunks_exact_mut(self.any.len()).enumerate() {
            let seen = self.seen[i].start - self.any.start..self.seen[i].end - self.any.start;
            row[..seen.start].fill(0.0);
            row[seen.end..].fill(0.0);
            function(i, &mut row[seen]);
        }
    }

    /// Computes scores with scale and mask.
    fn scores(&self, queries: &[f32], keys: &[f32], scores: &mut Vec<f32>) {
        self.products(1.0 / (self.d as f32).sqrt(), queries, keys, scores);
        self.each_row(scores, |i, scores| {
            change_on_host(self.masks.problem(), self.first + i, self.seen[i].start, scores);
            if let Some(mask) = self.masks.row_on_host(self.inputs, self.first + i) {
                vector::add(scores, 1.0, &mask[self.seen[i].clone()]);
            }
        });
    }

    /// Adds weighted sums of keys or values to a row for each query. A key that a query does not see has no part in its sum, even if
    /// it is NaN.
    fn add_sums(&self, weights: &[f32], values: &[f32], out: &mut [f32]) {
        let (rows, d, any, each) = (self.seen.len(), self.d, self.any.len(), self.columns_of_each());
        let all = viewed([rows, any], weights);
        let values_of_each = viewed([each.len(), d], &values[self.elements(&self.each)]);
        add_product(1.0, all.slice(s![.., each]), values_of_each, viewed_mut([rows, d], out));
        for (i, out) in out.chunks_exact_mut(d).enumerate() {
            for key in self.others(&self.seen[i]) {
                vector::add(out, weights[i * any + key - self.any.start], &values[key * d..][..d]);
            }
        }
    }

    /// Adds weighted sums of rows, one for each query, to a row for each key.
    fn add_sums_of_keys(&self, weights: &[f32], queries: &[f32], out: &mut [f32]) {
        let (rows, d, any, each) = (self.seen.len(), self.d, self.any.len(), self.columns_of_each());
        let (all, sums) = (viewed([rows, any], weights), self.elements(&self.each));
        let shape = [each.len(), d];
        let of_each = all.slice(s![.., each]).reversed_axes();
        add_product(1.0, of_each, viewed([rows, d], queries), viewed_mut(shape, &mut out[sums]));
        for (i, query) in queries.chunks_exact(d).enumerate() {
            for key in self.others(&self.seen[i]) {
                vector::add(&mut out[key * d..][..d], weights[i * any + key - self.any.start], query);
            }
        }
    }
}

/// Computes the forward direction.
pub(super) fn forward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [s, t, d] = ["s", "t", "d"].map(|axis| p[axis] as usize);
    let (q, k, v) = (inputs[Q].f32(), inputs[K].f32(), inputs[V].f32());
    let (masks, sinks) = (Masks::behind(p, super::INPUTS), Sinks::behind(p, super::INPUTS));
    outputs[0].par_chunks_mut(s * d).enumerate().for_each(|(head, out)| {
        let of_keys = head / group(p) as usize * t * d..(head / group(p) as usize + 1) * t * d;
        let (keys, values) = (&k[of_keys.clone()], &v[of_keys]);
        out.par_chunks_mut(ROWS * d).enumerate().for_each_init(Vec::new, |scores, (block, out)| {
            let first = head * s + block * ROWS;
            let block = Block::new(masks, inputs, first, [out.len() / d, d]);
            block.scores(block.rows_of(q), keys, scores);
            let mut sums = vec![0.0; block.seen.len()];
            block.each_row(scores, |i, scores| {
                let top = vector::largest(scores);
                // A query without a key, or with only hidden ones, has no weights.
                if top != f32::NEG_INFINITY {
                    sums[i] = vector::weigh(scores, top);
                    if let Some(sink) = sinks.of_host(inputs, first + i) {
                        sums[i] += (sink - top).exp();
                    }
                }
            });
            out.fill(0.0);
            block.add_sums(scores, values, out);
            for (out, sum) in out.chunks_exact_mut(d).zip(sums) {
                if sum == 0.0 { out.fill(0.0) } else { vector::divide(out, sum) }
            }
        });
    });
}

/// Computes the backward direction. Probabilities are recomputed, one key head per thread.
pub(super) fn backward(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let [s, t, d] = ["s", "t", "d"].map(|axis| p[axis] as usize);
    // The set-up's results follow the inputs, in buffer order.
    let (masks, behind) = (Masks::behind(p, backward::INPUTS.len()), inputs.len() - 2);
    let [q, k, v, dout, out, lse] = [Q, K, V, backward::DOUT, behind, behind + 1].map(|buffer| inputs[buffer].f32());
    let [dq, dk, dv, dsinks @ ..] = outputs else { unreachable!("three gradients, and that of sinks") };
    if let [dsinks] = dsinks {
        gradients_of_sinks(p, inputs, [dout, out, lse], dsinks);
    }
    let (scale, each) = (1.0 / (d as f32).sqrt(), group(p) as usize * s);
    let heads = dq.par_chunks_mut(each * d).zip(dk.par_chunks_mut(t * d)).zip(dv.par_chunks_mut(t * d));
    heads.enumerate().for_each_init(<[Vec<f32>; 3]>::default, |[weights, dscores, slopes], (head, ((dq, dk), dv))| {
        let (keys, values) = (&k[head * t * d..][..t * d], &v[head * t * d..][..t * d]);
        for gradient in [&mut *dq, &mut *dk, &mut *dv] {
            gradient.fill(0.0);
        }
        for (query_head, dq) in dq.chunks_exact_mut(s * d).enumerate() {
            for (block, dq) in dq.chunks_mut(ROWS * d).enumerate() {
                let first = head * each + query_head * s + block * ROWS;
                let block = Block::new(masks, inputs, first, [dq.len() / d, d]);
                let [queries, gradients, results] = [q, dout, out].map(|array| block.rows_of(array));
                block.scores(queries, keys, weights);
                block.each_row(weights, |i, scores| {
                    vector::replace(scores, |score| (score - lse[first + i]).exponential());
                });
                block.products(1.0, gradients, values, dscores);
                block.each_row(dscores, |i, dscores| {
                    let row = i * d..(i + 1) * d;
                    let delta = dense::dot(&gradients[row.clone()], &results[row]);
                    vector::replace(dscores, |dscore| (dscore - delta) * scale);
                });
                dscores.iter_mut().zip(weights.iter()).for_each(|(dscore, weight)| *dscore *= weight);
                if cap(p).is_some() {
                    block.products(scale, queries, keys, slopes);
                    block.each_row(slopes, |_, slopes| {
                        vector::replace(slopes, |score| slope_of_cap(p, f64::from(score)) as f32);
                    });
                    dscores.iter_mut().zip(slopes.iter()).for_each(|(dscore, slope)| *dscore *= slope);
                }
                block.add_sums(dscores, keys, dq);
                block.add_sums_of_keys(dscores, queries, dk);
                block.add_sums_of_keys(weights, gradients, dv);
            }
        }
    });
}

/// Computes the gradient of each head's sink, from its share of every query's sum and that query's delta.
fn gradients_of_sinks(p: &Problem, inputs: &[HostBuffer], [dout, out, lse]: [&[f32]; 3], dsinks: &mut [f32]) {
    let [h, s, d] = ["h", "s", "d"].map(|axis| p[axis] as usize);
    let sinks = Sinks::behind(p, backward::INPUTS.len());
    dsinks.fill(0.0);
    for row in 0..lse.len() {
        let delta = dense::dot(&dout[row * d..][..d], &out[row * d..][..d]);
        if let Some(sink) = sinks.of_host(inputs, row) {
            dsinks[row / s % h] -= (sink - lse[row]).exp() * delta;
        }
    }
}
