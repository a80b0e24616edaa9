//! Readings of a device's energy counter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Origin of an energy counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnergySource {
    /// NVIDIA's management library: a whole board.
    Nvml,
    /// RAPL through the powercap interface of Linux: all processor packages.
    Rapl,
}

impl EnergySource {
    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            EnergySource::Nvml => "NVML",
            EnergySource::Rapl => "RAPL",
        }
    }
}

/// Value of an energy counter at its latest update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EnergyReading {
    /// Origin of the counter.
    pub source: EnergySource,
    /// Energy since an arbitrary begin, in joules.
    pub joules: f64,
    /// Time of the update, on the reader's own clock. Only differences of two readings count.
    pub at: Nanos,
    /// Usual time between two updates of the counter.
    pub step: Nanos,
    /// Power samples integrated up to `at`, in joules; `None` without samples of the power.
    pub integrated: Option<f64>,
}
