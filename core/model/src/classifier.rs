//! Classifier: columns scaled, then linear, GELU, linear, softmax. All layers are workloads of the suite.

use crate::data::Weights;
use crate::examples::INPUT;
use crate::layers::{Arrays, Layer, layer};
use crate::network::{LOGITS, Network, hash, loss, probabilities};

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

impl Network for Classifier {
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let Classifier { features, hidden, classes } = *self;
        let shapes =
            [("1.weight", vec![features, hidden]), ("1.bias", vec![hidden]), ("2.weight", vec![hidden, classes])];
        shapes.into_iter().chain([("2.bias", vec![classes])]).map(|(name, shape)| (name.to_owned(), shape)).collect()
    }

    fn forward(&self, rows: usize) -> Vec<Layer> {
        let mut layers = self.logits(rows);
        layers.push(probabilities(rows, self.classes));
        layers
    }

    fn gradients(&self, rows: usize) -> Vec<Layer> {
        let Classifier { features, hidden, classes } = self;
        let mut layers = self.logits(rows);
        layers.extend(loss(rows, *classes));
        layers.extend([
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
        layers
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

impl Classifier {
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

/// Words of a text as ids for `hash_embedding`: hashes of runs of letters and digits in lower case.
pub fn words(text: &str) -> Vec<u32> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| hash(&word.to_lowercase())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::complete;

    #[test]
    fn layers_are_problems_of_the_suite_with_all_their_inputs() {
        let model: &dyn Network = &Classifier { features: 5, hidden: 7, classes: 3 };
        let mut arrays = Arrays::default();
        let embedding = embedding(&["Fever, 39 C", ""], 5, &mut arrays);
        complete(
            model
                .gradients(4)
                .into_iter()
                .chain(model.optimisers())
                .chain(model.forward(1))
                .chain([scaler(4, 5), embedding]),
        );
    }

    #[test]
    fn folded_weights_take_rows_as_they_are() {
        let model = Classifier { features: 2, hidden: 1, classes: 2 };
        let mut weights = (&model as &dyn Network).initial(1);
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
    fn words_have_no_case_and_no_punctuation() {
        assert_eq!(words("Fever, 39 °C"), words("fever 39 c"));
    }
}
