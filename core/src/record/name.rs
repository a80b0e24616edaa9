//! What a run's file is called.

use super::Run;

/// Longest part of a name.
const LONGEST: usize = 40;

impl Run {
    /// A file name without its ending: target, device and start, in characters that every system takes, whatever the run says.
    pub fn file_stem(&self) -> String {
        let parts = ["parallax", &plain(&self.target), &plain(&self.device().name), &self.started.to_string()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    }
}

/// Letters and digits with single dashes between them.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => plain.push(c),
            _ if plain.ends_with('-') || plain.is_empty() => {}
            _ => plain.push('-'),
        }
    }
    plain.truncate(LONGEST);
    plain.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use crate::testing::fixtures::run;

    #[test]
    fn names_are_plain_whatever_a_run_says() {
        for (target, device, name) in [
            ("browser", "NVIDIA H200", "parallax-browser-nvidia-h200-1700000000"),
            ("../../etc", "..\\..\\/x\0", "parallax-etc-x-1700000000"),
            ("", "ö", "parallax-1700000000"),
            ("cuda", &"ab ".repeat(50), &format!("parallax-cuda-{}a-1700000000", "ab-".repeat(13))),
        ] {
            let mut of = run(target, device, &[]);
            of.started = 1_700_000_000;
            assert_eq!(of.file_stem(), name);
        }
    }
}
