//! Precision of the arithmetic that a compiler generates for the operators and functions of a kernel.

use std::fmt;
use std::str::FromStr;

/// Precision of generated arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// As the tolerances of the workloads require: denormals, and IEEE division and square roots.
    #[default]
    Precise,
    /// Denormals are zero.
    FlushedDenormals,
    /// Denormals are zero; division, square roots and functions are approximate.
    Fast,
}

impl Arithmetic {
    /// All values.
    pub const ALL: [Arithmetic; 3] = [Arithmetic::Precise, Arithmetic::FlushedDenormals, Arithmetic::Fast];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::Precise => "precise",
            Arithmetic::FlushedDenormals => "ftz",
            Arithmetic::Fast => "fast",
        }
    }

    /// Returns the compiler's option; `None` for the default.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Arithmetic::Precise => None,
            Arithmetic::FlushedDenormals => Some("--ftz=true"),
            Arithmetic::Fast => Some("--use_fast_math"),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = String;

    fn from_str(name: &str) -> Result<Arithmetic, String> {
        let found = Arithmetic::ALL.into_iter().find(|arithmetic| arithmetic.name() == name);
        let names = || Arithmetic::ALL.map(Arithmetic::name).join(", ");
        found.ok_or_else(|| format!("unknown arithmetic `{name}`: choose of {}", names()))
    }
}
