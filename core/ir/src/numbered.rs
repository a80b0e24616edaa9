//! Numbered names of buffers, for problems with one per layer. The strings outlive every problem.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Exclusive upper bound of numbers. It bounds the strings, which are never freed.
pub const MOST_NUMBERED: u64 = 128;

/// Returns the string `name_number`, which is created once for all callers.
///
/// # Panics
/// Number not below [`MOST_NUMBERED`]: a workload refuses shapes with such numbers.
pub fn numbered(name: &'static str, number: u64) -> &'static str {
    static MADE: Mutex<BTreeMap<(&'static str, u64), &'static str>> = Mutex::new(BTreeMap::new());
    assert!(number < MOST_NUMBERED, "`{name}` is numbered below {MOST_NUMBERED}, and not {number}");
    // A panic while the lock was held left a consistent map.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((name, number)).or_insert_with(|| Box::leak(format!("{name}_{number}").into_boxed_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once_for_each_number() {
        assert_eq!((numbered("w1", 0), numbered("w1", 127), numbered("w2", 0)), ("w1_0", "w1_127", "w2_0"));
        assert!(std::ptr::eq(numbered("w1", 7), numbered("w1", 7)));
    }
}
