//! Architectures of devices, and their names for the compiler.

use std::fmt;

/// A compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// Generation.
    pub major: u32,
    /// Member of the generation.
    pub minor: u32,
}

impl Arch {
    /// Returns the capability with these numbers.
    pub const fn new(major: u32, minor: u32) -> Arch {
        Arch { major, minor }
    }

    /// Whether the architecture has the instructions of its own name, such as the GEMM instructions of four warps (`wgmma`).
    pub fn has_wgmma(self) -> bool {
        self == Arch::new(9, 0)
    }

    /// Returns the architecture to compile for, so that the binary runs on `self`. It is `self` if the compiler supports it, or
    /// else the nearest older member of the same generation.
    pub(crate) fn supported_by(self, archs: &[u32]) -> Option<Arch> {
        let known = archs.iter().map(|arch| Arch::new(arch / 10, arch % 10));
        known.filter(|known| known.major == self.major && *known <= self).max()
    }
}

/// The compiler's name of the architecture. 9.0 has instructions (`wgmma`, `setmaxnreg`) that require its own name, with an `a`.
/// Binaries for `sm_90a` run on 9.0 alone, their only target.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.has_wgmma() { "a" } else { "" };
        write!(f, "sm_{}{}{suffix}", self.major, self.minor)
    }
}
