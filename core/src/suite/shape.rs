//! Axes, shapes, and how the shape part of a case string is read.

use std::fmt;

use super::{Scaling, choices};

/// One part of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Letters before the number (`h` in `h8`); for options only a label for documentation.
    pub key: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// Number or word.
    pub kind: AxisKind,
    /// Whether it counts the items of an execution, which `about` names in the plural.
    pub items: bool,
    /// The table that tells times along it, if there is one.
    pub scaling: Option<&'static Scaling>,
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
    /// A number with up to nine decimal places, at least this many billionths; left out of the string when it has the
    /// default. A probability, a slope, a factor.
    Decimal {
        /// Smallest legal value, in billionths.
        min: u64,
        /// Largest legal value, in billionths.
        max: u64,
        /// Value when it is left out, in billionths.
        default: u64,
    },
    /// One of several words; the first is the default, and an empty word prints as nothing.
    Word(&'static [&'static str]),
}

impl Axis {
    /// A required extent of at least one element.
    pub const fn extent(key: &'static str, about: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::Extent { min: 1 }, items: false, scaling: None }
    }

    /// An extent with a default.
    pub const fn optional(key: &'static str, about: &'static str, min: u64, default: u64) -> Axis {
        Axis { key, about, kind: AxisKind::Optional { min, default }, items: false, scaling: None }
    }

    /// An extent of at least one element that defaults to an earlier one.
    pub const fn same_as(key: &'static str, about: &'static str, other: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::SameAs(other), items: false, scaling: None }
    }

    /// A number with decimal places between two whole numbers; the default is written as it prints, as in `0.1`.
    ///
    /// # Panics
    /// When the default is no such number.
    pub const fn decimal(key: &'static str, about: &'static str, (min, max): (u64, u64), default: &str) -> Axis {
        let Some(default) = billionths(default) else {
            panic!("the default is a number of at most nine decimal places")
        };
        Axis {
            key,
            about,
            kind: AxisKind::Decimal { min: min * BILLION, max: max * BILLION, default },
            items: false,
            scaling: None,
        }
    }

    /// The same as what counts the items of an execution: samples, images, sequences. Speeds are told in them, too.
    pub const fn items(self) -> Axis {
        Axis { items: true, ..self }
    }

    /// The same with a table along it. A workload has one such axis at most.
    pub const fn scaling(self, scaling: &'static Scaling) -> Axis {
        Axis { scaling: Some(scaling), ..self }
    }

    /// A choice between words.
    pub const fn word(key: &'static str, about: &'static str, options: &'static [&'static str]) -> Axis {
        Axis { key, about, kind: AxisKind::Word(options), items: false, scaling: None }
    }
}

/// Most elements of an array: their number is a constant of 32 bits in kernels, and positions stay within 32 bits even where a
/// grid reaches past the end.
pub const MOST_ELEMENTS: u64 = (1 << 32) - (1 << 20);

/// Whether kernels can count so many elements.
///
/// # Errors
/// With the reason why they cannot.
pub fn indexable(elements: u64) -> Result<(), String> {
    match elements <= MOST_ELEMENTS {
        true => Ok(()),
        false => Err(format!("kernels count elements in 32 bits: at most {MOST_ELEMENTS} of them")),
    }
}

/// What the product of all extents stays below: elements, bytes and operations are small multiples of parts of it, and
/// stay within 64 bits.
const MOST: u64 = 1 << 58;

/// Named extents (in elements) and options of one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    axes: &'static [Axis],
    /// Every extent, defaults filled in, in axis order.
    extents: Vec<(&'static str, u64)>,
    /// Every decimal in billionths, defaults filled in, in axis order.
    decimals: Vec<(&'static str, u64)>,
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

/// What a decimal is counted in.
const BILLION: u64 = 1_000_000_000;

/// A number with up to nine decimal places, in billionths: exact, where a float is not.
const fn billionths(text: &str) -> Option<u64> {
    let text = text.as_bytes();
    let (mut value, mut i, mut places) = (0u64, 0, None::<u32>);
    while i < text.len() {
        match (text[i], places) {
            (b'.', None) if i > 0 => places = Some(0),
            (digit @ b'0'..=b'9', _) => {
                let Some(tens) = value.checked_mul(10) else { return None };
                let Some(more) = tens.checked_add((digit - b'0') as u64) else { return None };
                value = more;
                places = match places {
                    Some(places) => Some(places + 1),
                    None => None,
                };
            }
            _ => return None,
        }
        i += 1;
    }
    let places = match places {
        Some(0) => return None,
        Some(places) => places,
        None => 0,
    };
    if text.is_empty() || places > 9 {
        return None;
    }
    value.checked_mul(10u64.pow(9 - places))
}

/// The shortest text of a number of billionths.
fn decimal(billionths: u64) -> String {
    let (whole, rest) = (billionths / BILLION, billionths % BILLION);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:09}").trim_end_matches('0').to_owned() }
}

impl Shape {
    /// The decimal called `key`.
    ///
    /// # Panics
    /// When the workload has no such axis: a slip in the workload's own code.
    pub fn decimal(&self, key: &str) -> f64 {
        let found = self.decimals.iter().find_map(|(k, v)| (*k == key).then_some(*v));
        // Both numbers are whole and below 2⁵³ for every value below nine million, and a division is rounded correctly.
        found.unwrap_or_else(|| panic!("shape has no decimal {key:?}")) as f64 / BILLION as f64
    }

    /// Every decimal, defaults filled in.
    pub fn decimals(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.decimals.iter().map(|(key, _)| (*key, self.decimal(key)))
    }

    /// Whether the option `word` was chosen.
    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Every extent, defaults filled in.
    pub fn extents(&self) -> &[(&'static str, u64)] {
        &self.extents
    }

    /// What the items of an execution are called, and how many there are, where an axis counts them.
    pub fn items(&self) -> Option<(&'static str, u64)> {
        let axis = self.axes.iter().find(|axis| axis.items)?;
        Some((axis.about, self[axis.key]))
    }

    /// Every chosen, non-empty option.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.words.iter().copied().filter(|w| !w.is_empty())
    }

    /// The axes whose values are no defaults, each with its value as a case string prints it.
    pub(super) fn stated(&self) -> impl Iterator<Item = (&'static Axis, String)> + '_ {
        let mut words = self.words.iter();
        self.axes.iter().filter_map(move |axis| {
            let value = match axis.kind {
                AxisKind::Word(_) => (*words.next().expect("one per word axis")).to_owned(),
                AxisKind::Decimal { default, .. } => {
                    let value = self.decimals.iter().find_map(|(k, v)| (*k == axis.key).then_some(*v));
                    let value = value.expect("one per decimal axis");
                    if value == default { String::new() } else { decimal(value) }
                }
                AxisKind::Optional { default, .. } if self[axis.key] == default => String::new(),
                AxisKind::SameAs(other) if self[axis.key] == self[other] => String::new(),
                _ => self[axis.key].to_string(),
            };
            (!value.is_empty()).then_some((axis, value))
        })
    }

    /// Parse the shape part of a case string for the given axes.
    pub fn parse(axes: &'static [Axis], text: &str) -> Result<Shape, CaseError> {
        let bad = |why: String| CaseError::Shape { shape: text.to_owned(), why, form: form(axes) };
        let mut numbers: Vec<(&str, &str)> = Vec::new();
        let mut words: Vec<&str> = Vec::new();
        for token in text.split(',').filter(|t| !t.is_empty()) {
            let digits = token.find(|c: char| c.is_ascii_digit()).unwrap_or(token.len());
            let (key, number) = token.split_at(digits);
            // A whole word comes first: `fp8` and `k3s2` are words where an axis has them.
            let is_word = |axis: &Axis| matches!(axis.kind, AxisKind::Word(options) if options.contains(&token));
            if number.is_empty() || axes.iter().any(is_word) {
                words.push(token);
                continue;
            }
            if billionths(number).is_none() && number.parse::<u64>().is_err() {
                return Err(bad(format!("`{token}` is not a name and a number")));
            }
            if numbers.iter().any(|(k, _)| *k == key) {
                return Err(bad(format!("`{key}` is given twice")));
            }
            numbers.push((key, number));
        }
        let mut shape = Shape { axes, extents: Vec::new(), decimals: Vec::new(), words: Vec::new() };
        for axis in axes {
            let given = numbers.iter().position(|(k, _)| *k == axis.key).map(|i| numbers.swap_remove(i).1);
            if let AxisKind::Decimal { min, max, default } = axis.kind {
                let value = given.map_or(Some(default), billionths).filter(|value| (min..=max).contains(value));
                let Some(value) = value else {
                    let (key, about, given) = (axis.key, axis.about, given.unwrap_or_default());
                    let range = format!("from {} to {}", decimal(min), decimal(max));
                    return Err(bad(format!(
                        "`{key}` ({about}) is {range} with at most nine decimal places, not {given}"
                    )));
                };
                shape.decimals.push((axis.key, value));
                continue;
            }
            let whole = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| bad(format!("`{}` ({}) is a whole number, not {text}", axis.key, axis.about)))
            };
            let given = given.map(whole).transpose()?;
            let (min, value) = match axis.kind {
                AxisKind::Decimal { .. } => unreachable!("taken above"),
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
        if !countable(shape.extents.iter().map(|(_, extent)| *extent)) {
            let named: Vec<String> = shape.extents.iter().map(|(key, extent)| format!("{key} = {extent}")).collect();
            return Err(bad(format!("the product of {} is beyond what can be counted in 64 bits", named.join(", "))));
        }
        Ok(shape)
    }
}

/// Whether what a problem of these extents has, and takes, can be counted. For a form's own extents, as an output's.
pub fn countable(extents: impl IntoIterator<Item = u64>) -> bool {
    let product = extents.into_iter().try_fold(1u64, |all, extent| all.checked_mul(extent.max(1)));
    product.is_some_and(|all| all < MOST)
}

/// Extents as people write a product.
pub(super) fn times(extents: &[u64]) -> String {
    extents.iter().map(u64::to_string).collect::<Vec<_>>().join("·")
}

/// The grammar of a shape, for error messages and `--help`.
pub fn form(axes: &[Axis]) -> String {
    let part = |axis: &Axis| match axis.kind {
        AxisKind::Extent { .. } => format!("{}N", axis.key),
        AxisKind::Optional { .. } | AxisKind::SameAs(_) => format!("[{}N]", axis.key),
        AxisKind::Decimal { .. } => format!("[{}N.N]", axis.key),
        AxisKind::Word(options) => {
            format!("[{}]", options.iter().filter(|o| !o.is_empty()).copied().collect::<Vec<_>>().join("|"))
        }
    };
    axes.iter().map(part).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |(axis, value): (&Axis, String)| match axis.kind {
            AxisKind::Word(_) => value,
            _ => format!("{}{value}", axis.key),
        };
        f.pad(&self.stated().map(part).collect::<Vec<_>>().join(","))
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
    #[error("unknown {what} `{given}`: {choices}")]
    Unknown {
        /// Which part.
        what: &'static str,
        /// What was written.
        given: String,
        /// The known names.
        choices: String,
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
    Err(CaseError::Unknown { what, given: given.to_owned(), choices: choices(given, names) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: &[Axis] = &[
        Axis::extent("k", "kernel"),
        Axis::optional("s", "stride", 1, 1),
        Axis::decimal("p", "dropped share", (0, 1), "0.1"),
        Axis::word("format", "storage", &["", "fp8", "k3s2"]),
    ];

    fn parse(text: &str) -> Result<Shape, String> {
        Shape::parse(AXES, text).map_err(|e| e.to_string())
    }

    #[test]
    fn decimals_are_exact_print_shortest_and_survive_a_round_trip() {
        for (text, value, canonical) in [
            ("k3", 0.1, "k3"),
            ("k3,p0.10", 0.1, "k3"),
            ("k3,p0.25", 0.25, "k3,p0.25"),
            ("k3,p1", 1.0, "k3,p1"),
            ("k3,p1.000", 1.0, "k3,p1"),
            ("p0.000000001,k3", 1e-9, "k3,p0.000000001"),
            ("k3,p0", 0.0, "k3,p0"),
        ] {
            let shape = parse(text).expect(text);
            assert_eq!(shape.decimal("p"), value, "{text}");
            assert_eq!(shape.to_string(), canonical, "{text}");
            assert_eq!(parse(canonical).as_ref(), Ok(&shape), "{text}");
        }
        assert_eq!(parse("k3").expect("valid").decimals().collect::<Vec<_>>(), [("p", 0.1)]);
    }

    #[test]
    fn words_with_digits_are_words_and_other_things_are_axes() {
        let shape = parse("k3,s2,k3s2").expect("valid");
        assert!(shape.has("k3s2") && shape["k"] == 3 && shape["s"] == 2);
        assert_eq!(shape.to_string(), "k3,s2,k3s2");
        assert!(parse("fp8,k3").expect("valid").has("fp8"));
    }

    #[test]
    fn mistakes_in_numbers_are_named() {
        for (text, part) in [
            ("k3,p1.5", "`p` (dropped share) is from 0 to 1 with at most nine decimal places, not 1.5"),
            ("k3,p0.1234567891", "is not a name and a number"),
            ("k3,p0.", "is not a name and a number"),
            ("k3,p0.1.2", "is not a name and a number"),
            ("k3.5", "`k` (kernel) is a whole number, not 3.5"),
            ("k3,fp9", "`fp9` means nothing here"),
            ("k4294967296,s4294967296", "the product of k = 4294967296, s = 4294967296 is beyond"),
            ("k18446744073709551615", "is beyond what can be counted in 64 bits"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
