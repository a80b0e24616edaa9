//! Step on the host: for the reference in f64 and host code in f32.

use parallax_ir::Problem;
use parallax_ir::parallel::*;
use parallax_schema::case::Direction;

use super::super::gelu::{gelu_tanh, slope_tanh};
use super::super::hash_embedding::place;
use super::super::{adamw, loss_smape};
use super::{HEADS, stages};
use crate::dense::{add, add_to_rows, gemm_nn, gemm_nt, gemm_tn, mapped, rows_summed, zipped};
use crate::real::{Real, narrow, wide};

/// Inputs of a step.
pub(super) struct Batch<T> {
    /// Id, sample and weight of each hashed feature.
    pub(super) ids: Vec<u32>,
    pub(super) groups: Vec<u32>,
    pub(super) weights: Vec<T>,
    pub(super) categories: Vec<u32>,
    pub(super) targets: Vec<T>,
    pub(super) dloss: T,
}

/// Parameter with its averages.
pub(super) struct Parameter<T> {
    pub(super) value: Vec<T>,
    pub(super) m: Vec<T>,
    pub(super) v: Vec<T>,
}

/// Values of the parameters, in buffer order.
type Values<'a, T> = [&'a [T]; 5];

/// Values of the forward pass.
pub(super) struct Passed<T> {
    x: Vec<T>,
    pre: Vec<T>,
    hidden: Vec<T>,
    pub(super) pred: Vec<T>,
}

/// Extents of the model, and the problems of its parts.
pub(super) struct Model {
    n: usize,
    d: usize,
    f: usize,
    /// GPUs that divide the samples.
    gpus: usize,
    loss: Problem,
    optimiser: [Problem; 5],
}

const TWO: usize = HEADS as usize;

impl Model {
    pub(super) fn new(p: &Problem) -> Model {
        let [n, d, f] = ["n", "d", "f"].map(|axis| p[axis] as usize);
        let loss = stages::loss(p, Direction::Bwd).problem().clone();
        let optimiser = stages::optimisers(p).map(|inner| inner.problem().clone());
        Model { n, d, f, gpus: p.gpus() as usize, loss, optimiser }
    }

    pub(super) fn forward<T: Real>(&self, batch: &Batch<T>, [table, w1, b1, w2, b2]: Values<'_, T>) -> Passed<T> {
        let Model { n, d, f, .. } = *self;
        let mut x = vec![T::zero(); n * d];
        for ((id, group), weight) in batch.ids.iter().zip(&batch.groups).zip(&batch.weights) {
            let (column, sign) = place(*id, d as u32);
            let at = &mut x[*group as usize * d + column as usize];
            *at = *at + narrow::<T>(sign) * *weight;
        }
        for (row, category) in x.chunks_exact_mut(d).zip(&batch.categories) {
            add(row, T::one(), &table[*category as usize * d..][..d]);
        }
        let pre = add_to_rows(gemm_nn(&x, w1, [n, f, d]), b1);
        let hidden = mapped(&pre, gelu_tanh);
        let pred = add_to_rows(gemm_nn(&hidden, w2, [n, TWO, f]), b2);
        Passed { x, pre, hidden, pred }
    }

    /// Mean of the loss over predictions and their targets.
    fn mean<T: Real>(&self, pred: &[T], targets: &[T]) -> T {
        let band = loss_smape::Band::new(&self.loss);
        let terms = pred.iter().zip(targets);
        let sum: f64 = terms.map(|(pred, target)| loss_smape::term(band, wide(*pred), wide(*target))).sum();
        narrow(sum / pred.len() as f64)
    }

    /// Mean of the loss over the samples of each GPU.
    fn means<T: Real>(&self, pred: &[T], targets: &[T]) -> Vec<T> {
        let part = TWO * self.n / self.gpus;
        pred.chunks(part).zip(targets.chunks(part)).map(|(pred, targets)| self.mean(pred, targets)).collect()
    }

    /// Gradients of the parameters, in buffer order.
    pub(super) fn backward<T: Real>(
        &self,
        batch: &Batch<T>,
        [table, w1, _, w2, _]: Values<'_, T>,
        passed: &Passed<T>,
    ) -> [Vec<T>; 5] {
        let Model { n, d, f, .. } = *self;
        let share = batch.dloss / narrow(passed.pred.len() as f64);
        let band = loss_smape::Band::new(&self.loss);
        let slope = |(pred, target): (&T, &T)| loss_smape::slope(band, wide(*pred), wide(*target));
        let dpred: Vec<T> = passed.pred.iter().zip(&batch.targets).map(|at| share * narrow(slope(at))).collect();
        let dw2 = gemm_tn(&passed.hidden, &dpred, [f, TWO, n]);
        let dhidden = gemm_nt(&dpred, w2, [n, f, TWO]);
        let dpre = zipped([&dhidden, &passed.pre], |g, x| g * slope_tanh(x));
        let dw1 = gemm_tn(&passed.x, &dpre, [d, f, n]);
        let dx = gemm_nt(&dpre, w1, [n, d, f]);
        let mut dtable = vec![T::zero(); table.len()];
        for (row, category) in dx.chunks_exact(d).zip(&batch.categories) {
            add(&mut dtable[*category as usize * d..][..d], T::one(), row);
        }
        [dtable, dw1, rows_summed(&dpre, f), dw2, rows_summed(&dpred, TWO)]
    }

    /// All checked outputs, in buffer order.
    pub(super) fn step<T: Real>(&self, batch: &Batch<T>, parameters: &[Parameter<T>; 5]) -> Vec<Vec<T>> {
        let values = parameters.each_ref().map(|of| &of.value[..]);
        let passed = self.forward(batch, values);
        let gradients = self.backward(batch, values, &passed);
        let mut outputs = Vec::new();
        for ((of, gradient), problem) in parameters.iter().zip(&gradients).zip(&self.optimiser) {
            let given = gradient.par_iter().zip(&of.value).zip(of.m.par_iter().zip(&of.v));
            let stepped: Vec<[T; 3]> = given
                .map(|((gradient, value), (m, v))| {
                    adamw::stepped(problem, wide(*gradient), [wide(*value), wide(*m), wide(*v)]).map(narrow)
                })
                .collect();
            outputs.extend([0, 1, 2].map(|part| stepped.iter().map(|all| all[part]).collect()));
        }
        let losses = self.means(&passed.pred, &batch.targets);
        outputs.extend([passed.pred, losses]);
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::super::{form, read};
    use super::*;
    use crate::find;
    use parallax_schema::case::DType;

    fn problem(shape: &str) -> Problem {
        Problem::new(find("train_step").expect("here"), Direction::FwdBwd, shape, DType::F32).expect("valid")
    }

    #[test]
    fn gradients_are_the_slopes_of_the_loss() {
        let p = problem("n7,e3,v3,d4,f5");
        let (model, (batch, mut parameters)) = (Model::new(&p), read(&p, &p.inputs(1)));
        let values = |of: &[Parameter<f64>; 5]| of.each_ref().map(|of| of.value.clone());
        let with = |values: &[Vec<f64>; 5]| -> Passed<f64> {
            model.forward(&batch, values.each_ref().map(|values| &values[..]))
        };
        let all = values(&parameters);
        let gradients = model.backward(&batch, all.each_ref().map(|values| &values[..]), &with(&all));
        const STEP: f64 = 1e-6;
        for (which, gradients) in gradients.iter().enumerate() {
            for (at, gradient) in gradients.iter().enumerate() {
                let mut moved = |by: f64| {
                    parameters[which].value[at] += by;
                    let loss = model.mean(&with(&values(&parameters)).pred, &batch.targets);
                    parameters[which].value[at] -= by;
                    loss * batch.dloss
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let near = (slope - gradient).abs() < 1e-6 * (1.0 + gradient.abs());
                assert!(near, "parameter {which} at {at}: {slope} and {gradient}");
            }
        }
        assert!(gradients.iter().flatten().any(|gradient| gradient.abs() > 0.1), "there is something to compare");
    }

    #[test]
    fn predictions_keep_clear_of_the_kinks_of_the_loss() {
        let shapes = form().awkward.iter().copied().chain(["n512,e8,v1000,d64,f256"]);
        for p in shapes.map(problem) {
            for seed in 0..8 {
                let (batch, parameters) = read(&p, &p.inputs(seed));
                let passed = Model::new(&p).forward(&batch, parameters.each_ref().map(|of| &of.value[..]));
                assert!(passed.pred.iter().all(|pred| (3.0..5.0).contains(pred)), "{p} {seed}: {:?}", passed.pred);
            }
        }
    }

    #[test]
    fn a_row_of_the_table_learns_from_the_samples_that_took_it_alone() {
        let p = problem("n3,e2,v5,d2,f3");
        let (mut batch, parameters) = read(&p, &p.inputs(1));
        batch.categories = vec![4, 1, 4];
        let (model, values) = (Model::new(&p), parameters.each_ref().map(|of| &of.value[..]));
        let gradients = model.backward(&batch, values, &model.forward(&batch, values));
        let learns: Vec<bool> = gradients[0].chunks(2).map(|row| row.iter().any(|x| *x != 0.0)).collect();
        assert_eq!(learns, [false, true, false, false, true]);
    }
}
