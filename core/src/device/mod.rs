//! Contract of a backend, which runs cases, with its description of device, clock and work.

mod around;
mod class;
pub mod clock;
pub mod columns;
pub mod digits;
pub mod identity;
mod info;
mod launching;
mod ledger;
mod profiler;
mod reach;
mod rotation;
mod span;
#[cfg(not(target_arch = "wasm32"))]
pub mod stack;
pub mod typical;

pub use around::*;
pub use class::*;
pub use info::*;
pub use launching::*;
pub use ledger::*;
pub use profiler::*;
pub use reach::*;
pub use rotation::*;
pub use span::*;
