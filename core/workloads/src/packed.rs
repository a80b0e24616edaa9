//! Parts of GEMMs with weights in words of 32 bits, packed along k, and with a scale for each group of neighbours along k.

use parallax_ir::{Problem, Shape, Stage, indexable};
use parallax_schema::case::{DType, Preset};
use parallax_schema::device::Caps;

/// Weights by their number in a word.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Numbers in a word.
    pub numbers: u64,
}

impl Packing {
    /// Checks that words are whole and arrays are indexable.
    ///
    /// # Errors
    /// A depth or a group with a part of a word, or an array that is too large.
    pub fn validate(self, shape: &Shape) -> Result<(), String> {
        let (m, n, k, g) = (shape["m"], shape["n"], shape["k"], shape["g"]);
        for (name, extent) in [("a depth", k), ("a group", g)] {
            if !extent.is_multiple_of(self.numbers) {
                let numbers = self.numbers;
                return Err(format!("a word has {numbers} numbers: {name} of {extent} is not a multiple of {numbers}"));
            }
        }
        [m * k, n * (k / self.numbers), n * k.div_ceil(g), m * n].into_iter().try_for_each(indexable)
    }

    /// Returns whether vectors of four words divide rows and groups, so that the weights of a vector share a scale.
    pub fn in_fours(self, p: &Problem) -> bool {
        [p["k"], p["g"]].into_iter().all(|extent| (extent / self.numbers).is_multiple_of(4))
    }

    /// Returns a stage with the extents as constants.
    pub fn stage(self, p: &Problem, text: &'static str, entry: &'static str) -> Stage {
        let extents = [
            ("M", p["m"]),
            ("N", p["n"]),
            ("WORDS", p["k"] / self.numbers),
            ("GROUPS", groups(p)),
            ("GROUP_WORDS", p["g"] / self.numbers),
        ];
        Stage::kernel(entry, text, entry).consts(&extents.map(|(name, value)| (name, value as u32)))
    }
}

/// Shapes of a preset: projections of language models with 7 to 70 thousand million parameters, for few tokens.
pub fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &["m1,n4096,k4096", "m1,n14336,k4096", "m8,n14336,k4096"],
        _ => &[
            "m1,n4096,k4096",
            "m1,n14336,k4096",
            "m4,n14336,k4096",
            "m8,n14336,k4096",
            "m16,n14336,k4096",
            "m64,n14336,k4096",
            "m1,n28672,k8192",
        ],
    }
}

/// Groups of a row.
pub fn groups(p: &Problem) -> u64 {
    p["k"].div_ceil(p["g"])
}

/// Word of four bytes, the first in the lowest.
pub fn word(byte: impl Fn(u32) -> u8) -> f64 {
    f64::from(u32::from_le_bytes([0, 1, 2, 3].map(byte)))
}

/// Four signed numbers of a word.
pub fn signed(word: u32) -> [i8; 4] {
    word.to_le_bytes().map(|byte| byte as i8)
}

/// Weights of a column that a warp multiplies on tensor cores between two scales.
const CHUNK: u64 = 128;

/// Checks whether variants for tensor cores compute a problem.
///
/// # Errors
/// The reason why they do not.
pub fn mma_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    match (p.dtype, caps.compute_capability) {
        (DType::F32, _) => Err("mma multiplies elements of 16 bits, not f32".to_owned()),
        (_, found) if found < Some((8, 0)) => Err(format!("mma needs compute capability 8.0, not {found:?}")),
        _ if p["k"].is_multiple_of(CHUNK) && p["g"].is_multiple_of(CHUNK) => Ok(()),
        _ => Err(format!("mma takes {CHUNK} weights at a time: k and g are multiples of it")),
    }
}
