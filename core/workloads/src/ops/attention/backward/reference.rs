//! Reference of the backward direction: plain sums in f64.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::{Inputs, Problem, Rows};

use super::super::group;
use super::super::masks::Masks;
use super::super::scores::{Sinks, changed, slope_of_cap};
use super::{DK, DOUT, DQ, DSINKS, INPUTS, K, LSE, OUT, Q, V};
use crate::dense;
use crate::real::maximum;

/// Query row, gradient row and derived values of one query.
struct Query {
    lse: f64,
    delta: f64,
    out: Vec<f64>,
    q: Vec<f64>,
    dout: Vec<f64>,
}

/// Keys and values of a head, row by row.
struct Keys {
    k: Vec<f64>,
    v: Vec<f64>,
}

/// Reference state. A query or key head is computed at its first use: a few rows of a large problem need few of them.
struct Backward<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    masks: Masks<'a>,
    sinks: Sinks<'a>,
    queries: Vec<OnceLock<Query>>,
    keys: Vec<OnceLock<Keys>>,
}

pub(super) fn row_cost(p: &Problem, output: usize) -> u64 {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    match output {
        OUT | LSE => 2 * t * d,
        DQ => 5 * t * d,
        // The forward values of all queries of a head.
        DSINKS => 2 * p["b"] * s * t * d,
        // Share of this row in its queries' forward values, then three products with them.
        _ => 7 * group(p) * s * d,
    }
}

pub(super) fn rows<'a>(p: &'a Problem, inputs: &'a Inputs) -> Rows<'a> {
    let queries = (0..p["b"] * p["h"] * p["s"]).map(|_| OnceLock::new()).collect();
    let keys = (0..p["b"] * p["h"] / group(p)).map(|_| OnceLock::new()).collect();
    let state = Backward {
        p,
        inputs,
        masks: Masks::behind(p, INPUTS.len()),
        sinks: Sinks::behind(p, INPUTS.len()),
        queries,
        keys,
    };
    Box::new(move |output, row, out| state.row(output, row, out))
}

impl Backward<'_> {
    fn scale(&self) -> f64 {
        1.0 / (self.p["d"] as f64).sqrt()
    }

    /// Keys and values of a query head.
    fn keys(&self, head: u64) -> &Keys {
        let (own, elements) = (head / group(self.p), self.p["t"] * self.p["d"]);
        let read = |buffer| self.inputs.values(buffer, own * elements..(own + 1) * elements);
        self.keys[own as usize].get_or_init(|| Keys { k: read(K), v: read(V) })
    }

    /// Score with its changes and the mask, of a scaled product.
    fn score(&self, row: u64, j: u64, product: f64) -> f64 {
        changed(self.p, row, j, product) + self.masks.added(self.inputs, row, j)
    }

    /// State of a query; `row` counts through all heads.
    fn query(&self, row: u64) -> &Query {
        self.queries[row as usize].get_or_init(|| {
            let (s, d) = (self.p["s"], self.p["d"]);
            let [q, dout] = [Q, DOUT].map(|buffer| self.inputs.values(buffer, row * d..(row + 1) * d));
            let keys = self.keys(row / s);
            let seen = self.masks.seen(self.inputs, row);
            let of_seen = |rows: &'_ [f64]| rows[(seen.start * d) as usize..(seen.end * d) as usize].to_vec();
            let score = |(j, key)| self.score(row, j, dense::dot(&q, key) * self.scale());
            let scores: Vec<f64> = seen.clone().zip(of_seen(&keys.k).chunks_exact(d as usize)).map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, maximum);
            let mut out = vec![0.0; d as usize];
            if top == f64::NEG_INFINITY {
                return Query { lse: 0.0, delta: 0.0, out, q, dout };
            }
            let sink = self.sinks.of(self.inputs, row);
            let top = maximum(top, sink);
            let sum = scores.iter().map(|score| (score - top).exp()).sum::<f64>() + (sink - top).exp();
            for (score, value) in scores.iter().zip(of_seen(&keys.v).chunks_exact(d as usize)) {
                dense::add(&mut out, (score - top).exp() / sum, value);
            }
            Query { lse: top + sum.ln(), delta: dense::dot(&out, &dout), out, q, dout }
        })
    }

    /// Probability of a visible key `j`, and the gradient of its score.
    fn weight(&self, row: u64, j: u64) -> (f64, f64) {
        let (s, d) = (self.p["s"], self.p["d"] as usize);
        let (query, keys) = (self.query(row), self.keys(row / s));
        let of_key = |rows: &'_ [f64], left: &[f64]| dense::dot(left, &rows[j as usize * d..][..d]);
        let product = of_key(&keys.k, &query.q) * self.scale();
        let probability = (self.score(row, j, product) - query.lse).exp();
        let dscore = probability * (of_key(&keys.v, &query.dout) - query.delta) * slope_of_cap(self.p, product);
        (probability, dscore * self.scale())
    }

    fn row(&self, output: usize, row: u64, out: &mut [f64]) {
        let (s, t, d) = (self.p["s"], self.p["t"], self.p["d"]);
        match output {
            OUT => out.copy_from_slice(&self.query(row).out),
            LSE => out[0] = self.query(row).lse,
            DSINKS => {
                let (b, h, s) = (self.p["b"], self.p["h"], self.p["s"]);
                let rows = (0..b * s).map(|i| (i / s * h + row) * s + i % s);
                let one = |row| (self.sinks.of(self.inputs, row) - self.query(row).lse).exp() * self.query(row).delta;
                out[0] = -rows.map(one).sum::<f64>();
            }
            DQ => {
                out.fill(0.0);
                let keys = &self.keys(row / s).k;
                for j in self.masks.seen(self.inputs, row) {
                    dense::add(out, self.weight(row, j).1, &keys[(j * d) as usize..((j + 1) * d) as usize]);
                }
            }
            _ => {
                // Queries of a key head: those of its group are adjacent.
                let (j, each) = (row % t, group(self.p) * s);
                let first = row / t * each;
                (first..first + each).into_par_iter().for_each(|row| _ = self.query(row));
                out.fill(0.0);
                for row in (first..first + each).filter(|row| self.masks.seen(self.inputs, *row).contains(&j)) {
                    let ((probability, dscore), query) = (self.weight(row, j), self.query(row));
                    match output {
                        DK => dense::add(out, dscore, &query.q),
                        _ => dense::add(out, probability, &query.dout),
                    }
                }
            }
        }
    }
}
