//! The host's call stack, as names.

use std::backtrace::Backtrace;

/// A stack that was walked and not yet looked up: walking takes microseconds, the names many times that.
pub(crate) struct Stack(Backtrace);

impl Stack {
    /// The stack at this point.
    pub(crate) fn capture() -> Stack {
        Stack(Backtrace::force_capture())
    }

    /// Names of its functions, innermost first, without the frames that took it.
    pub(crate) fn names(&self) -> Vec<String> {
        // The frames themselves are not open to stable Rust; their text is.
        names_in(&self.0.to_string())
    }
}

/// Names in the text of a backtrace: lines `  12: name`, or an indented name alone where a function was inlined into
/// the numbered frame, each perhaps followed by a line `at file:line:column`.
fn names_in(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("at "));
    let name = |line: &str| match line.split_once(": ") {
        Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => line.to_owned(),
    };
    lines.map(name).skip_while(|name| is_machinery(name)).collect()
}

fn is_machinery(name: &str) -> bool {
    let name = name.trim_start_matches('<');
    ["std::backtrace", "backtrace::", concat!(module_path!(), "::Stack")].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_frames_and_inlined_functions() {
        let text = "   0: std::backtrace_rs::backtrace::trace\n             at /rustc/lib.rs:1:2\n   1: std::backtrace::Backtrace::create\n\
                       2: parallax_cuda::stack::Stack::capture\n   3: inner<T>\n             at ./src/a.rs:10:5\n      outer::{{closure}}\n   4: main\n";
        assert_eq!(names_in(text), ["inner<T>", "outer::{{closure}}", "main"]);
    }

    #[test]
    #[inline(never)]
    fn a_real_stack_begins_with_the_function_that_took_it() {
        let names = Stack::capture().names();
        let own = "a_real_stack_begins_with_the_function_that_took_it";
        assert!(names.first().is_some_and(|name| name.contains(own)), "{names:?}");
    }
}
