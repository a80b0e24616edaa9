//! Every pair of embeddings in f64, for the references of both directions.

use std::sync::OnceLock;

use parallax_ir::parallel::*;
use parallax_ir::{Inputs, Problem};

use super::{BIAS, TEMPERATURE, X, Y};

/// Both sets of embeddings, read at the first access to a pair.
pub struct Pairs<'a> {
    p: &'a Problem,
    inputs: &'a Inputs,
    embeddings: OnceLock<[Vec<f64>; 2]>,
}

/// Minus the logarithm of the logistic function of `−v`, without overflow.
fn softplus(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

impl<'a> Pairs<'a> {
    pub fn new(p: &'a Problem, inputs: &'a Inputs) -> Pairs<'a> {
        Pairs { p, inputs, embeddings: OnceLock::new() }
    }

    /// Rows of `x` (0) or of `y` (1).
    pub fn rows(&self, of: usize) -> &[f64] {
        &self.embeddings.get_or_init(|| [X, Y].map(|buffer| self.inputs.values(buffer, ..)))[of]
    }

    pub fn dot(&self, i: usize, j: usize) -> f64 {
        let d = self.p["d"] as usize;
        self.rows(X)[i * d..][..d].iter().zip(&self.rows(Y)[j * d..][..d]).map(|(x, y)| x * y).sum()
    }

    /// `−z (t · dot + b)`.
    fn against(&self, i: usize, j: usize, dot: f64) -> f64 {
        let logit = self.temperature() * dot + self.inputs.at(BIAS, 0);
        if i == j { -logit } else { logit }
    }

    pub fn temperature(&self) -> f64 {
        self.inputs.at(TEMPERATURE, 0)
    }

    /// Derivative of the sum of all terms by a logit: `−z σ(−z logit)`.
    pub fn slope(&self, i: usize, j: usize) -> f64 {
        let slope = 1.0 / (1.0 + (-self.against(i, j, self.dot(i, j))).exp());
        if i == j { -slope } else { slope }
    }

    /// Sum over all pairs.
    fn sum(&self, term: impl Fn(usize, usize) -> f64 + Sync) -> f64 {
        let n = self.p["n"] as usize;
        (0..n).into_par_iter().map(|i| (0..n).map(|j| term(i, j)).sum::<f64>()).sum()
    }

    pub fn loss(&self) -> f64 {
        self.sum(|i, j| softplus(self.against(i, j, self.dot(i, j)))) / self.p["n"] as f64
    }

    /// Derivatives of the sum of all terms by temperature and bias.
    pub fn of_scalars(&self) -> [f64; 2] {
        [self.sum(|i, j| self.slope(i, j) * self.dot(i, j)), self.sum(|i, j| self.slope(i, j))]
    }
}
