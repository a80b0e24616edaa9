//! Workload names in words.

/// Spellings of parts of names.
const SPELLINGS: [(&str, &str); 16] = [
    ("adamw", "AdamW"),
    ("add", "add and"),
    ("conv", "convolution"),
    ("conv2d", "2-D convolution"),
    ("conv3d", "3-D convolution"),
    ("fma", "multiply-add"),
    ("gelu", "GELU"),
    ("i8", "int8"),
    ("layernorm", "LayerNorm"),
    ("matmul", "matrix product"),
    ("mlp", "MLP"),
    ("rmsnorm", "RMSNorm"),
    ("rope", "RoPE"),
    ("smape", "SMAPE"),
    ("upload", "upload and"),
    ("v", "times V"),
];

/// Returns a workload name in words: `depthwise_conv2d` is *Depthwise 2-D convolution*.
pub fn title(workload: &str) -> String {
    let spelled = |part| SPELLINGS.iter().find(|(name, _)| *name == part).map_or(part, |(_, words)| *words);
    let words = workload.split('_').map(spelled).collect::<Vec<_>>().join(" ");
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
