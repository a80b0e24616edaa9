//! Target of the page and its configuration.

use std::num::NonZeroU32;

use parallax_schema::device::BrowserMode;
use serde::{Deserialize, Serialize};

/// Target of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Target {
    /// The GPU, through WebGPU.
    #[default]
    Browser,
    /// The processor, through the host code compiled with this program.
    Wasm,
}

impl Target {
    /// All targets.
    pub const ALL: [Target; 2] = [Target::Browser, Target::Wasm];

    /// Name in addresses and records.
    pub fn name(self) -> &'static str {
        match self {
            Target::Browser => "browser",
            Target::Wasm => "wasm",
        }
    }

    /// Returns the other target.
    pub fn other(self) -> Target {
        match self {
            Target::Browser => Target::Wasm,
            Target::Wasm => Target::Browser,
        }
    }
}

/// Target, browser mode and number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetConfig {
    /// The target.
    pub target: Target,
    /// Browser mode of WebGPU.
    pub reach: BrowserMode,
    /// Number of threads of the processor; all threads if absent.
    pub threads: Option<NonZeroU32>,
}

impl TargetConfig {
    /// Returns the same configuration for the other target.
    pub fn other(self) -> TargetConfig {
        TargetConfig { target: self.target.other(), ..self }
    }
}
