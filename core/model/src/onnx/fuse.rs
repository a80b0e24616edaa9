//! Neighbouring nodes that engines compute in one kernel: activations and normalisations of convolutions, biases of GEMMs,
//! attention, and GELU in its parts.

use std::collections::HashMap;

use super::node::Node;
use super::proto::{GraphProto, NodeProto};
use super::value::Value;
use super::with_inputs;
use crate::problems::{Attention, product};

/// Fused work of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fusion {
    /// Convolution with the bias of a normalisation, and with ReLU.
    Conv {
        /// Whether a normalisation adds a bias.
        bias: bool,
        /// Whether ReLU follows.
        relu: bool,
    },
    /// GEMM with a bias.
    Bias,
    /// Last node of attention.
    Attention(Attention),
    /// `Erf` in the formula of GELU.
    Gelu,
    /// Node that another one computes, with the reason.
    Part(&'static str),
}

/// Fusions by node.
pub struct Fusions(HashMap<usize, Fusion>);

impl Fusions {
    /// Returns the fusion of a node.
    pub fn get(&self, node: usize) -> Option<&Fusion> {
        self.0.get(&node)
    }

    /// Finds the fusions of a graph.
    pub fn of(graph: &GraphProto, values: &HashMap<&str, Value>) -> Fusions {
        let links = Links::of(graph, values);
        let mut found = HashMap::new();
        for (i, node) in graph.node.iter().enumerate() {
            match node.op_type.as_deref().unwrap_or_default() {
                "Conv" => links.conv(i, &mut found),
                "MatMul" => links.bias(i, &mut found),
                "Softmax" => {
                    links.attention(i, &mut found);
                }
                "Erf" => {
                    links.gelu(i, &mut found);
                }
                _ => {}
            }
        }
        Fusions(found)
    }
}

/// Nodes by the values that they produce and consume.
struct Links<'g> {
    nodes: &'g [NodeProto],
    values: &'g HashMap<&'g str, Value>,
    producers: HashMap<&'g str, usize>,
    /// The only consumer of a value; absent for values with several, and for outputs of the graph.
    only: HashMap<&'g str, usize>,
}

impl<'g> Links<'g> {
    fn of(graph: &'g GraphProto, values: &'g HashMap<&'g str, Value>) -> Links<'g> {
        let (mut producers, mut consumers) = (HashMap::new(), HashMap::<&str, Vec<usize>>::new());
        for (i, node) in graph.node.iter().enumerate() {
            producers.extend(node.output.iter().map(|name| (name.as_str(), i)));
            node.input.iter().for_each(|name| consumers.entry(name).or_default().push(i));
        }
        let is_output = |name: &str| graph.output.iter().any(|output| output.name.as_deref() == Some(name));
        let only = consumers.into_iter().filter_map(|(name, by)| match by[..] {
            [one] if !is_output(name) => Some((name, one)),
            _ => None,
        });
        Links { nodes: &graph.node, values, producers, only: only.collect() }
    }

    fn operator(&self, node: usize) -> &'g str {
        self.nodes[node].op_type.as_deref().unwrap_or_default()
    }

    /// Returns the only node that reads a node's first output.
    fn next(&self, node: usize) -> Option<usize> {
        self.only.get(self.nodes[node].output.first()?.as_str()).copied()
    }

    /// Returns the node that produces an input.
    fn before(&self, node: usize, input: usize) -> Option<usize> {
        self.producers.get(self.nodes[node].input.get(input)?.as_str()).copied()
    }

    fn node(&self, node: usize) -> Node<'g> {
        with_inputs(&self.nodes[node], self.values)
    }

    fn shape(&self, node: usize, input: usize) -> Option<&'g [u64]> {
        self.node(node).shape(input)
    }

    /// Whether one of two inputs is known before the model runs. Returns the place of the other.
    fn beside_constant(&self, node: usize) -> Option<usize> {
        let node = self.node(node);
        let constant = |at| node.input(at).is_some_and(|value: &Value| value.constant);
        match (constant(0), constant(1)) {
            (false, true) => Some(0),
            (true, false) => Some(1),
            _ => None,
        }
    }

    /// Marks normalisation and ReLU after a convolution.
    fn conv(&self, conv: usize, found: &mut HashMap<usize, Fusion>) {
        let (mut bias, mut relu, mut next) = (false, false, self.next(conv));
        if let Some(norm) = next.filter(|next| self.operator(*next) == "BatchNormalization") {
            found.insert(norm, Fusion::Part("scale and shift are part of the convolution's weights and bias"));
            (bias, next) = (true, self.next(norm));
        }
        // ReLU6 is a `Clip` from zero; its upper bound costs nothing.
        let clips = |node: usize| {
            let node = self.node(node);
            node.operator == "Clip" && node.contents(1).is_none_or(|low| low == [0.0])
        };
        if let Some(activation) = next.filter(|next| self.operator(*next) == "Relu" || clips(*next)) {
            found.insert(activation, Fusion::Part("the convolution before it computes it"));
            relu = true;
        }
        if bias || relu {
            found.insert(conv, Fusion::Conv { bias, relu });
        }
    }

    /// Marks the addition of a constant row after a GEMM.
    fn bias(&self, gemm: usize, found: &mut HashMap<usize, Fusion>) {
        let Some(add) = self.next(gemm).filter(|next| self.operator(*next) == "Add") else { return };
        let Some(other) = self.beside_constant(add) else { return };
        let columns = self.shape(gemm, 1).and_then(|shape| shape.last());
        let row = self.shape(add, 1 - other).is_some_and(|row| Some(&product(row)) == columns && row.last() == columns);
        if row && !found.contains_key(&gemm) {
            found.insert(add, Fusion::Part("the GEMM before it adds it"));
            found.insert(gemm, Fusion::Bias);
        }
    }

    /// Marks the nodes around a softmax that make attention: the product with the keys, its scale and mask, the product with the values.
    fn attention(&self, softmax: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
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
        parts.extend(self.before(scores, 1).filter(|before| self.operator(*before) == "Transpose"));
        for part in parts {
            found.insert(part, Fusion::Part("attention computes it"));
        }
        found.insert(out, Fusion::Attention(Attention { b, h, kv: h, s: *s, t: *t, d: *d, causal: false }));
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

    /// Marks the parts of `x · (1 + erf(x / √2)) · ½` around its `Erf`.
    fn gelu(&self, erf: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
        let scaled = self.before(erf, 0).filter(|node| matches!(self.operator(*node), "Div" | "Mul"))?;
        let x = self.nodes[scaled].input.get(self.beside_constant(scaled)?)?;
        let plus = self.next(erf).filter(|node| self.operator(*node) == "Add")?;
        self.beside_constant(plus)?;
        let first = self.next(plus).filter(|node| self.operator(*node) == "Mul")?;
        let mut parts = vec![scaled, plus, first];
        let has_x = |node: usize| self.nodes[node].input.contains(x);
        if let Some(second) = self.next(first).filter(|node| self.operator(*node) == "Mul")
            && (self.beside_constant(second).is_some() || has_x(second))
        {
            parts.push(second);
        } else {
            // The half may be multiplied to x before.
            let half = (0..2).filter_map(|input| self.before(first, input)).find(|node| *node != plus && has_x(*node));
            parts.extend(half);
        }
        let whole = parts.len() == 4 && (parts.iter().skip(1).any(|node| has_x(*node)));
        if whole {
            for part in parts {
                found.insert(part, Fusion::Part("GELU computes it"));
            }
            found.insert(erf, Fusion::Gelu);
        }
        Some(())
    }
}
