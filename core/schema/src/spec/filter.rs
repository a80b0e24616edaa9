//! Filters of cases.
//!
//! A case string consists of segments, separated by `/` and `,`: `attention`, `fwd`, `b1`, `h8`, … A pattern keeps a case
//! if it matches a substring that begins and ends between segments. Its words are therefore whole segments: `conv2d` does not
//! keep `depthwise_conv2d/…`.
//!
//! `*` stands for any run of characters, including separators and the empty run. `*conv2d` keeps `depthwise_conv2d/…`.
//! `attention*flash` keeps a case that begins with the segment `attention` and has a segment `flash` after it. `s5*` keeps every
//! extent `s` that begins with a 5.
//!
//! A pattern may contain separators (`f16/flash`, `b1,h8`) and may begin or end with one (`attention/`). The empty pattern keeps
//! everything.

/// Separators between the segments of a case string.
const SEPARATORS: [u8; 2] = *b"/,";

/// Whether any of several patterns keeps a case string; no pattern keeps every case.
pub fn any_keeps<P: AsRef<str>>(patterns: &[P], case: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| keeps(pattern.as_ref(), case))
}

/// Whether a pattern keeps a case string.
pub fn keeps(pattern: &str, case: &str) -> bool {
    let mut words = pattern.split('*');
    let first = words.next().expect("splitting gives one part at least");
    let rest: Vec<&str> = words.collect();
    let begins = (0..=case.len()).filter(|at| between(case, *at) && case[*at..].starts_with(first));
    match rest.split_last() {
        None => begins.map(|at| at + first.len()).any(|end| between(case, end)),
        // The first place leaves the longest rest for the other words, so no later place need be tried.
        Some((last, middle)) => {
            begins.map(|at| at + first.len()).next().is_some_and(|end| follow(case, end, middle, last))
        }
    }
}

/// Whether the words occur in order from a place on, the last one up to the end of a segment.
fn follow(case: &str, mut from: usize, middle: &[&str], last: &str) -> bool {
    for word in middle {
        match case[from..].find(word) {
            Some(at) => from += at + word.len(),
            None => return false,
        }
    }
    (from..=case.len())
        .any(|at| case.is_char_boundary(at) && case[at..].starts_with(last) && between(case, at + last.len()))
}

/// Whether a place is the beginning, the end, or on either side of a separator.
fn between(case: &str, at: usize) -> bool {
    let separator = |i: usize| case.as_bytes().get(i).is_some_and(|b| SEPARATORS.contains(b));
    at == 0 || at == case.len() || separator(at) || separator(at - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: &str = "attention/fwd/b1,h8,s512,d64/f16/flash";
    const CONV: &str = "depthwise_conv2d/fwd/n1,c2,h5,k3,p1,nhwc/f32/tiled";

    #[test]
    fn words_are_whole_segments() {
        for (pattern, case, kept) in [
            ("", FLASH, true),
            ("*", FLASH, true),
            ("attention", FLASH, true),
            ("attention/", FLASH, true),
            ("/flash", FLASH, true),
            ("attention/*flash", FLASH, true),
            ("attention*flash", FLASH, true),
            ("attention*f16*flash", FLASH, true),
            ("f16/flash", FLASH, true),
            ("b1,h8", FLASH, true),
            ("h8,s512,d64/f16", FLASH, true),
            (FLASH, FLASH, true),
            ("s5*", FLASH, true),
            ("*64", FLASH, true),
            ("atten*", FLASH, true),
            ("d64*s512", FLASH, false),
            ("flash*attention", FLASH, false),
            ("atten", FLASH, false),
            ("tention", FLASH, false),
            ("s51", FLASH, false),
            ("16/flash", FLASH, false),
            ("f16/fla", FLASH, false),
            ("b1,s512", FLASH, false),
            ("attention*fla", FLASH, false),
            ("fwd*fwd", FLASH, false),
            ("flash*flash", FLASH, false),
            ("conv2d", CONV, false),
            ("*conv2d", CONV, true),
            ("depthwise*", CONV, true),
            ("depthwise_conv2d", CONV, true),
            ("*conv2d*tiled", CONV, true),
            ("*conv2d*til", CONV, false),
            ("nhwc", CONV, true),
            ("é*tiled", CONV, false),
            ("a", "é/a", true),
            ("*a", "éa/é", true),
        ] {
            assert_eq!(keeps(pattern, case), kept, "{pattern} on {case}");
        }
    }
}
