//! Messages between the page and its worker, and the properties of a browser that both ask for.
//!
//! This crate has no workload and no plan, so that the page's own program is small and does not follow their changes.
//!
//! - [`messages`]: requests and responses.
//! - [`target`]: target of the page and its configuration.

#![forbid(unsafe_code)]

pub mod messages;
pub mod target;

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
pub fn error_text(error: &JsValue) -> String {
    error.dyn_ref::<js_sys::Error>().map_or_else(|| format!("{error:?}"), |error| String::from(error.message()))
}
