//! Reports for readers: tables, advice, a spreadsheet, a page.

#![deny(unsafe_code)]

mod aa;
pub mod advice;
mod answer;
pub mod ci;
mod comparison;
mod date;
mod escape;
mod executions;
mod families;
pub mod flame;
mod grid;
mod heads;
pub mod history;
pub mod html;
mod known;
mod linked;
mod model;
mod named;
mod peers;
mod recorded;
mod repeats;
mod scaling;
mod scores;
pub mod sheet;
pub mod site;
mod step;
mod summary;
mod table;
mod tax;
mod trace_diff;
mod voices;

pub use aa::*;
pub use answer::*;
pub use comparison::*;
pub use escape::*;
pub use families::*;
pub use grid::*;
pub use heads::*;
pub use known::*;
pub use linked::*;
pub use model::*;
pub(crate) use named::named;
pub use peers::{CardState, PeerFigure, Peers, PeersError};
pub use recorded::{Manifest, RecordedSession, cost_rows, sessions_table};
pub use repeats::*;
pub use scaling::*;
pub use scores::*;
pub use step::*;
pub use summary::*;
pub use table::*;
pub use tax::*;
pub use trace_diff::*;
pub use voices::*;
