//! Classifier: columns scaled, then linear, GELU, linear, softmax. All layers are workloads of the suite.
//!
//! Training adds `cross_entropy`, the backward directions, and `adamw` of each parameter. The optimiser's step is a constant of its
//! kernel, so training uses one large step, where the corrections of its averages are one. Its rate and decay are the workload's.

use parallax_ir::{Draw, splitmix64};

use crate::data::{Tensor, Weights, WeightsError};
use crate::layers::{Arrays, Layer, layer};

/// Step of the optimiser for its constants.
const STEP: u64 = 1_000_000;

/// Extents of a classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classifier {
    /// Columns of the input.
    pub features: usize,
    /// Hidden width.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
}

/// Array of the input rows.
pub const INPUT: &str = "x";
/// Array of the true classes.
pub const TARGETS: &str = "targets";
/// Array of the logits.
pub const LOGITS: &str = "logits";
/// Array of the probabilities.
pub const PROBABILITIES: &str = "probabilities";
/// Array of the losses of the rows.
pub const LOSSES: &str = "losses";

impl Classifier {
    /// Returns the parameters, each with its extents.
    pub fn parameters(&self) -> [(&'static str, Vec<usize>); 4] {
        let Classifier { features, hidden, classes } = *self;
        [
            ("1.weight", vec![features, hidden]),
            ("1.bias", vec![hidden]),
            ("2.weight", vec![hidden, classes]),
            ("2.bias", vec![classes]),
        ]
    }

    /// Returns seeded parameters: weights of variance one over the number of inputs, and biases of zero.
    pub fn initial(&self, seed: u64) -> Weights {
        let tensor = |((name, shape), stream): ((&str, Vec<usize>), u64)| {
            let stream = splitmix64(seed ^ splitmix64(stream));
            let scale = if shape.len() == 1 { 0.0 } else { (shape[0] as f64).sqrt().recip() };
            let count = shape.iter().product::<usize>() as u64;
            let values = (0..count).map(|index| (scale * Draw::new(stream, index).normal()) as f32).collect();
            (name.to_owned(), Tensor { shape, values })
        };
        Weights { tensors: self.parameters().into_iter().zip(1..).map(tensor).collect(), ..Weights::default() }
    }

    /// Puts the parameters into arrays, with the averages of the optimiser where the weights have them.
    ///
    /// # Errors
    /// Missing parameter, or other extents.
    pub fn load(&self, weights: &Weights, arrays: &mut Arrays) -> Result<(), WeightsError> {
        for (name, shape) in self.parameters() {
            arrays.set_f32(name, weights.tensor(name, &shape)?);
            for average in averages(name) {
                let zeros = || vec![0.0; shape.iter().product()];
                let values = match weights.tensors.contains_key(&average) {
                    true => weights.tensor(&average, &shape)?.to_vec(),
                    false => zeros(),
                };
                arrays.set_f32(&average, &values);
            }
        }
        arrays.set_f32("dloss", &[1.0]);
        Ok(())
    }

    /// Returns the parameters from arrays; `resumable` adds the averages of the optimiser.
    pub fn save(&self, arrays: &Arrays, resumable: bool) -> Weights {
        let mut weights = Weights::default();
        for (name, shape) in self.parameters() {
            let names = [name.to_owned()].into_iter().chain(averages(name).into_iter().filter(|_| resumable));
            for name in names {
                let values = arrays.f32(&name);
                weights.tensors.insert(name, Tensor { shape: shape.clone(), values });
            }
        }
        weights
    }

    /// Returns the layers from `rows` rows to their probabilities.
    pub fn forward(&self, rows: usize) -> Vec<Layer> {
        let mut layers = self.logits(rows);
        let Classifier { classes, .. } = self;
        layers.push(layer(format!("softmax/fwd/r{rows},c{classes}/f32"), &[("x", LOGITS)], &[("out", PROBABILITIES)]));
        layers
    }

    fn logits(&self, rows: usize) -> Vec<Layer> {
        let Classifier { features, hidden, classes } = self;
        vec![
            layer(
                format!("linear/fwd/m{rows},n{hidden},k{features},gelu/f32"),
                &[("x", INPUT), ("w", "1.weight"), ("bias", "1.bias")],
                &[("out", "hidden")],
            ),
            layer(
                format!("linear/fwd/m{rows},n{classes},k{hidden}/f32"),
                &[("x", "hidden"), ("w", "2.weight"), ("bias", "2.bias")],
                &[("out", LOGITS)],
            ),
        ]
    }

    /// Returns the layers of one training step on `rows` rows: forward, loss, backward, optimiser.
    pub fn step(&self, rows: usize) -> Vec<Layer> {
        let Classifier { features, hidden, classes } = self;
        let mut layers = self.logits(rows);
        layers.extend([
            layer(
                format!("cross_entropy/fwd/r{rows},c{classes}/f32"),
                &[("logits", LOGITS), ("targets", TARGETS)],
                &[("loss", LOSSES)],
            ),
            layer(
                format!("cross_entropy/bwd/r{rows},c{classes}/f32"),
                &[("logits", LOGITS), ("targets", TARGETS), ("dloss", "dloss")],
                &[("dlogits", "dlogits")],
            ),
            layer(
                format!("linear/bwd/m{rows},n{classes},k{hidden}/f32"),
                &[("x", "hidden"), ("w", "2.weight"), ("dout", "dlogits")],
                &[("dx", "dhidden"), ("dw", "2.weight.grad"), ("dbias", "2.bias.grad")],
            ),
            layer(
                format!("linear/bwd/m{rows},n{hidden},k{features},gelu/f32"),
                &[("x", INPUT), ("w", "1.weight"), ("dout", "dhidden"), ("bias", "1.bias")],
                &[("dw", "1.weight.grad"), ("dbias", "1.bias.grad")],
            ),
        ]);
        layers.extend(self.parameters().map(|(name, shape)| optimiser(name, shape.iter().product())));
        layers
    }
}

/// Names of the averages of a parameter.
fn averages(name: &str) -> [String; 2] {
    ["m", "v"].map(|average| format!("{name}.{average}"))
}

fn optimiser(name: &str, count: usize) -> Layer {
    let [m, v] = averages(name);
    let gradient = format!("{name}.grad");
    let changed = [("param", name), ("m", &*m), ("v", &*v)];
    let inputs: Vec<_> = changed.into_iter().chain([("grad", &*gradient)]).collect();
    layer(format!("adamw/fwd/n{count},t{STEP}/f32"), &inputs, &changed)
}

/// Array of the scaled table.
pub const SCALED: &str = "scaled";

/// Returns the layer that scales the columns of a table [`INPUT`] of `rows` rows: to [`SCALED`], `mean` and `variance`.
pub fn scaler(rows: usize, features: usize) -> Layer {
    layer(
        format!("standard_scaler/fwd/n{rows},f{features}/f32"),
        &[("x", INPUT)],
        &[("out", SCALED), ("mean", "mean"), ("variance", "variance")],
    )
}

/// Smallest variance that the workload `standard_scaler` divides by.
const EPS: f64 = 1e-5;

/// Puts the scaling of columns into the first layer, so that the model takes rows as they are.
///
/// `w'[i, j] = w[i, j]·s[i]` and `b'[j] = b[j] − Σ_i mean[i]·w'[i, j]`. The factor `s` is `1/√(variance + ε)`, and zero for a column
/// without variance.
pub fn fold(weights: &mut Weights, mean: &[f32], variance: &[f32]) {
    let Some(mut weight) = weights.tensors.remove("1.weight") else { return };
    if let Some(bias) = weights.tensors.get_mut("1.bias") {
        let hidden = bias.values.len();
        let mut shift = vec![0.0; hidden];
        for (row, (mean, variance)) in weight.values.chunks_exact_mut(hidden).zip(mean.iter().zip(variance)) {
            // A column that is constant in training says nothing: any other value of it would be scaled by 316.
            let scale = if *variance > 0.0 { (f64::from(*variance) + EPS).sqrt().recip() } else { 0.0 };
            for (value, shift) in row.iter_mut().zip(&mut shift) {
                let scaled = f64::from(*value) * scale;
                *value = scaled as f32;
                *shift += f64::from(*mean) * scaled;
            }
        }
        bias.values.iter_mut().zip(shift).for_each(|(bias, shift)| *bias = (f64::from(*bias) - shift) as f32);
    }
    weights.tensors.insert("1.weight".to_owned(), weight);
}

/// Words of a text as ids for `hash_embedding`: runs of letters and digits in lower case, by FNV-1a.
pub fn words(text: &str) -> Vec<u32> {
    let hash = |word: &str| {
        word.to_lowercase()
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(hash).collect()
}

/// Returns the layer that embeds texts into `width` columns [`INPUT`], and its arrays. A word has weight `1/√(words of the text)`.
pub fn embedding(texts: &[&str], width: usize, arrays: &mut Arrays) -> Layer {
    let (mut ids, mut groups, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (text, group) in texts.iter().zip(0u32..) {
        let of_text = words(text);
        let weight = (of_text.len() as f32).sqrt().recip();
        weights.extend(of_text.iter().map(|_| weight));
        groups.extend(of_text.iter().map(|_| group));
        ids.extend(of_text);
    }
    if ids.is_empty() {
        // A case has at least one row.
        (ids, groups, weights) = (vec![0], vec![0], vec![0.0]);
    }
    let (rows, count) = (ids.len(), texts.len());
    arrays.set_u32("id", &ids);
    arrays.set_u32("group", &groups);
    arrays.set_f32("word_weight", &weights);
    layer(
        format!("hash_embedding/fwd/r{rows},g{count},d{width},sorted/f32"),
        &[("id", "id"), ("group", "group"), ("weight", "word_weight")],
        &[("out", INPUT)],
    )
}

/// Returns positions `0..count` in a seeded order.
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|at| (Draw::new(splitmix64(seed), *at as u64).bits(), *at));
    order
}

/// Returns the positions of the training part and of the held-out part, a fifth of `count` items, in a seeded order.
pub fn split(count: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut training = shuffled(count, seed);
    let held_out = training.split_off(count - count / 5);
    (training, held_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::parse_problem;

    #[test]
    fn layers_are_problems_of_the_suite_with_all_their_inputs() {
        let model = Classifier { features: 5, hidden: 7, classes: 3 };
        let mut arrays = Arrays::default();
        let embedding = embedding(&["Fever, 39 C", ""], 5, &mut arrays);
        for layer in model.step(4).into_iter().chain(model.forward(1)).chain([scaler(4, 5), embedding]) {
            let problem = parse_problem(&layer.problem).expect(&layer.problem);
            let specs = problem.buffers();
            let inputs: Vec<&str> =
                specs.iter().filter(|spec| spec.role.fill().is_some()).map(|spec| spec.name).collect();
            assert!(inputs.iter().all(|name| layer.inputs.iter().any(|(buffer, _)| buffer == name)), "{layer:?}");
            assert_eq!(inputs.len(), layer.inputs.len(), "{layer:?}");
            assert!(layer.outputs.iter().all(|(buffer, _)| specs.iter().any(|spec| spec.name == *buffer)), "{layer:?}");
        }
    }

    #[test]
    fn folded_weights_take_rows_as_they_are() {
        let model = Classifier { features: 2, hidden: 1, classes: 2 };
        let mut weights = model.initial(1);
        let before = |w: &Weights, x: [f64; 2]| {
            let column = &w.tensors["1.weight"].values;
            f64::from(column[0]) * x[0] + f64::from(column[1]) * x[1] + f64::from(w.tensors["1.bias"].values[0])
        };
        let (mean, variance) = ([3.0f32, -1.0], [4.0f32, 0.25]);
        let scaled = [0, 1].map(|at| ([5.0, 0.0][at] - f64::from(mean[at])) / (f64::from(variance[at]) + EPS).sqrt());
        let want = before(&weights, scaled);
        fold(&mut weights, &mean, &variance);
        assert!((before(&weights, [5.0, 0.0]) - want).abs() < 1e-5);
    }

    #[test]
    fn parts_are_seeded_and_disjoint() {
        let (training, held_out) = split(101, 3);
        assert_eq!((training.len(), held_out.len()), (81, 20));
        let mut all = [training.clone(), held_out].concat();
        all.sort_unstable();
        assert_eq!(all, (0..101).collect::<Vec<_>>());
        assert!(split(101, 3).0 == training && split(101, 4).0 != training);
        assert_eq!(words("Fever, 39 °C"), words("fever 39 c"));
    }
}
