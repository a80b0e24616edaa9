//! Networks: layers forward, the layers of a training step, and parameters with the averages of the optimiser.
//!
//! The optimiser's step is a constant of its kernel, so training uses one large step, where the corrections of its averages are
//! one. Its rate and decay are the workload's.

use std::collections::BTreeSet;

use parallax_ir::{Draw, splitmix64};
use parallax_schema::case::Cost;
use parallax_workloads::parse_problem;

use crate::data::{Tensor, Weights, WeightsError};
use crate::layers::{Arrays, Layer, Source, layer};

/// Step of the optimiser for its constants.
const STEP: u64 = 1_000_000;

/// Array of the true classes of the rows of logits.
pub const TARGETS: &str = "targets";
/// Array of the logits.
pub const LOGITS: &str = "logits";
/// Array of the probabilities; absent if a network has none.
pub const PROBABILITIES: &str = "probabilities";
/// Array of the gradient of the mean loss: one, or the scale of the loss.
pub const LOSS_GRADIENT: &str = "dloss";
/// Array of the losses of the rows.
pub const LOSSES: &str = "losses";
/// Array of the weights of the rows in the mean loss, `[rows, 1]`; absent if all are one. Their mean is one.
pub const LOSS_WEIGHTS: &str = "loss_weights";

/// First values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial {
    /// Seeded normal numbers of a standard deviation.
    Normal(f64),
    /// One number.
    Constant(f32),
}

/// Network of the suite's workloads that ends with rows of logits.
pub trait Network {
    /// Returns the parameters, each with its extents.
    fn parameters(&self) -> Vec<(String, Vec<usize>)>;

    /// Returns the layers from the inputs of `items` items to their answers.
    fn forward(&self, items: usize) -> Vec<Layer>;

    /// Returns the layers of one training step on `items` items, without the optimiser: forward, loss, backward.
    fn gradients(&self, items: usize) -> Vec<Layer>;

    /// Returns the classes of a row of logits.
    fn classes(&self) -> usize;

    /// Returns the rows of logits of an item.
    fn rows(&self) -> usize {
        1
    }

    /// Returns the source of a parameter's gradient.
    fn gradient(&self, name: &str) -> Source {
        Source::Whole(format!("{name}.grad"))
    }

    /// Returns the first values of a parameter: variance one over the number of inputs for weights, and zero for biases.
    fn first(&self, _name: &str, shape: &[usize]) -> Initial {
        match shape {
            [_] => Initial::Constant(0.0),
            [inputs, ..] => Initial::Normal((*inputs as f64).sqrt().recip()),
            [] => Initial::Constant(0.0),
        }
    }
}

impl dyn Network + '_ {
    /// Returns seeded parameters.
    pub fn initial(&self, seed: u64) -> Weights {
        let tensor = |((name, shape), stream): ((String, Vec<usize>), u64)| {
            let stream = splitmix64(seed ^ splitmix64(stream));
            let count = shape.iter().product::<usize>() as u64;
            let value = |index| match self.first(&name, &shape) {
                Initial::Normal(deviation) => (deviation * Draw::new(stream, index).normal()) as f32,
                Initial::Constant(value) => value,
            };
            let values = (0..count).map(value).collect();
            (name, Tensor { shape, values })
        };
        Weights { tensors: self.parameters().into_iter().zip(1..).map(tensor).collect(), ..Weights::default() }
    }

    /// Puts the parameters into arrays, with the averages of the optimiser where the weights have them.
    ///
    /// # Errors
    /// Missing parameter, or other extents.
    pub fn load(&self, weights: &Weights, arrays: &mut Arrays) -> Result<(), WeightsError> {
        for (name, shape) in self.parameters() {
            arrays.set_f32(&name, weights.tensor(&name, &shape)?);
            for average in averages(&name) {
                let zeros = || vec![0.0; shape.iter().product()];
                let values = match weights.tensors.contains_key(&average) {
                    true => weights.tensor(&average, &shape)?.to_vec(),
                    false => zeros(),
                };
                arrays.set_f32(&average, &values);
            }
        }
        arrays.set_f32(LOSS_GRADIENT, &[1.0]);
        Ok(())
    }

    /// Returns the parameters from arrays; `resumable` adds the averages of the optimiser.
    pub fn save(&self, arrays: &Arrays, resumable: bool) -> Weights {
        let mut weights = Weights::default();
        for (name, shape) in self.parameters() {
            let names = [name.clone()].into_iter().chain(averages(&name).into_iter().filter(|_| resumable));
            for name in names {
                let values = arrays.f32(&name);
                weights.tensors.insert(name, Tensor { shape: shape.clone(), values });
            }
        }
        weights
    }

    /// Returns the layers of the optimiser, which take the gradients of a step.
    pub fn optimisers(&self) -> Vec<Layer> {
        let optimiser = |(name, shape): (String, Vec<usize>)| {
            let [m, v] = averages(&name);
            let changed = [("param", &*name), ("m", &*m), ("v", &*v)];
            let problem = format!("adamw/fwd/n{},t{STEP}/f32", shape.iter().product::<usize>());
            layer(problem, &changed, &changed).with("grad", self.gradient(&name))
        };
        self.parameters().into_iter().map(optimiser).collect()
    }

    /// Returns the arrays of the gradients of all parameters, each once.
    pub fn gradient_arrays(&self) -> BTreeSet<String> {
        let array = |(name, _): (String, Vec<usize>)| match self.gradient(&name) {
            Source::Whole(array) | Source::Columns { array, .. } => array,
        };
        self.parameters().into_iter().map(array).collect()
    }

    /// Returns the cost of `items` items, whose inputs have `bytes` bytes: operations of the layers, parameters read once, logits
    /// written.
    pub fn cost(&self, items: usize, bytes: u64) -> Cost {
        let flops = |layer: &Layer| parse_problem(&layer.problem).map_or(0, |problem| problem.cost().flops.0);
        let each: u64 = self.forward(1).iter().map(flops).sum();
        let parameters: usize = self.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        let logits = items * self.rows() * self.classes();
        Cost::new(items as u64 * each, bytes + 4 * parameters as u64, 4 * logits as u64)
    }
}

/// Returns the mean of the losses of the last step, by their weights.
pub fn mean_loss(arrays: &Arrays) -> f64 {
    let (losses, weights) = (arrays.f32(LOSSES), arrays.f32(LOSS_WEIGHTS));
    let weight = |row: usize| weights.get(row).map_or(1.0, |weight| f64::from(*weight));
    let sum: f64 = losses.iter().enumerate().map(|(row, loss)| weight(row) * f64::from(*loss)).sum();
    sum / losses.len() as f64
}

/// Names of the averages of a parameter.
fn averages(name: &str) -> [String; 2] {
    ["m", "v"].map(|average| format!("{name}.{average}"))
}

/// Returns the layers of the loss of `rows` rows of `classes` logits, and of its gradient `dlogits`.
pub(crate) fn loss(rows: usize, classes: usize) -> [Layer; 2] {
    [
        layer(
            format!("cross_entropy/fwd/r{rows},c{classes}/f32"),
            &[("logits", LOGITS), ("targets", TARGETS)],
            &[("loss", LOSSES)],
        ),
        layer(
            format!("cross_entropy/bwd/r{rows},c{classes}/f32"),
            &[("logits", LOGITS), ("targets", TARGETS), ("dloss", LOSS_GRADIENT)],
            &[("dlogits", "dlogits")],
        ),
    ]
}

/// Returns the layer from rows of logits to their probabilities.
pub(crate) fn probabilities(rows: usize, classes: usize) -> Layer {
    layer(format!("softmax/fwd/r{rows},c{classes}/f32"), &[("x", LOGITS)], &[("out", PROBABILITIES)])
}

/// Returns the hash of a text by FNV-1a, of 32 bits.
pub(crate) fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
