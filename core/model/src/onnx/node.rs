//! A node with its inputs and attributes.

use super::proto::{AttributeProto, NodeProto};
use super::value::Value;

/// Node of a graph, with the values of its inputs.
pub struct Node<'g> {
    /// Operator, with its domain where that is not ONNX's own.
    pub operator: &'g str,
    /// The node in the file.
    pub proto: &'g NodeProto,
    /// Inputs in order; an absent optional input has no value.
    pub inputs: Vec<Option<&'g Value>>,
}

impl<'g> Node<'g> {
    /// Returns an input, if it is given and known.
    pub fn input(&self, at: usize) -> Option<&'g Value> {
        self.inputs.get(at).copied().flatten()
    }

    /// Returns the extents of an input, if they are known.
    pub fn shape(&self, at: usize) -> Option<&'g [u64]> {
        self.input(at)?.shape.as_deref()
    }

    /// Returns the contents of an input, if they are known.
    pub fn contents(&self, at: usize) -> Option<&'g [f64]> {
        self.input(at)?.contents.as_deref()
    }

    /// Whether an optional input is given.
    pub fn has(&self, at: usize) -> bool {
        self.proto.input.get(at).is_some_and(|name| !name.is_empty())
    }

    fn attribute(&self, name: &str) -> Option<&'g AttributeProto> {
        self.proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
    }

    /// Returns an integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    /// Returns a list of integers.
    pub fn ints(&self, name: &str) -> Option<&'g [i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    /// Returns a word.
    pub fn word(&self, name: &str) -> Option<&'g str> {
        std::str::from_utf8(self.attribute(name)?.s.as_deref()?).ok()
    }

    /// Returns the tensor of an attribute.
    pub fn tensor(&self, name: &str) -> Option<Value> {
        self.attribute(name)?.t.as_ref().map(Value::of_tensor)
    }

    /// Returns a list that an older operator set has as an attribute and a newer one as an input.
    pub fn list(&self, name: &str, input: usize) -> Option<Vec<i64>> {
        match self.ints(name) {
            Some(list) => Some(list.to_vec()),
            None => Some(self.contents(input)?.iter().map(|number| *number as i64).collect()),
        }
    }
}

/// Returns an axis of a tensor, counted from the end where it is negative.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let from_start = if axis < 0 { axis.checked_add(rank)? } else { axis };
    usize::try_from(from_start).ok().filter(|_| from_start < rank)
}
