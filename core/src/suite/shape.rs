//! Axes, shapes, and how the shape part of a case string is read.

use std::fmt;

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
