//! Direction of a case: the function of its operation.

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
    /// Both, one after the other, as in training.
    #[serde(rename = "fwd+bwd")]
    FwdBwd,
}

impl Direction {
    /// All directions.
    pub const ALL: [Direction; 3] = [Direction::Fwd, Direction::Bwd, Direction::FwdBwd];

    /// Name in case strings.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Fwd => "fwd",
            Direction::Bwd => "bwd",
            Direction::FwdBwd => "fwd+bwd",
        }
    }
}
