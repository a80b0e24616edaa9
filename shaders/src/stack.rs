//! The host's call stack at a submission, innermost frame first.

/// The stack of whoever called, without the frames of capturing it and of the machinery that runs futures and threads.
#[cfg(not(target_arch = "wasm32"))]
pub fn here() -> Vec<String> {
    native(&std::backtrace::Backtrace::force_capture().to_string())
}

/// The stack of whoever called, as the browser words it, without the frames of capturing it.
#[cfg(target_arch = "wasm32")]
pub fn here() -> Vec<String> {
    // Where there is a limit, its usual value of ten hides who asked for the work; elsewhere this does nothing.
    js_sys::Error::set_stack_trace_limit(&64.into());
    let error = js_sys::Error::new("");
    let stack = js_sys::Reflect::get(&error, &"stack".into()).ok();
    stack.and_then(|stack| stack.as_string()).map(|text| page(&text)).unwrap_or_default()
}

/// The frames of a printed backtrace: lines `N: NAME`; the lines between them say where that is.
#[cfg(not(target_arch = "wasm32"))]
fn native(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| {
        let (number, name) = line.trim_start().split_once(": ")?;
        number.bytes().all(|b| b.is_ascii_digit()).then(|| outer(name))
    });
    let mut frames: Vec<String> = names.filter(|name| !machinery(name)).map(str::to_owned).collect();
    // A function and the closures in it are one frame to a reader.
    frames.dedup();
    frames
}

/// The function that a closure is written in.
#[cfg(not(target_arch = "wasm32"))]
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

/// Frames that tell nothing of the program: the standard library, what polls futures, C's start-up, and this file.
#[cfg(not(target_arch = "wasm32"))]
fn machinery(name: &str) -> bool {
    // Every Rust name has a path; what has none is C.
    let Some((first, _)) = name.split_once("::") else { return true };
    let first = first.trim_start_matches(['<', '&', '*']);
    // `<F as core::ops::FnOnce<..>>` belongs to the trait's crate: the type is anyone's.
    let krate = first.rsplit(' ').next().unwrap_or(first);
    ["std", "core", "alloc", "pollster", "test", "backtrace_rs"].contains(&krate)
        || name == concat!(module_path!(), "::here")
}

/// The frames of an error's `stack`: V8 prints `at NAME (PLACE)` after a line with the error's name, others `NAME@PLACE`.
#[cfg(any(target_arch = "wasm32", test))]
fn page(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("at ") || line.contains('@'));
    let frames = lines.map(|line| line.strip_prefix("at ").unwrap_or(line));
    // The glue through which this code reaches `Error`, and this code itself.
    let glue = |frame: &str| frame.contains("__wbg_") || frame.contains("js_sys") || frame.contains("stack::here");
    frames.filter(|frame| !glue(frame)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_stack_names_its_caller_first() {
        fn asks() -> Vec<String> {
            std::iter::once(()).flat_map(|()| here()).collect()
        }
        let frames = asks();
        assert!(frames[0].ends_with("a_native_stack_names_its_caller_first::asks"), "{frames:?}");
        assert!(frames[1].ends_with("tests::a_native_stack_names_its_caller_first"), "{frames:?}");
        assert_eq!(frames.len(), 2, "what lies further out is the test machinery: {frames:?}");
    }

    #[test]
    fn frames_of_traits_and_futures_are_told_apart() {
        let text =
            "   0: <parallax_shaders::prepared::WgpuCase as parallax_core::profiler::Prepared>::trace::{{closure}}
             at ./shaders/src/prepared.rs:1:2
   1: <core::pin::Pin<P> as core::future::future::Future>::poll
   2: parallax_core::runner::one::{closure#0}
   3: <F as core::ops::function::FnOnce<Args>>::call_once
   4: parallax_core::runner::one
   5: <unknown>
   6: main";
        let case = "<parallax_shaders::prepared::WgpuCase as parallax_core::profiler::Prepared>::trace";
        assert_eq!(native(text), [case, "parallax_core::runner::one"]);
    }

    #[test]
    fn a_page_stack_is_read_from_either_engine() {
        let v8 = "Error\n    at imports.wbg.__wbg_new_1 (http://h/x.js:1:2)\n    at w.parallax_shaders::stack::here (w:1)\n    \
                  at w.runner::one (http://h/x.wasm:wasm-function[7]:0x1f)\n    at http://h/x.js:3:4";
        assert_eq!(page(v8), ["w.runner::one (http://h/x.wasm:wasm-function[7]:0x1f)", "http://h/x.js:3:4"]);
        let others = "__wbg_new_1@http://h/x.js:1:2\nrunner::one@http://h/x.wasm:7\n";
        assert_eq!(page(others), ["runner::one@http://h/x.wasm:7"]);
    }
}
