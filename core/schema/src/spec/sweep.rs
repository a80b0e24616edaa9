//! Shapes of a preset with other extents: `c8xh128,c32xh256` is two changes of two extents each.

use super::SpecError;

/// Extents that change together, each with its key.
pub type Change = Vec<(String, String)>;

/// Parses a list of changes.
///
/// # Errors
/// A list with another syntax.
pub fn parse(list: &str) -> Result<Vec<Change>, SpecError> {
    let changes = list.split(',').map(change).collect::<Option<Vec<Change>>>();
    let wanted = "a list of extents with their letters, as in n1,n8 or c8xh128,c32xh256";
    changes.ok_or_else(|| SpecError::Number { key: "shape".to_owned(), value: list.to_owned(), wanted })
}

/// Parses `c8xh128` to its two extents. After a number the next `x` separates, so that keys may be letters such as `x`.
fn change(mut text: &str) -> Option<Change> {
    let mut change = Vec::new();
    loop {
        let (key, rest) = text.split_at(text.find(|c: char| c.is_ascii_digit())?);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, rest) = rest.split_at(end);
        if !key.chars().all(char::is_alphabetic) || key.is_empty() || change.iter().any(|(known, _)| known == key) {
            return None;
        }
        change.push((key.to_owned(), number.to_owned()));
        match rest.strip_prefix('x') {
            Some(more) => text = more,
            None if rest.is_empty() => return Some(change),
            None => return None,
        }
    }
}
