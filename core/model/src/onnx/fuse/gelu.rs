//! GELU in its parts, by `Erf` and by `Tanh`.

use std::collections::HashMap;

use super::{Fusion, Links};

/// Largest number of nodes between the input and the `Tanh`.
const MOST_PARTS: usize = 8;

impl<'g> Links<'g> {
    /// Marks the parts of `x · (1 + erf(x / √2)) · ½` around its `Erf`.
    pub(super) fn gelu(&self, erf: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
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
            found.insert(erf, Fusion::Gelu("erf"));
        }
        Some(())
    }

    /// Marks the parts of `½x · (1 + tanh(√(2/π) · (x + 0.044715x³)))` around its `Tanh`.
    pub(super) fn gelu_by_tanh(&self, tanh: usize, found: &mut HashMap<usize, Fusion>) -> Option<()> {
        let plus = self.followed_by(tanh, "Add")?;
        self.beside_constant(plus)?;
        let first = self.followed_by(plus, "Mul")?;
        let at = (0..2).find(|input| self.before(first, *input) != Some(plus))?;
        let other = self.name(first, at)?;
        let mut parts = vec![plus, first];
        // The half may be multiplied to x before, or to the product.
        let half = self.before(first, at).filter(|node| self.is(*node, "Mul") && self.beside_constant(*node).is_some());
        let x = match half.and_then(|half| self.name(half, self.beside_constant(half)?)) {
            Some(x) if self.cubic(tanh, x).is_some() => {
                parts.extend(half);
                x
            }
            _ => {
                parts.push(self.followed_by(first, "Mul").filter(|node| self.beside_constant(*node).is_some())?);
                other
            }
        };
        parts.extend(self.cubic(tanh, x)?);
        for part in parts {
            found.insert(part, Fusion::Part("GELU computes it"));
        }
        found.insert(tanh, Fusion::Gelu("tanh"));
        Some(())
    }

    /// Returns the nodes from a value to the `Tanh`, if sums and products of that value alone lead to it, a cube among them.
    fn cubic(&self, tanh: usize, x: &str) -> Option<Vec<usize>> {
        let mut parts = Vec::new();
        let mut open = vec![self.name(tanh, 0)?];
        let mut factors = 0;
        while let Some(name) = open.pop() {
            if name == x {
                factors += 1;
                continue;
            }
            if self.values.get(name).is_some_and(|value| value.constant) {
                continue;
            }
            let node = *self.producers.get(name)?;
            let known = parts.contains(&node);
            (known || parts.len() < MOST_PARTS).then_some(())?;
            match self.operator(node) {
                "Pow" if self.node(node).contents(1) == Some(&[3.0]) => factors += 2,
                "Mul" | "Add" => {}
                _ => return None,
            }
            if !known {
                parts.push(node);
            }
            open.extend(self.nodes[node].input.iter().map(String::as_str));
            (open.len() <= 4 * MOST_PARTS).then_some(())?;
        }
        // x itself, and the three factors of the cube.
        (factors == 4).then_some(parts)
    }
}
