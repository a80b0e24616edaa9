//! History of many runs: series of cases, their changes, and the causes of these.
//!
//! Each run file is reduced to a point per case and dropped ([`HistoryBuilder`]), so that the memory for ten thousand files is that of their
//! figures. The module `step` finds the places where a series changes its level. The module `cause` compares each with the reference
//! kernel, the ceilings and the setup.

mod build;
mod cause;
mod point;
mod series;
mod step;
#[cfg(test)]
mod tests;

pub use build::HistoryBuilder;
pub use cause::{Kind, Move};
pub use point::{BoundRate, HistoryRun, Level, Point, SeriesKey, Setup};
pub use series::{Change, History, Series, Unreadable};
pub use step::FEWEST_RUNS;
pub(crate) use step::critical;
