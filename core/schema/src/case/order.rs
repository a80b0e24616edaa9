//! Order of cases in tables: by workload, then direction, shape, element type and variant.

use std::cmp::Ordering;

/// Piece of a name: a number, or the characters between two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    /// Digits: their number without leading zeros, and themselves.
    Number(usize, &'a str),
    /// Other characters.
    Text(&'a str),
}

/// Splits a name into pieces.
fn pieces(name: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let number = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != number).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        let digits = piece.trim_start_matches('0');
        Some(if number { Piece::Number(digits.len(), digits) } else { Piece::Text(piece) })
    })
}

/// Compares two cases or problems part by part. Numbers in them compare by value.
pub fn by_case(a: &str, b: &str) -> Ordering {
    let part = |(a, b): (&str, &str)| pieces(a).cmp(pieces(b));
    let parts = a.split('/').zip(b.split('/')).map(part).find(|order| order.is_ne());
    parts.unwrap_or_else(|| a.split('/').count().cmp(&b.split('/').count())).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_in_the_order_of_their_parts_and_numbers_by_value() {
        let ordered = [
            "",
            "attention/fwd/b1,h8,s64,d64/f16/flash",
            "attention/fwd/b1,h8,s512,d64/f16/flash",
            "attention/fwd/b1,h8,s512,d64/f16/manual",
            "attention/fwd/b1,h8,s512,d64/f32/flash",
            "attention/fwd/b1,h16,s64,d64/f16/flash",
            "attention_block/fwd/b1/f16/x",
            "copy/fwd/n64/f32",
            "copy/fwd/n64/f32/vec4",
            "copy/fwd/n128/f32",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(by_case(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(by_case("a/1/x", "a/01/x"), Ordering::Greater, "equal numbers fall back to their text");
    }
}
