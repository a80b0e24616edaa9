//! Layers: problems of the suite with named arrays.

use std::collections::BTreeMap;

/// Layer of a model: a problem, and the arrays of its buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Problem, as `workload/direction/shape/dtype`.
    pub problem: String,
    /// Array of each input, by the buffer's name.
    pub inputs: Vec<(&'static str, String)>,
    /// Array of each output that later layers or the caller use.
    pub outputs: Vec<(&'static str, String)>,
}

/// Arrays by name, as little-endian bytes of their elements.
#[derive(Debug, Clone, Default)]
pub struct Arrays(BTreeMap<String, Vec<u8>>);

impl Arrays {
    /// Sets an array.
    pub fn set(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_owned(), bytes);
    }

    /// Sets an array of floats.
    pub fn set_f32(&mut self, name: &str, values: &[f32]) {
        self.set(name, values.iter().flat_map(|value| value.to_le_bytes()).collect());
    }

    /// Sets an array of integers.
    pub fn set_u32(&mut self, name: &str, values: &[u32]) {
        self.set(name, values.iter().flat_map(|value| value.to_le_bytes()).collect());
    }

    /// Returns the bytes of an array; none if no layer has computed it.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Returns an array as floats; empty if no layer has computed it.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    }
}

/// Returns a layer.
pub(crate) fn layer(problem: String, inputs: &[(&'static str, &str)], outputs: &[(&'static str, &str)]) -> Layer {
    let owned =
        |pairs: &[(&'static str, &str)]| pairs.iter().map(|(buffer, name)| (*buffer, (*name).to_owned())).collect();
    Layer { problem, inputs: owned(inputs), outputs: owned(outputs) }
}
