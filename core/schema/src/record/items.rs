//! Items of an execution, where its workload counts any: samples, images, sequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Nanos, scaled};

/// The items of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Items {
    /// Their name, in the plural.
    pub name: String,
    /// How many one execution has.
    pub count: u64,
}

impl Items {
    /// Returns items per second, for all items in `time`.
    pub fn per_second(&self, time: Nanos) -> f64 {
        self.count as f64 / time.secs()
    }

    /// Returns items per second with a prefix and without the name: `6.73 M`.
    pub fn scaled(&self, time: Nanos) -> String {
        scaled(self.per_second(time), "").trim_end().to_owned()
    }

    /// Returns items per second with a prefix and the name: `6.73 M samples/s`.
    pub fn rate(&self, time: Nanos) -> String {
        format!("{} {}/s", self.scaled(time), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_prefix_and_the_name_of_what_is_counted() {
        let samples = |count| Items { name: "samples".to_owned(), count };
        assert_eq!(samples(4096).rate(Nanos(609_000.0)), "6.73 M samples/s");
        assert_eq!(samples(3).rate(Nanos(1e9)), "3.00 samples/s");
    }
}
