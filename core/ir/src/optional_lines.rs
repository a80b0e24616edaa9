//! Parts of lines for some stages only, in kernel sources of both languages.
//!
//! `code //+ NAME: more` has `more` behind the code if the stage has the constant `NAME` and it is not false.
//! `code //= NAME: other` has `other` in place of the code. A stage without the constant has the code alone: its source is the
//! same as without the parts. Lines keep their numbers.

use std::borrow::Cow;

use super::{Consts, Value};

/// Marks of an addition and of a replacement.
const MARKS: [&str; 2] = ["//+ ", "//= "];

/// Returns a file's lines for a stage with these constants.
pub fn lines_for(text: Cow<'static, str>, consts: &Consts) -> Cow<'static, str> {
    if next_mark(&text).is_none() {
        return text;
    }
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        lines += &line_for(line, consts);
        lines.push('\n');
    }
    lines.into()
}

/// Position of the first mark.
fn next_mark(text: &str) -> Option<usize> {
    MARKS.iter().filter_map(|mark| text.find(mark)).min()
}

fn line_for<'a>(line: &'a str, consts: &Consts) -> Cow<'a, str> {
    let Some(first) = next_mark(line) else { return line.into() };
    let (code, mut parts) = line.split_at(first);
    let mut code = code.trim_end().to_owned();
    while !parts.is_empty() {
        let (mark, rest) = parts.split_at(MARKS[0].len());
        let (part, others) = rest.split_at(next_mark(rest).unwrap_or(rest.len()));
        parts = others;
        let Some((_, more)) = part.split_once(':').filter(|(name, _)| holds(name.trim(), consts)) else { continue };
        if mark == MARKS[1] {
            code.truncate(code.len() - code.trim_start().len());
        } else {
            code.push(' ');
        }
        code += more.trim();
    }
    code.into()
}

/// Returns whether the constant exists and is not false.
fn holds(name: &str, consts: &Consts) -> bool {
    consts.iter().rev().find(|(known, _)| *known == name).is_some_and(|(_, value)| !matches!(value, Value::Bool(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_lines_follow_the_constants() {
        let text =
            "a(\n    x) { //+ CAP: y = cap(x);\n  z = x; // plain\n  b //= CAP: c //+ SINKS: d\n\n//+ SINKS: e\n";
        for (consts, want) in [
            (vec![], "a(\n    x) {\n  z = x; // plain\n  b\n\n\n"),
            (vec![("CAP", Value::F32(2.0))], "a(\n    x) { y = cap(x);\n  z = x; // plain\n  c\n\n\n"),
            (
                vec![("CAP", Value::Bool(false)), ("SINKS", Value::Bool(true))],
                "a(\n    x) {\n  z = x; // plain\n  b d\n\n e\n",
            ),
            (
                vec![("CAP", Value::Bool(true)), ("SINKS", Value::U32(1))],
                "a(\n    x) { y = cap(x);\n  z = x; // plain\n  c d\n\n e\n",
            ),
        ] {
            assert_eq!(lines_for(text.into(), &consts), want, "{consts:?}");
        }
        assert!(matches!(lines_for("plain // text".into(), &Vec::new()), Cow::Borrowed(_)));
    }
}
