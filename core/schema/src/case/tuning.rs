//! Values of tunables for a device, by full name.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

    /// Returns the names and values of a variant's tunables, as in `BLOCK_K=8, STAGES=3`.
    pub fn of_variant(&self, workload: &str, variant: &str) -> String {
        let own = format!("{workload}.{variant}.");
        let values = self.values().filter_map(|(name, value)| Some((name.strip_prefix(&own)?, value)));
        values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    }

    /// Value of a full name, if it is set.
    pub fn get(&self, key: &str) -> Option<u32> {
        self.0.get(key).copied()
    }

    /// Sets the value of a full name, unchecked.
    pub fn insert(&mut self, key: String, value: u32) {
        self.0.insert(key, value);
    }

    /// Adds all values of another tuning.
    pub fn extend(&mut self, other: &Tuning) {
        self.0.extend(other.0.iter().map(|(key, value)| (key.clone(), *value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_try_both_ends_and_powers_of_two() {
        assert_eq!(Allowed::Between(3, 20).candidates(), [3, 4, 8, 16, 20]);
        assert_eq!(Allowed::Between(4, 16).candidates(), [4, 8, 16]);
        assert_eq!(Allowed::OneOf(&[8, 16]).to_string(), "one of 8, 16");
    }
}
