//! Safety checks that the compiler inserts into kernels.

use std::fmt;
use std::str::FromStr;

/// Checks that a compiler inserts into kernels. They prevent accesses outside a kernel's memory and endless loops. Browsers insert
/// all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Checks {
    /// Bounds checks: indices stay within their buffers and arrays.
    pub bounds: bool,
    /// Loop bounds: loops end after 2⁶⁴ iterations. Drivers then cannot optimise on the assumption that a loop ends.
    pub loops: bool,
    /// Division guards: integer divisions have a result for every divisor.
    pub divisions: bool,
    /// Zero-initialisation of workgroup memory.
    pub zeroing: bool,
}

/// Names of the checks on the command line.
const NAMES: &str = "bounds, loops, divisions, zeroing";

impl Checks {
    /// No checks.
    pub const NONE: Checks = Checks { bounds: false, loops: false, divisions: false, zeroing: false };
    /// All checks, as in browsers.
    pub const ALL: Checks = Checks { bounds: true, loops: true, divisions: true, zeroing: true };

    /// Returns lines for the record of compilation.
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

/// Formats `all`, `none` or the names, as [`Checks::from_str`] parses them.
impl fmt::Display for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Checks::ALL => f.write_str("all"),
            Checks::NONE => f.write_str("none"),
            some => {
                let each = [some.bounds, some.loops, some.divisions, some.zeroing];
                let names = NAMES.split(", ").zip(each).filter(|(_, on)| *on).map(|(name, _)| name);
                f.write_str(&names.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl FromStr for Checks {
    type Err = String;

    /// Parses `all`, `none`, or comma-separated names: `bounds,loops,divisions,zeroing`.
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
            if let Ok(checks) = want {
                assert_eq!(checks.to_string().parse(), Ok(checks), "{checks}");
            }
        }
    }
}
