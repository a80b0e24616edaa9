//! How the stages of an execution reach the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the stages of an execution reach the device: an axis of measuring, as hot and cold caches are.
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
    /// All of them, with their names.
    pub const ALL: [(&'static str, Launching); 4] = [
        ("stream", Launching::Stream),
        ("graph", Launching::Graph),
        ("one-pass", Launching::OnePass),
        ("pass-each", Launching::PassEach),
    ];

    /// The name used in flags, URL queries and run files.
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
}
