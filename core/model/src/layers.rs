//! Layers: problems of the suite with named arrays.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax_ir::{bytes_of, load};
use parallax_schema::case::{DType, Storage};
use parallax_workloads::parse_problem;
use serde::{Deserialize, Serialize};

/// Workloads of networks that compute in f32 at every type: sums of exponentials and second moments leave the range of f16.
const IN_F32: [&str; 3] = ["adamw", "cross_entropy", "softmax"];

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
    /// Columns `first..first + count` of an array with rows of `width` elements.
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

impl Source {
    /// Returns the name of the array.
    pub fn array(&self) -> &str {
        let (Source::Whole(name) | Source::Columns { array: name, .. }) = self;
        name
    }
}

impl Layer {
    /// Adds an input.
    pub(crate) fn with(mut self, buffer: &'static str, source: Source) -> Layer {
        self.inputs.push((buffer.into(), source));
        self
    }

    /// Returns the layer with a problem in f32 in another element type. Losses, softmax, optimisers, and workloads without the type
    /// stay in f32.
    #[must_use]
    pub fn in_dtype(self, dtype: DType) -> Layer {
        let parts = self.problem.split_once('/').zip(self.problem.rsplit_once('/'));
        let changed = parts.filter(|((workload, _), _)| !IN_F32.contains(workload));
        let problem = changed.map(|(_, (shape, _))| format!("{shape}/{}", dtype.name()));
        match problem.filter(|problem| parse_problem(problem).is_ok()) {
            Some(problem) => Layer { problem, ..self },
            None => self,
        }
    }
}

/// Little-endian elements of a type.
#[derive(Debug, Clone)]
struct Array {
    storage: Storage,
    bytes: Vec<u8>,
    /// Number of these contents. Arrays of one number are equal.
    version: u64,
}

impl Array {
    fn new(storage: Storage, bytes: Vec<u8>) -> Array {
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        Array { storage, bytes, version: VERSIONS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns elements in another type, by their values.
    fn converted(storage: Storage, bytes: &[u8], to: Storage) -> Vec<u8> {
        let elements = bytes.chunks_exact(storage.bytes() as usize).map(|element| load(storage, element));
        bytes_of(to, elements)
    }
}

/// Arrays by name.
#[derive(Debug, Clone, Default)]
pub struct Arrays(BTreeMap<String, Array>);

impl Arrays {
    /// Sets an array to little-endian elements of a type.
    pub fn set(&mut self, name: &str, storage: Storage, bytes: Vec<u8>) {
        self.0.insert(name.to_owned(), Array::new(storage, bytes));
    }

    /// Sets an array of floats.
    pub fn set_f32(&mut self, name: &str, values: &[f32]) {
        self.set(name, Storage::F32, values.iter().flat_map(|value| value.to_le_bytes()).collect());
    }

    /// Sets an array of integers.
    pub fn set_u32(&mut self, name: &str, values: &[u32]) {
        self.set(name, Storage::U32, values.iter().flat_map(|value| value.to_le_bytes()).collect());
    }

    /// Returns the bytes of each array with its name, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, array)| (name.as_str(), array.bytes.as_slice()))
    }

    /// Returns the bytes of an array; none if no layer has computed it.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(|array| array.bytes.as_slice())
    }

    /// Returns the number of an array's contents. Contents of one number are equal, also those of clones.
    pub fn version(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|array| array.version)
    }

    /// Returns the bytes of an input in an element type; none if no layer has computed its array.
    pub fn source(&self, source: &Source, storage: Storage) -> Option<Cow<'_, [u8]>> {
        let array = self.0.get(source.array())?;
        let bytes: Cow<'_, [u8]> = match source {
            Source::Whole(_) => Cow::Borrowed(&array.bytes),
            Source::Columns { first, count, width, .. } => {
                let [first, count, width] = [first, count, width].map(|extent| extent * array.storage.bytes() as usize);
                array.bytes.chunks_exact(width).flat_map(|row| &row[first..][..count]).copied().collect()
            }
        };
        Some(if array.storage == storage { bytes } else { Array::converted(array.storage, &bytes, storage).into() })
    }

    /// Converts an array to an element type, if it is there.
    pub fn convert(&mut self, name: &str, storage: Storage) {
        if let Some(array) = self.0.get_mut(name).filter(|array| array.storage != storage) {
            *array = Array::new(storage, Array::converted(array.storage, &array.bytes, storage));
        }
    }

    /// Returns an array as floats; empty if no layer has computed it.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let whole = self.source(&Source::Whole(name.to_owned()), Storage::F32).unwrap_or_default();
        whole.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
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
        let problem = parse_problem(&layer.problem).expect(&layer.problem);
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
        assert_eq!(arrays.source(&columns("all"), Storage::U32).as_deref(), Some(&want[..]));
        let whole = Source::Whole("all".to_owned());
        assert_eq!(arrays.source(&whole, Storage::U32).as_deref(), arrays.bytes("all"));
        assert_eq!(arrays.source(&columns("none"), Storage::U32), None);
    }

    #[test]
    fn arrays_have_the_type_that_a_layer_takes() {
        let mut arrays = Arrays::default();
        let values = [1.0, -2.5, 1e-9, 70000.0];
        arrays.set_f32("a", &values);
        let halves = arrays.source(&Source::Whole("a".to_owned()), Storage::F16).expect("an array").into_owned();
        assert_eq!(halves, [0x00, 0x3c, 0x00, 0xc1, 0x00, 0x00, 0x00, 0x7c]);
        arrays.convert("a", Storage::F16);
        assert_eq!((arrays.bytes("a"), arrays.f32("a")), (Some(&halves[..]), vec![1.0, -2.5, 0.0, f32::INFINITY]));
        let last = Source::Columns { array: "a".to_owned(), first: 1, count: 1, width: 2 };
        assert_eq!(arrays.source(&last, Storage::F32).as_deref(), Some(&[0, 0, 0x20, 0xc0, 0, 0, 0x80, 0x7f][..]));
    }

    #[test]
    fn losses_and_optimisers_stay_in_f32() {
        for (problem, want) in [
            ("linear/fwd/m4,n3,k2/f32", "linear/fwd/m4,n3,k2/bf16"),
            ("cross_entropy/fwd/r4,c3/f32", "cross_entropy/fwd/r4,c3/f32"),
            ("adamw/fwd/n6,t1000000/f32", "adamw/fwd/n6,t1000000/f32"),
            ("hash_embedding/fwd/r4,g2,d8,sorted/f32", "hash_embedding/fwd/r4,g2,d8,sorted/f32"),
            ("not a problem", "not a problem"),
        ] {
            assert_eq!(layer(problem.to_owned(), &[], &[]).in_dtype(DType::BF16).problem, want);
        }
    }
}
