//! What is put into kernels so that none can do harm.

use std::str::FromStr;

/// What a compiler puts into kernels so that none reaches memory that is not its own, or runs for ever. Browsers leave nothing out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checks {
    /// Indices are kept within their buffers and arrays.
    pub bounds: bool,
    /// Loops end after 2⁶⁴ turns, so that drivers draw no conclusions from one that might not.
    pub loops: bool,
    /// Divisions of whole numbers have a result whatever the divisor.
    pub divisions: bool,
    /// Workgroup memory holds zeros at first.
    pub zeroing: bool,
}

/// Their names, as they are asked for.
const NAMES: &str = "bounds, loops, divisions, zeroing";

impl Checks {
    /// None of them.
    pub const NONE: Checks = Checks { bounds: false, loops: false, divisions: false, zeroing: false };
    /// All of them, as in browsers.
    pub const ALL: Checks = Checks { bounds: true, loops: true, divisions: true, zeroing: true };

    /// As lines for a record of what was compiled.
    pub(crate) fn lines(self) -> Vec<String> {
        let line = |(what, on): (&str, bool)| format!("{what}: {}", if on { "on" } else { "off" });
        let all = [
            ("bounds checks", self.bounds),
            ("loop bounds", self.loops),
            ("division guards", self.divisions),
            ("zero-initialised workgroup memory", self.zeroing),
        ];
        all.map(line).to_vec()
    }
}

impl FromStr for Checks {
    type Err = String;

    /// `all`, `none`, or names with commas between: `bounds,loops,divisions,zeroing`.
    fn from_str(text: &str) -> Result<Checks, String> {
        match text {
            "all" => return Ok(Checks::ALL),
            "none" => return Ok(Checks::NONE),
            _ => {}
        }
        let mut checks = Checks::NONE;
        for name in text.split(',') {
            match name.trim() {
                "bounds" => checks.bounds = true,
                "loops" => checks.loops = true,
                "divisions" => checks.divisions = true,
                "zeroing" => checks.zeroing = true,
                other => return Err(format!("unknown check `{other}`: choose of {NAMES}, or all, none")),
            }
        }
        Ok(checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_named_one_by_one_or_all() {
        for (text, want) in [
            ("all", Ok(Checks::ALL)),
            ("none", Ok(Checks::NONE)),
            ("bounds", Ok(Checks { bounds: true, ..Checks::NONE })),
            ("loops, divisions,zeroing", Ok(Checks { bounds: false, ..Checks::ALL })),
            (
                "bound",
                Err("unknown check `bound`: choose of bounds, loops, divisions, zeroing, or all, none".to_owned()),
            ),
            ("", Err("unknown check ``: choose of bounds, loops, divisions, zeroing, or all, none".to_owned())),
        ] {
            assert_eq!(text.parse::<Checks>(), want, "{text}");
        }
    }
}
