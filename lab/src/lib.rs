//! Side-by-side comparison of two kernels from outside the program, A and B.
//!
//! [`Request`] has both kernel sources and all settings. [`Plan`] pairs their bindings, by the reflection of [`Program`]. [`run`]
//! compiles both on a device, compares their outputs and times them side by side. [`Report`] has the result, and [`View`] its words.
//!
//! Kernel sources are hostile until proven otherwise: every fault of theirs ends in a [`LabError`].
#![forbid(unsafe_code)]

mod agreement;
mod bench;
mod bounds;
mod contents;
mod error;
mod guard;
mod layout;
mod npy;
mod overrides;
mod plan;
mod program;
mod request;
mod view;

pub use agreement::{Agreement, Difference, Tolerance};
pub use bench::{Phase, Report, run};
pub use error::{LabError, Label};
pub use guard::Guarded;
pub use layout::{Layout, Scalar};
pub use overrides::Override;
pub use plan::{Plan, PlannedBinding};
pub use program::{LONGEST, Program, Reflected, STACK};
pub use request::{BindingPoint, Request, Side, Source};
pub use view::{BindingRow, OutputRow, TimeRow, View, bindings};
