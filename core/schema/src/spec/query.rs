//! Settings in a URL query: parsing and writing of pairs.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters of a value that have another meaning in a query.
const SPECIAL: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'+').add(b'<').add(b'>');

/// Returns the (key, value) pairs of a query, with or without its question mark.
pub fn read(query: &str) -> Vec<(String, String)> {
    let parts = query.strip_prefix('?').unwrap_or(query).split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// Returns the query of pairs, without a question mark. Case strings stay readable in it.
///
/// Keys are written unescaped: they are names of settings.
pub fn write<V: AsRef<str>>(pairs: &[(&str, V)]) -> String {
    let part = |(key, value): &(&str, V)| format!("{key}={}", utf8_percent_encode(value.as_ref(), SPECIAL));
    pairs.iter().map(part).collect::<Vec<_>>().join("&")
}

/// Decodes a value. A plus stays a plus: directions have it (`fwd+bwd`). An HTML form would mean a space, which no setting has.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_through_a_query() {
        let pairs = [("filter", "a*b & 100 % + # \"<>\" é ="), ("case", "attention/fwd/b1,h1,s1,d1/f32/flash")];
        let query = write(&pairs);
        assert!(query.ends_with("&case=attention/fwd/b1,h1,s1,d1/f32/flash"), "{query}");
        let back = read(&format!("?{query}"));
        assert_eq!(back, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_no_pair_is_a_key_without_a_value() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            read("?a&&b=1=2&=x&%zz=%ff&direction=fwd+bwd"),
            [pair("a", ""), pair("b", "1=2"), pair("", "x"), pair("%zz", "\u{fffd}"), pair("direction", "fwd+bwd")]
        );
        assert_eq!(read(""), []);
    }
}
