//! Arrays in workgroup memory, as ranges of buffers.

use crate::matrix::{arguments, closed};

/// Converts a declaration or a barrier of workgroup memory to a buffer. `arrays` receives names and lengths.
pub fn buffered(code: &str, arrays: &mut Vec<(String, String)>) -> Option<String> {
    // One barrier only: compilers for processors split a kernel at each.
    if code.contains("workgroupBarrier()") {
        return Some(code.replace("workgroupBarrier()", "storageBarrier()"));
    }
    let (name, of) = code.strip_prefix("var<workgroup> ")?.split_once(": array<")?;
    let (inner, _) = closed(of, '<', '>')?;
    let [elem, length] = arguments(inner)[..] else { return None };
    // Arrays of other than plain numbers stay in workgroup memory.
    if elem.starts_with("atomic<") {
        return None;
    }
    arrays.push((name.to_owned(), length.to_owned()));
    Some(format!("@group(1) @binding({}) var<storage, read_write> {name}: array<{elem}>;", arrays.len()))
}

/// Offsets the element indices of an array by the begin of the workgroup's range.
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
