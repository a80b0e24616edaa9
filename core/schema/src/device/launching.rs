//! Launch modes: paths of an execution's stages to the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Dialect;

/// Launch mode of the stages of an execution: an axis of measurement, like hot and cold caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launching {
    /// CUDA: one launch after the other on a stream.
    Stream,
    /// CUDA: a graph of the whole execution, captured once and launched as one.
    Graph,
    /// WebGPU: all stages in one pass.
    OnePass,
    /// WebGPU: each stage in a pass of its own.
    PassEach,
}

impl Launching {
    /// All modes, with their names.
    pub const ALL: [(&'static str, Launching); 4] = [
        ("stream", Launching::Stream),
        ("graph", Launching::Graph),
        ("one-pass", Launching::OnePass),
        ("pass-each", Launching::PassEach),
    ];

    /// Returns the modes of a target by the dialect of its kernels, the default first. Empty if stages are plain calls.
    pub fn choices(dialect: Dialect) -> &'static [Launching] {
        match dialect {
            Dialect::Cuda => &[Launching::Stream, Launching::Graph],
            Dialect::Wgsl => &[Launching::OnePass, Launching::PassEach],
            Dialect::Vendor | Dialect::Cpu => &[],
        }
    }

    /// Whether it is the default of its target.
    pub fn is_usual(self) -> bool {
        matches!(self, Launching::Stream | Launching::OnePass)
    }

    /// Returns the mode that may launch the same stages at a lower cost.
    pub fn cheaper(self) -> Option<Launching> {
        (self == Launching::Stream).then_some(Launching::Graph)
    }

    /// Returns the name in flags, URL queries and run files.
    pub fn name(self) -> &'static str {
        match self {
            Launching::Stream => "stream",
            Launching::Graph => "graph",
            Launching::OnePass => "one-pass",
            Launching::PassEach => "pass-each",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_flags_have_the_same_words() {
        for (name, launching) in Launching::ALL {
            assert_eq!(launching.name(), name);
            assert_eq!(serde_json::to_value(launching).expect("a word"), name);
        }
    }

    #[test]
    fn every_way_belongs_to_one_target_whose_first_is_the_usual_one() {
        let of = [Dialect::Cuda, Dialect::Wgsl, Dialect::Cpu].map(Launching::choices);
        for (_, launching) in Launching::ALL {
            assert_eq!(of.iter().filter(|choices| choices.contains(&launching)).count(), 1, "{launching:?}");
            assert_eq!(of.iter().any(|choices| choices.first() == Some(&launching)), launching.is_usual());
        }
        let graph = Launching::Stream.cheaper().expect("a graph");
        assert!(Launching::choices(Dialect::Cuda).contains(&graph) && graph.cheaper().is_none());
    }
}
