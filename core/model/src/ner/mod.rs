//! Tagger of entities: embedded features of tokens, two encoder layers, a linear layer to BIO tags. All layers are workloads of the
//! suite.
//!
//! An item is a window of [`LENGTH`] tokens. Each token has [`TABLES`] features, each with a table of embeddings, whose rows lie side
//! by side. `encoder_layer` has no mask: a shorter window ends with padding, an embedding of its own that attention sees in training
//! and in use alike. Rows of padding have weight zero in the loss: `elementwise` multiplies their gradient by it.

mod sentences;
mod tokens;

pub use sentences::Sentences;
pub use tokens::{Token, tokens};

use crate::data::Weights;
use crate::layers::{Layer, Source, layer};
use crate::network::{Initial, LOGITS, LOSS_WEIGHTS, Network, loss};

/// Tokens of a window.
pub const LENGTH: usize = 32;
/// Features of a token.
pub const TABLES: usize = 8;
/// Encoder layers.
const LAYERS: usize = 2;
/// Heads of attention.
pub const HEADS: usize = 4;
/// Array of the features' rows, `[tokens, TABLES]`.
pub const FEATURES: &str = "features";

/// Extents of a tagger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tagger {
    /// Rows of a table.
    pub rows: usize,
    /// Width of a token: a multiple of [`TABLES`].
    pub width: usize,
    /// Hidden width of the MLP.
    pub hidden: usize,
    /// Tags.
    pub tags: usize,
}

impl Network for Tagger {
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let Tagger { rows, width: c, hidden: f, tags } = *self;
        let mut all = vec![("tables".to_owned(), vec![TABLES, rows, c / TABLES])];
        for at in 0..LAYERS {
            all.extend(layer_parameters(c, f).map(|(name, shape)| (format!("{at}.{name}"), shape)));
        }
        all.extend([("head.weight".to_owned(), vec![c, tags]), ("head.bias".to_owned(), vec![tags])]);
        all
    }

    fn first(&self, name: &str, shape: &[usize]) -> Initial {
        match (name, shape) {
            ("tables", _) => Initial::Normal(0.2),
            (name, _) if name.contains("gamma") => Initial::Constant(1.0),
            (_, [_]) => Initial::Constant(0.0),
            _ => Initial::Normal((shape[0] as f64).sqrt().recip()),
        }
    }

    fn forward(&self, windows: usize) -> Vec<Layer> {
        let Tagger { rows, width, tags, .. } = self;
        let tokens = windows * LENGTH;
        let embedded = layer(
            format!("embedding_select/fwd/n{tokens},t{TABLES},v{rows},d{}/f32", width / TABLES),
            &[("index", FEATURES), ("tables", "tables")],
            &[("out", "0.x")],
        );
        let encoded = (0..LAYERS).map(|at| {
            let inputs: Vec<_> = inputs(at);
            layer(self.encoder("fwd", windows), &named(&inputs), &[("out", &format!("{}.x", at + 1))])
        });
        let head = layer(
            format!("linear/fwd/m{tokens},n{tags},k{width}/f32"),
            &[("x", &last()), ("w", "head.weight"), ("bias", "head.bias")],
            &[("out", LOGITS)],
        );
        std::iter::once(embedded).chain(encoded).chain([head]).collect()
    }

    fn gradients(&self, windows: usize) -> Vec<Layer> {
        let Tagger { rows, width, tags, .. } = self;
        let tokens = windows * LENGTH;
        let mut layers = self.forward(windows);
        layers.extend(loss(tokens, *tags));
        layers.extend([
            layer(
                format!("elementwise/fwd/r{tokens},c{tags},mul,column/f32"),
                &[("a", "dlogits"), ("b", LOSS_WEIGHTS)],
                &[("out", "dmasked")],
            ),
            layer(
                format!("linear/bwd/m{tokens},n{tags},k{width}/f32"),
                &[("x", &last()), ("w", "head.weight"), ("dout", "dmasked")],
                &[("dx", &format!("{LAYERS}.dx")), ("dw", "head.weight.grad"), ("dbias", "head.bias.grad")],
            ),
        ]);
        layers.extend((0..LAYERS).rev().map(|at| self.encoder_gradients(at, windows)));
        layers.push(layer(
            format!("embedding_select/bwd/n{tokens},t{TABLES},v{rows},d{}/f32", width / TABLES),
            &[("index", FEATURES), ("dout", "0.dx")],
            &[("dtables", "tables.grad")],
        ));
        layers
    }

    fn classes(&self) -> usize {
        self.tags
    }

    fn rows(&self) -> usize {
        LENGTH
    }

    fn gradient(&self, name: &str) -> Source {
        let part = |gradient: String, which: usize| Source::Columns {
            array: gradient,
            first: which * self.width,
            count: self.width,
            width: 3 * self.width,
        };
        let joined = name.split_once('.').and_then(|(at, name)| {
            let weight = QUERY_KEY_VALUE.iter().position(|[weight, _]| *weight == name);
            let bias = QUERY_KEY_VALUE.iter().position(|[_, bias]| *bias == name);
            let weight = weight.map(|which| part(format!("{at}.wqkv.grad"), which));
            weight.or_else(|| bias.map(|which| part(format!("{at}.bqkv.grad"), which)))
        });
        joined.unwrap_or_else(|| Source::Whole(format!("{name}.grad")))
    }
}

/// Gives rows of the tables that no token of the training has the values of the row for left-out features. `seen` is
/// `[TABLES, rows]`.
pub fn fill_unseen(weights: &mut Weights, seen: &[bool]) {
    let Some(tables) = weights.tensors.get_mut("tables") else { return };
    let [_, rows, width] = tables.shape[..] else { return };
    for (table, seen) in tables.values.chunks_exact_mut(rows * width).zip(seen.chunks_exact(rows)) {
        let unknown = table[tokens::UNKNOWN as usize * width..][..width].to_vec();
        for (row, _) in table.chunks_exact_mut(width).zip(seen).filter(|(_, seen)| !**seen) {
            row.copy_from_slice(&unknown);
        }
    }
}

/// Parameters whose gradients `encoder_layer` returns side by side: weights and biases of queries, keys and values.
const QUERY_KEY_VALUE: [[&str; 2]; 3] = [["wq", "bq"], ["wk", "bk"], ["wv", "bv"]];

/// Parameters of an encoder layer of width `c` and hidden width `f`, by the buffers' names.
fn layer_parameters(c: usize, f: usize) -> [(&'static str, Vec<usize>); 16] {
    [
        ("gamma1", vec![c]),
        ("beta1", vec![c]),
        ("wq", vec![c, c]),
        ("wk", vec![c, c]),
        ("wv", vec![c, c]),
        ("bq", vec![c]),
        ("bk", vec![c]),
        ("bv", vec![c]),
        ("wo", vec![c, c]),
        ("bo", vec![c]),
        ("gamma2", vec![c]),
        ("beta2", vec![c]),
        ("w1", vec![c, f]),
        ("b1", vec![f]),
        ("w2", vec![f, c]),
        ("b2", vec![c]),
    ]
}

/// Gradients of an encoder layer, by the names of their buffers and of their parameters.
const GRADIENTS: [(&str, &str); 12] = [
    ("dgamma1", "gamma1"),
    ("dbeta1", "beta1"),
    ("dwqkv", "wqkv"),
    ("dbqkv", "bqkv"),
    ("dwo", "wo"),
    ("dbo", "bo"),
    ("dgamma2", "gamma2"),
    ("dbeta2", "beta2"),
    ("dw1", "w1"),
    ("db1", "b1"),
    ("dw2", "w2"),
    ("db2", "b2"),
];

/// Array of the last encoder layer's result.
fn last() -> String {
    format!("{LAYERS}.x")
}

/// Inputs of an encoder layer, by the buffers' names.
fn inputs(at: usize) -> Vec<(&'static str, String)> {
    let learned = layer_parameters(0, 0).map(|(name, _)| (name, format!("{at}.{name}")));
    std::iter::once(("x", format!("{at}.x"))).chain(learned).collect()
}

fn named<'a>(pairs: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    pairs.iter().map(|(buffer, name)| (*buffer, &**name)).collect()
}

impl Tagger {
    fn encoder(&self, direction: &str, windows: usize) -> String {
        let Tagger { width, hidden, .. } = self;
        format!("encoder_layer/{direction}/b{windows},s{LENGTH},h{HEADS},d{},f{hidden}/f32", width / HEADS)
    }

    fn encoder_gradients(&self, at: usize, windows: usize) -> Layer {
        let mut inputs = inputs(at);
        inputs.push(("dout", format!("{}.dx", at + 1)));
        let mut outputs = vec![("dx", format!("{at}.dx"))];
        outputs.extend(GRADIENTS.map(|(buffer, name)| (buffer, format!("{at}.{name}.grad"))));
        layer(self.encoder("bwd", windows), &named(&inputs), &named(&outputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::complete;

    #[test]
    fn layers_are_problems_of_the_suite_with_all_their_inputs() {
        let model: &dyn Network = &Tagger { rows: 50, width: 16, hidden: 24, tags: 5 };
        complete(model.gradients(3).into_iter().chain(model.optimisers()).chain(model.forward(1)));
    }

    #[test]
    fn unseen_rows_are_those_of_left_out_features() {
        let model: &dyn Network = &Tagger { rows: 4, width: 16, hidden: 8, tags: 3 };
        let mut weights = model.initial(1);
        let before = weights.tensors["tables"].values.clone();
        let mut seen = vec![true; TABLES * 4];
        seen[4 + 3] = false;
        fill_unseen(&mut weights, &seen);
        let after = &weights.tensors["tables"].values;
        assert_eq!(after[14..16], before[10..12]);
        assert_eq!((&after[..14], &after[16..]), (&before[..14], &before[16..]));
    }

    #[test]
    fn each_parameter_has_a_gradient_of_its_extent() {
        let model = Tagger { rows: 50, width: 16, hidden: 24, tags: 5 };
        let outputs: Vec<String> =
            model.gradients(3).into_iter().flat_map(|layer| layer.outputs).map(|(_, array)| array).collect();
        for (name, shape) in model.parameters() {
            let (array, columns) = match model.gradient(&name) {
                Source::Whole(array) => (array, None),
                Source::Columns { array, count, .. } => (array, Some(count)),
            };
            assert!(outputs.contains(&array), "{name}: {array}");
            assert!(columns.is_none_or(|count| shape.last() == Some(&count)), "{name}");
        }
    }
}
