//! The request, and its plan on a device.

pub mod buffer_access;
mod limits;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod plan;
mod plan_summary;
mod planned;
mod select;
pub mod settings;
mod stress;
pub mod sweep;
mod tunings;

pub use plan::*;
pub use plan_summary::outline;
pub use planned::*;
pub use tunings::*;

pub(crate) use parallax_schema::spec::*;
