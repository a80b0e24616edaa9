//! How far into the hardware a browser lets a page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Clock, ClockInfo};
use crate::suite::choices;
use crate::units::Nanos;

/// How far into the hardware a browser let a page when a run was measured. What another reach measured is another figure: one with
/// more has kernels and clocks that no visitor of a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// What any visitor has.
    #[default]
    Stock,
    /// Timestamps to the nanosecond, which browsers give to developers who ask for them by a flag.
    Developer,
    /// Features that browsers try out, behind flags for experiments alone.
    Unsafe,
}

impl Reach {
    /// Every one, the nearest to what visitors have first.
    pub const ALL: [Reach; 3] = [Reach::Stock, Reach::Developer, Reach::Unsafe];

    /// Its name in flags, addresses and records.
    pub fn name(self) -> &'static str {
        match self {
            Reach::Stock => "stock",
            Reach::Developer => "developer",
            Reach::Unsafe => "unsafe",
        }
    }

    /// The one of a name.
    ///
    /// # Errors
    /// With the names that there are.
    pub fn named(name: &str) -> Result<Reach, String> {
        let found = Reach::ALL.into_iter().find(|reach| reach.name() == name);
        found.ok_or_else(|| format!("unknown features `{name}`: {}", choices(name, Reach::ALL.map(Reach::name))))
    }

    /// What a page had that asked for this one: a browser's flags give exact timestamps to every page, whether or not it asks.
    pub fn found(self, clock: &ClockInfo) -> Reach {
        match (self, clock.clock) {
            (Reach::Unsafe, _) => Reach::Unsafe,
            (_, Clock::GpuTimestamps) if clock.step < EXACT => Reach::Developer,
            (_, Clock::GpuTimestamps) => Reach::Stock,
            // Without timestamps nothing tells what flags there were.
            (asked, _) => asked,
        }
    }
}

/// Steps of timestamps below this are not rounded: browsers round them to 65 µs and more.
const EXACT: Nanos = Nanos(10_000.0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::run;

    #[test]
    fn names_read_back_and_others_are_told_what_there_is() {
        for reach in Reach::ALL {
            assert_eq!(Reach::named(reach.name()), Ok(reach));
            assert_eq!(serde_json::to_value(reach).expect("plain"), reach.name());
        }
        let refused = Reach::named("all").expect_err("no such");
        assert!(refused.contains("`all`") && refused.contains("stock, developer, unsafe"), "{refused}");
    }

    #[test]
    fn what_the_clock_shows_stands_above_what_was_asked_for() {
        let clock = |clock, step| ClockInfo { clock, step: Nanos(step), ..run("browser", "X", &[]).clock };
        let (exact, rounded) = (clock(Clock::GpuTimestamps, 32.0), clock(Clock::GpuTimestamps, 65_536.0));
        let host = clock(Clock::Host, 5_000.0);
        for (asked, on_exact, on_rounded) in [
            (Reach::Stock, Reach::Developer, Reach::Stock),
            (Reach::Developer, Reach::Developer, Reach::Stock),
            (Reach::Unsafe, Reach::Unsafe, Reach::Unsafe),
        ] {
            assert_eq!([&exact, &rounded, &host].map(|clock| asked.found(clock)), [on_exact, on_rounded, asked]);
        }
    }
}
