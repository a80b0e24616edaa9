//! The worker: the program that measures in a browser. It takes requests from the page and sends responses.
//!
//! The page fetches it into a worker, or into itself if workers cannot measure. The build compiles it in three ways: for memory
//! that threads share, for one thread, and for browsers without vector instructions. The page chooses one of them. Only this
//! program contains the workloads: it plans and measures. The page's own program sends requests and shows results.
//!
//! ```text
//! page ── Request ─► port ─► Worker ─► profiler (parallax-gpu-wgpu, parallax-gpu-cpu)
//!      ◄─ Response ──
//! ```
//!
//! - [`protocol`], [`way`]: requests, responses and target configuration. Without the feature `measure` the crate has these modules
//!   only; the page uses it so.
//! - `port`: receives requests and posts responses.
//! - `worker`: carries out requests. It is independent of the page and of the thread that it runs on.
//! - `compilers`: CubeCL's compilers, fetched when a request names one of their kernels.
//! - `sight`: visibility of the tab.
//! - `threads`: further workers that compute on the same memory.

pub mod protocol;
pub mod way;

#[cfg(feature = "measure")]
mod compilers;
#[cfg(feature = "measure")]
mod port;
#[cfg(feature = "measure")]
mod sight;
#[cfg(all(feature = "measure", target_feature = "atomics"))]
mod threads;
#[cfg(feature = "measure")]
mod worker;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};

/// Script that starts this program in a worker: beside the page, and beside the worker that starts threads.
pub const SCRIPT: &str = "./measuring.js";

/// Name of the browser feature of subgroup matrices. Browsers offer it only with experimental features enabled.
pub const MATRICES: &str = "chromium-experimental-subgroup-matrix";

fn navigator(member: &str) -> Result<JsValue, JsValue> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    Reflect::get(&navigator, &member.into())
}

/// Returns whether the browser offers WebGPU in the current page or worker.
pub fn has_webgpu() -> bool {
    navigator("gpu").is_ok_and(|gpu| gpu.is_object())
}

/// Number of threads of the machine, as the browser reports it; at least 1.
pub fn most_threads() -> u32 {
    navigator("hardwareConcurrency")
        .ok()
        .and_then(|threads| threads.as_f64())
        .map_or(1, |threads| threads as u32)
        .max(1)
}

/// Message of a browser error.
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
