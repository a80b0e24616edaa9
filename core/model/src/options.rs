//! Extents and element type that the caller chooses.

use std::collections::BTreeMap;

use parallax_schema::case::DType;

/// Choices of the caller.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sizes of symbolic dimensions, by name; `batch` and `seq` apply to configurations.
    pub extents: BTreeMap<String, u64>,
    /// Element type in place of the file's.
    pub dtype: Option<DType>,
    /// Pass of a decoder.
    pub phase: Phase,
}

/// Pass of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// All tokens of the prompt at once.
    #[default]
    Prefill,
    /// One token for each sequence, after the others.
    Decode,
}

impl Phase {
    /// All phases, with their names.
    pub const ALL: [(&'static str, Phase); 2] = [("prefill", Phase::Prefill), ("decode", Phase::Decode)];
}

impl Options {
    /// Returns the extent of a name, or the default.
    pub(crate) fn extent(&self, name: &str, default: u64) -> u64 {
        self.extents.get(name).copied().unwrap_or(default)
    }
}
