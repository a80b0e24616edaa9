//! Tokens of WGSL.

/// A token of WGSL, without white space and comments.
pub(super) type Token<'a> = &'a str;

/// Operators of more than one character. Longer ones come first.
const OPERATORS: [&str; 19] = [
    "<<=", ">>=", "->", "++", "--", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
];

/// Returns the tokens of a text, each with its first byte. Shifts are two tokens, because `>>` also ends templates.
pub(super) fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = if let Some(length) = blank(rest) {
            at += length;
            continue;
        } else if rest.starts_with(in_word) {
            word(rest)
        } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            operator.len()
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        all.push((at, &rest[..length]));
        at += length;
    }
    all
}

/// Length of a name or a number. The sign of an exponent belongs to its number.
fn word(rest: &str) -> usize {
    let mut end = 0;
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let number = rest.starts_with(|c: char| c.is_ascii_digit());
    for (at, c) in rest.char_indices() {
        let sign = number && !hexadecimal && "+-".contains(c) && rest[..at].ends_with(['e', 'E']);
        if !(in_word(c) || number && c == '.' || sign) {
            break;
        }
        end = at + c.len_utf8();
    }
    end
}

/// Length of the white space or the comment at the beginning.
fn blank(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    let length = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
    (length > 0).then_some(length)
}

/// Length of a block comment. They nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let two = rest.get(at..at + 2);
        match two {
            Some("/*") => depth += 1,
            Some("*/") => depth -= 1,
            _ => {}
        }
        at += if matches!(two, Some("/*" | "*/")) { 2 } else { rest[at..].chars().next().map_or(1, char::len_utf8) };
        if depth == 0 {
            break;
        }
    }
    at
}

pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_no_white_space_and_no_comments() {
        for (text, want) in [
            ("a+=b1++;", "a += b1 ++ ;"),
            ("x<=y&&z // rest\n!=0u", "x <= y && z != 0u"),
            ("1e-3f-4.5 - 0x1e+2", "1e-3f - 4.5 - 0x1e + 2"),
            ("a /* b /* c */ d */ e", "a e"),
            ("array<vec4<f32>>(é)", "array < vec4 < f32 > > ( é )"),
            ("a /* open é", "a"),
            ("", ""),
        ] {
            let all = tokens(text);
            assert_eq!(all.iter().map(|(_, token)| *token).collect::<Vec<_>>().join(" "), want);
            assert!(all.iter().all(|(at, token)| text[*at..].starts_with(token)), "{text}");
        }
    }
}
