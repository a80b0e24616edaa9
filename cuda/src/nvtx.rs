//! Ranges of NVIDIA's tools extension (NVTX): cases and stages by name in Nsight Systems and Nsight Compute.
//!
//! A tool that records ranges names its library in the environment of the program. Without such a tool, nothing is loaded.

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;

use crate::libraries::Wanted;
use crate::{ffi, libraries};

/// The library of version 3, and that of earlier toolkits.
const WANTED: [Wanted; 2] = [wanted("nvtx3interop"), wanted("nvToolsExt")];

const fn wanted(stem: &'static str) -> Wanted {
    Wanted { stem, versions: &["", ".1"], windows: &[], variable: None, toolkit: None, wheel: "nvtx" }
}

/// Variables in which a tool names its library.
const TOOLS: [&str; 2] = ["NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"];

struct Api {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    _library: Library,
}

static API: OnceLock<Option<Api>> = OnceLock::new();

/// The calls, if a tool records ranges. The search runs once.
fn api() -> Option<&'static Api> {
    let load = || {
        TOOLS.iter().find_map(std::env::var_os)?;
        let found: Vec<_> = WANTED.iter().map(|wanted| libraries::load(wanted, |file, _| resolve(file))).collect();
        let places: Vec<String> = found.iter().filter_map(|found| found.as_ref().err().cloned()).collect();
        let api = found.into_iter().find_map(Result::ok).map(|(api, _)| api);
        if api.is_none() {
            log::warn!("a tool records NVTX ranges, and there is no library for them: {}", places.join("; "));
        }
        api
    };
    API.get_or_init(load).as_ref()
}

fn resolve(file: &Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library may be loaded anywhere, and both symbols have the signatures of its header.
    unsafe { ffi::resolve!(file => Api { push: c"nvtxRangePushA", pop: c"nvtxRangePop" }) }
}

/// A range of this thread. Its drop ends it.
pub(crate) struct Range(&'static Api);

/// Begins a range of this thread inside the ranges that are open. `None` without a tool.
pub(crate) fn range(name: &str) -> Option<Range> {
    let api = api()?;
    let name = CString::new(name.replace('\0', "")).ok()?;
    // SAFETY: the string ends with a zero and outlives the call, which copies it.
    unsafe { (api.push)(name.as_ptr()) };
    Some(Range(api))
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: a plain call, which ends the range that this thread began last.
        unsafe { (self.0.pop)() };
    }
}
