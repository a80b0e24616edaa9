//! Jobs and passes as safetensors, between a program and a page. The reader checks all sizes.

use std::collections::HashMap;

use parallax_model::layers::{Arrays, Layer, Source};
use parallax_schema::case::Storage;
use parallax_schema::device::MemoryStats;
use parallax_schema::units::Nanos;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::{Input, Job};
use crate::passes::{Answers, PASSES, Passes, REQUESTS};

/// Error of the bytes of a job or of passes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BytesError {
    /// Not in the format, or damaged.
    #[error("this is no file of safetensors: {0}")]
    Format(String),
    /// Missing or damaged metadata.
    #[error("metadata `{0}` is missing or damaged")]
    About(&'static str),
    /// Missing tensor, or one of another type.
    #[error("there is no tensor `{name}` of {dtype}")]
    Missing {
        /// Name of the tensor.
        name: String,
        /// Expected type.
        dtype: String,
    },
    /// Tensor of another length.
    #[error("tensor `{name}` has {got} elements, and {want} are needed")]
    Length {
        /// Name of the tensor.
        name: String,
        /// Its elements.
        got: usize,
        /// Expected elements.
        want: usize,
    },
    /// Job without items or without logits.
    #[error("the job has no items or no logits")]
    Empty,
    /// Columns of a layer beyond the rows of their array.
    #[error("layer {0} takes columns that its array does not have")]
    Columns(String),
    /// Time that is no time.
    #[error("{name} {at} took {time} ns")]
    Time {
        /// `pass` or `request`.
        name: &'static str,
        /// Its number, from 0.
        at: usize,
        /// The time, as text.
        time: String,
    },
    /// Difference between passes that is negative or no number.
    #[error("passes are {0} apart")]
    Apart(String),
}

impl From<SafeTensorError> for BytesError {
    fn from(error: SafeTensorError) -> BytesError {
        BytesError::Format(error.to_string())
    }
}

/// Part of a job that is no tensor.
#[derive(Serialize, Deserialize)]
struct Header {
    batch: Vec<Layer>,
    single: Vec<Layer>,
    input: String,
    logits: usize,
}

const HEADER: &str = "job";
const INPUT: &str = "input";
/// Before the name of a parameter.
const PARAMETER: &str = "parameter.";
const LOGITS: &str = "logits";
const PROBABILITIES: &str = "probabilities";
const TIMES: [&str; 2] = ["passes", "requests"];
const APART: &str = "apart";
const MEMORY: &str = "memory";

/// Bytes of passes besides their answers at most.
const OVERHEAD: usize = 1 << 20;

/// Returns the largest number of bytes of the passes of a job.
pub fn longest_passes(job: &Job) -> usize {
    OVERHEAD + 8 * job.items() * job.logits
}

impl Job {
    /// Returns the bytes of the job.
    ///
    /// # Errors
    /// Tensor whose extents are not those of its elements.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BytesError> {
        let (batch, single) = (self.batch.clone(), self.single.clone());
        let header = Header { batch, single, input: self.input.name.clone(), logits: self.logits };
        let dtype = if self.input.storage == Storage::U32 { Dtype::U32 } else { Dtype::F32 };
        let shape = vec![self.items(), self.input.item / 4];
        let mut views = vec![(INPUT.to_owned(), TensorView::new(dtype, shape, &self.input.bytes)?)];
        for (name, bytes) in self.parameters.iter() {
            views.push((format!("{PARAMETER}{name}"), TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)?));
        }
        Ok(safetensors::serialize(views, Some(about(HEADER, &header)))?)
    }

    /// Returns the job of bytes.
    ///
    /// # Errors
    /// Damaged bytes, no items or logits, or a layer with columns beyond its array.
    pub fn from_bytes(bytes: &[u8]) -> Result<Job, BytesError> {
        let header: Header = read_about(bytes, HEADER)?;
        for layer in header.batch.iter().chain(&header.single) {
            check_columns(layer)?;
        }
        let file = SafeTensors::deserialize(bytes)?;
        let mut parameters = Arrays::default();
        for (name, view) in file.tensors() {
            if let Some(parameter) = name.strip_prefix(PARAMETER) {
                parameters.set(parameter, Storage::F32, typed(&name, &view, Dtype::F32)?.to_vec());
            }
        }
        let view = tensor(&file, INPUT)?;
        let storage = if view.dtype() == Dtype::U32 { Storage::U32 } else { Storage::F32 };
        let elements = typed(INPUT, &view, if storage == Storage::U32 { Dtype::U32 } else { Dtype::F32 })?;
        let [items, width] = view.shape() else {
            return Err(BytesError::Missing { name: INPUT.to_owned(), dtype: "rows".to_owned() });
        };
        if *items == 0 || *width == 0 || header.logits == 0 {
            return Err(BytesError::Empty);
        }
        let input = Input { name: header.input, storage, item: 4 * width, bytes: elements.to_vec() };
        Ok(Job { batch: header.batch, single: header.single, parameters, input, logits: header.logits })
    }
}

/// Checks that columns are within the rows of their array.
fn check_columns(layer: &Layer) -> Result<(), BytesError> {
    let fits = |source: &Source| match source {
        Source::Whole(_) => true,
        Source::Columns { first, count, width, .. } => {
            // Elements have at most four bytes.
            (1..=usize::MAX / 4).contains(width) && first.checked_add(*count).is_some_and(|end| end <= *width)
        }
    };
    match layer.inputs.iter().all(|(_, source)| fits(source)) {
        true => Ok(()),
        false => Err(BytesError::Columns(layer.problem.clone())),
    }
}

impl Passes {
    /// Returns the bytes of the passes.
    ///
    /// # Errors
    /// Tensor whose extents are not those of its elements.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BytesError> {
        let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let times = |of: &[Nanos]| of.iter().flat_map(|time| time.0.to_le_bytes()).collect::<Vec<u8>>();
        let mut tensors = vec![
            (LOGITS, Dtype::F32, floats(&self.answers.logits)),
            (TIMES[0], Dtype::F64, times(&self.passes)),
            (TIMES[1], Dtype::F64, times(&self.requests)),
            (APART, Dtype::F64, self.apart.to_le_bytes().to_vec()),
        ];
        if !self.answers.probabilities.is_empty() {
            tensors.push((PROBABILITIES, Dtype::F32, floats(&self.answers.probabilities)));
        }
        let views = tensors
            .iter()
            .map(|(name, dtype, bytes)| {
                let size = if *dtype == Dtype::F64 { 8 } else { 4 };
                Ok((*name, TensorView::new(*dtype, vec![bytes.len() / size], bytes)?))
            })
            .collect::<Result<Vec<_>, SafeTensorError>>()?;
        Ok(safetensors::serialize(views, Some(about(MEMORY, &self.memory)))?)
    }

    /// Returns the passes of bytes that answer a job.
    ///
    /// # Errors
    /// Damaged bytes, another number of answers or times, a time that is negative, infinite, or zero for a pass, or a difference that
    /// is negative or no number.
    pub fn from_bytes(bytes: &[u8], job: &Job) -> Result<Passes, BytesError> {
        let memory: MemoryStats = read_about(bytes, MEMORY)?;
        let file = SafeTensors::deserialize(bytes)?;
        let floats = |name: &str| -> Result<Vec<f32>, BytesError> {
            let view = tensor(&file, name)?;
            let values = typed(name, &view, Dtype::F32)?.as_chunks().0;
            length(name, values.len(), job.items() * job.logits)?;
            Ok(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        };
        let doubles = |name: &str, count: usize| -> Result<Vec<f64>, BytesError> {
            let view = tensor(&file, name)?;
            let values = typed(name, &view, Dtype::F64)?.as_chunks().0;
            length(name, values.len(), count)?;
            Ok(values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
        };
        let times = |name: &str, one: &'static str, count: usize, least: f64| -> Result<Vec<Nanos>, BytesError> {
            let times = doubles(name, count)?;
            match times.iter().position(|time| !time.is_finite() || *time < least) {
                Some(at) => Err(BytesError::Time { name: one, at, time: times[at].to_string() }),
                None => Ok(times.into_iter().map(Nanos).collect()),
            }
        };
        let apart = doubles(APART, 1)?[0];
        if apart.is_nan() || apart < 0.0 {
            return Err(BytesError::Apart(apart.to_string()));
        }
        let probabilities = match file.tensor(PROBABILITIES) {
            Ok(_) => floats(PROBABILITIES)?,
            Err(_) => Vec::new(),
        };
        Ok(Passes {
            answers: Answers { logits: floats(LOGITS)?, probabilities },
            // A rate is one over the time of a pass. A coarse clock may give a request no time.
            passes: times(TIMES[0], "pass", PASSES, 1.0)?,
            requests: times(TIMES[1], "request", REQUESTS, 0.0)?,
            apart,
            memory,
        })
    }
}

fn about(key: &str, value: &impl Serialize) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), serde_json::to_string(value).expect("it is JSON"))])
}

fn read_about<T: DeserializeOwned>(bytes: &[u8], key: &'static str) -> Result<T, BytesError> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let text = header.metadata().as_ref().and_then(|about| about.get(key));
    text.and_then(|text| serde_json::from_str(text).ok()).ok_or(BytesError::About(key))
}

fn tensor<'a>(file: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>, BytesError> {
    let missing = |_| BytesError::Missing { name: name.to_owned(), dtype: "any type".to_owned() };
    file.tensor(name).map_err(missing)
}

/// Returns the bytes of a tensor of this type.
fn typed<'a>(name: &str, view: &TensorView<'a>, dtype: Dtype) -> Result<&'a [u8], BytesError> {
    match view.dtype() == dtype {
        true => Ok(view.data()),
        false => Err(BytesError::Missing { name: name.to_owned(), dtype: format!("{dtype:?}") }),
    }
}

fn length(name: &str, got: usize, want: usize) -> Result<(), BytesError> {
    match got == want {
        true => Ok(()),
        false => Err(BytesError::Length { name: name.to_owned(), got, want }),
    }
}
