//! Which cases a filter keeps.

/// Whether `pattern` occurs in `text`, `*` standing for any run of characters.
pub fn keeps(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}
