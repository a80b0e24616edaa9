//! Graphs of attention and its gradients, in the form that the library's fused engines recognise.
//!
//! The masks are applied in sequence: the additive mask, the number of keys of each batch item, the causal mask, its window. Masked
//! scores become −∞. The backward pass recomputes probabilities from the log-sum-exp of every row.

use parallax_ir::device::BackendError;
use parallax_ir::{Attention, AttentionPass};
use parallax_schema::case::DType;

use super::graph::{Element, Graph, Id, Mode, Reduce, Tensor, TensorSource, dense, element};

const FLOAT: Element = Element::CUDNN_DATA_FLOAT;
const INT32: Element = Element::CUDNN_DATA_INT32;

/// Returns the graph of an attention. Its arguments are those of [`AttentionPass`], in order.
///
/// # Errors
/// [`BackendError::Unsupported`] where an extent is beyond the library's integers.
pub(super) fn graph(wanted: &Attention, dtype: DType) -> Result<Graph, BackendError> {
    let mut drawing = Drawing::new(wanted, dtype)?;
    match wanted.pass {
        AttentionPass::Forward { lse } => drawing.forward(lse),
        AttentionPass::Backward => drawing.backward(),
    }
    Ok(drawing.graph)
}

/// A graph under construction, with the extents of the attention.
struct Drawing<'a> {
    wanted: &'a Attention,
    graph: Graph,
    stored: Element,
    batch: i64,
    heads: i64,
    shared: i64,
    queries: i64,
    keys: i64,
    width: i64,
}

impl Drawing<'_> {
    fn new(wanted: &Attention, dtype: DType) -> Result<Drawing<'_>, BackendError> {
        let integer = |value: u64| {
            // The library compares positions in 32 bits.
            i32::try_from(value)
                .map(i64::from)
                .map_err(|_| BackendError::Unsupported(format!("{value} is beyond cuDNN's positions")))
        };
        Ok(Drawing {
            wanted,
            graph: Graph::default(),
            stored: element(dtype),
            batch: integer(wanted.batch)?,
            heads: integer(wanted.heads)?,
            shared: integer(wanted.kv_heads)?,
            queries: integer(wanted.queries)?,
            keys: integer(wanted.keys)?,
            width: integer(wanted.dim)?,
        })
    }

    /// Adds the dense launch argument at a position.
    fn argument(&mut self, position: usize, element: Element, extents: [i64; 4]) -> Id {
        let source = TensorSource::Argument(position);
        self.graph.tensor(Tensor { element, extents: extents.to_vec(), strides: dense(&extents), source })
    }

    /// Adds an argument with the rows of queries, outputs or their gradients.
    fn of_queries(&mut self, position: usize) -> Id {
        self.argument(position, self.stored, [self.batch, self.heads, self.queries, self.width])
    }

    /// Adds an argument with the rows of keys, values or their gradients.
    fn of_keys(&mut self, position: usize) -> Id {
        self.argument(position, self.stored, [self.batch, self.shared, self.keys, self.width])
    }

    /// Adds the transposed argument of keys or values: each row is a column.
    fn of_keys_transposed(&mut self, position: usize) -> Id {
        let (rows, width) = (self.keys, self.width);
        let extents = vec![self.batch, self.shared, width, rows];
        let strides = vec![self.shared * rows * width, rows * width, 1, width];
        let source = TensorSource::Argument(position);
        self.graph.tensor(Tensor { element: self.stored, extents, strides, source })
    }

    /// Extents of a tensor with one number per query.
    fn of_rows(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, 1]
    }

    /// Adds the arguments of the masks: the numbers of queries and keys where batch items have their own, and the additive mask.
    ///
    /// Arguments from `first`: numbers of keys, and the mask.
    fn masks(&mut self, first: usize) -> (Option<[Id; 2]>, Option<Id>) {
        let (padded, biased) = (self.wanted.padded, self.wanted.biased);
        let items = [self.batch, 1, 1, 1];
        let lengths = padded.then(|| {
            let (source, extents) = (TensorSource::OwnFilled(self.queries as i32), items.to_vec());
            let queries = self.graph.tensor(Tensor { element: INT32, extents, strides: dense(&items), source });
            [queries, self.argument(first, INT32, items)]
        });
        let extents = [1, 1, self.queries, self.keys];
        let mask = biased.then(|| self.argument(first + usize::from(padded), self.stored, extents));
        (lengths, mask)
    }

    /// Adds scaled scores with the additive mask, and −∞ beyond each item's keys.
    fn scores(&mut self, [q, k]: [Id; 2], lengths: Option<[Id; 2]>, mask: Option<Id>) -> Id {
        let sizes = [lengths.map(|[queries, _]| queries), lengths.map(|[_, keys]| keys), None];
        let scores = self.graph.between(FLOAT, &[self.batch, self.heads, self.queries, self.keys]);
        self.graph.product([q, k, scores], sizes);
        let scale = self.scale();
        let mut scores = self.graph.pointwise(Mode::CUDNN_POINTWISE_MUL, scores, scale);
        if let Some(mask) = mask {
            scores = self.graph.pointwise(Mode::CUDNN_POINTWISE_ADD, scores, mask);
        }
        match lengths {
            Some(lengths) => self.within(scores, lengths),
            None => scores,
        }
    }

    fn scale(&mut self) -> Id {
        self.graph.float(1.0 / (self.width as f32).sqrt())
    }

    /// Replaces scores beyond each item's rows and keys by −∞.
    fn within(&mut self, scores: Id, [queries, keys]: [Id; 2]) -> Id {
        let less = Mode::CUDNN_POINTWISE_CMP_LT;
        let row = self.graph.index(scores, 2, INT32);
        let column = self.graph.index(scores, 3, INT32);
        let row = self.graph.truth(less, row, queries);
        let column = self.graph.truth(less, column, keys);
        let seen = self.graph.truth(Mode::CUDNN_POINTWISE_LOGICAL_AND, row, column);
        let hidden = self.graph.float(f32::NEG_INFINITY);
        self.graph.select(seen, scores, hidden)
    }

    /// Replaces scores of keys that a query does not see by −∞: those after it, and those before its window.
    fn visible(&mut self, scores: Id) -> Id {
        let scores = self.causal(scores);
        if self.wanted.window == 0 {
            return scores;
        }
        let row = self.graph.index(scores, 2, FLOAT);
        let column = self.graph.index(scores, 3, FLOAT);
        // Engines recognise a window by the sum of the column and one number.
        let reach = self.graph.float((self.wanted.window as i64 + self.queries - self.keys) as f32);
        let reached = self.graph.pointwise(Mode::CUDNN_POINTWISE_ADD, column, reach);
        let seen = self.graph.truth(Mode::CUDNN_POINTWISE_CMP_GT, reached, row);
        let hidden = self.graph.float(f32::NEG_INFINITY);
        self.graph.select(seen, scores, hidden)
    }

    /// Replaces scores of causally masked keys by −∞. The causal mask is aligned to the last key.
    fn causal(&mut self, scores: Id) -> Id {
        if !self.wanted.causal {
            return scores;
        }
        let mut row = self.graph.index(scores, 2, FLOAT);
        let column = self.graph.index(scores, 3, FLOAT);
        if self.queries != self.keys {
            let (keys, queries) = (self.keys as i32, self.queries as i32);
            let keys = self.graph.integer(keys);
            row = self.graph.integers(Mode::CUDNN_POINTWISE_ADD, row, keys);
            let queries = self.graph.integer(queries);
            row = self.graph.integers(Mode::CUDNN_POINTWISE_SUB, row, queries);
        }
        let seen = self.graph.truth(Mode::CUDNN_POINTWISE_CMP_GE, row, column);
        let hidden = self.graph.float(f32::NEG_INFINITY);
        self.graph.select(seen, scores, hidden)
    }

    fn forward(&mut self, lse: bool) {
        let (q, k, v) = (self.of_queries(0), self.of_keys_transposed(1), self.of_keys(2));
        let out = self.of_queries(3);
        let (lengths, mask) = self.masks(4);
        let behind = 4 + usize::from(lengths.is_some()) + usize::from(mask.is_some());
        let scores = self.scores([q, k], lengths, mask);
        let scores = self.visible(scores);

        let rows = self.of_rows();
        let top = self.graph.between(FLOAT, &rows);
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_MAX, scores, top);
        let below = self.graph.pointwise(Mode::CUDNN_POINTWISE_SUB, scores, top);
        let exponential = self.graph.pointwise(Mode::CUDNN_POINTWISE_EXP, below, None);
        let sum = self.graph.between(FLOAT, &rows);
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
        // Engines recognise the graph by the log-sum-exp, in memory or virtual.
        let logarithm = self.graph.pointwise(Mode::CUDNN_POINTWISE_LOG, sum, None);
        let lse = if lse { self.argument(behind, FLOAT, rows) } else { self.graph.between(FLOAT, &rows) };
        self.graph.pointwise_into(Mode::CUDNN_POINTWISE_ADD, top, logarithm, lse);
        let weights = self.graph.pointwise(Mode::CUDNN_POINTWISE_DIV, exponential, sum);
        self.graph.of_element(weights, self.stored);
        let sizes = [lengths.map(|[queries, _]| queries), None, lengths.map(|[_, keys]| keys)];
        self.graph.product([weights, v, out], sizes);
    }

    fn backward(&mut self) {
        let rows = self.of_rows();
        let (q, k, v) = (self.of_queries(0), self.of_keys_transposed(1), self.of_keys_transposed(2));
        let (out, dout, lse) = (self.of_queries(3), self.of_queries(4), self.argument(5, FLOAT, rows));
        let (dq, dk, dv) = (self.of_queries(6), self.of_keys(7), self.of_keys(8));
        let (lengths, mask) = self.masks(9);
        let [queries, keys] = [0, 1].map(|which| lengths.map(|lengths| lengths[which]));

        // Delta: the term subtracted from the gradient of every probability of a row.
        let products = self.graph.pointwise(Mode::CUDNN_POINTWISE_MUL, dout, out);
        let summed = self.graph.between(FLOAT, &rows);
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, products, summed);
        let one = self.graph.float(1.0);
        let extents = rows.to_vec();
        let delta =
            self.graph.tensor(Tensor { element: FLOAT, extents, strides: dense(&rows), source: TensorSource::Own });
        self.graph.pointwise_into(Mode::CUDNN_POINTWISE_MUL, summed, one, delta);

        let scores = self.scores([q, k], lengths, mask);
        let below = self.graph.pointwise(Mode::CUDNN_POINTWISE_SUB, scores, lse);
        let below = self.visible(below);
        let weights = self.graph.pointwise(Mode::CUDNN_POINTWISE_EXP, below, None);

        let by_key = self.graph.transposed(weights, self.stored);
        self.add_to_keys([by_key, dout, dv], [keys, None, queries]);

        let of_weights = self.graph.between(FLOAT, &[self.batch, self.heads, self.queries, self.keys]);
        self.graph.product([dout, v, of_weights], [queries, keys, None]);
        let centred = self.graph.pointwise(Mode::CUDNN_POINTWISE_SUB, of_weights, delta);
        let of_scores = self.graph.pointwise(Mode::CUDNN_POINTWISE_MUL, centred, weights);
        let scale = self.scale();
        let of_scores = self.graph.pointwise(Mode::CUDNN_POINTWISE_MUL, of_scores, scale);

        let by_key = self.graph.transposed(of_scores, self.stored);
        self.add_to_keys([by_key, q, dk], [keys, None, queries]);

        // Blocks of keys accumulate into the queries' gradients, in f32.
        let by_row = self.graph.transposed(k, self.stored);
        let extents = [self.batch, self.heads, self.queries, self.width];
        let source = TensorSource::Own;
        let sums =
            self.graph.tensor(Tensor { element: FLOAT, extents: extents.to_vec(), strides: dense(&extents), source });
        self.graph.product([of_scores, by_row, sums], [queries, None, keys]);
        self.graph.pointwise_into(Mode::CUDNN_POINTWISE_IDENTITY, sums, None, dq);
    }

    /// Adds a GEMM for every query head, summed over the heads that share keys.
    fn add_to_keys(&mut self, [a, b, into]: [Id; 3], sizes: [Option<Id>; 3]) {
        if self.heads == self.shared {
            return self.graph.product([a, b, into], sizes);
        }
        let each = self.graph.between(self.stored, &[self.batch, self.heads, self.keys, self.width]);
        self.graph.product([a, b, each], sizes);
        self.graph.reduce(Reduce::CUDNN_REDUCE_TENSOR_ADD, each, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Choice;

    fn wanted(pass: AttentionPass) -> Attention {
        Attention {
            batch: 2,
            heads: 4,
            kv_heads: 2,
            queries: 64,
            keys: 128,
            dim: 32,
            causal: true,
            window: 32,
            padded: true,
            biased: true,
            pass,
            choice: Choice::Heuristic,
        }
    }

    #[test]
    fn every_argument_of_either_pass_is_a_tensor() {
        for (pass, plain, all) in [
            (AttentionPass::Forward { lse: false }, 4, 6),
            (AttentionPass::Forward { lse: true }, 5, 7),
            (AttentionPass::Backward, 9, 11),
        ] {
            let arguments = |wanted: Attention| {
                let graph = graph(&wanted, DType::BF16).expect("small numbers");
                let position = |tensor: &Tensor| match tensor.source {
                    TensorSource::Argument(position) => Some(position),
                    _ => None,
                };
                let mut found: Vec<usize> = graph.tensors().iter().filter_map(position).collect();
                found.sort_unstable();
                assert_eq!(found, (0..found.len()).collect::<Vec<_>>(), "{pass:?}");
                assert_eq!(found.len(), wanted.buffers(), "{pass:?}");
                found.len()
            };
            assert_eq!(arguments(wanted(pass)), all, "{pass:?}");
            assert_eq!(arguments(Attention { padded: false, biased: false, ..wanted(pass) }), plain, "{pass:?}");
        }
    }

    #[test]
    fn positions_beyond_32_bits_are_refused() {
        let far = Attention { keys: 1 << 40, ..wanted(AttentionPass::Backward) };
        assert!(graph(&far, DType::F16).expect_err("too far").to_string().contains("beyond cuDNN's positions"));
    }
}
