//! Request: two kernel sources and all settings.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use parallax_schema::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::Label;

/// Group and number of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BindingPoint {
    /// Bind group.
    pub group: u32,
    /// Number in the group.
    pub binding: u32,
}

impl fmt::Display for BindingPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.group, self.binding))
    }
}

impl From<BindingPoint> for String {
    fn from(point: BindingPoint) -> String {
        point.to_string()
    }
}

/// Text that is no binding point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no binding: write its number, as in 1, or its group and number, as in 0.1")]
pub struct NoBindingPoint(String);

impl FromStr for BindingPoint {
    type Err = NoBindingPoint;

    /// Parses `GROUP.BINDING`, or a number in group 0.
    fn from_str(text: &str) -> Result<BindingPoint, NoBindingPoint> {
        let (group, binding) = text.split_once('.').unwrap_or(("0", text));
        let number = |text: &str| text.trim().parse().map_err(|_| NoBindingPoint(text.to_owned()));
        Ok(BindingPoint { group: number(group)?, binding: number(binding)? })
    }
}

impl TryFrom<String> for BindingPoint {
    type Error = NoBindingPoint;

    fn try_from(text: String) -> Result<BindingPoint, NoBindingPoint> {
        text.parse()
    }
}

/// Source of a binding's contents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Numbers from the seed.
    #[default]
    Seeded,
    /// Zeros.
    Zeros,
    /// Numbers in the order of the scalars, repeated to the end.
    Values(Vec<f64>),
    /// A file in NumPy's format.
    #[serde(skip)]
    File(Vec<u8>),
}

/// One kernel of a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Side {
    /// WGSL.
    pub text: String,
    /// Entry point. `None` for the only one.
    pub entry: Option<String>,
    /// Workgroups to launch. `None` for one thread per element of the largest output.
    pub workgroups: Option<[u32; 3]>,
    /// Values of pipeline-overridable constants, by number if they have one, else by name. Others have those of the kernel source.
    pub overrides: BTreeMap<String, f64>,
}

/// Two kernels and the settings of their comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// The first kernel.
    pub a: Side,
    /// The second kernel.
    pub b: Side,
    /// Number of elements of each array that is sized at run time, in A's type.
    pub elements: u64,
    /// The same for single bindings.
    pub lengths: BTreeMap<BindingPoint, u64>,
    /// Sources of contents. Other bindings have seeded numbers, and atomics have zeros.
    pub sources: BTreeMap<BindingPoint, Source>,
    /// Seed of the contents and of the order of samples.
    pub seed: u64,
    /// Largest difference of two floats, as a share of the larger one. `None` for the default of the type.
    pub tolerance: Option<f64>,
    /// Seconds of timing for both kernels together.
    pub budget: f64,
    /// Iterations of one loop in one invocation at most. A kernel with a longer loop is not executed.
    pub iterations: u32,
    /// Seconds of the longest native wait for the device. A page ends its worker after a time of its own.
    pub limit: f64,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            a: Side::default(),
            b: Side::default(),
            elements: 1 << 20,
            lengths: BTreeMap::new(),
            sources: BTreeMap::new(),
            seed: 42,
            tolerance: None,
            budget: 4.0,
            iterations: 1 << 20,
            limit: 10.0,
        }
    }
}

impl Request {
    /// Returns a kernel.
    pub fn side(&self, label: Label) -> &Side {
        match label {
            Label::A => &self.a,
            Label::B => &self.b,
        }
    }

    /// Host time of the timing.
    pub fn time(&self) -> Nanos {
        Nanos::from_secs(self.budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_written_with_or_without_their_group() {
        for (text, want) in
            [("1", Some((0, 1))), ("2.3", Some((2, 3))), (" 0 . 4 ", Some((0, 4))), ("", None), ("x", None)]
        {
            let point = want.map(|(group, binding)| BindingPoint { group, binding });
            assert_eq!(text.parse().ok(), point, "{text}");
        }
        assert_eq!(BindingPoint { group: 0, binding: 7 }.to_string(), "0.7");
    }

    #[test]
    fn requests_survive_json() {
        let point = BindingPoint { group: 0, binding: 1 };
        let request = Request {
            a: Side {
                text: "a".to_owned(),
                entry: Some("main".to_owned()),
                workgroups: Some([1, 2, 3]),
                overrides: BTreeMap::from([("WIDTH".to_owned(), 8.0)]),
            },
            lengths: BTreeMap::from([(point, 7)]),
            sources: BTreeMap::from([
                (point, Source::Values(vec![1.5])),
                (BindingPoint { group: 1, ..point }, Source::Zeros),
            ]),
            ..Request::default()
        };
        let json = serde_json::to_string(&request).expect("JSON");
        assert_eq!(serde_json::from_str::<Request>(&json).expect("the same"), request);
        for broken in [r#"{"lengths":{"x":1}}"#, r#"{"unknown":1}"#, r#"{"elements":-1}"#] {
            assert!(serde_json::from_str::<Request>(broken).is_err(), "{broken}");
        }
    }
}
