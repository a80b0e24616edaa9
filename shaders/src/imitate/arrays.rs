//! Arrays in workgroup memory, as parts of buffers.

use crate::matrix::{arguments, closed};

/// A line that declares an array in workgroup memory, or waits for it, where that is a buffer; names and lengths are added to a list.
pub fn buffered(code: &str, arrays: &mut Vec<(String, String)>) -> Option<String> {
    // One barrier and not two: compilers of processors take a thread apart at each.
    if code.contains("workgroupBarrier()") {
        return Some(code.replace("workgroupBarrier()", "storageBarrier()"));
    }
    let (name, of) = code.strip_prefix("var<workgroup> ")?.split_once(": array<")?;
    let (inner, _) = closed(of, '<', '>')?;
    let [elem, length] = arguments(inner)[..] else { return None };
    // Others than plain numbers stay where they are.
    if elem.starts_with("atomic<") {
        return None;
    }
    arrays.push((name.to_owned(), length.to_owned()));
    Some(format!("@group(1) @binding({}) var<storage, read_write> {name}: array<{elem}>;", arrays.len()))
}

/// A text with elements of an array counted from where the workgroup's own begin.
pub fn within(text: &str, array: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&format!("{array}[")) {
        let (before, found) = rest.split_at(at);
        let inner = &found[array.len() + 1..];
        all += before;
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        match closed(inner, '[', ']').filter(|_| !all.ends_with(part)) {
            Some((index, behind)) => {
                all += &format!("{array}[{array}_from + ({})]", within(index, array));
                rest = behind;
            }
            None => {
                all += &found[..array.len() + 1];
                rest = inner;
            }
        }
    }
    all + rest
}
