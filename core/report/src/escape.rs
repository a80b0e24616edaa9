//! Escapes of foreign strings, such as the name that a driver or a run file gives a device.
//!
//! Control characters command terminals. Characters that change the direction of writing make a line look like another. Both are
//! shown as their code, as in `\u{1b}`: in text, Markdown and CSV. The same holds in HTML and SVG, which escape their markup as a
//! whole. XML cannot represent most of them.

use std::borrow::Cow;

/// Returns whether a character is not plainly visible. These are controls, ends of lines and paragraphs, the marks of Unicode's
/// `Bidi_Control`, and the deprecated ones beside them. The two noncharacters that XML refuses count too.
fn acts(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns the string on one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_but(text, &[])
}

/// Returns the string with its own line breaks and tabs.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_but(text, &['\n', '\t'])
}

fn escape_but<'a>(text: &'a str, meant: &[char]) -> Cow<'a, str> {
    let hidden = |c: char| acts(c) && !meant.contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if hidden(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Returns a field of a spreadsheet. A string that begins like a formula gets a quote, because spreadsheets evaluate it. Numbers
/// stay.
pub fn escape_field(text: &str) -> Cow<'_, str> {
    let text = escape(text);
    let formula = text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    if formula && text.parse::<f64>().is_err() { Cow::Owned(format!("'{text}")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_and_all_else_stays() {
        for (text, want) in [
            ("NVIDIA H100 80GB HBM3 (Größe 2×, 显卡)", "NVIDIA H100 80GB HBM3 (Größe 2×, 显卡)"),
            ("\u{1b}]0;owned\u{7}", r"\u{1b}]0;owned\u{7}"),
            ("\u{9b}31m\u{7f}\0", r"\u{9b}31m\u{7f}\u{0}"),
            ("a\u{202e}b\u{2066}c\u{200f}d\u{61c}", r"a\u{202e}b\u{2066}c\u{200f}d\u{61c}"),
            ("a\nb\r\tc\u{2028}", r"a\nb\r\tc\u{2028}"),
            ("\u{206a}\u{fffe}\u{ffff}", r"\u{206a}\u{fffe}\u{ffff}"),
        ] {
            assert_eq!(escape(text), want);
        }
        assert_eq!(escape_lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn formulas_become_text_and_numbers_stay() {
        for (text, want) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-0.25", "-0.25"),
            ("-1e-7", "-1e-7"),
            ("a=b", "a=b"),
            ("\t=1", r"\t=1"),
        ] {
            assert_eq!(escape_field(text), want);
        }
    }
}
