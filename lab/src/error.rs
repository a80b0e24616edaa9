//! Faults of kernel sources, settings and devices.

use std::fmt;

use parallax_ir::device::BackendError;
use serde::{Deserialize, Serialize};

use crate::layout::Scalar;
use crate::program::LONGEST;
use crate::request::BindingPoint;

/// Label of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Label {
    /// The first kernel, which is the base of ratios.
    A,
    /// The second kernel.
    B,
}

impl Label {
    /// Both labels, in order.
    pub const BOTH: [Label; 2] = [Label::A, Label::B];

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Label::A => "A",
            Label::B => "B",
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reason for which two kernels are not compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Kernel source beyond the limit.
    #[error("{label} has {bytes} bytes, the limit is {LONGEST}")]
    TooLong {
        /// Kernel.
        label: Label,
        /// Bytes of the kernel source.
        bytes: usize,
    },
    /// Kernel source that is no valid WGSL.
    #[error("{label}{}: {message}", match .line { Some(line) => format!(", line {line}"), None => String::new() })]
    Rejected {
        /// Kernel.
        label: Label,
        /// Line of the fault from one, if known.
        line: Option<u32>,
        /// Message of the compiler.
        message: String,
    },
    /// Missing entry point.
    #[error("{label} has no compute entry point{}; it has {}", match .wanted { Some(name) => format!(" `{name}`"), None => String::new() }, .has)]
    NoEntry {
        /// Kernel.
        label: Label,
        /// Requested name.
        wanted: Option<String>,
        /// Names of the entry points, or `none`.
        has: String,
    },
    /// Choice among several entry points.
    #[error("{label} has several compute entry points, name one of them: {has}")]
    SeveralEntries {
        /// Kernel.
        label: Label,
        /// Names of the entry points.
        has: String,
    },
    /// Binding that the bench cannot fill.
    #[error("{label}, binding {point} `{name}`: {why}")]
    Binding {
        /// Kernel.
        label: Label,
        /// Binding.
        point: BindingPoint,
        /// Name of the variable.
        name: String,
        /// Reason.
        why: String,
    },
    /// Bindings of the two kernels that do not match.
    #[error("binding {point} does not match: {a} in A, {b} in B")]
    Mismatch {
        /// Binding.
        point: BindingPoint,
        /// Declaration in A.
        a: String,
        /// Declaration in B.
        b: String,
    },
    /// Kernels without an output.
    #[error("neither kernel has a `read_write` storage buffer, so there is no output to compare")]
    NoOutput,
    /// Setting for a binding that neither kernel uses.
    #[error("there is no binding {point}; the kernels use {has}")]
    NoBinding {
        /// Binding.
        point: BindingPoint,
        /// Bindings of the kernels.
        has: String,
    },
    /// Value for a pipeline-overridable constant that the kernel lacks.
    #[error("{label} has no override `{name}`; it has {has}")]
    NoOverride {
        /// Kernel.
        label: Label,
        /// Requested key.
        name: String,
        /// Keys of the kernel source, or `none`.
        has: String,
    },
    /// Value that does not fit a pipeline-overridable constant.
    #[error("{label}, override `{name}`: {value} is no {type_name}")]
    OverrideValue {
        /// Kernel.
        label: Label,
        /// Key of the constant.
        name: String,
        /// Value.
        value: f64,
        /// Type of the constant.
        type_name: String,
    },
    /// Length or contents that do not fit a binding.
    #[error("binding {point}: {why}")]
    Contents {
        /// Binding.
        point: BindingPoint,
        /// Reason.
        why: String,
    },
    /// Array of another element type.
    #[error("binding {point} has elements of type {wanted}, and the array's dtype is {got}; save x.astype('{}')", .wanted.descr())]
    Dtype {
        /// Binding.
        point: BindingPoint,
        /// Element type.
        wanted: Scalar,
        /// dtype of the array.
        got: String,
    },
    /// Setting outside its range.
    #[error("{name} is {value}: {why}")]
    Setting {
        /// Setting.
        name: &'static str,
        /// Value.
        value: String,
        /// Range.
        why: &'static str,
    },
    /// Launch beyond a limit of the device.
    #[error("{label}: {value} {quantity}, the limit of this device is {limit}{remedy}")]
    Limit {
        /// Kernel.
        label: Label,
        /// Quantity with the limit.
        quantity: &'static str,
        /// Value.
        value: u64,
        /// Limit.
        limit: u64,
        /// Next step, with a separator, or empty.
        remedy: &'static str,
    },
    /// Feature that the device lacks.
    #[error("{label} needs {feature}, which this device does not have")]
    Feature {
        /// Kernel.
        label: Label,
        /// Feature.
        feature: &'static str,
    },
    /// Loop beyond the limit of iterations.
    #[error(
        "{label}: a loop has {iterations} iterations in one invocation and does not end; if it ends later, raise the limit of iterations"
    )]
    Endless {
        /// Kernel.
        label: Label,
        /// Limit of iterations.
        iterations: u32,
    },
    /// Store beyond a binding.
    #[error("{label} stored beyond the end of binding {point}")]
    Guard {
        /// Kernel.
        label: Label,
        /// Binding.
        point: BindingPoint,
    },
    /// Failure of the device during the work of a kernel.
    #[error("{label}: {error}")]
    Kernel {
        /// Kernel.
        label: Label,
        /// Failure.
        error: BackendError,
    },
    /// Failure of the device outside a kernel.
    #[error(transparent)]
    Device(#[from] BackendError),
}

impl LabError {
    /// Whether the device is unusable from now on.
    pub fn lost(&self) -> bool {
        matches!(self, LabError::Kernel { error: BackendError::Lost(_), .. } | LabError::Device(BackendError::Lost(_)))
    }
}
