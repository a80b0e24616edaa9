//! Operations of a model, with the problems that stand for them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::Cost;
use crate::units::Nanos;

/// Model whose operations a run measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Name: of the file, or as the file says.
    pub name: String,
    /// Kind of the file.
    pub format: ModelFormat,
    /// Extents that the caller chose, by name: `batch`, `seq`, symbolic dimensions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extents: BTreeMap<String, u64>,
    /// Operations of one pass; equal ones are one entry.
    pub operations: Vec<Operation>,
}

/// Kind of a model's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelFormat {
    /// ONNX graph.
    Onnx,
    /// `config.json` of a Hugging Face model.
    Config,
    /// Trace of `torch.profiler`.
    Trace,
    /// Workloads of FlashInfer-Bench.
    Workload,
}

impl ModelFormat {
    /// Returns the name for readers.
    pub fn title(self) -> &'static str {
        match self {
            ModelFormat::Onnx => "ONNX graph",
            ModelFormat::Config => "model configuration",
            ModelFormat::Trace => "profiler trace",
            ModelFormat::Workload => "FlashInfer workloads",
        }
    }
}

/// Operation of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Name of the operation in the file, such as `Conv` or `aten::addmm`.
    pub kind: String,
    /// Layer, with `*` for the numbers that differ between equal layers; empty where the file has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub layer: String,
    /// Executions in one pass.
    pub count: u64,
    /// Least cost of one execution.
    pub cost: Cost,
    /// Problem that stands for it, or the reason why there is none.
    pub coverage: Coverage,
    /// Time of its kernels in one execution, by the trace that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<Nanos>,
}

/// Problem of the suite that stands for an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Coverage {
    /// A problem computes the same, or costs the same.
    Problem {
        /// Canonical string of the problem.
        problem: String,
        /// Differences between both, and the reason why they do not matter; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        note: String,
    },
    /// The operation costs nothing in an engine that fuses or plans ahead.
    Free {
        /// Why.
        reason: String,
    },
    /// No problem of the suite stands for it.
    Missing {
        /// Why.
        reason: String,
    },
}

impl Operation {
    /// Returns the canonical string of its problem, if it has one.
    pub fn problem(&self) -> Option<&str> {
        match &self.coverage {
            Coverage::Problem { problem, .. } => Some(problem),
            Coverage::Free { .. } | Coverage::Missing { .. } => None,
        }
    }
}

impl Model {
    /// Returns the problems of all operations, each once, in the order of the model.
    pub fn problems(&self) -> Vec<&str> {
        let mut problems: Vec<&str> = Vec::new();
        for problem in self.operations.iter().filter_map(Operation::problem) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems
    }
}
