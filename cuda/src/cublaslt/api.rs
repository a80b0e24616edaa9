//! The cuBLASLt library: search, loading, and the calls that Parallax needs.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::cublaslt::sys;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use libloading::Library;
use parallax_ir::device::BackendError;

use crate::ffi::{self, Destroy, Object, Owned, status_string};
use crate::libraries;
use crate::libraries::Wanted;

pub(crate) const WANTED: Wanted = Wanted {
    stem: "cublasLt",
    versions: libraries::OF_TOOLKIT,
    windows: &["cublasLt64_13.dll", "cublasLt64_12.dll"],
    variable: None,
    toolkit: None,
    wheel: "cublas",
};

/// The calls, resolved once. The library stays loaded as long as the pointers exist.
pub(super) struct Api {
    pub(super) create: unsafe extern "C" fn(*mut Object) -> c_int,
    pub(super) destroy: Destroy,
    pub(super) version: unsafe extern "C" fn() -> usize,
    pub(super) status: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) layout: unsafe extern "C" fn(*mut Object, c_int, u64, u64, i64) -> c_int,
    pub(super) layout_set: unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> c_int,
    pub(super) layout_destroy: Destroy,
    /// Takes the compute type and the scale type.
    pub(super) product: unsafe extern "C" fn(*mut Object, c_int, c_int) -> c_int,
    pub(super) product_set: unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> c_int,
    pub(super) product_destroy: Destroy,
    pub(super) preference: unsafe extern "C" fn(*mut Object) -> c_int,
    pub(super) preference_set: unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> c_int,
    pub(super) preference_destroy: Destroy,
    /// Library, GEMM, layouts of A, B, C and D, preference, requested number of results, array of results, number of results.
    #[allow(clippy::type_complexity, reason = "the signature is NVIDIA's")]
    pub(super) heuristic: unsafe extern "C" fn(
        Object,
        Object,
        Object,
        Object,
        Object,
        Object,
        Object,
        c_int,
        *mut Heuristic,
        *mut c_int,
    ) -> c_int,
    /// Library, GEMM, alpha, A, B, beta, C and D with their layouts, algorithm, workspace, stream.
    #[allow(clippy::type_complexity, reason = "the signature is NVIDIA's")]
    pub(super) matmul: unsafe extern "C" fn(
        Object,
        Object,
        *const c_void,
        CUdeviceptr,
        Object,
        CUdeviceptr,
        Object,
        *const c_void,
        CUdeviceptr,
        Object,
        CUdeviceptr,
        Object,
        *const sys::cublasLtMatmulAlgo_t,
        CUdeviceptr,
        usize,
        CUstream,
    ) -> c_int,
    _library: Library,
}

/// `cublasLtMatmulHeuristicResult_t`, with the status as an integer: a newer library may have more values.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Heuristic {
    pub(super) algorithm: sys::cublasLtMatmulAlgo_t,
    pub(super) workspace: usize,
    pub(super) status: c_int,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

/// The library of this process, loaded at the first call.
pub(super) fn api() -> Result<&'static Api, BackendError> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| libraries::load(&WANTED, |file, _| resolve(file)).map(|(api, _)| api));
    loaded.as_ref().map_err(|tried| {
        BackendError::Refused(format!(
            "cuBLASLt, NVIDIA's library of matrix products (libcublasLt), could not be loaded (tried: {tried}). Install \
             the CUDA toolkit, or run `pip install nvidia-cublas`"
        ))
    })
}

fn resolve(file: &std::path::Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library's initialisers touch no memory of this program. Every symbol has the signature of its header, with enums
    // as integers and objects as pointers.
    unsafe {
        ffi::resolve!(file => Api {
            create: c"cublasLtCreate",
            destroy: c"cublasLtDestroy",
            version: c"cublasLtGetVersion",
            status: c"cublasLtGetStatusString",
            layout: c"cublasLtMatrixLayoutCreate",
            layout_set: c"cublasLtMatrixLayoutSetAttribute",
            layout_destroy: c"cublasLtMatrixLayoutDestroy",
            product: c"cublasLtMatmulDescCreate",
            product_set: c"cublasLtMatmulDescSetAttribute",
            product_destroy: c"cublasLtMatmulDescDestroy",
            preference: c"cublasLtMatmulPreferenceCreate",
            preference_set: c"cublasLtMatmulPreferenceSetAttribute",
            preference_destroy: c"cublasLtMatmulPreferenceDestroy",
            heuristic: c"cublasLtMatmulAlgoGetHeuristic",
            matmul: c"cublasLtMatmul",
        })
    }
}

impl Api {
    /// Converts a status to a result.
    pub(super) fn check(&self, doing: &str, status: c_int) -> Result<(), BackendError> {
        if status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS as c_int {
            return Ok(());
        }
        // SAFETY: the library returns static strings.
        let string = unsafe { status_string(self.status, status) }.unwrap_or_else(|| format!("status {status}"));
        Err(classify(status, format!("cuBLASLt, {doing}: {string}")))
    }
}

fn classify(status: c_int, message: String) -> BackendError {
    use sys::cublasStatus_t as Status;
    let is = |known: Status| status == known as c_int;
    if is(Status::CUBLAS_STATUS_NOT_SUPPORTED) || is(Status::CUBLAS_STATUS_ARCH_MISMATCH) {
        BackendError::Unsupported(message)
    } else if is(Status::CUBLAS_STATUS_ALLOC_FAILED) {
        BackendError::OutOfMemory(message)
    } else {
        BackendError::Device(message)
    }
}

/// Creates an object with the call in `create`.
///
/// # Safety
/// Those of [`Owned::new`].
pub(super) unsafe fn make(
    doing: &str,
    api: &Api,
    destroy: Destroy,
    create: impl FnOnce(*mut Object) -> c_int,
) -> Result<Owned, BackendError> {
    // SAFETY: the caller's.
    unsafe { Owned::new(destroy, |status| api.check(doing, status), create) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_heuristic_has_the_headers_layout() {
        use std::mem::offset_of;
        type Header = sys::cublasLtMatmulHeuristicResult_t;
        assert_eq!(size_of::<Heuristic>(), size_of::<Header>());
        assert_eq!(offset_of!(Heuristic, workspace), offset_of!(Header, workspaceSize));
        assert_eq!(offset_of!(Heuristic, status), offset_of!(Header, state));
        assert_eq!(offset_of!(Heuristic, waves), offset_of!(Header, wavesCount));
        assert_eq!(offset_of!(Heuristic, reserved), offset_of!(Header, reserved));
    }

    #[test]
    fn statuses_become_the_right_kind() {
        let kind = |status: sys::cublasStatus_t| classify(status as c_int, String::new());
        assert!(matches!(kind(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED), BackendError::Unsupported(_)));
        assert!(matches!(kind(sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED), BackendError::OutOfMemory(_)));
        assert!(matches!(kind(sys::cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED), BackendError::Device(_)));
    }

    #[test]
    fn without_the_library_the_sentence_names_it() {
        // Where the library is installed, the test is that it loads.
        match api() {
            // SAFETY: takes nothing and returns a number.
            Ok(api) => assert!(unsafe { (api.version)() } > 0),
            Err(error) => {
                assert!(matches!(error, BackendError::Refused(_)));
                assert!(error.to_string().contains("libcublasLt"), "{error}");
            }
        }
    }
}
