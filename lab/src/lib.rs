//! What measures in a browser: a program of its own, beside the page's, that takes orders and says what comes of them.
//!
//! The page fetches it into a worker, or into itself where workers cannot measure, and it is compiled in three ways of which the page
//! chooses one: for memory that threads share, for one thread, and for browsers that do not compute in vectors. It alone has the
//! workloads: it plans and measures. The page's own program asks and shows.
//!
//! ```text
//! page ── Order ──► port ─► Lab ─► profiler (parallax-shaders, parallax-host)
//!      ◄── Word ──
//! ```
//!
//! - [`protocol`], [`way`]: what the two say to each other. The page has these alone (without the feature `measure`).
//! - `port`: where orders come in and words go out.
//! - `lab`: does as ordered. It knows neither the page nor where it runs.
//! - `compilers`: CubeCL's compilers, fetched when a kernel of theirs is asked for.
//! - `sight`: whether the tab was out of sight.
//! - `threads`: more workers, which compute on the same memory.

pub mod protocol;
pub mod way;

#[cfg(feature = "measure")]
mod compilers;
#[cfg(feature = "measure")]
mod lab;
#[cfg(feature = "measure")]
mod port;
#[cfg(feature = "measure")]
mod sight;
#[cfg(all(feature = "measure", target_feature = "atomics"))]
mod threads;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};

/// What starts such a program in a worker, beside the page, and beside the worker that begins threads.
pub const SCRIPT: &str = "./measuring.js";

/// What browsers call the matrices of a subgroup, which only those get who ask for what is tried out.
pub const MATRICES: &str = "chromium-experimental-subgroup-matrix";

fn navigator(member: &str) -> Result<JsValue, JsValue> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    Reflect::get(&navigator, &member.into())
}

/// Whether the browser offers WebGPU here, in the page or in the worker that this runs in.
pub fn has_webgpu() -> bool {
    navigator("gpu").is_ok_and(|gpu| gpu.is_object())
}

/// How many threads the machine has, as far as the browser says.
pub fn most_threads() -> u32 {
    navigator("hardwareConcurrency")
        .ok()
        .and_then(|threads| threads.as_f64())
        .map_or(1, |threads| threads as u32)
        .max(1)
}

/// What an error of the browser's says.
pub fn said(error: &JsValue) -> String {
    error.dyn_ref::<js_sys::Error>().map_or_else(|| format!("{error:?}"), |error| String::from(error.message()))
}

#[cfg(all(test, feature = "measure"))]
mod tests {
    #[test]
    fn the_page_looks_for_the_matrices_that_are_asked_for() {
        assert_eq!(super::MATRICES, parallax_shaders::MATRICES);
    }
}
