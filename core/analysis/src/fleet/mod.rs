//! Fleet of GPUs: cards that differ from the others of their kind.
//!
//! Each run file is reduced to a time per case and dropped ([`FleetBuilder`]), so that the memory for ten thousand files is that of their
//! figures. Runs of one card belong together, by the identifier of the card, its address on its host, or else its name and its host.
//!
//! A time is relative to the median card of the same series: case, class of the device, route, caches and tuning. The level of a card in
//! a group of cases is the median over its runs of the median over the cases. The groups are all cases, those under each ceiling and
//! those of each family. The module `outlier` tests the levels and single runs, and bounds the false alarms of a whole fleet.
//!
//! Wrong results need no test: a case that fails on a card and passes on most others is an alarm.

mod build;
mod card;
mod found;
mod groups;
mod levels;
mod outlier;
#[cfg(test)]
mod tests;

pub use build::FleetBuilder;
pub use card::{Card, CardKey};
pub use found::{Alarm, Fault, Fleet, Missing};
pub use groups::{Attribute, AttributeValue, Group};
pub use outlier::FEWEST_CARDS;
