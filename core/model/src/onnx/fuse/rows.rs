//! Normalisation of rows in its parts: LayerNorm, and RMSNorm without a mean.

use std::collections::HashMap;

use super::{Fusion, Links};
use crate::onnx::node::axis;

impl<'g> Links<'g> {
    /// Marks the parts of `(x − mean) / √(variance + ε) · γ + β` or `x / √(mean of x² + ε) · γ` around the mean of the second powers.
    pub(super) fn rows(&self, mean: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
        self.of_last_axis(mean).then_some(())?;
        let power = self.before(mean, 0)?;
        let x = self.second_power(power)?;
        let plus = self.followed_by(mean, "Add").filter(|node| self.beside_constant(*node).is_some())?;
        let root = self.followed_by(plus, "Sqrt")?;
        let mut parts = vec![power, mean, plus, root];
        let mut last = self.divided(x, root, &mut parts)?;
        let centred = self.producers.get(x).copied().and_then(|sub| Some((sub, self.subtracted_mean(sub)?)));
        let workload = match centred {
            None => "rmsnorm",
            Some((sub, of)) => {
                parts.extend([sub, of]);
                "layernorm"
            }
        };
        for operator in ["Cast", "Mul", "Add", "Cast"] {
            let wanted = |next: &usize| operator == "Cast" || self.beside_constant(*next).is_some();
            if let Some(next) = self.followed_by(last, operator).filter(wanted) {
                parts.push(last);
                last = next;
            }
        }
        for part in parts.into_iter().filter(|part| *part != last) {
            found.insert(part, Fusion::Part("the normalisation of its rows computes it"));
        }
        found.insert(last, Fusion::Rows(workload));
        Some(())
    }

    /// Whether a `ReduceMean` is over the last axis alone.
    fn of_last_axis(&self, mean: usize) -> bool {
        let node = self.node(mean);
        let (Some(shape), Some(axes)) = (node.shape(0), node.list("axes", 1)) else { return false };
        matches!(axes[..], [one] if axis(one, shape.len()).is_some_and(|at| at + 1 == shape.len()))
    }

    /// Returns the value that a node multiplies with itself.
    fn second_power(&self, node: usize) -> Option<&'g str> {
        let x = self.name(node, 0)?;
        match self.operator(node) {
            "Pow" => (self.node(node).contents(1) == Some(&[2.0])).then_some(x),
            "Mul" => (self.name(node, 1) == Some(x)).then_some(x),
            _ => None,
        }
    }

    /// Returns the node that divides x by a root, in one node or by a reciprocal, whose nodes become parts.
    fn divided(&self, x: &str, root: usize, parts: &mut Vec<usize>) -> Option<usize> {
        let next = self.next(root)?;
        let reciprocal = match self.operator(next) {
            "Div" if self.name(next, 0) == Some(x) => return Some(next),
            "Div" => self.beside_constant(next) == Some(1),
            operator => operator == "Reciprocal",
        };
        reciprocal.then_some(())?;
        parts.push(next);
        self.followed_by(next, "Mul").filter(|node| self.nodes[*node].input.iter().any(|input| input == x))
    }

    /// Returns the mean that a `Sub` subtracts from the very value that it is the mean of. Nodes outside of the normalisation must
    /// not read the difference.
    fn subtracted_mean(&self, sub: usize) -> Option<usize> {
        self.is(sub, "Sub").then_some(())?;
        let of = self.before(sub, 1).filter(|of| self.is(*of, "ReduceMean") && self.of_last_axis(*of))?;
        let readers = self.consumers.get(self.nodes[sub].output.first()?.as_str())?;
        let within = readers.iter().all(|reader| matches!(self.operator(*reader), "Pow" | "Mul" | "Div"));
        (self.name(of, 0) == self.name(sub, 0) && within).then_some(of)
    }
}
