//! Contents of files that are given as runs. Their first bytes decide how each is decoded.

use std::borrow::Cow;

/// Number of bytes at the beginning of a file that show its kind.
pub const HEAD: usize = 1024;

/// Keys, one of which is among the first of a trace in Chrome's format; no run has any of them.
const TRACE_KEYS: [&str; 4] = ["traceEvents", "deviceProperties", "displayTimeUnit", "systemTraceEvents"];

/// Whether bytes are compressed with gzip (RFC 1952, section 2.3.1).
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Decodes a file. It is UTF-16 if it begins with the byte-order mark of UTF-16, or with an ASCII letter in two bytes, and UTF-8
/// otherwise.
/// The mark is removed, and invalid bytes become U+FFFD: a truncated file may end within a letter.
pub fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    };
    match bytes {
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8_lossy(text),
        [0xff, 0xfe, text @ ..] => utf16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => utf16(text, u16::from_be_bytes),
        [1..=0x7f, 0, ..] => utf16(bytes, u16::from_le_bytes),
        [0, 1..=0x7f, ..] => utf16(bytes, u16::from_be_bytes),
        text => String::from_utf8_lossy(text),
    }
}

/// Whether JSON begins like a trace in Chrome's format: an object with one of its keys, or a list of events. Only the first
/// [`HEAD`] bytes are read.
pub fn is_trace(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let list = text.starts_with('[');
    let mut keys = keys(&text.as_bytes()[..text.len().min(HEAD)]);
    keys.any(|(depth, key)| match (list, depth) {
        (false, 1) => TRACE_KEYS.iter().any(|known| known.as_bytes() == key),
        (true, 2) => key == b"ph",
        _ => false,
    })
}

/// Returns the keys of JSON, each with the number of objects and lists around it; of truncated JSON, those before the end.
fn keys(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let (mut at, mut depth) = (0, 0usize);
    std::iter::from_fn(move || {
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let from = at;
                    while !matches!(text.get(at), None | Some(b'"')) {
                        at += if text[at] == b'\\' { 2 } else { 1 };
                    }
                    let string = text.get(from..at)?;
                    at += 1;
                    let after = text.get(at..)?.iter().find(|byte| !byte.is_ascii_whitespace());
                    if after == Some(&b':') {
                        return Some((depth, string));
                    }
                }
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ReadError, Run};
    use crate::testing::run;

    /// Returns a run with a name of one-, two-, three- and four-byte letters.
    fn named() -> Run {
        run("cuda", "Größe 显卡 🂡", &[])
    }

    #[test]
    fn a_text_is_decoded_as_its_first_bytes_say() {
        let text = serde_json::to_string(&named()).expect("JSON");
        let units = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let (little, big) = (units(u16::to_le_bytes), units(u16::to_be_bytes));
        for (form, bytes) in [
            ("UTF-8", text.as_bytes().to_vec()),
            ("UTF-8 with a mark", [&[0xef, 0xbb, 0xbf], text.as_bytes()].concat()),
            ("UTF-16LE", [&[0xff, 0xfe], &little[..]].concat()),
            ("UTF-16BE", [&[0xfe, 0xff], &big[..]].concat()),
            ("UTF-16LE without a mark", little),
            ("UTF-16BE without a mark", big),
        ] {
            assert_eq!(decoded(&bytes), text, "{form}");
            assert_eq!(Run::parse(&decoded(&bytes)).expect(form), named(), "{form}");
        }
        assert_eq!(decoded(&[0xff, 0xfe, b'a', 0, 0x3d, 0xd8, b'b']), "a\u{fffd}", "half a letter, and half of a half");
        assert_eq!(decoded(b"a\xff"), "a\u{fffd}");
        assert_eq!(decoded(b""), "");
    }

    #[test]
    fn traces_are_known_by_their_first_kilobyte_and_runs_are_none() {
        let ours = "{\"schemaVersion\":1,\"traceEvents\":[";
        let spaced = format!("\u{feff}\n {ours}");
        let listed = r#"[ {"name": "a", "ph": "X", "ts": 1}"#;
        for text in [ours, &spaced, listed, r#"{"traceEvents":[]}"#] {
            assert!(is_trace(text), "{text:.200}");
            assert!(matches!(Run::parse(text), Err(ReadError::Trace)), "{text:.200}");
        }
        let hostile = run("\"traceEvents\":", "{\"traceEvents\":[", &[]);
        let text = serde_json::to_string(&hostile).expect("JSON");
        let list = format!("[{text}]");
        for text in [&text, &list, "", "{", "[", "\"", "\"\\", r#"{"a":{"traceEvents":1}}"#, r#"["traceEvents", "ph"]"#]
        {
            assert!(!is_trace(text), "{text:.200}");
        }
        let late = format!("{{\"a\":\"{}\",\"traceEvents\":[]}}", "x".repeat(HEAD));
        assert!(!is_trace(&late), "no more than the beginning is looked at");
    }
}
