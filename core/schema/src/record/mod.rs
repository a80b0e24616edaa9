//! Records of a run: the one serialised schema, and the pure functions that derive from it.

mod activity;
mod browser;
mod call;
mod check;
mod clocks;
mod contents;
mod counters;
mod energy;
mod event;
mod items;
mod model;
mod name;
mod read;
#[allow(clippy::module_inception, reason = "the folder is named after its main file")]
mod record;
pub mod roofline;
mod route;
mod run;
mod score;
pub mod stats;
mod summary_link;
mod timer;
mod timing;
mod valid;

pub use activity::*;
use browser::BROWSERS;
pub use call::*;
pub use check::*;
pub use clocks::*;
pub use contents::*;
pub use counters::*;
pub use energy::*;
pub use event::*;
pub use items::*;
pub use model::*;
pub use name::*;
pub use read::*;
pub use record::*;
pub use route::Route;
pub use run::*;
pub use score::*;
pub use summary_link::*;
pub use timer::*;
pub use timing::*;
pub use valid::Invalid;
