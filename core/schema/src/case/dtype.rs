//! Element types of cases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Element type of a case's real-valued tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
}

impl DType {
    /// All element types with their names.
    pub const ALL: [(&'static str, DType); 3] = [("f32", DType::F32), ("f16", DType::F16), ("bf16", DType::BF16)];

    /// Name in case strings.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, d)| *d == self).map(|(name, _)| *name).expect("listed")
    }

    /// Half the distance from 1 to the next larger value: the worst relative error of rounding to this type.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            DType::F32 => 2f64.powi(-24),
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
        }
    }
}

/// Element type in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// Unsigned integer.
    U32,
}

impl Storage {
    /// Returns whether every bit pattern is a value. An unwritten element then cannot be recognised by its value.
    pub fn is_integer(self) -> bool {
        match self {
            Storage::U32 => true,
            Storage::F32 | Storage::F16 | Storage::BF16 => false,
        }
    }

    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Storage::F32 | Storage::U32 => 4,
            Storage::F16 | Storage::BF16 => 2,
        }
    }
}
