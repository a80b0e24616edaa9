//! Weights as safetensors, in f32.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// Tensor of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Extents, slowest first.
    pub shape: Vec<usize>,
    /// Elements, row-major.
    pub values: Vec<f32>,
}

/// Named weights, with texts about them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weights {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Metadata of the file.
    pub about: BTreeMap<String, String>,
}

/// Error of a file of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// Not in the format, or damaged.
    #[error("this is no file of safetensors: {0}")]
    Format(String),
    /// Element type other than f32.
    #[error("tensor `{name}` has elements of {dtype}, and f32 is needed")]
    Type {
        /// Name of the tensor.
        name: String,
        /// Its element type.
        dtype: String,
    },
    /// Number that is infinite or NaN.
    #[error("tensor `{0}` has an element that is no finite number")]
    NotFinite(String),
    /// Missing tensor.
    #[error("there is no tensor `{0}`")]
    Missing(String),
    /// Missing or unreadable metadata.
    #[error("metadata `{0}` is missing or damaged")]
    About(&'static str),
    /// Tensor of other extents.
    #[error("tensor `{name}` has shape {got:?}, and {want:?} is needed")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Its extents.
        got: Vec<usize>,
        /// Extents of the model.
        want: Vec<usize>,
    },
}

impl Weights {
    /// Reads a file.
    ///
    /// # Errors
    /// Damaged file, or elements other than finite f32.
    pub fn read(bytes: &[u8]) -> Result<Weights, WeightsError> {
        let format = |error: safetensors::SafeTensorError| WeightsError::Format(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(format)?;
        let about = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let mut tensors = BTreeMap::new();
        for (name, view) in SafeTensors::deserialize(bytes).map_err(format)?.tensors() {
            if view.dtype() != Dtype::F32 {
                return Err(WeightsError::Type { name, dtype: format!("{:?}", view.dtype()) });
            }
            let values: Vec<f32> = view.data().as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
            if values.iter().any(|value| !value.is_finite()) {
                return Err(WeightsError::NotFinite(name));
            }
            tensors.insert(name, Tensor { shape: view.shape().to_vec(), values });
        }
        Ok(Weights { tensors, about })
    }

    /// Returns the bytes of a file. Equal weights have equal bytes, apart from the order of metadata.
    ///
    /// # Errors
    /// Tensor whose extents are not those of its elements.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WeightsError> {
        let bytes: BTreeMap<&String, Vec<u8>> = self
            .tensors
            .iter()
            .map(|(name, tensor)| (name, tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect()))
            .collect();
        let view = |(name, tensor): (&String, &Tensor)| {
            Ok((name.clone(), TensorView::new(Dtype::F32, tensor.shape.clone(), &bytes[name])?))
        };
        let views = self.tensors.iter().map(view).collect::<Result<Vec<_>, _>>();
        let about: HashMap<String, String> = self.about.clone().into_iter().collect();
        views
            .and_then(|views| safetensors::serialize(views, Some(about)))
            .map_err(|error| WeightsError::Format(error.to_string()))
    }

    /// Returns a tensor of known extents.
    ///
    /// # Errors
    /// Missing tensor, or other extents.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&[f32], WeightsError> {
        let tensor = self.tensors.get(name).ok_or_else(|| WeightsError::Missing(name.to_owned()))?;
        match tensor.shape == shape {
            true => Ok(&tensor.values),
            false => {
                Err(WeightsError::Shape { name: name.to_owned(), got: tensor.shape.clone(), want: shape.to_vec() })
            }
        }
    }

    /// Returns a text about the weights, parsed.
    ///
    /// # Errors
    /// Missing or unreadable text.
    pub fn about<T: std::str::FromStr>(&self, key: &'static str) -> Result<T, WeightsError> {
        self.about.get(key).and_then(|text| text.parse().ok()).ok_or(WeightsError::About(key))
    }
}
