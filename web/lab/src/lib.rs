//! The worker of the lab: it reflects and compares two kernels of the visitor.
//!
//! `worker.js` calls these functions with requests of the page, in JSON. A kernel may hang the worker or exhaust it. The page then
//! ends the worker and starts another.

use parallax_ir::KernelSources;
use parallax_lab::{
    BindingPoint, BindingRow, LabError, Label, Override, Phase, Plan, Request, Source, View, bindings, run,
};
use parallax_shaders::{Checks, WgpuOptions, open};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// Answer to a request for reflection.
#[derive(Serialize)]
struct Reflection {
    bindings: Vec<BindingRow>,
    /// Compute entry points of A and of B.
    entries: [Vec<String>; 2],
    /// Threads in one workgroup of A and of B.
    workgroups: [[u32; 3]; 2],
    /// Workgroups of A and of B.
    grids: [[u32; 3]; 2],
    /// Pipeline-overridable constants of A and of B.
    overrides: [Vec<Override>; 2],
}

fn message(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

/// Installs the hook that writes panics to the console.
#[wasm_bindgen(start)]
pub fn begin() {
    console_error_panic_hook::set_once();
}

/// Returns the request of the page. `files` has pairs of a binding and the bytes of its file.
fn request(json: &str, files: &js_sys::Array) -> Result<Request, JsError> {
    let mut request: Request = serde_json::from_str(json).map_err(message)?;
    for pair in files.iter() {
        let pair = js_sys::Array::from(&pair);
        let point: BindingPoint = pair.get(0).as_string().unwrap_or_default().parse().map_err(message)?;
        request.sources.insert(point, Source::File(js_sys::Uint8Array::new(&pair.get(1)).to_vec()));
    }
    Ok(request)
}

/// Returns the plan of a request. Settings of bindings and overrides that an edit removed are left out.
///
/// `on_kernel` is called with the label of each kernel before its reflection: a kernel source may exhaust the stack.
fn plan(mut request: Request, on_kernel: &js_sys::Function) -> Result<Plan, JsError> {
    let mut begins = |label: Label| call(on_kernel, label.name());
    loop {
        match Plan::announced(request.clone(), &mut begins) {
            Err(LabError::NoBinding { point, .. }) => {
                request.lengths.remove(&point);
                request.sources.remove(&point);
            }
            Err(LabError::NoOverride { label: Label::A, name, .. }) => drop(request.a.overrides.remove(&name)),
            Err(LabError::NoOverride { label: Label::B, name, .. }) => drop(request.b.overrides.remove(&name)),
            planned => return planned.map_err(message),
        }
    }
}

/// Calls a function of the page with a word.
fn call(function: &js_sys::Function, word: &str) {
    // A message that is not delivered only leaves the page as it is.
    let _ = function.call1(&JsValue::NULL, &word.into());
}

/// Reflects both kernels of a request. Returns their bindings, entry points and launches, in JSON. `on_kernel` is called with the label
/// of each kernel.
///
/// # Errors
/// The message of a kernel source or a setting that is not valid.
#[wasm_bindgen]
pub fn reflect(json: &str, files: &js_sys::Array, on_kernel: &js_sys::Function) -> Result<String, JsError> {
    let plan = plan(request(json, files)?, on_kernel)?;
    let reflection = Reflection {
        bindings: bindings(&plan),
        entries: plan.programs.each_ref().map(|program| program.entries.clone()),
        workgroups: plan.programs.each_ref().map(|program| program.workgroup),
        grids: plan.grids,
        overrides: plan.programs.each_ref().map(|program| program.overrides.clone()),
    };
    serde_json::to_string(&reflection).map_err(message)
}

/// Options of the device. The lab needs none of the suite's kernel sources, and its download has none.
fn options() -> WgpuOptions {
    WgpuOptions {
        adapter: None,
        checks: Checks::ALL,
        experimental: false,
        imitate_matrices: false,
        host_memory: None,
        texts: KernelSources::embedded(&[]),
    }
}

/// Compares both kernels of a request on the GPU. Returns the words of the report, in JSON. `on_kernel` is called with the label
/// of each kernel, and `on_phase` with the name of each phase.
///
/// # Errors
/// The message of a kernel or a device that failed.
#[wasm_bindgen]
pub async fn compare(
    json: String,
    files: js_sys::Array,
    on_kernel: js_sys::Function,
    on_phase: js_sys::Function,
) -> Result<String, JsError> {
    let plan = plan(request(&json, &files)?, &on_kernel)?;
    let mut wgpu = open(options()).await.map_err(message)?;
    let mut phase = |phase: Phase| {
        call(
            &on_phase,
            match phase {
                Phase::Compile => "compile",
                Phase::Check => "check",
                Phase::Time => "time",
            },
        );
    };
    let report = run(&mut wgpu, &plan, &mut phase, || true).await.map_err(message)?;
    serde_json::to_string(&View::from(&report)).map_err(message)
}
