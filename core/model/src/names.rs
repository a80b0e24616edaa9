//! Names of layers and of files: equal layers get one name.

/// Returns a layer's name with `*` for each number between separators, and dots as separators.
///
/// Exporters write `/encoder/layer.3/attention/MatMul_1`; frameworks write `encoder.layer.3.attention`.
pub fn layer(name: &str) -> String {
    let parts = name.split(['/', '.', ':']).filter(|part| !part.is_empty());
    let general = |part: &str| match part.bytes().all(|b| b.is_ascii_digit()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    // A name from a file is not trusted to be short.
    parts.take(16).map(general).collect::<Vec<_>>().join(".").chars().take(120).collect()
}

/// Returns the layer of a node: its name without the last part, which names the operation.
pub fn layer_of_node(name: &str) -> String {
    let general = layer(name);
    general.rsplit_once('.').map_or_else(String::new, |(layer, _)| layer.to_owned())
}

/// Returns the name of a file without its endings.
pub fn stem(file: &str) -> &str {
    const ENDINGS: [&str; 7] = ["gz", "json", "jsonl", "onnx", "trace", "pt", "pb"];
    let mut stem = file;
    while let Some((rest, ending)) = stem.rsplit_once('.').filter(|(_, ending)| ENDINGS.contains(ending)) {
        stem = if rest.is_empty() { ending } else { rest };
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_layers_have_one_name() {
        for (name, want) in [
            ("/encoder/layer.3/attention/MatMul_1", "encoder.layer.*.attention"),
            ("/features/features.0/features.0.0/Conv", "features.features.*.features.*.*"),
            ("Conv_12", ""),
            ("", ""),
        ] {
            assert_eq!(layer_of_node(name), want);
        }
        assert_eq!(layer(&"x".repeat(1000)).len(), 120);
    }

    #[test]
    fn a_model_has_the_name_of_its_file() {
        for (file, want) in
            [("llama-3.2-1b.json", "llama-3.2-1b"), ("run.pt.trace.json.gz", "run"), (".json", "json"), ("m", "m")]
        {
            assert_eq!(stem(file), want);
        }
    }
}
