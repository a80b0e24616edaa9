//! Contract of a backend, which runs cases.

mod around;
mod ledger;
mod profiler;
mod rotation;
#[cfg(not(target_arch = "wasm32"))]
pub mod stack;
pub mod typical;

pub use around::*;
pub use ledger::*;
pub use profiler::*;
pub use rotation::*;
