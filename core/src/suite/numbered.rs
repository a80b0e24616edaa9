//! Names of what a problem has one of for each of its layers, as buffers are named: by text that outlives every problem.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Numbers are below this, so that texts which are never given back are few.
pub const MOST_NUMBERED: u64 = 128;

/// The text `name_number`, made once for all who ask for it.
///
/// # Panics
/// For a number that is not below [`MOST_NUMBERED`]: a workload refuses shapes that would ask for such.
pub fn numbered(name: &'static str, number: u64) -> &'static str {
    static MADE: Mutex<BTreeMap<(&'static str, u64), &'static str>> = Mutex::new(BTreeMap::new());
    assert!(number < MOST_NUMBERED, "`{name}` is numbered below {MOST_NUMBERED}, and not {number}");
    // Whoever panicked while holding it left a map that is whole.
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
