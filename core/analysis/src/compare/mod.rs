//! Comparison of runs: ratios, verdicts, gates, taxes and tables.

pub mod aa;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod compare;
mod comparison;
mod cost;
mod families;
mod gate;
mod gpus;
pub mod identity;
mod losses;
pub mod one_gpu;
mod pairing;
mod pooled;
mod scaling;
pub mod scores;
pub mod tax;
pub mod verdict;
mod voices;

pub use compare::*;
pub use comparison::*;
pub use cost::*;
pub use families::*;
pub use gate::*;
pub use gpus::*;
pub use pairing::fastest;
pub use pooled::pooled;
pub use scaling::*;
pub use voices::*;
