//! Axes, shapes, and the parser of the shape part of a case string.

use std::fmt;

use parallax_schema::case::CaseError;

use super::Scaling;

/// Part of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Letters before the number (`h` in `h8`). For options only a label in the documentation.
    pub key: &'static str,
    /// Description for readers.
    pub about: &'static str,
    /// Kind of value: number or word.
    pub kind: AxisKind,
    /// Whether it counts the items of an execution. `about` then names them in the plural.
    pub items: bool,
    /// Table of times along it, if any.
    pub scaling: Option<&'static Scaling>,
}

/// Values of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisKind {
    /// Number of elements, required.
    Extent {
        /// Smallest legal value.
        min: u64,
    },
    /// Number that is left out of the string at its default.
    Optional {
        /// Smallest legal value.
        min: u64,
        /// Value when it is left out.
        default: u64,
    },
    /// Number that is left out of the string if it equals an earlier axis.
    SameAs(&'static str),
    /// Number with up to nine decimal places, left out of the string at its default. Bounds are in billionths. A probability, a
    /// slope, a factor.
    Decimal {
        /// Smallest legal value, in billionths.
        min: u64,
        /// Largest legal value, in billionths.
        max: u64,
        /// Value when it is left out, in billionths.
        default: u64,
    },
    /// One of several words. The first is the default, and an empty word prints as nothing.
    Word(&'static [&'static str]),
}

impl Axis {
    /// Returns a required extent of at least one element.
    pub const fn extent(key: &'static str, about: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::Extent { min: 1 }, items: false, scaling: None }
    }

    /// Returns an extent with a default.
    pub const fn optional(key: &'static str, about: &'static str, min: u64, default: u64) -> Axis {
        Axis { key, about, kind: AxisKind::Optional { min, default }, items: false, scaling: None }
    }

    /// Returns an extent of at least one element that defaults to an earlier one.
    pub const fn same_as(key: &'static str, about: &'static str, other: &'static str) -> Axis {
        Axis { key, about, kind: AxisKind::SameAs(other), items: false, scaling: None }
    }

    /// Returns a number with decimal places between two whole numbers. The default is written as it prints, as in `0.1`.
    ///
    /// # Panics
    /// Default that is no such number.
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

    /// Marks an axis that counts the items of an execution: samples, images, sequences. Speeds are also shown per item.
    pub const fn items(self) -> Axis {
        Axis { items: true, ..self }
    }

    /// Adds a table along the axis. A workload has at most one such axis.
    pub const fn scaling(self, scaling: &'static Scaling) -> Axis {
        Axis { scaling: Some(scaling), ..self }
    }

    /// Returns a choice between words.
    pub const fn word(key: &'static str, about: &'static str, options: &'static [&'static str]) -> Axis {
        Axis { key, about, kind: AxisKind::Word(options), items: false, scaling: None }
    }
}

/// Largest number of elements of an array. Kernels have it as a 32-bit constant. Positions stay within 32 bits even if a grid
/// exceeds the end.
pub const MOST_ELEMENTS: u64 = (1 << 32) - (1 << 20);

/// Checks whether kernels can count this number of elements.
///
/// # Errors
/// Reason why they cannot.
pub fn indexable(elements: u64) -> Result<(), String> {
    match elements <= MOST_ELEMENTS {
        true => Ok(()),
        false => Err(format!("kernels count elements in 32 bits: at most {MOST_ELEMENTS} of them")),
    }
}

/// Exclusive upper bound of the product of all extents. Elements, bytes and operations are small multiples of parts of it, and
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

    /// Returns the extent with this key.
    ///
    /// # Panics
    /// Unknown axis: a mistake in the workload's code.
    #[inline]
    fn index(&self, key: &str) -> &u64 {
        self.extents.iter().find_map(|(k, v)| same(k, key).then_some(v)).unwrap_or_else(|| no_extent(key))
    }
}

/// Whether two keys are equal. Inlined for a literal of one or two letters, it is far cheaper than a call that compares memory.
/// References look extents up once per element.
#[inline]
fn same(key: &str, other: &str) -> bool {
    key.len() == other.len() && key.bytes().zip(other.bytes()).all(|(a, b)| a == b)
}

#[cold]
fn no_extent(key: &str) -> ! {
    panic!("shape has no extent {key:?}")
}

/// Denominator of decimals.
const BILLION: u64 = 1_000_000_000;

/// Parses a number with up to nine decimal places, in billionths. The result is exact, unlike a float.
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

/// Shortest decimal string of a number of billionths.
fn decimal(billionths: u64) -> String {
    let (whole, rest) = (billionths / BILLION, billionths % BILLION);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:09}").trim_end_matches('0').to_owned() }
}

impl Shape {
    /// Returns the decimal with this key.
    ///
    /// # Panics
    /// Unknown axis: a mistake in the workload's code.
    pub fn decimal(&self, key: &str) -> f64 {
        let found = self.decimals.iter().find_map(|(k, v)| same(k, key).then_some(*v));
        // Both numbers are whole and below 2⁵³ for every value below nine million, and a division is rounded correctly.
        found.unwrap_or_else(|| panic!("shape has no decimal {key:?}")) as f64 / BILLION as f64
    }

    /// Returns all decimals, with defaults.
    pub fn decimals(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.decimals.iter().map(|(key, _)| (*key, self.decimal(key)))
    }

    /// Returns whether the option `word` was chosen.
    #[inline]
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|chosen| same(chosen, word))
    }

    /// Returns all extents, with defaults.
    pub fn extents(&self) -> &[(&'static str, u64)] {
        &self.extents
    }

    /// Returns the noun for the items of an execution and their number, if an axis counts them.
    pub fn items(&self) -> Option<(&'static str, u64)> {
        let axis = self.axes.iter().find(|axis| axis.items)?;
        Some((axis.about, self[axis.key]))
    }

    /// Returns the chosen options that are not empty.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.words.iter().copied().filter(|w| !w.is_empty())
    }

    /// Returns the axes without default values, each with its value as printed in a case string.
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

    /// Parses the shape part of a case string for the given axes.
    pub fn parse(axes: &'static [Axis], text: &str) -> Result<Shape, CaseError> {
        let bad = |why: String| CaseError::Shape { shape: text.to_owned(), why, form: form(axes) };
        let mut numbers: Vec<(&str, &str)> = Vec::new();
        let mut words: Vec<&str> = Vec::new();
        for token in text.split(',').filter(|t| !t.is_empty()) {
            let digits = token.find(|c: char| c.is_ascii_digit()).unwrap_or(token.len());
            let (key, number) = token.split_at(digits);
            // A whole word has precedence: `fp8` and `k3s2` are words if an axis has them.
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
            return Err(bad(format!("`{stray}` has no meaning here")));
        }
        if !countable(shape.extents.iter().map(|(_, extent)| *extent)) {
            let named: Vec<String> = shape.extents.iter().map(|(key, extent)| format!("{key} = {extent}")).collect();
            return Err(bad(format!("the product of {} is too large for 64 bits", named.join(", "))));
        }
        Ok(shape)
    }
}

/// Returns whether elements and operations of a problem with these extents are countable. For a specification's own extents, as
/// an output's.
pub fn countable(extents: impl IntoIterator<Item = u64>) -> bool {
    let product = extents.into_iter().try_fold(1u64, |all, extent| all.checked_mul(extent.max(1)));
    product.is_some_and(|all| all < MOST)
}

/// Formats extents as a product.
pub(super) fn times(extents: &[u64]) -> String {
    extents.iter().map(u64::to_string).collect::<Vec<_>>().join("·")
}

/// Returns the grammar of a shape, for error messages and `--help`.
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
            ("k3,fp9", "`fp9` has no meaning here"),
            ("k4294967296,s4294967296", "the product of k = 4294967296, s = 4294967296 is too large"),
            ("k18446744073709551615", "is too large for 64 bits"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
