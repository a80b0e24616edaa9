//! Layers: problems of the suite with named arrays.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Layer of a model: a problem, and the arrays of its buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Problem, as `workload/direction/shape/dtype`.
    pub problem: String,
    /// Contents of each input, by the buffer's name.
    pub inputs: Vec<(Cow<'static, str>, Source)>,
    /// Array of each output that later layers or the caller use.
    pub outputs: Vec<(Cow<'static, str>, String)>,
}

/// Contents of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Array, by its name.
    Whole(String),
    /// Columns `first..first + count` of an array with rows of `width` elements of four bytes.
    Columns {
        /// Name of the array.
        array: String,
        /// First column.
        first: usize,
        /// Number of columns.
        count: usize,
        /// Columns of the array.
        width: usize,
    },
}

impl Layer {
    /// Adds an input.
    pub(crate) fn with(mut self, buffer: &'static str, source: Source) -> Layer {
        self.inputs.push((buffer.into(), source));
        self
    }
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

    /// Returns each array with its name, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Returns the bytes of an array; none if no layer has computed it.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Returns the bytes of an input; none if no layer has computed its array.
    pub fn source(&self, source: &Source) -> Option<Cow<'_, [u8]>> {
        match source {
            Source::Whole(array) => self.bytes(array).map(Cow::Borrowed),
            Source::Columns { array, first, count, width } => {
                let rows = self.bytes(array)?.chunks_exact(4 * width);
                Some(rows.flat_map(|row| &row[4 * first..][..4 * count]).copied().collect())
            }
        }
    }

    /// Returns an array as floats; empty if no layer has computed it.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    }
}

/// Returns a layer.
pub(crate) fn layer(problem: String, inputs: &[(&'static str, &str)], outputs: &[(&'static str, &str)]) -> Layer {
    let inputs =
        inputs.iter().map(|(buffer, name)| (Cow::Borrowed(*buffer), Source::Whole((*name).to_owned()))).collect();
    let outputs = outputs.iter().map(|(buffer, name)| (Cow::Borrowed(*buffer), (*name).to_owned())).collect();
    Layer { problem, inputs, outputs }
}

/// Asserts that layers are problems of the suite, with all their inputs and with outputs that exist.
#[cfg(test)]
pub(crate) fn complete(layers: impl IntoIterator<Item = Layer>) {
    for layer in layers {
        let problem = parallax_workloads::parse_problem(&layer.problem).expect(&layer.problem);
        let specs = problem.buffers();
        let inputs: Vec<&str> = specs.iter().filter(|spec| spec.role.fill().is_some()).map(|spec| spec.name).collect();
        assert!(inputs.iter().all(|name| layer.inputs.iter().any(|(buffer, _)| buffer == name)), "{layer:?}");
        assert_eq!(inputs.len(), layer.inputs.len(), "{layer:?}");
        assert!(layer.outputs.iter().all(|(buffer, _)| specs.iter().any(|spec| spec.name == *buffer)), "{layer:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_each_row() {
        let mut arrays = Arrays::default();
        arrays.set_u32("all", &[0, 1, 2, 10, 11, 12]);
        let columns = |array: &str| Source::Columns { array: array.to_owned(), first: 1, count: 2, width: 3 };
        let want: Vec<u8> = [1u32, 2, 11, 12].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(arrays.source(&columns("all")).as_deref(), Some(&want[..]));
        assert_eq!(arrays.source(&Source::Whole("all".to_owned())).as_deref(), arrays.bytes("all"));
        assert_eq!(arrays.source(&columns("none")), None);
    }
}
