//! Values of a graph as far as they are known: element type, extents, and the contents of small tensors.

use parallax_schema::case::DType;

use super::proto::{TensorProto, data_type};
use crate::problems::product;

/// Largest number of elements of a tensor whose contents are computed. Shapes of tensors are such contents.
pub const MOST_CONTENTS: usize = 4096;
/// Largest number of dimensions.
const MOST_RANK: usize = 16;
/// Largest extent.
const MOST_EXTENT: u64 = 1 << 40;

/// Value of a graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Value {
    /// Number of its element type in ONNX; zero where it is unknown.
    pub element: i32,
    /// Extents, if known.
    pub shape: Option<Vec<u64>>,
    /// Contents of a small tensor, if known before the model runs.
    pub contents: Option<Vec<f64>>,
    /// Whether it is known before the model runs: a weight, or computed from constants.
    pub constant: bool,
}

impl Value {
    /// Returns a value of an element type and extents.
    pub fn of(element: i32, shape: Vec<u64>) -> Value {
        let known = shape.len() <= MOST_RANK && shape.iter().all(|extent| *extent <= MOST_EXTENT);
        Value { element, shape: known.then_some(shape), contents: None, constant: false }
    }

    /// Returns a constant of integers.
    pub fn integers(contents: Vec<f64>, shape: Vec<u64>) -> Value {
        Value::of(data_type::INT64, shape).with_contents(Some(contents))
    }

    /// Adds contents, if they fit the extents.
    pub fn with_contents(mut self, contents: Option<Vec<f64>>) -> Value {
        let fits =
            |contents: &Vec<f64>| contents.len() <= MOST_CONTENTS && self.elements() == Some(contents.len() as u64);
        self.contents = contents.filter(fits);
        self.constant |= self.contents.is_some();
        self
    }

    /// Number of elements, if known.
    pub fn elements(&self) -> Option<u64> {
        self.shape.as_deref().map(product)
    }

    /// Element type of a case, if the suite has it.
    pub fn dtype(&self) -> Option<DType> {
        match self.element {
            data_type::FLOAT => Some(DType::F32),
            data_type::FLOAT16 => Some(DType::F16),
            data_type::BFLOAT16 => Some(DType::BF16),
            _ => None,
        }
    }

    /// Returns the value of an initializer or an attribute.
    pub fn of_tensor(tensor: &TensorProto) -> Value {
        let element = tensor.data_type.unwrap_or_default();
        let extent = |dim: &i64| u64::try_from(*dim).ok();
        let Some(shape) = tensor.dims.iter().map(extent).collect::<Option<Vec<u64>>>() else {
            return Value { element, constant: true, ..Value::default() };
        };
        let value = Value { constant: true, ..Value::of(element, shape) };
        let small = value.elements().is_some_and(|elements| elements <= MOST_CONTENTS as u64);
        let contents = small.then(|| contents(tensor, element)).flatten();
        value.with_contents(contents)
    }
}

/// Contents of a small tensor of numbers.
fn contents(tensor: &TensorProto, element: i32) -> Option<Vec<f64>> {
    let raw = tensor.raw_data.as_deref().unwrap_or_default();
    fn words<const N: usize>(raw: &[u8], number: fn([u8; N]) -> f64) -> Vec<f64> {
        raw.chunks_exact(N).map(|word| number(word.try_into().expect("a whole word"))).collect()
    }
    match element {
        data_type::INT64 if !raw.is_empty() => Some(words(raw, |word| i64::from_le_bytes(word) as f64)),
        data_type::INT64 => Some(tensor.int64_data.iter().map(|number| *number as f64).collect()),
        data_type::INT32 if !raw.is_empty() => Some(words(raw, |word| f64::from(i32::from_le_bytes(word)))),
        data_type::INT32 => Some(tensor.int32_data.iter().map(|number| f64::from(*number)).collect()),
        data_type::BOOL if !raw.is_empty() => Some(raw.iter().map(|byte| f64::from(u8::from(*byte != 0))).collect()),
        data_type::FLOAT if !raw.is_empty() => Some(words(raw, |word| f64::from(f32::from_le_bytes(word)))),
        data_type::DOUBLE if !raw.is_empty() => Some(words(raw, f64::from_le_bytes)),
        _ => None,
    }
}
