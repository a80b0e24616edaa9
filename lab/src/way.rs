//! What is measured, and how it is reached.

use std::num::NonZeroU32;

use parallax_core::device::BrowserMode;
use serde::{Deserialize, Serialize};

/// A target that a page can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Target {
    /// The GPU, through WebGPU.
    #[default]
    Browser,
    /// The processor, by the host code compiled with this program.
    Wasm,
}

impl Target {
    /// Every one.
    pub const ALL: [Target; 2] = [Target::Browser, Target::Wasm];

    /// Its name in addresses and records.
    pub fn name(self) -> &'static str {
        match self {
            Target::Browser => "browser",
            Target::Wasm => "wasm",
        }
    }

    /// The other one.
    pub fn other(self) -> Target {
        match self {
            Target::Browser => Target::Wasm,
            Target::Wasm => Target::Browser,
        }
    }
}

/// A target, and how the page reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetConfig {
    /// What is measured.
    pub target: Target,
    /// What of WebGPU to ask for.
    pub reach: BrowserMode,
    /// How many threads of the processor compute; all that it has, if not said.
    pub threads: Option<NonZeroU32>,
}

impl TargetConfig {
    /// The same wishes of the other target.
    pub fn other(self) -> TargetConfig {
        TargetConfig { target: self.target.other(), ..self }
    }
}
