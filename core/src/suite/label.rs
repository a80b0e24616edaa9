//! Readable label of a problem, from its workload's name and axes: *Attention · batch 1, 8 heads, 512 queries, head dim 64 ·
//! f16*.

use super::{Axis, AxisKind, Direction, Problem, Shape, find};

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

/// Returns the label of a problem string. `None` for a problem of another version, which has its string alone.
pub fn label_of(problem: &str) -> Option<String> {
    let parts: Vec<&str> = problem.split('/').collect();
    let [workload, direction, shape, dtype] = parts[..] else { return None };
    let workload = find(workload)?;
    let form = workload.forms.iter().find(|form| form.direction.name() == direction)?;
    let dtype = workload.dtypes.iter().find(|known| known.name() == dtype)?;
    Some(Problem::new(workload, form.direction, shape, *dtype).ok()?.label())
}

impl Problem {
    /// Returns its readable label.
    pub fn label(&self) -> String {
        let direction = match self.direction {
            Direction::Fwd => "",
            Direction::Bwd => ", backward",
            Direction::FwdBwd => ", forward and backward",
        };
        format!("{}{direction} · {} · {}", title(self.workload.name), self.shape.label(), self.dtype.name())
    }
}

impl Shape {
    /// Returns a label of its axes, without those that have their default.
    pub fn label(&self) -> String {
        let part = |(axis, value): (&Axis, String)| match axis.kind {
            AxisKind::Word(_) => value.replace('_', " "),
            AxisKind::Decimal { .. } => format!("{} {value}", short(axis.about)),
            _ => counted(self[axis.key], short(axis.about)),
        };
        self.stated().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// First words of an axis' description, up to a comma.
fn short(about: &str) -> &str {
    about.split(',').next().unwrap_or(about)
}

/// Number with its noun: *8 heads*, and *stride 2*.
fn counted(number: u64, about: &str) -> String {
    // The noun is the last word, or precedes a complement: *input channels*, *rows a table*.
    let first = about.split_once(' ').map_or(about, |(first, _)| first);
    let (noun, rest) = if first.ends_with('s') { about.split_at(first.len()) } else { (about, "") };
    match (noun.ends_with('s'), number) {
        (true, 1) => format!("1 {}{rest}", singular(noun)),
        (true, _) => format!("{} {noun}{rest}", grouped(number)),
        (false, _) => format!("{noun} {}", grouped(number)),
    }
}

/// Singular of a noun: *head* of *heads*, *batch* of *batches*.
fn singular(noun: &str) -> &str {
    let long = noun.strip_suffix("es").filter(|stem| stem.ends_with("ch") || stem.ends_with("ss"));
    long.or_else(|| noun.strip_suffix('s')).unwrap_or(noun)
}

/// Whole number, in groups of three digits if it has at least five.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Workload name in words: `depthwise_conv2d` is *Depthwise 2-D convolution*.
pub fn title(workload: &str) -> String {
    let spelled = |part| SPELLINGS.iter().find(|(name, _)| *name == part).map_or(part, |(_, words)| *words);
    let words = workload.split('_').map(spelled).collect::<Vec<_>>().join(" ");
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::suite::{Preset, all};

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
