//! Suggestion for a misspelt name.

/// Similarity, from 0 to 1, above which a name is suggested.
const ALIKE: f64 = 0.8;

/// Returns the most similar known name; `None` if none is similar.
pub fn nearest<'n>(given: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |name: &'n str| (strsim::jaro_winkler(given, name), name);
    let alike = known.into_iter().map(likeness).filter(|(likeness, _)| *likeness > ALIKE);
    alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Returns the known names as a remedy, after a suggestion if a name is similar.
pub fn choices<'n>(given: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let suggested = nearest(given, known.iter().copied()).map(|name| format!("did you mean `{name}`? "));
    format!("{}choose one of {}", suggested.unwrap_or_default(), known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_nearest() {
        let names = [
            "attention",
            "attention_block",
            "conv2d",
            "embedding",
            "layernorm",
            "matmul",
            "matmul_i8",
            "softmax",
            "softmax_v",
        ];
        for (given, want) in [
            ("sofmax", Some("softmax")),
            ("atention", Some("attention")),
            ("attn", Some("attention")),
            ("layer_norm", Some("layernorm")),
            ("mat_mul", Some("matmul")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, names), want, "{given}");
        }
        assert_eq!(choices("cdua", ["cuda", "wgpu"]), "did you mean `cuda`? choose one of cuda, wgpu");
        assert_eq!(choices("q", ["cuda", "wgpu"]), "choose one of cuda, wgpu");
    }
}
