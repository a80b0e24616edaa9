//! Tunables: named integers of variants (tile sizes, thresholds), and their values for a device.
//!
//! A tunable is data of the variant's specification. Its default applies everywhere. A [`Tuning`] has the values with which a
//! device is faster. Programs read the values from the device ([`Caps::tuned`]). Plans and backends therefore build the same
//! program for a device.

use std::collections::BTreeMap;
use std::fmt;

use super::{Caps, Direction, Problem, all, choices};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Values that a tunable may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// These values, which a sweep also tries.
    OneOf(&'static [u32]),
    /// All numbers from the first to the second, both included. A sweep tries powers of two and both ends.
    Between(u32, u32),
}

impl Allowed {
    /// Returns whether a value is allowed.
    pub fn has(self, value: u32) -> bool {
        match self {
            Allowed::OneOf(choices) => choices.contains(&value),
            Allowed::Between(least, most) => (least..=most).contains(&value),
        }
    }

    /// Returns the values that a sweep tries, ascending.
    pub fn candidates(self) -> Vec<u32> {
        match self {
            Allowed::OneOf(choices) => choices.to_vec(),
            Allowed::Between(least, most) => {
                let powers = (0..u32::BITS).map(|bit| 1 << bit).filter(|power| least < *power && *power < most);
                let mut values: Vec<u32> = [least].into_iter().chain(powers).chain([most]).collect();
                values.dedup();
                values
            }
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::OneOf(choices) => {
                let choices: Vec<String> = choices.iter().map(u32::to_string).collect();
                write!(f, "one of {}", choices.join(", "))
            }
            Allowed::Between(least, most) => write!(f, "from {least} to {most}"),
        }
    }
}

/// Tunable with its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTunable {
    /// Full name: `workload.variant.NAME`, with the direction before the variant if it is not `fwd`.
    pub key: String,
    /// Tunable.
    pub tunable: &'static Tunable,
}

/// Returns the tunables of every workload.
pub fn tunables() -> Vec<KnownTunable> {
    let mut known = Vec::new();
    for workload in all() {
        for form in &workload.forms {
            for variant in &form.variants {
                known.extend(variant.tunables.iter().map(|tunable| KnownTunable {
                    key: tunable_key(workload.name, form.direction, variant.name, tunable.name),
                    tunable,
                }));
            }
        }
    }
    known
}

pub(super) fn tunable_key(workload: &str, direction: Direction, variant: &str, name: &str) -> String {
    match direction {
        Direction::Fwd => format!("{workload}.{variant}.{name}"),
        other => format!("{workload}.{}.{variant}.{name}", other.name()),
    }
}

/// Values for the tunables of variants on one device; the defaults hold for all others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Tuning(BTreeMap<String, u32>);

/// Error of setting a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// Not NAME=VALUE, or no whole number as the value.
    #[error("`{0}` is not NAME=VALUE with a whole number, as in matmul.tiled.DEPTH=8 or DEPTH=8")]
    Form(String),
    /// Unknown name.
    #[error("unknown tunable `{name}`: {choices}")]
    Unknown {
        /// Given name.
        name: String,
        /// Known names.
        choices: String,
    },
    /// Value that is not allowed.
    #[error("{key} ({about}) cannot be {value}: it is {allowed}")]
    Value {
        /// Full name of the tunable.
        key: String,
        /// Effect of the tunable.
        about: &'static str,
        /// Given value.
        value: u32,
        /// Allowed values.
        allowed: Allowed,
    },
}

impl Tuning {
    /// Returns whether every tunable has its default.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns full names and values.
    pub fn values(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }

    /// Sets a value. A full name denotes one variant's tunable. A name without dots denotes every variant's tunable of that name.
    ///
    /// # Errors
    /// Unknown name, or a value that one of the tunables does not allow; nothing changes then.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), TuningError> {
        let known = tunables();
        let meant: Vec<&KnownTunable> = known.iter().filter(|k| k.key == name || k.tunable.name == name).collect();
        if meant.is_empty() {
            let choices = choices(name, known.iter().map(|k| k.key.as_str()));
            return Err(TuningError::Unknown { name: name.to_owned(), choices });
        }
        if let Some(KnownTunable { key, tunable }) = meant.iter().find(|k| !k.tunable.allowed.has(value)) {
            let Tunable { about, allowed, .. } = **tunable;
            return Err(TuningError::Value { key: key.clone(), about, value, allowed });
        }
        self.0.extend(meant.into_iter().map(|k| (k.key.clone(), value)));
        Ok(())
    }

    /// Sets a value from NAME=VALUE.
    ///
    /// # Errors
    /// Errors of [`Tuning::set`], and a string of another form.
    pub fn assign(&mut self, text: &str) -> Result<(), TuningError> {
        let form = || TuningError::Form(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        self.set(name.trim(), value.trim().parse().map_err(|_| form())?)
    }

    /// Adds all values of another tuning.
    pub fn extend(&mut self, other: &Tuning) {
        self.0.extend(other.0.iter().map(|(key, value)| (key.clone(), *value)));
    }
}

impl Caps {
    /// Value of a variant's tunable for a problem on this device.
    pub fn tuned(&self, problem: &Problem, variant: &str, tunable: &Tunable) -> u32 {
        if self.tuning.is_empty() {
            return tunable.default;
        }
        let key = tunable_key(problem.workload.name, problem.direction, variant, tunable.name);
        self.tuning.0.get(&key).copied().unwrap_or(tunable.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Case;
    use crate::testing::mock::caps;

    const THRESHOLD: &str = "hash_embedding.auto.OWNER_ROWS";

    #[test]
    fn every_tunable_has_a_name_of_its_own_and_a_default_that_it_may_have() {
        let known = tunables();
        assert!(known.iter().any(|k| k.key == THRESHOLD), "{known:?}");
        let mut keys: Vec<&str> = known.iter().map(|k| k.key.as_str()).collect();
        keys.dedup();
        assert_eq!(keys.len(), known.len());
        for KnownTunable { key, tunable } in &known {
            assert!(tunable.allowed.has(tunable.default), "{key}");
            assert!(!tunable.about.is_empty() && tunable.name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            let candidates = tunable.allowed.candidates();
            assert!(candidates.len() > 1 && candidates.is_sorted(), "{key}: {candidates:?}");
            assert!(candidates.iter().all(|value| tunable.allowed.has(*value)), "{key}: {candidates:?}");
        }
    }

    #[test]
    fn names_are_full_or_mean_every_variant() {
        let mut tuning = Tuning::default();
        tuning.assign("matmul.tiled.DEPTH = 8").expect("a choice");
        assert_eq!(tuning.values().collect::<Vec<_>>(), [("matmul.tiled.DEPTH", 8)]);
        tuning.assign("DEPTH=32").expect("a choice of all");
        let depths: Vec<(&str, u32)> = tuning.values().collect();
        assert_eq!(depths, [("attention.flash.DEPTH", 32), ("matmul.tiled.DEPTH", 32)]);
    }

    #[test]
    fn mistakes_name_what_would_do_and_change_nothing() {
        let mut tuning = Tuning::default();
        for (text, part) in [
            ("DEPTH", "is not NAME=VALUE"),
            ("DEPTH=deep", "is not NAME=VALUE"),
            ("DEPHT=8", "choose one of attention.flash.DEPTH"),
            ("attention.flush.DEPTH=8", "unknown tunable"),
            ("matmul.tiled.DEPTH=7", "cannot be 7: it is one of"),
            ("hash_embedding.auto.OWNER_ROWS=-1", "is not NAME=VALUE"),
        ] {
            let error = tuning.assign(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(tuning.is_empty());
    }

    #[test]
    fn programs_and_selections_follow_the_device() {
        let case: Case = "hash_embedding/fwd/r100000,g8333,d64,sorted/f32/auto".parse().expect("valid");
        let actual = |caps: &Caps| {
            let spec = crate::plan::Spec { case: vec![case.to_string()], ..Default::default() };
            crate::plan::plan(&spec, caps).expect("a case").cases[0].runs().variant
        };
        assert_eq!(actual(&caps()), "shared");
        let mut tuned = caps();
        tuned.tuning.assign(&format!("{THRESHOLD}=200000")).expect("in range");
        assert_eq!(actual(&tuned), "owner");
        assert_eq!(case.settings(&tuned), [("OWNER_ROWS", 200_000), ("SHARED_ROWS", 100_000)]);

        let tiled: Case = "matmul/fwd/m64,n64,k64/f32/tiled".parse().expect("valid");
        tuned.tuning.assign("DEPTH=8").expect("a choice");
        assert_ne!(tiled.program(&tuned), tiled.program(&caps()));
    }

    #[test]
    fn sweeps_try_both_ends_and_powers_of_two() {
        assert_eq!(Allowed::Between(3, 20).candidates(), [3, 4, 8, 16, 20]);
        assert_eq!(Allowed::Between(4, 16).candidates(), [4, 8, 16]);
        assert_eq!(Allowed::OneOf(&[8, 16]).to_string(), "one of 8, 16");
    }
}
