//! What the page measures.

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
