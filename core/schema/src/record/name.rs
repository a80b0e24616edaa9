//! Names of a run's device and of its file.

use super::Run;

/// Key of the user-given device name in the environment of a run.
const GIVEN: &str = "device_name";
/// Characters of the longest given name.
pub const LONGEST_GIVEN: usize = 60;
/// Characters of the longest part of a file's name.
const LONGEST: usize = 40;

/// Returns a device name in its stored form: one line, single spaces, at most [`LONGEST_GIVEN`] characters. `None` for an empty
/// name.
pub fn given_name(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join(" ").chars().take(LONGEST_GIVEN).collect();
    (!name.is_empty()).then(|| name.trim_end().to_owned())
}

impl Run {
    /// Names the device, to distinguish it from others of its kind; an empty string removes the name.
    pub fn name_device(&mut self, text: &str) {
        self.environment.remove(GIVEN);
        self.environment.extend(given_name(text).map(|name| (GIVEN.to_owned(), name)));
    }

    /// Returns the user-given name of the device. A file may have any value, so the name is normalised again.
    pub fn given_name(&self) -> Option<String> {
        self.environment.get(GIVEN).and_then(|text| given_name(text))
    }

    /// Returns the given name of the device, or else the interface's.
    pub fn called(&self) -> String {
        self.given_name().unwrap_or_else(|| self.device().name.clone())
    }

    /// Returns the given name with the interface's in parentheses, or the interface's alone.
    pub fn called_in_full(&self) -> String {
        let device = &self.device().name;
        self.given_name().map_or_else(|| device.clone(), |name| format!("{name} ({device})"))
    }

    /// Returns a file name without extension: target, device and start, in characters that every system accepts.
    pub fn file_stem(&self) -> String {
        let parts = ["parallax", &plain(&self.target), &plain(&self.device().name), &self.started.to_string()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    }
}

/// Returns letters and digits with single dashes between them.
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
    use super::*;
    use crate::testing::run;

    #[test]
    fn a_given_name_is_short_and_on_one_line() {
        for (text, want) in [
            ("", None),
            (" \n\t", None),
            ("  Ann's  laptop\n", Some("Ann's laptop".to_owned())),
            ("a\u{1b}[2Jb", Some("a [2Jb".to_owned())),
            (&"ö".repeat(99), Some("ö".repeat(LONGEST_GIVEN))),
            (&format!("{} b", "a".repeat(LONGEST_GIVEN - 1)), Some("a".repeat(LONGEST_GIVEN - 1))),
        ] {
            assert_eq!(given_name(text), want, "{text:?}");
            let mut of = run("browser", "X", &[]);
            of.name_device(text);
            assert_eq!(of.given_name(), want);
            assert_eq!(of.called(), want.clone().unwrap_or("X".to_owned()));
            of.name_device("");
            assert_eq!(of.environment, run("browser", "X", &[]).environment, "a name can be taken back");
        }
    }

    #[test]
    fn a_file_may_say_anything() {
        let mut of = run("browser", "X", &[]);
        of.environment.insert(GIVEN.to_owned(), format!("a\nb{}", "c".repeat(500)));
        let name = of.given_name().expect("a name");
        assert!(name.starts_with("a bc") && name.chars().count() == LONGEST_GIVEN, "{name}");
        assert_eq!(of.called_in_full(), format!("{name} (X)"));
    }

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
