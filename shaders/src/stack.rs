//! The host's call stack at a submission, innermost frame first.

#[cfg(not(target_arch = "wasm32"))]
pub use parallax_ir::device::stack::here;

/// Returns the caller's stack in the browser's format, without the frames of the capture.
#[cfg(target_arch = "wasm32")]
pub fn here() -> Vec<String> {
    // The usual limit of ten frames hides the origin of the work. Without a limit, this call has no effect.
    js_sys::Error::set_stack_trace_limit(&64.into());
    let error = js_sys::Error::new("");
    let stack = js_sys::Reflect::get(&error, &"stack".into()).ok();
    stack.and_then(|stack| stack.as_string()).map(|text| page(&text)).unwrap_or_default()
}

/// Returns the frames of an error's `stack`. V8 prints `at NAME (PLACE)` after a line with the error's name, others `NAME@PLACE`.
#[cfg(any(target_arch = "wasm32", test))]
fn page(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("at ") || line.contains('@'));
    let frames = lines.map(|line| line.strip_prefix("at ").unwrap_or(line));
    // Frames of the bindings to `Error`, and of this function.
    let glue = |frame: &str| frame.contains("__wbg_") || frame.contains("js_sys") || frame.contains("stack::here");
    frames.filter(|frame| !glue(frame)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stack_is_read_from_either_engine() {
        let v8 = "Error\n    at imports.wbg.__wbg_new_1 (http://h/x.js:1:2)\n    at w.parallax_shaders::stack::here (w:1)\n    \
                  at w.runner::one (http://h/x.wasm:wasm-function[7]:0x1f)\n    at http://h/x.js:3:4";
        assert_eq!(page(v8), ["w.runner::one (http://h/x.wasm:wasm-function[7]:0x1f)", "http://h/x.js:3:4"]);
        let others = "__wbg_new_1@http://h/x.js:1:2\nrunner::one@http://h/x.wasm:7\n";
        assert_eq!(page(others), ["runner::one@http://h/x.wasm:7"]);
    }
}
