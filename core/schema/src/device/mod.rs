//! Descriptions of devices, their clocks and capabilities, and of work on them.

mod caps;
mod class;
pub mod clock;
pub mod columnar;
mod energy;
pub mod identity;
mod info;
mod launch;
mod launching;
mod matrix;
mod reach;
pub mod rounding;
mod span;

pub use caps::*;
pub use class::*;
pub use energy::*;
pub use info::*;
pub use launch::*;
pub use launching::*;
pub use matrix::*;
pub use reach::*;
pub use span::*;
