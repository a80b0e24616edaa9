//! Records as people read them: tables, advice, a spreadsheet, a page.

mod aa;
pub mod advice;
mod comparison;
mod escape;
mod grid;
pub mod html;
mod scores;
pub mod sheet;
mod summary;
mod table;
mod tax;

pub use aa::*;
pub use comparison::*;
pub use escape::*;
pub use grid::*;
pub use scores::*;
pub use summary::*;
pub use table::*;
pub use tax::*;
