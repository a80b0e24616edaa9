//! Neighbouring nodes that engines compute in one kernel: activations and normalisations of convolutions, biases of GEMMs,
//! attention, and GELU and the normalisation of rows in their parts.

mod attention;
mod gelu;
mod rows;
#[cfg(test)]
mod tests;

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
    /// `Erf` or `Tanh` in the formula of GELU, with the formula's name.
    Gelu(&'static str),
    /// Last node of a normalisation of rows, with its workload.
    Rows(&'static str),
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
                "Tanh" => {
                    links.gelu_by_tanh(i, &mut found);
                }
                "ReduceMean" => {
                    links.rows(i, &mut found);
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
    consumers: HashMap<&'g str, Vec<usize>>,
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
        let only = consumers.iter().filter_map(|(name, by)| match by[..] {
            [one] if !is_output(name) => Some((*name, one)),
            _ => None,
        });
        let only = only.collect();
        Links { nodes: &graph.node, values, producers, consumers, only }
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

    fn is(&self, node: usize, operator: &str) -> bool {
        self.operator(node) == operator
    }

    /// Returns the name of an input.
    fn name(&self, node: usize, input: usize) -> Option<&'g str> {
        self.nodes[node].input.get(input).map(String::as_str)
    }

    /// Returns the only node that reads a node's first output, if it has this operator.
    fn followed_by(&self, node: usize, operator: &str) -> Option<usize> {
        self.next(node).filter(|next| self.is(*next, operator))
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
}
