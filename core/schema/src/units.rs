//! Quantities with their units, and all formatting of numbers for people.
//!
//! Prefixes are decimal everywhere: a gigabyte is 10⁹ bytes. Storage stays exact; only `Display` rounds.

use core::time::Duration;
use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Duration or instant on a clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Nanos(pub f64);

/// Size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Number of floating-point operations; a fused multiply-add counts as two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Flops(pub u64);

/// Returns a fragment as a sentence, with an initial capital and a final full stop. An empty fragment stays empty.
pub fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    match letters.next() {
        Some(first) if fragment.ends_with('.') => first.to_uppercase().chain(letters).collect(),
        Some(first) => first.to_uppercase().chain(letters).chain(['.']).collect(),
        None => String::new(),
    }
}

/// Returns a string for a message. Up to `most` characters it is whole; a longer one keeps its beginning and its end, in equal
/// parts.
pub fn brief(text: &str, most: usize) -> Cow<'_, str> {
    let places = |from: usize| text.char_indices().nth(from).map(|(at, _)| at);
    if places(most).is_none() {
        return Cow::Borrowed(text);
    }
    let half = most / 2;
    let end = text.char_indices().rev().nth(half.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{} … {}", &text[..places(half).unwrap_or(0)], &text[end..]))
}

/// Returns a number with its noun: *1 case*, *2 cases*.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns the greatest common divisor. `gcd(0, n)` is `n`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Nanos {
    /// Converts from seconds.
    pub fn from_secs(seconds: f64) -> Self {
        Nanos(seconds * 1e9)
    }

    /// Returns the value in seconds.
    pub fn secs(self) -> f64 {
        self.0 * 1e-9
    }

    /// Returns the time as a [`Duration`]. Negative values and NaN give zero; a value too large gives the longest duration.
    pub fn duration(self) -> Duration {
        let none = self.0.is_nan() || self.0 <= 0.0;
        Duration::try_from_secs_f64(self.secs()).unwrap_or(if none { Duration::ZERO } else { Duration::MAX })
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl std::ops::Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Bytes {
    /// Returns the throughput for a transfer of this size in `time`, in bytes per second.
    pub fn per(self, time: Nanos) -> f64 {
        self.0 as f64 / time.secs()
    }
}

impl Flops {
    /// Returns the rate for this number of operations in `time`, in operations per second.
    pub fn per(self, time: Nanos) -> f64 {
        self.0 as f64 / time.secs()
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.abs() {
            t if t < 1e3 => (self.0, "ns"),
            t if t < 1e6 => (self.0 / 1e3, "µs"),
            t if t < 1e9 => (self.0 / 1e6, "ms"),
            _ => (self.0 / 1e9, "s"),
        };
        f.pad(&format!("{} {unit}", three_digits(value)))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 as f64, "B"))
    }
}

impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 as f64, "FLOP"))
    }
}

/// Returns a value with a decimal prefix: `scaled(3.69e12, "B/s")` is `3.69 TB/s`.
pub fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut step = 0;
    while value.abs() >= 999.5 && step + 1 < PREFIXES.len() {
        value /= 1000.0;
        step += 1;
    }
    format!("{} {}{unit}", three_digits(value), PREFIXES[step])
}

/// Returns about three significant digits, without an exponent.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.0995 => format!("{value:.3}"),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns four significant digits, for scores.
pub fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let first = value.abs().log10().floor() as i32;
    format!("{value:.*}", (3 - first).clamp(0, 9) as usize)
}

/// Rounds a number to `digits` significant digits. The error is at most half of the last digit.
pub fn significant(value: f64, digits: usize) -> f64 {
    // The conversion goes through the decimal string, so that a file gives back exactly this value.
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// Returns a fraction as a percentage: `percent(0.0123)` is `1.23 %`.
pub fn percent(fraction: f64) -> String {
    format!("{} %", three_digits(fraction * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_become_sentences_once() {
        for (fragment, whole) in
            [("it waits", "It waits."), ("Done.", "Done."), ("`a` is faster", "`a` is faster."), ("", "")]
        {
            assert_eq!(sentence(fragment), whole);
        }
    }

    #[test]
    fn long_texts_are_quoted_by_their_ends() {
        for (text, most, want) in [
            ("", 4, ""),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "ab … de"),
            ("ä显🂡éz", 4, "ä显 … éz"),
            ("abcdef", 5, "ab … ef"),
        ] {
            assert_eq!(brief(text, most), want);
        }
    }

    #[test]
    fn any_number_of_nanoseconds_is_a_duration() {
        for (nanos, duration) in [
            (1.5e9, Duration::from_millis(1500)),
            (0.0, Duration::ZERO),
            (-1.0, Duration::ZERO),
            (f64::NEG_INFINITY, Duration::ZERO),
            (f64::NAN, Duration::ZERO),
            (1e300, Duration::MAX),
            (f64::INFINITY, Duration::MAX),
        ] {
            assert_eq!(Nanos(nanos).duration(), duration, "{nanos}");
        }
    }

    #[test]
    fn quantities_print_with_three_digits_and_a_unit() {
        let cases = [
            (Nanos(0.0).to_string(), "0 ns"),
            (Nanos(12.34).to_string(), "12.3 ns"),
            (Nanos(999.0).to_string(), "999 ns"),
            (Nanos(65_536.0).to_string(), "65.5 µs"),
            (Nanos(1.5e6).to_string(), "1.50 ms"),
            (Nanos(-2e9).to_string(), "-2.00 s"),
            (Bytes(999).to_string(), "999 B"),
            (Bytes(1_000).to_string(), "1.00 kB"),
            (Bytes(3_690_000_000_000).to_string(), "3.69 TB"),
            (Flops(999_999).to_string(), "1.00 MFLOP"),
            (scaled(Bytes(4_000).per(Nanos(1.0)), "B/s"), "4.00 TB/s"),
            (percent(0.0123), "1.23 %"),
        ];
        for (got, want) in cases {
            assert_eq!(got, want);
        }
    }
}
