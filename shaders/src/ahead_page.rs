//! Compilation of kernels before their cases are prepared, in the browser's own threads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use js_sys::Promise;
use parallax_schema::units::Nanos;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

use crate::compile::{CompiledUnit, Unit, UnitKey};
use crate::device_errors::Scopes;
use crate::gpu::Gpu;

#[wasm_bindgen(module = "/src/ahead.js")]
extern "C" {
    fn available() -> bool;
    fn start(device: &JsValue) -> u32;
    fn finished(number: u32) -> Promise;
    fn provide(device: &JsValue, number: u32) -> Promise;
    fn forget(number: u32);
    fn restore(device: &JsValue);
}

/// Kernels that are compiled ahead.
pub struct Ahead {
    available: bool,
    started: RefCell<HashMap<UnitKey, Started>>,
}

/// A kernel whose compilation has started.
struct Started {
    module: wgpu::ShaderModule,
    /// Numbers of the pipelines, in the order of the entry points.
    numbers: Range<u32>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.numbers.clone().for_each(forget);
    }
}

impl Ahead {
    /// Creates an empty set.
    pub fn new() -> Ahead {
        Ahead { available: available(), started: RefCell::default() }
    }

    /// Starts the compilation of kernels, and forgets those of earlier calls that are not among them.
    pub fn start(&self, gpu: &Gpu, units: Vec<Unit>) {
        let Some(device) = gpu.device.as_webgpu().filter(|_| self.available) else { return };
        let mut started = self.started.borrow_mut();
        started.retain(|key, _| units.iter().any(|unit| unit.key() == *key));
        for unit in units {
            started.entry(unit.key()).or_insert_with(|| {
                // The case reports errors, when it compiles again.
                let scopes = Scopes::open(&gpu.device, &gpu.errors);
                let module = unit.module(&gpu.device);
                let first = start(device.as_ref());
                drop(unit.pipelines(&gpu.device, &module));
                restore(device.as_ref());
                drop(scopes.close());
                Started { module, numbers: first..first + unit.entries() as u32 }
            });
        }
    }

    /// Returns the pipelines of a kernel, after a wait if the browser still compiles them. `None` if the caller has to compile it.
    pub async fn take(&self, gpu: &Gpu, unit: &Unit) -> Option<CompiledUnit> {
        let device = gpu.device.as_webgpu()?;
        let kernel = self.started.borrow_mut().remove(&unit.key())?;
        let mut longest = 0.0f64;
        for number in kernel.numbers.clone() {
            let milliseconds = gpu.errors.unless_lost(JsFuture::from(finished(number))).await.ok()?.ok()?.as_f64()?;
            longest = longest.max(milliseconds);
        }
        let mut pipelines = Vec::new();
        for (number, entry) in kernel.numbers.clone().zip(0..) {
            JsFuture::from(provide(device.as_ref(), number)).await.ok()?;
            pipelines.extend(unit.pipeline(&gpu.device, &kernel.module, entry));
            restore(device.as_ref());
        }
        // The browser reports one time for the module and its pipelines.
        Some(CompiledUnit { pipelines, module: Nanos(0.0), pipeline: Nanos(longest * 1e6) })
    }
}
