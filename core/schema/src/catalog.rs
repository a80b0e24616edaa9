//! Facts about cases that a run file does not hold. The workloads of a program know them; readers of run files ask for them.

use crate::case::{Cost, DType, HostTransfer, Rate, Storage};
use crate::device::Caps;
use crate::record::Record;
use crate::units::Bytes;

/// Source of facts about cases. A workload, direction or variant of another version has none.
pub trait Catalog {
    /// Returns the unit of speed of a workload's direction.
    fn rate(&self, workload: &str, direction: &str) -> Option<Rate>;

    /// Returns the words for a problem string.
    fn label(&self, problem: &str) -> Option<String>;

    /// Returns the facts about a case string.
    fn case(&self, case: &str) -> Option<CaseFacts>;

    /// Returns the stages of the variant that ran, on a device with these capabilities.
    fn stages(&self, record: &Record, caps: &Caps) -> Option<Vec<StageFacts>>;

    /// Returns the axes of a workload that count the items of an execution and the GPUs that divide them, if it has both.
    fn divided(&self, workload: &str) -> Option<Divided>;

    /// Returns the scaling axes of all workloads, in name order.
    fn scalings(&self) -> Vec<ScalingFacts>;
}

/// Axes of a workload whose items several GPUs divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divided {
    /// Key of the axis that counts items.
    pub items: &'static str,
    /// Noun for the items, in the plural.
    pub name: &'static str,
    /// Key of the axis with the number of GPUs.
    pub gpus: &'static str,
}

/// Facts about a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFacts {
    /// Whether the case probes a ceiling of the device.
    pub probe: bool,
    /// Inputs, in buffer order.
    pub inputs: Vec<InputFacts>,
    /// Size of all inputs.
    pub input_bytes: Bytes,
    /// Size of all outputs.
    pub output_bytes: Bytes,
}

/// Facts about an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFacts {
    /// Extents.
    pub dims: Vec<u64>,
    /// Element type in memory.
    pub storage: Storage,
}

/// Facts about a stage of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFacts {
    /// Label, unique among the stages.
    pub label: String,
    /// Entry point of the kernel, or name of the library's call.
    pub entry: String,
    /// Component of a larger whole, where profiles sum by component.
    pub component: Option<&'static str>,
    /// Element type of the arithmetic.
    pub dtype: DType,
    /// Least operations and bytes.
    pub cost: Cost,
    /// Least transfers between host and device.
    pub transfer: HostTransfer,
    /// Size of the buffers that the stage uses.
    pub buffer_bytes: Bytes,
}

/// Shapes of a workload that differ in one extent, for a table of times along it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingFacts {
    /// Name of the workload.
    pub workload: &'static str,
    /// Noun for the extent, in the plural: `rows`.
    pub counts: &'static str,
    /// Canonical shapes with their extents, ascending.
    pub shapes: Vec<(&'static str, u64)>,
    /// Sides of the comparison.
    pub sides: Sides,
}

/// Sides of the comparison at each shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Host code, on the target `cpu`, and the fastest variant on a device.
    HostAndDevice {
        /// Shape options that decide where the data lies, with a readable meaning. All of them are measured on the device, and
        /// compared with the same time of the host. Empty if the workload has no such option.
        data: &'static [(&'static str, &'static str)],
    },
    /// Two variants on the same device.
    Variants {
        /// Variant that is the base of the comparison.
        base: &'static str,
        /// Variant that may be faster.
        other: &'static str,
        /// Difference of the other variant from the base, as a noun: `prefetching`.
        doing: &'static str,
    },
}

impl Sides {
    /// Returns the options for the place of the data on a device, in table order. At least one, which may be empty.
    pub fn data(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Sides::HostAndDevice { data: [] } | Sides::Variants { .. } => &[("", "")],
            Sides::HostAndDevice { data } => data,
        }
    }
}
