//! Presets of shapes, and units of speed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unit of a workload's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Operations per second, for workloads that use each byte many times.
    Flops,
    /// Integer operations per second. No measured ceiling of arithmetic applies, because those are of floats.
    Ops,
    /// Bytes per second, of the least traffic.
    Bytes,
}

/// A ready-made choice of shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// A minute on anything.
    #[default]
    Quick,
    /// A few minutes on a GPU.
    Standard,
    /// Everything, for a large GPU.
    Full,
    /// Small shapes that are awkward for every tile: for `verify`, not for figures.
    Awkward,
    /// Buffers beyond 4 GiB with more than 2³¹ elements: for `verify` on a device with 80 GB.
    Huge,
}

impl Preset {
    /// Presets with their names.
    pub const ALL: [(&'static str, Preset); 5] = [
        ("quick", Preset::Quick),
        ("standard", Preset::Standard),
        ("full", Preset::Full),
        ("awkward", Preset::Awkward),
        ("huge", Preset::Huge),
    ];

    /// Name in flags and URL queries.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map(|(name, _)| *name).expect("listed")
    }
}
