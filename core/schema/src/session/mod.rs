//! A measuring session, as programs exchange it: mode, plan in words, expected duration, resume state, end.
//!
//! A program that shows a session needs these types and no workload.

mod duration;
mod mode;
mod outline;

pub use duration::*;
pub use mode::*;
pub use outline::*;
