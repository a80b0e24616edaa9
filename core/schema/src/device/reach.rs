//! Privilege level of a page in a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::choices;
use crate::device::{Clock, ClockInfo};
use crate::units::Nanos;

/// Privilege level of a page when a run was measured. Results of different levels are not comparable: a higher one has kernels and
/// clocks that visitors do not have. In run files it is `reach`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Reach")]
pub enum BrowserMode {
    /// Level of any visitor.
    #[default]
    Stock,
    /// Timestamps to the nanosecond, which browsers give to developers behind a flag.
    Developer,
    /// Experimental features of browsers, behind flags for experiments alone.
    Unsafe,
}

impl BrowserMode {
    /// All levels, from the visitor's upwards.
    pub const ALL: [BrowserMode; 3] = [BrowserMode::Stock, BrowserMode::Developer, BrowserMode::Unsafe];

    /// Returns the name in flags, addresses and records.
    pub fn name(self) -> &'static str {
        match self {
            BrowserMode::Stock => "stock",
            BrowserMode::Developer => "developer",
            BrowserMode::Unsafe => "unsafe",
        }
    }

    /// Returns the level with a name.
    ///
    /// # Errors
    /// An unknown name, with the list of names.
    pub fn named(name: &str) -> Result<BrowserMode, String> {
        let found = BrowserMode::ALL.into_iter().find(|reach| reach.name() == name);
        found.ok_or_else(|| {
            format!("unknown features `{name}`: {}", choices(name, BrowserMode::ALL.map(BrowserMode::name)))
        })
    }

    /// Returns the actual level of a page that requested this one. A browser's flags give exact timestamps to every page, whether
    /// or not the page requests them.
    pub fn found(self, clock: &ClockInfo) -> BrowserMode {
        match (self, clock.clock) {
            (BrowserMode::Unsafe, _) => BrowserMode::Unsafe,
            (_, Clock::GpuTimestamps) if clock.step < EXACT => BrowserMode::Developer,
            (_, Clock::GpuTimestamps) => BrowserMode::Stock,
            // Without timestamps the flags are unknown.
            (asked, _) => asked,
        }
    }
}

/// Timestamp steps below this are not rounded: browsers round them to 65 µs and more.
const EXACT: Nanos = Nanos(10_000.0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    #[test]
    fn names_read_back_and_others_are_told_what_there_is() {
        for reach in BrowserMode::ALL {
            assert_eq!(BrowserMode::named(reach.name()), Ok(reach));
            assert_eq!(serde_json::to_value(reach).expect("plain"), reach.name());
        }
        let refused = BrowserMode::named("all").expect_err("no such");
        assert!(refused.contains("`all`") && refused.contains("stock, developer, unsafe"), "{refused}");
    }

    #[test]
    fn what_the_clock_shows_stands_above_what_was_asked_for() {
        let clock = |clock, step| ClockInfo { clock, step: Nanos(step), ..run("browser", "X", &[]).clock };
        let (exact, rounded) = (clock(Clock::GpuTimestamps, 32.0), clock(Clock::GpuTimestamps, 65_536.0));
        let host = clock(Clock::Host, 5_000.0);
        for (asked, on_exact, on_rounded) in [
            (BrowserMode::Stock, BrowserMode::Developer, BrowserMode::Stock),
            (BrowserMode::Developer, BrowserMode::Developer, BrowserMode::Stock),
            (BrowserMode::Unsafe, BrowserMode::Unsafe, BrowserMode::Unsafe),
        ] {
            assert_eq!([&exact, &rounded, &host].map(|clock| asked.found(clock)), [on_exact, on_rounded, asked]);
        }
    }
}
