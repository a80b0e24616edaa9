//! Memory limit for the lists of an input.

use std::cell::Cell;

use serde_json::Value;

use super::broken;

/// Bytes that lists may take for each byte of the input. Our own files need at most a third of it.
const BYTES_PER_BYTE: usize = 64;
/// Bytes that a list may take beyond those for its length, if it is read alone.
const ALONE: usize = 1 << 20;
/// Bytes of a value within an array, beside its string.
const VALUE: usize = 32;

thread_local! {
    /// Bytes that are left for the lists of the input that this thread reads.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the result of reading an input of `length` bytes. Its lists together take at most 64 times that length.
pub fn within<T>(length: usize, read: impl FnOnce() -> T) -> T {
    with(length.saturating_mul(BYTES_PER_BYTE), read)
}

/// Reads a list within the limit of its input, or, without a known input, within the limit of the list itself.
pub(super) fn or_within<T>(own: usize, read: impl FnOnce() -> T) -> T {
    match LEFT.get() {
        Some(_) => read(),
        None => with(own.saturating_mul(BYTES_PER_BYTE).saturating_add(ALONE), read),
    }
}

fn with<T>(room: usize, read: impl FnOnce() -> T) -> T {
    /// Guard that restores the limit of the enclosing input, also on a panic of the reader.
    struct Outer(Option<usize>);
    impl Drop for Outer {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _outer = Outer(LEFT.replace(Some(room)));
    read()
}

/// Subtracts bytes from the limit.
///
/// # Errors
/// Fewer bytes left than `bytes`.
pub(super) fn take(bytes: usize) -> Result<(), serde_json::Error> {
    let left = LEFT.get().unwrap_or(ALONE).checked_sub(bytes);
    LEFT.set(Some(left.ok_or_else(|| broken("its lists are far longer than the file that they are in"))?));
    Ok(())
}

/// Returns the heap bytes of a value: those of strings and lists.
pub(super) fn heap(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| VALUE + heap(value)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| 2 * VALUE + name.len() + heap(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
