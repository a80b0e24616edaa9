//! Which function of an operation a case computes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which function of the operation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The operation itself.
    Fwd,
    /// Its vector-Jacobian product.
    Bwd,
}

impl Direction {
    /// The name used in case strings.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Fwd => "fwd",
            Direction::Bwd => "bwd",
        }
    }
}
