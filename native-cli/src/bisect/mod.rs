//! Two programs, measured side by side: where they come from, and their runs in turn.

mod checkout;
mod measure;

pub use checkout::{BuildError, Checkout};
pub use measure::{MeasureError, Request, alternate};
