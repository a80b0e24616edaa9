//! How much memory the lists of a text may take.

use std::cell::Cell;

use serde_json::Value;

use super::broken;

/// Bytes that lists may take for each byte of their text. What we write takes a third of it at most.
const BYTES_PER_BYTE: usize = 64;
/// Bytes that a list may take whose text is read alone, and so for its length.
const ALONE: usize = 1 << 20;
/// Bytes of a value within an array, beside its text.
const VALUE: usize = 32;

thread_local! {
    /// Bytes that are left to the lists of the text which this thread reads.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The result of reading a text of `length` bytes, whose lists together take 64 times that length at most.
pub fn within<T>(length: usize, read: impl FnOnce() -> T) -> T {
    with(length.saturating_mul(BYTES_PER_BYTE), read)
}

/// Read a list: in the room of its text, or where its text is not known in that of the list itself.
pub(super) fn or_within<T>(own: usize, read: impl FnOnce() -> T) -> T {
    match LEFT.get() {
        Some(_) => read(),
        None => with(own.saturating_mul(BYTES_PER_BYTE).saturating_add(ALONE), read),
    }
}

fn with<T>(room: usize, read: impl FnOnce() -> T) -> T {
    /// Puts back what was left to the text around this one, also when the reader panics.
    struct Outer(Option<usize>);
    impl Drop for Outer {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _outer = Outer(LEFT.replace(Some(room)));
    read()
}

/// Takes bytes from the room.
///
/// # Errors
/// When the room has fewer bytes left.
pub(super) fn take(bytes: usize) -> Result<(), serde_json::Error> {
    let left = LEFT.get().unwrap_or(ALONE).checked_sub(bytes);
    LEFT.set(Some(left.ok_or_else(|| broken("its lists are far longer than the file that they are in"))?));
    Ok(())
}

/// Bytes of a value beside its place: those of texts and lists.
pub(super) fn heap(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| VALUE + heap(value)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| 2 * VALUE + name.len() + heap(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
