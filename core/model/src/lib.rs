//! Models as lists of the suite's problems.
//!
//! A file of a model becomes a [`Model`]: each operation with its count, its least cost, and the problem that stands for it. Four
//! formats are read: ONNX graphs, `config.json` of Hugging Face, traces of `torch.profiler`, and workloads of FlashInfer-Bench.
//!
//! Operations without a problem stay in the list with a reason. Their weights are never read.
//!
//! Models of the suite itself are lists of layers with named weights, each a [`network`]: [`classifier`], [`ner`] and [`image`]. [`data`] reads their data, and [`quality`]
//! measures their answers.

#![deny(unsafe_code)]

pub mod classifier;
mod config;
pub mod data;
pub mod examples;
mod flashinfer;
pub mod image;
pub mod layers;
mod names;
pub mod ner;
pub mod network;
mod onnx;
mod options;
mod problems;
pub mod quality;
mod tally;
mod trace;

pub use names::stem;
pub use options::{Options, Phase};

use bytes::Bytes;
use parallax_schema::record::Model;

/// Largest file in bytes: that of a protobuf message.
pub const MOST_BYTES: u64 = (1 << 31) - 1;
/// Largest number of operations of a model.
const MOST_OPERATIONS: usize = 1 << 20;

/// Error of a model's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// File of no bytes.
    #[error("the file is empty")]
    Empty,
    /// Larger than [`MOST_BYTES`].
    #[error("the file has {0} bytes; a model without its weights has at most {MOST_BYTES}")]
    TooLarge(u64),
    /// No known format.
    #[error(
        "{0}; it can be an ONNX graph, a config.json, a trace of torch.profiler with record_shapes, or workloads of FlashInfer-Bench"
    )]
    Format(String),
    /// Damaged ONNX file.
    #[error("this is no ONNX graph: {0}")]
    Onnx(String),
    /// JSON with a syntax error, or with a field of another type.
    #[error("this is no {expected}: {reason}")]
    Json {
        /// Kind of file that its fields show.
        expected: &'static str,
        /// Message of the parser, with line and column.
        reason: String,
    },
    /// Dimensions without a size.
    #[error("no size is known for {}: give {}", names.join(", "), names.iter().map(|n| format!("--dim {n}=N")).collect::<Vec<_>>().join(" "))]
    Dimensions {
        /// Names of the dimensions.
        names: Vec<String>,
    },
    /// Extent that no dimension of the model has.
    #[error("no dimension is called `{name}`; this model has {known}")]
    UnknownDimension {
        /// The name.
        name: String,
        /// Names in the model.
        known: String,
    },
    /// Configuration of an unknown family.
    #[error("model type `{0}` is not known; known are {1}")]
    Family(String, &'static str),
    /// Missing or impossible field of a configuration.
    #[error("field `{field}` {problem}")]
    Field {
        /// Name of the field.
        field: String,
        /// Its error.
        problem: String,
    },
    /// Model of too many operations.
    #[error("the file has {0} operations; at most {MOST_OPERATIONS} are read")]
    TooManyOperations(usize),
    /// Model without any operation.
    #[error("the file has no operation")]
    NoOperation,
}

/// Returns the model of a file. `name` is the file's name without its ending, for formats that name no model.
///
/// # Errors
/// Unknown or damaged file, or a dimension without a size.
pub fn read(contents: Bytes, name: &str, options: &Options) -> Result<Model, ModelError> {
    if contents.is_empty() {
        return Err(ModelError::Empty);
    }
    if contents.len() as u64 > MOST_BYTES {
        return Err(ModelError::TooLarge(contents.len() as u64));
    }
    let model = match contents.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => read_json(&contents, name, options)?,
        _ => onnx::read(contents, name, options)?,
    };
    match model.operations.len() {
        0 => Err(ModelError::NoOperation),
        _ => Ok(model),
    }
}

/// Fields that tell the kinds of JSON files apart.
#[derive(serde::Deserialize)]
struct Kind {
    #[serde(rename = "traceEvents")]
    trace_events: Option<serde::de::IgnoredAny>,
    model_type: Option<serde::de::IgnoredAny>,
    architectures: Option<serde::de::IgnoredAny>,
    definition: Option<serde::de::IgnoredAny>,
    axes: Option<serde::de::IgnoredAny>,
}

fn read_json(contents: &[u8], name: &str, options: &Options) -> Result<Model, ModelError> {
    // Workloads are lines of JSON, and a trace may be a bare list of events.
    if contents.trim_ascii_start().starts_with(b"[") {
        return trace::read(contents, name, options);
    }
    let mut first = serde_json::Deserializer::from_slice(contents).into_iter::<Kind>();
    let kind = match first.next() {
        Some(Ok(kind)) => kind,
        Some(Err(error)) => return Err(ModelError::Json { expected: "JSON object", reason: error.to_string() }),
        None => return Err(ModelError::Empty),
    };
    if kind.trace_events.is_some() {
        trace::read(contents, name, options)
    } else if kind.definition.is_some() || kind.axes.is_some() {
        flashinfer::read(contents, name, options)
    } else if kind.model_type.is_some() || kind.architectures.is_some() {
        config::read(contents, name, options)
    } else {
        Err(ModelError::Format("the JSON has neither `model_type` nor `traceEvents` nor `definition`".to_owned()))
    }
}
