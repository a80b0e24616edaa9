//! Problems and cases, and the one canonical string that names a case everywhere.
//!
//! `workload/direction/shape/dtype/variant`, as in `attention/fwd/b1,h8,s512,d64,causal/f16/flash`. That string is the
//! command line's filter, the URL query, the table row, the trace label and the key for comparing runs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;
use crate::workload::{self, BufferSpec, How, Program, Role, Variant, Workload};

/// Element type of a case's real-valued tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
}

impl DType {
    /// Every element type with its name.
    pub const ALL: [(&'static str, DType); 3] = [("f32", DType::F32), ("f16", DType::F16), ("bf16", DType::BF16)];

    /// The name used in case strings.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, d)| *d == self).map(|(name, _)| *name).expect("listed")
    }

    /// Half the distance from 1 to the next larger value: the worst relative error of rounding to this type.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            DType::F32 => 2f64.powi(-24),
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
        }
    }
}

/// Which function of the operation is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The operation itself.
    Fwd,
    /// Its vector-Jacobian product.
    Bwd,
}

impl Direction {
    /// The name used in case strings.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Fwd => "fwd",
            Direction::Bwd => "bwd",
        }
    }
}

/// One part of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Letters before the number (`h` in `h8`); for options only a label for documentation.
    pub key: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// Number or word.
    pub kind: AxisKind,
}

/// What values an axis takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisKind {
    /// A number of elements that must be given.
    Extent {
        /// Smallest legal value.
        min: u64,
    },
    /// A number that is left out of the string when it has this value.
    Optional {
        /// Smallest legal value.
        min: u64,
        /// Value when it is left out.
        default: u64,
    },
    /// A number that is left out of the string when it equals an axis before it.
    SameAs(&'static str),
    /// One of several words; the first is the default, and an empty word prints as nothing.
    Word(&'static [&'static str]),
}

impl Axis {
    /// A required extent of at least one element.
    pub const fn extent(key: &'static str, about: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::Extent { min: 1 } }
    }

    /// An extent with a default.
    pub const fn optional(key: &'static str, about: &'static str, min: u64, default: u64) -> Axis {
        Axis { key, about, kind: AxisKind::Optional { min, default } }
    }

    /// An extent of at least one element that defaults to an earlier one.
    pub const fn same_as(key: &'static str, about: &'static str, other: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::SameAs(other) }
    }

    /// A choice between words.
    pub const fn word(key: &'static str, about: &'static str, options: &'static [&'static str]) -> Axis {
        Axis { key, about, kind: AxisKind::Word(options) }
    }
}

/// Named extents (in elements) and options of one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    axes: &'static [Axis],
    /// Every extent, defaults filled in, in axis order.
    extents: Vec<(&'static str, u64)>,
    /// Every chosen word, in axis order, empty ones included.
    words: Vec<&'static str>,
}

impl std::ops::Index<&str> for Shape {
    type Output = u64;

    /// The extent called `key`.
    ///
    /// # Panics
    /// When the workload has no such axis: a slip in the workload's own code.
    fn index(&self, key: &str) -> &u64 {
        self.extents
            .iter()
            .find_map(|(k, v)| (*k == key).then_some(v))
            .unwrap_or_else(|| panic!("shape has no extent {key:?}"))
    }
}

impl Shape {
    /// Whether the option `word` was chosen.
    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Every extent, defaults filled in.
    pub fn extents(&self) -> &[(&'static str, u64)] {
        &self.extents
    }

    /// Every chosen, non-empty option.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.words.iter().copied().filter(|w| !w.is_empty())
    }

    /// Parse the shape part of a case string for the given axes.
    pub fn parse(axes: &'static [Axis], text: &str) -> Result<Shape, CaseError> {
        let bad = |why: String| CaseError::Shape { shape: text.to_owned(), why, form: form(axes) };
        let mut numbers: Vec<(&str, u64)> = Vec::new();
        let mut words: Vec<&str> = Vec::new();
        for token in text.split(',').filter(|t| !t.is_empty()) {
            let digits = token.find(|c: char| c.is_ascii_digit()).unwrap_or(token.len());
            let (key, number) = token.split_at(digits);
            if number.is_empty() {
                words.push(token);
                continue;
            }
            let value = number.parse().map_err(|_| bad(format!("`{token}` is not a name and a number")))?;
            if numbers.iter().any(|(k, _)| *k == key) {
                return Err(bad(format!("`{key}` is given twice")));
            }
            numbers.push((key, value));
        }
        let mut shape = Shape { axes, extents: Vec::new(), words: Vec::new() };
        for axis in axes {
            let given = numbers.iter().position(|(k, _)| *k == axis.key).map(|i| numbers.swap_remove(i).1);
            let (min, value) = match axis.kind {
                AxisKind::Word(options) => {
                    let at = words.iter().position(|w| options.contains(w));
                    let chosen = at.map(|i| words.swap_remove(i)).unwrap_or(options[0]);
                    shape.words.push(options.iter().find(|o| **o == chosen).expect("just matched"));
                    continue;
                }
                AxisKind::Extent { min } => {
                    (min, given.ok_or_else(|| bad(format!("`{}` ({}) is missing", axis.key, axis.about)))?)
                }
                AxisKind::Optional { min, default } => (min, given.unwrap_or(default)),
                AxisKind::SameAs(other) => (1, given.unwrap_or_else(|| shape[other])),
            };
            if value < min {
                return Err(bad(format!("`{}` ({}) must be at least {min}, not {value}", axis.key, axis.about)));
            }
            shape.extents.push((axis.key, value));
        }
        if let Some(stray) = numbers.first().map(|(k, v)| format!("{k}{v}")).or(words.first().map(|w| w.to_string())) {
            return Err(bad(format!("`{stray}` means nothing here")));
        }
        Ok(shape)
    }
}

/// The grammar of a shape, for error messages and `--help`.
pub fn form(axes: &[Axis]) -> String {
    let part = |axis: &Axis| match axis.kind {
        AxisKind::Extent { .. } => format!("{}N", axis.key),
        AxisKind::Optional { .. } | AxisKind::SameAs(_) => format!("[{}N]", axis.key),
        AxisKind::Word(options) => {
            format!("[{}]", options.iter().filter(|o| !o.is_empty()).copied().collect::<Vec<_>>().join("|"))
        }
    };
    axes.iter().map(part).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.words.iter();
        let mut parts: Vec<String> = Vec::new();
        for axis in self.axes {
            match axis.kind {
                AxisKind::Word(_) => {
                    let word = words.next().expect("one per word axis");
                    if !word.is_empty() {
                        parts.push((*word).to_owned());
                    }
                }
                AxisKind::Optional { default, .. } if self[axis.key] == default => {}
                AxisKind::SameAs(other) if self[axis.key] == self[other] => {}
                _ => parts.push(format!("{}{}", axis.key, self[axis.key])),
            }
        }
        f.pad(&parts.join(","))
    }
}

/// A workload at one shape, direction and element type: what there is to compute, whatever the way.
#[derive(Clone)]
pub struct Problem {
    /// The operation.
    pub workload: &'static Workload,
    /// Forward or backward.
    pub direction: Direction,
    /// Extents and options.
    pub shape: Shape,
    /// Element type of the real-valued tensors.
    pub dtype: DType,
}

impl std::ops::Index<&str> for Problem {
    type Output = u64;
    fn index(&self, key: &str) -> &u64 {
        &self.shape[key]
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { workload, direction, shape, dtype } = self;
        f.pad(&format!("{}/{}/{shape}/{}", workload.name, direction.name(), dtype.name()))
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Problem {
    /// A checked problem from its parts.
    pub fn new(
        workload: &'static Workload,
        direction: Direction,
        shape: &str,
        dtype: DType,
    ) -> Result<Problem, CaseError> {
        let parsed = Shape::parse(workload.axes, shape)?;
        (workload.validate)(&parsed).map_err(|why| CaseError::Shape {
            shape: shape.to_owned(),
            why,
            form: form(workload.axes),
        })?;
        Ok(Problem { workload, direction, shape: parsed, dtype })
    }

    /// All buffers, in binding order.
    pub fn buffers(&self) -> Vec<workload::BufferSpec> {
        (self.workload.buffers)(self)
    }

    /// Bytes of one set of the buffers that are wanted.
    pub fn bytes(&self, wanted: impl Fn(&BufferSpec) -> bool) -> Bytes {
        Bytes(self.buffers().iter().filter(|b| wanted(b)).map(|b| b.bytes(self.dtype).0).sum())
    }

    /// Positions, in the buffer list, of the outputs.
    pub fn outputs(&self) -> Vec<usize> {
        let is_output = |role: &Role| matches!(role, Role::Output { .. });
        self.buffers().iter().enumerate().filter(|(_, b)| is_output(&b.role)).map(|(i, _)| i).collect()
    }
}

/// A problem and the way to compute it.
#[derive(Clone)]
pub struct Case {
    /// What to compute.
    pub problem: Problem,
    /// How.
    pub variant: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.problem, self.variant))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The variant name of the plain host implementation, which every workload has.
pub const CPU_VARIANT: &str = "host";

impl Case {
    /// The variant's form, or `None` for the host implementation.
    pub fn form(&self) -> Option<&'static Variant> {
        self.problem.workload.variant(self.variant)
    }

    /// The launches of this case on a device.
    ///
    /// `None` for the host implementation and for selections, which have none of their own.
    pub fn program(&self, caps: &crate::profiler::Caps) -> Option<Program> {
        match self.form()?.how {
            How::Kernel { program, .. } => Some(program(&self.problem, caps)),
            How::Select(_) => None,
        }
    }
}

/// Why a case string names no case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// Not five parts.
    #[error("`{0}` is not a case: write workload/direction/shape/dtype/variant, as `parallax list` prints them")]
    Form(String),
    /// One part is none of the known names.
    #[error("unknown {what} `{given}`: choose one of {known}")]
    Unknown {
        /// Which part.
        what: &'static str,
        /// What was written.
        given: String,
        /// What exists.
        known: String,
    },
    /// The shape does not fit the workload.
    #[error("shape `{shape}`: {why}; the form is {form}")]
    Shape {
        /// What was written.
        shape: String,
        /// What is wrong with it.
        why: String,
        /// The grammar.
        form: String,
    },
}

/// Find `given` among named things, or say what exists.
pub fn named<'a, T: Copy>(
    what: &'static str,
    given: &str,
    known: impl IntoIterator<Item = (&'a str, T)>,
) -> Result<T, CaseError> {
    let mut names = Vec::new();
    for (name, thing) in known {
        if name == given {
            return Ok(thing);
        }
        names.push(name);
    }
    Err(CaseError::Unknown { what, given: given.to_owned(), known: names.join(", ") })
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Case, CaseError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [workload, direction, shape, dtype, variant] = parts[..] else {
            return Err(CaseError::Form(text.to_owned()));
        };
        let workload = named("workload", workload, workload::all().iter().map(|w| (w.name, w)))?;
        let direction = named("direction", direction, workload.directions.iter().map(|d| (d.name(), *d)))?;
        let dtype = named("dtype", dtype, workload.dtypes.iter().map(|d| (d.name(), *d)))?;
        let variants = workload.variants.iter().map(|v| v.name).chain([CPU_VARIANT]);
        let variant = named("variant", variant, variants.map(|v| (v, v)))?;
        Ok(Case { problem: Problem::new(workload, direction, shape, dtype)?, variant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_strings_survive_a_round_trip() {
        for text in [
            "attention/fwd/b1,h8,s512,d64,causal/f16/flash",
            "attention/fwd/b2,h1,s7,t13,d72/f32/manual",
            "depthwise_conv2d/fwd/n8,c64,h512,w96,k3,p1,nhwc/bf16/tiled",
            "hash_embedding/fwd/r100,g7,d64,sorted/f32/auto",
            "attention/fwd/b1,h1,s1,d1/f32/host",
        ] {
            assert_eq!(text.parse::<Case>().map(|c| c.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn defaults_are_left_out() {
        let case: Case = "attention/fwd/d64,h8,b1,t512,s512/f32/flash".parse().expect("valid");
        assert_eq!(case.to_string(), "attention/fwd/b1,h8,s512,d64/f32/flash");
    }

    #[test]
    fn bad_strings_name_the_part_and_the_choices() {
        for (text, part) in [
            ("attention", "is not a case"),
            ("atention/fwd/b1,h1,s1,d1/f32/flash", "unknown workload `atention`"),
            ("attention/up/b1,h1,s1,d1/f32/flash", "unknown direction `up`"),
            ("attention/fwd/b1,h1,s1,d1/f64/flash", "unknown dtype `f64`"),
            ("attention/fwd/b1,h1,s1,d1/f32/fast", "unknown variant `fast`"),
            ("attention/fwd/b1,h1,s1/f32/flash", "`d` (head_dim) is missing"),
            ("attention/fwd/b0,h1,s1,d1/f32/flash", "must be at least 1, not 0"),
            ("attention/fwd/b1,h1,s1,d1,z3/f32/flash", "`z3` means nothing here"),
            ("attention/fwd/b1,b1,h1,s1,d1/f32/flash", "`b` is given twice"),
            ("attention/fwd/b1,h1,s1,d1,casual/f32/flash", "`casual` means nothing here"),
            ("attention/fwd/b1,h99999999999999999999,s1,d1/f32/flash", "is not a name and a number"),
        ] {
            let error = text.parse::<Case>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
