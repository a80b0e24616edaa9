//! The only code that touches the document. Text goes in as text, never as markup. The exceptions are parts of the core's HTML
//! report: plots in [`run`], samples in [`results`], tables in [`linked`], [`model`] and [`compare`].

mod collector;
mod compare;
mod controls;
mod device;
mod dom;
mod files;
mod history;
mod linked;
mod model;
mod notices;
mod plan;
mod results;
mod run;
mod settings;
mod way;

use std::cell::RefCell;
use std::rc::Rc;

use parallax_schema::record::Suite;

pub use compare::{Chip, ChipWish, Export};
use dom::{id, say};
pub use history::{Recorded, Wish};
pub use notices::{Tone, alive, crashed, framed, worked_at, working_at};
use results::Table;

/// View of the page.
#[derive(Clone, Default)]
pub struct View {
    table: Rc<RefCell<Table>>,
}

impl View {
    /// Returns the view of this page.
    pub fn new() -> View {
        View::default()
    }

    /// Shows version and commit in the footer.
    pub fn version(&self, suite: &Suite) {
        let commit = if suite.commit.is_empty() { String::new() } else { format!(" · {}", suite.commit) };
        say(&id("version"), &format!("Parallax {}{commit}", suite.version));
    }

    /// Shows the result of a download, a link or a trace.
    pub fn share_line(&self, line: &str) {
        say(&id("share-line"), line);
    }
}
