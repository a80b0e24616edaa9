//! Records as people read them: tables, advice, a spreadsheet, a page.

pub mod advice;
pub mod html;
pub mod sheet;
mod table;

pub use table::*;
