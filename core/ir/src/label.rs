//! Readable label of a problem, from its workload's name and axes: *Attention · batch 1, 8 heads, 512 queries, head dim 64 ·
//! f16*.

use parallax_schema::case::{Direction, title};

use super::{Axis, AxisKind, Problem, Shape};

impl Problem {
    /// Returns its readable label.
    pub fn label(&self) -> String {
        let direction = match self.direction {
            Direction::Fwd => "",
            Direction::Bwd => ", backward",
            Direction::FwdBwd => ", forward and backward",
        };
        format!("{}{direction} · {} · {}", title(self.workload.name), self.shape.label(), self.dtype.name())
    }
}

impl Shape {
    /// Returns a label of its axes, without those that have their default.
    pub fn label(&self) -> String {
        let part = |(axis, value): (&Axis, String)| match axis.kind {
            AxisKind::Word(_) => value.replace('_', " "),
            AxisKind::Decimal { .. } => format!("{} {value}", short(axis.about)),
            _ => counted(self[axis.key], short(axis.about)),
        };
        self.stated().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// First words of an axis' description, up to a comma.
fn short(about: &str) -> &str {
    about.split(',').next().unwrap_or(about)
}

/// Number with its noun: *8 heads*, and *stride 2*.
fn counted(number: u64, about: &str) -> String {
    // The noun is the last word, or precedes a complement: *input channels*, *rows a table*.
    let first = about.split_once(' ').map_or(about, |(first, _)| first);
    let (noun, rest) = if first.ends_with('s') { about.split_at(first.len()) } else { (about, "") };
    match (noun.ends_with('s'), number) {
        (true, 1) => format!("1 {}{rest}", singular(noun)),
        (true, _) => format!("{} {noun}{rest}", grouped(number)),
        (false, _) => format!("{noun} {}", grouped(number)),
    }
}

/// Singular of a noun: *head* of *heads*, *batch* of *batches*.
fn singular(noun: &str) -> &str {
    let long = noun.strip_suffix("es").filter(|stem| stem.ends_with("ch") || stem.ends_with("ss"));
    long.or_else(|| noun.strip_suffix('s')).unwrap_or(noun)
}

/// Whole number, in groups of three digits if it has at least five.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
