//! Words for problems of known workloads.

use parallax_ir::Problem;

use crate::find;

/// Returns the label of a problem string. `None` for a problem of another version, which has its string alone.
pub(crate) fn label_of(problem: &str) -> Option<String> {
    let parts: Vec<&str> = problem.split('/').collect();
    let [workload, direction, shape, dtype] = parts[..] else { return None };
    let workload = find(workload)?;
    let form = workload.forms.iter().find(|form| form.direction.name() == direction)?;
    let dtype = workload.dtypes.iter().find(|known| known.name() == dtype)?;
    Some(Problem::new(workload, form.direction, shape, *dtype).ok()?.label())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::all;
    use parallax_schema::case::Preset;

    #[test]
    fn problems_have_words() {
        for (problem, words) in [
            ("attention/fwd/b1,h8,s512,d64/f16", "Attention · batch 1, 8 heads, 512 queries, head dim 64 · f16"),
            (
                "attention/bwd/b2,h16,kv4,s64,t128,d64,causal,padded/bf16",
                "Attention, backward · batch 2, 16 heads, 4 key-value heads, 64 queries, 128 keys, head dim 64, \
                 causal, padded · bf16",
            ),
            (
                "conv2d/fwd/n1,c64,h56,k3,p1,nhwc/f16",
                "2-D convolution · 1 image, 64 input channels, height 56, kernel 3, padding 1, nhwc · f16",
            ),
            ("matmul/fwd/m1024,n1024,k1024/f32", "Matrix product · 1024 rows, 1024 columns, depth 1024 · f32"),
            ("reduce/fwd/n16777216,sum/f16", "Reduce · 16\u{202f}777\u{202f}216 elements, sum · f16"),
            ("dropout/fwd/n1024,p0.25/f32", "Dropout · 1024 elements, dropped share 0.25 · f32"),
            ("encoder_layer/fwd+bwd/b1/f16", "Encoder layer, forward and backward · batch 1 · f16"),
        ] {
            assert_eq!(label_of(problem).as_deref(), Some(words));
        }
        for unknown in [
            "",
            "copy",
            "later/fwd/n1/f32",
            "copy/later/n1/f32",
            "copy/fwd/later/f32",
            "copy/fwd/n1/f64",
            "copy/fwd/n1/f32/vec4",
        ] {
            assert_eq!(label_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn different_problems_have_different_words() {
        let mut known = BTreeMap::new();
        for workload in all() {
            for form in &workload.forms {
                for shape in form.preset(Preset::Full) {
                    for dtype in workload.dtypes {
                        let problem = Problem::new(workload, form.direction, shape, *dtype).expect("a preset");
                        let label = problem.label();
                        assert!(!label.contains("  ") && !label.contains("· ·"), "{problem}: {label}");
                        let other = known.insert(label.clone(), problem.to_string());
                        assert!(other.is_none_or(|other| other == problem.to_string()), "{label}");
                    }
                }
            }
        }
        assert!(known.len() > 200);
    }
}
