//! What is computed: element types, shapes, inputs, programs, and the forms that workloads fill in.

mod buffer;
mod caps;
mod case;
mod direction;
mod draw;
mod dtype;
mod form;
pub mod hard;
mod history;
mod inputs;
mod precondition;
mod probe;
mod program;
mod queues;
mod registry;
mod shape;
mod texts;
mod workload;

pub use buffer::*;
pub use caps::*;
pub use case::*;
pub use direction::*;
pub use draw::*;
pub use dtype::*;
pub use form::*;
pub use hard::Hard;
pub use history::*;
pub use inputs::*;
pub use precondition::*;
pub use probe::*;
pub use program::*;
pub use queues::*;
pub use registry::*;
pub use shape::*;
pub use texts::*;
pub use workload::*;
