//! Wrapping of text between words. Long words such as cases or paths are broken after `/` and `,`; longer names after
//! `_`.

use unicode_width::UnicodeWidthStr;

/// Characters after which text without blanks may be broken. No character is added, so that the joined pieces are the
/// original.
const JOINTS: [char; 2] = ['/', ','];

/// Character after which a name longer than any line may be broken.
const WITHIN_NAMES: char = '_';

/// Pairs that stay together: a figure and its unit, and a flag and its value.
const TOGETHER: [(&str, &str); 3] = [(" %", "\u{a0}%"), ("± ", "±\u{a0}"), ("--budget ", "--budget\u{a0}")];

/// Wraps text to lines of at most `width` columns. The second and later lines are indented beyond the first.
/// Unbreakable text stays whole and exceeds the width, because a truncated word could be mistaken for another.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let indent = indent + text.len() - text.trim_start_matches(' ').len();
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    let mut put = |piece: &str| {
        if used > 0 && used + piece.trim_end().width() > width {
            lines.push(" ".repeat(indent));
            used = indent;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(piece);
        }
        used += piece.width();
    };
    let fits = |piece: &str| piece.trim_end().width() + indent <= width;
    let joined = TOGETHER.iter().fold(text.to_owned(), |text, (apart, together)| text.replace(apart, together));
    for word in joined.split_inclusive(' ') {
        if fits(word) {
            put(word);
            continue;
        }
        for piece in word.split_inclusive(JOINTS) {
            match fits(piece) {
                true => put(piece),
                false => piece.split_inclusive(WITHIN_NAMES).for_each(&mut put),
            }
        }
    }
    let text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    TOGETHER.iter().fold(text, |text, (apart, together)| text.replace(together, apart))
}

/// Returns the width of a text: that of its widest line.
pub fn width(text: &str) -> usize {
    text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// Returns the minimum width of a text after wrapping.
pub fn narrowest(text: &str, indent: usize) -> usize {
    width(&wrap(text, 1, indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_within_cases() {
        const CASE: &str = "depthwise_conv2d/fwd/n8,c8,h128,k3,p1,nchw/f32";
        for (text, columns, want) in [
            ("a sentence of words", 80, "a sentence of words"),
            ("a sentence of words", 12, "a sentence\n  of words"),
            (CASE, 46, CASE),
            (CASE, 28, "depthwise_conv2d/fwd/n8,c8,\n  h128,k3,p1,nchw/f32"),
            (CASE, 1, "depthwise_\n  conv2d/\n  fwd/\n  n8,\n  c8,\n  h128,\n  k3,\n  p1,\n  nchw/\n  f32"),
            ("  a sentence of words", 12, "  a sentence\n    of words"),
            ("a precision of ± 1.00 %: it", 19, "a precision of\n  ± 1.00 %: it"),
            ("missed: `--budget 180` would", 18, "missed:\n  `--budget 180`\n  would"),
            ("显卡 显卡", 5, "显卡\n  显卡"),
            ("", 5, ""),
        ] {
            assert_eq!(wrap(text, columns, 2), want);
        }
        assert_eq!((narrowest(CASE, 2), width(CASE)), (10, 46));
    }

    #[test]
    fn nothing_is_lost_or_added() {
        let text =
            "after: resolution 1.08 %: matmul/fwd/m1024,n1024,k1024/f16/mma, matmul/fwd/m1024,n1024,k1024/bf16/mma";
        for columns in 1..120 {
            let broken = wrap(text, columns, 2);
            let bare = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(bare(&broken), bare(text), "{columns}");
            assert!(width(&broken) <= columns.max(narrowest(text, 2)), "{columns}: {broken}");
        }
    }
}
