//! Tunables: named integers of variants (tile sizes, thresholds), and their values for a device.
//!
//! A tunable is data of the variant's specification. Its default applies everywhere. A [`Tuning`] has the values with which a
//! device is faster. Programs read the values from the device ([`Problem::tuned`]). Plans and backends therefore build the same
//! program for a device.

use parallax_schema::case::{Allowed, Direction};
use parallax_schema::device::Caps;

use super::Problem;

/// Named integer that a variant leaves open. It changes the time of the result, never the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunable {
    /// Name within the variant, in capitals. It is often the name of the constant that it sets.
    pub name: &'static str,
    /// Effect, in a few words.
    pub about: &'static str,
    /// Allowed values. A device may be too small for some of them; plans say so.
    pub allowed: Allowed,
    /// Default value.
    pub default: u32,
}

/// Returns the full name of a tunable: `workload.variant.NAME`, with the direction before the variant if it is not `fwd`.
pub fn tunable_key(workload: &str, direction: Direction, variant: &str, name: &str) -> String {
    match direction {
        Direction::Fwd => format!("{workload}.{variant}.{name}"),
        other => format!("{workload}.{}.{variant}.{name}", other.name()),
    }
}

impl Problem {
    /// Value of a variant's tunable for this problem on a device.
    pub fn tuned(&self, caps: &Caps, variant: &str, tunable: &Tunable) -> u32 {
        if caps.tuning.is_empty() {
            return tunable.default;
        }
        let key = tunable_key(self.workload.name, self.direction, variant, tunable.name);
        caps.tuning.get(&key).unwrap_or(tunable.default)
    }
}
