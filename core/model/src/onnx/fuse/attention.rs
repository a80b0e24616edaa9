//! Attention in its parts.

use std::collections::HashMap;

use super::{Fusion, Links};
use crate::problems::{Attention, product};

impl Links<'_> {
    /// Marks the nodes around a softmax that make attention: the product with the keys, its scale and mask, the product with the values.
    pub(super) fn attention(&self, softmax: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
        let mut parts = vec![softmax];
        let mut scores = self.before(softmax, 0)?;
        while matches!(self.operator(scores), "Add" | "Mul" | "Div" | "Where" | "Cast") && parts.len() < 8 {
            parts.push(scores);
            let main = (0..3).filter_map(|input| self.before(scores, input));
            scores = main.max_by_key(|before| usize::from(self.leads_to_matmul(*before, 0)))?;
        }
        (self.operator(scores) == "MatMul").then_some(())?;
        parts.push(scores);
        let mut out = self.next(softmax)?;
        while matches!(self.operator(out), "Dropout" | "Cast" | "Where") && parts.len() < 12 {
            parts.push(out);
            out = self.next(out)?;
        }
        let of_probabilities = self.before(out, 0).is_some_and(|before| parts.contains(&before));
        (self.operator(out) == "MatMul" && of_probabilities).then_some(())?;
        let (queries, keys, values) = (self.shape(scores, 0)?, self.shape(scores, 1)?, self.shape(out, 1)?);
        let ([batch @ .., s, d], [.., keys_d, t], [.., values_t, values_d]) = (queries, keys, values) else {
            return None;
        };
        (d == keys_d && t == values_t && d == values_d).then_some(())?;
        let (b, h) = match batch {
            [] => (1, 1),
            [heads] => (1, *heads),
            [batch @ .., heads] => (product(batch), *heads),
        };
        let key_batch = product(&keys[..keys.len() - 2]);
        (key_batch == b.checked_mul(h)?).then_some(())?;
        // Keys are read by columns, so their transpose is no work of its own.
        parts.extend(self.before(scores, 1).filter(|before| self.is(*before, "Transpose")));
        let repeats = [(scores, 1), (out, 1)].map(|(node, input)| self.repeated(node, input));
        let kv = match repeats {
            [Some((keys, times)), Some((values, same))] if times == same && h % times == 0 => {
                parts.extend(keys.into_iter().chain(values));
                h / times
            }
            _ => h,
        };
        for part in parts {
            found.insert(part, Fusion::Part("attention computes it"));
        }
        found.insert(out, Fusion::Attention(Attention { b, h, kv, s: *s, t: *t, d: *d, w: 0, causal: false }));
        Some(())
    }

    /// Whether a node is a matrix product, or scales or masks one.
    fn leads_to_matmul(&self, node: usize, depth: usize) -> bool {
        match self.operator(node) {
            "MatMul" => true,
            "Add" | "Mul" | "Div" | "Where" | "Cast" if depth < 8 => (0..3)
                .filter_map(|input| self.before(node, input))
                .any(|before| self.leads_to_matmul(before, depth + 1)),
            _ => false,
        }
    }

    /// Returns the nodes that repeat the heads of keys or values for their groups of queries, and the number of repetitions; `None` if
    /// no `Expand` precedes the input.
    fn repeated(&self, node: usize, input: usize) -> Option<(Vec<usize>, u64)> {
        let mut parts = vec![self.before(node, input)?];
        loop {
            let last = *parts.last()?;
            match self.operator(last) {
                "Transpose" | "Reshape" | "Cast" if parts.len() < 5 => parts.push(self.before(last, 0)?),
                "Expand" => break,
                _ => return None,
            }
        }
        let expand = *parts.last()?;
        let written = self.values.get(self.nodes[expand].output.first()?.as_str())?.elements()?;
        let times = written.checked_div(product(self.shape(expand, 0)?))?;
        (times > 1).then_some((parts, times))
    }
}
