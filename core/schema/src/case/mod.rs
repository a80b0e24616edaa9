//! Names, types and least cost of cases.

mod cost;
mod direction;
mod dtype;
mod error;
mod history;
mod name;
mod nearest;
mod order;
mod preset;
mod title;
mod tuning;

pub use cost::*;
pub use direction::*;
pub use dtype::*;
pub use error::*;
pub use history::*;
pub use name::*;
pub use nearest::*;
pub use order::*;
pub use preset::*;
pub use title::*;
pub use tuning::*;
