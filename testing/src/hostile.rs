//! Hostile kernel sources in WGSL, as data: tests of the lab's library, command line and page read the same file.

use serde::Deserialize;

/// End of a comparison whose second kernel is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// A message before the kernel is executed.
    Refused,
    /// A message about an execution.
    Failed,
    /// A comparison of outputs.
    Compared,
    /// A message or a comparison: devices and compilers differ.
    Either,
}

/// Part of a kernel source: a string, or one that is repeated.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Part {
    Once(String),
    Repeated(String, usize),
}

/// Kernel source, with the end of its comparison to a good one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hostile {
    /// Name of the fault.
    pub name: String,
    /// End of the comparison.
    pub ends: End,
    /// Part of the message.
    pub says: String,
    /// Part of the page's message, if its compiler has another one.
    page: Option<String>,
    /// Whether the message is about both kernels.
    pub both: bool,
    whole: Option<Vec<Part>>,
    directive: String,
    module: Vec<Part>,
    workgroup: String,
    /// Type of the output.
    y: String,
    body: Vec<Part>,
}

impl Default for Hostile {
    fn default() -> Hostile {
        Hostile {
            name: String::new(),
            ends: End::Either,
            says: String::new(),
            page: None,
            both: false,
            whole: None,
            directive: String::new(),
            module: Vec::new(),
            workgroup: "64".to_owned(),
            y: "array<f32>".to_owned(),
            body: vec![Part::Once("y[i] = x[i];".to_owned())],
        }
    }
}

impl Hostile {
    /// Returns the kernel sources of the file.
    ///
    /// # Panics
    /// If the file does not parse.
    pub fn all() -> Vec<Hostile> {
        serde_json::from_str(include_str!("../hostile.json")).expect("hostile.json parses")
    }

    /// Returns the WGSL. Its bindings are `x` (read) and `y` (read_write), and its body sees the global index `i`.
    pub fn text(&self) -> String {
        match &self.whole {
            Some(whole) => joined(whole),
            None => format!(
                "{}\n{}\n\
                 @group(0) @binding(0) var<storage, read> x: array<f32>;\n\
                 @group(0) @binding(1) var<storage, read_write> y: {};\n\
                 @compute @workgroup_size({})\n\
                 fn main(@builtin(global_invocation_id) at: vec3<u32>) {{\n\
                 let i = at.x;\n\
                 {}\n\
                 }}\n",
                self.directive,
                joined(&self.module),
                self.y,
                self.workgroup,
                joined(&self.body)
            ),
        }
    }
}

fn joined(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Once(text) => text.clone(),
        Part::Repeated(text, times) => text.repeat(*times),
    };
    parts.iter().map(text).collect()
}
