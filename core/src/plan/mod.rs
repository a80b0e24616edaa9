//! The request, and its plan on a device.

mod asked;
mod expected;
pub mod filter;
mod hard;
mod held;
mod limits;
mod outline;
pub mod places;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod plan;
pub mod query;
pub mod schedule;
pub mod settings;
mod spec;
pub mod sweep;
mod tunings;

pub use expected::Expected;
pub use outline::*;
pub use plan::*;
pub use spec::*;
pub use tunings::*;
