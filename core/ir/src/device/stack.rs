//! Call stack of the host at a submission, as names, innermost first. A page asks its browser instead.

use std::backtrace::Backtrace;

/// Captured stack without symbol names. The capture takes microseconds, the look-up of names many times that.
pub struct Stack(Backtrace);

impl Stack {
    /// Captures the stack at this point.
    pub fn capture() -> Stack {
        Stack(Backtrace::force_capture())
    }

    /// Returns the functions of the program, without the frames of the capture and of the machinery of futures and threads.
    pub fn names(&self) -> Vec<String> {
        // Stable Rust gives no access to the frames themselves, only to their printed form.
        names_in(&self.0.to_string())
    }
}

/// Returns the stack of the caller.
pub fn here() -> Vec<String> {
    Stack::capture().names()
}

/// Returns the names in a printed backtrace. A line is `  12: name`, or an indented name alone for a function inlined into the
/// numbered frame. A line `at file:line:column` may follow.
fn names_in(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("at "));
    let name = |line| match str::split_once(line, ": ") {
        Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => outer(name),
        _ => outer(line),
    };
    let mut names: Vec<String> = lines.map(name).filter(|name| !is_machinery(name)).map(str::to_owned).collect();
    // A function and its closures count as one frame.
    names.dedup();
    names
}

/// Returns the function that contains a closure.
fn outer(name: &str) -> &str {
    let mut name = name.trim();
    while let Some((outer, last)) = name.rsplit_once("::") {
        if !last.starts_with('{') {
            break;
        }
        name = outer;
    }
    name
}

/// Whether a frame is outside the program: the standard library, executors of futures, C's start-up, and this file.
fn is_machinery(name: &str) -> bool {
    // Every Rust name has a path; a name without one is C.
    let Some((first, _)) = name.split_once("::") else { return true };
    let first = first.trim_start_matches(['<', '&', '*']);
    // `<F as core::ops::FnOnce<..>>` belongs to the trait's crate: the type may belong to any crate.
    let krate = first.rsplit(' ').next().unwrap_or(first);
    ["std", "core", "alloc", "pollster", "test", "backtrace_rs"].contains(&krate)
        || name == concat!(module_path!(), "::here")
        || name.trim_start_matches('<').starts_with(concat!(module_path!(), "::Stack"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_names_its_caller_first() {
        fn asks() -> Vec<String> {
            std::iter::once(()).flat_map(|()| here()).collect()
        }
        let frames = asks();
        assert!(frames[0].ends_with("a_stack_names_its_caller_first::asks"), "{frames:?}");
        assert!(frames[1].ends_with("tests::a_stack_names_its_caller_first"), "{frames:?}");
        assert_eq!(frames.len(), 2, "the outer frames are the test machinery: {frames:?}");
    }

    #[test]
    fn frames_of_traits_and_futures_are_told_apart() {
        let text = "   0: std::backtrace_rs::backtrace::trace
             at /rustc/lib.rs:1:2
   1: parallax_ir::device::stack::Stack::capture
   2: <parallax_shaders::prepared::WgpuCase as parallax_ir::device::Prepared>::trace::{{closure}}
             at ./shaders/src/prepared.rs:1:2
   3: <core::pin::Pin<P> as core::future::future::Future>::poll
   4: parallax_engine::measure::runner::one::{closure#0}
   5: <F as core::ops::function::FnOnce<Args>>::call_once
   6: parallax_engine::measure::runner::one
   7: <unknown>
   8: main";
        let case = "<parallax_shaders::prepared::WgpuCase as parallax_ir::device::Prepared>::trace";
        assert_eq!(names_in(text), [case, "parallax_engine::measure::runner::one"]);
    }

    #[test]
    fn inlined_functions_are_read_beside_their_frames() {
        let text = "   3: a::inner\n             at ./src/a.rs:10:5\n      a::outer::{{closure}}\n   4: a::run\n";
        assert_eq!(names_in(text), ["a::inner", "a::outer", "a::run"]);
    }
}
