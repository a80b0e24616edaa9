//! The request, and its plan on a device.

mod asked;
mod expected;
mod hard;
mod limits;
mod outline;
pub mod places;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod plan;
pub mod settings;
pub mod sweep;
mod tunings;

pub use expected::Expected;
pub use outline::*;
pub use plan::*;
pub use tunings::*;

pub(crate) use parallax_schema::spec::*;
