//! Fourier transforms of NVIDIA's library cuFFT, loaded at run time.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use libloading::Library;
use parallax_ir::Fourier;
use parallax_ir::device::{BackendError, Ledger};

use crate::driver::CudaContext;
use crate::ffi;
use crate::libraries;
use crate::libraries::Wanted;
use crate::memory::Buffer;

pub(crate) const WANTED: Wanted = Wanted {
    stem: "cufft",
    // The library has versions of its own: 12 belongs to CUDA 13, 11 to CUDA 12.
    versions: &["", ".12", ".11"],
    windows: &["cufft64_12.dll", "cufft64_11.dll"],
    variable: None,
    toolkit: None,
    wheel: "cufft",
};

/// `cufftHandle`.
type Handle = c_int;

/// `cufftType`: real to complex, and complex to complex, of f32.
const R2C: c_int = 0x2a;
const C2C: c_int = 0x29;
/// `cufftResult`: success, failed allocation, and extents that the library does not take.
const SUCCESS: c_int = 0;
const ALLOC_FAILED: c_int = 2;
const INVALID_SIZE: c_int = 8;
const NOT_SUPPORTED: c_int = 16;

/// The calls, resolved once. The library stays loaded as long as the pointers exist.
struct Api {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    auto_allocation: unsafe extern "C" fn(Handle, c_int) -> c_int,
    /// Handle, dimensions and their extents; of input and output each the padded extents, the distance of elements and of arrays;
    /// type, number of arrays, bytes of the workspace.
    #[allow(clippy::type_complexity, reason = "the signature is NVIDIA's")]
    make: unsafe extern "C" fn(
        Handle,
        c_int,
        *mut i64,
        *mut i64,
        i64,
        i64,
        *mut i64,
        i64,
        i64,
        c_int,
        i64,
        *mut usize,
    ) -> c_int,
    work_area: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    stream: unsafe extern "C" fn(Handle, CUstream) -> c_int,
    complex: unsafe extern "C" fn(Handle, *mut c_void, *mut c_void, c_int) -> c_int,
    real: unsafe extern "C" fn(Handle, *mut c_void, *mut c_void) -> c_int,
    _library: Library,
}

/// The library of this process, loaded at the first call.
fn api() -> Result<&'static Api, BackendError> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| libraries::load(&WANTED, |file, _| resolve(file)).map(|(api, _)| api));
    loaded.as_ref().map_err(|tried| {
        BackendError::Refused(format!(
            "cuFFT, NVIDIA's library of Fourier transforms (libcufft), could not be loaded (tried: {tried}). Install the CUDA \
             toolkit, or run `pip install nvidia-cufft`"
        ))
    })
}

fn resolve(file: &std::path::Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library's initialisers touch no memory of this program. Every symbol has the signature of its header, with enums
    // as integers.
    unsafe {
        ffi::resolve!(file => Api {
            version: c"cufftGetVersion",
            create: c"cufftCreate",
            destroy: c"cufftDestroy",
            auto_allocation: c"cufftSetAutoAllocation",
            make: c"cufftMakePlanMany64",
            work_area: c"cufftSetWorkArea",
            stream: c"cufftSetStream",
            complex: c"cufftExecC2C",
            real: c"cufftExecR2C",
        })
    }
}

/// Converts a status to a result.
fn check(doing: &str, status: c_int) -> Result<(), BackendError> {
    let message = || format!("cuFFT, {doing}: status {status}");
    match status {
        SUCCESS => Ok(()),
        ALLOC_FAILED => Err(BackendError::OutOfMemory(message())),
        INVALID_SIZE | NOT_SUPPORTED => Err(BackendError::Refused(message())),
        _ => Err(BackendError::Device(message())),
    }
}

/// Plan of the library, destroyed when it goes out of scope.
struct Plan {
    api: &'static Api,
    handle: Handle,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: created by the library, and destroyed only here. A failure has no effect.
        let _ = unsafe { (self.api.destroy)(self.handle) };
    }
}

/// Planned Fourier transforms, with their workspace.
pub(crate) struct PlannedFourier {
    plan: Plan,
    wanted: Fourier,
    /// Memory that the plan refers to.
    _workspace: Option<Buffer>,
}

impl PlannedFourier {
    /// Plans dense transforms. The device's context is current.
    ///
    /// # Errors
    /// [`BackendError::Refused`] when the library is not installed, or does not take these extents.
    pub(crate) fn new(
        wanted: Fourier,
        context: &Arc<CudaContext>,
        ledger: &Rc<Ledger>,
    ) -> Result<PlannedFourier, BackendError> {
        let api = api()?;
        let mut handle = 0;
        // SAFETY: the argument outlives the call.
        check("making a plan", unsafe { (api.create)(&mut handle) })?;
        let plan = Plan { api, handle };
        // SAFETY: the plan is alive.
        check("making a plan", unsafe { (api.auto_allocation)(handle, 0) })?;
        let mut extents = [wanted.rows, wanted.columns].map(|extent| extent as i64);
        let used = if wanted.rows == 1 { &mut extents[1..] } else { &mut extents[..] };
        let (kind, none) = (if wanted.real { R2C } else { C2C }, std::ptr::null_mut());
        let mut bytes = 0;
        // SAFETY: the plan is alive and the arguments outlive the call. Without padded extents the arrays are dense, and distances do
        // not count.
        let status = unsafe {
            (api.make)(
                handle,
                used.len() as c_int,
                used.as_mut_ptr(),
                none,
                1,
                0,
                none,
                1,
                0,
                kind,
                wanted.batch as i64,
                &mut bytes,
            )
        };
        check("planning", status)?;
        let workspace = match bytes {
            0 => None,
            _ => Some(Buffer::new(context, ledger, "the library's workspace", bytes as u64)?),
        };
        if let Some(workspace) = &workspace {
            // SAFETY: the memory has the size that the plan asks for, and lives as long as the plan.
            check("giving memory", unsafe { (api.work_area)(handle, address(workspace.pointer())) })?;
        }
        Ok(PlannedFourier { plan, wanted, _workspace: workspace })
    }

    /// The library's version, for messages.
    pub(crate) fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: the argument outlives the call. A failure leaves zero.
        let _ = unsafe { (self.plan.api.version)(&mut version) };
        format!("cuFFT {}.{}.{}", version / 1000, version / 100 % 10, version % 100)
    }

    /// Name of the launching call.
    pub(crate) fn call(&self) -> &'static str {
        if self.wanted.real { "cufftExecR2C" } else { "cufftExecC2C" }
    }

    /// Queues the transforms on the stream.
    ///
    /// # Safety
    /// The context is current. The pointers are device addresses of the plan's input and result. The memory stays alive until the stream
    /// has been synchronised.
    pub(crate) unsafe fn launch(&self, [x, out]: [CUdeviceptr; 2], stream: CUstream) -> Result<(), BackendError> {
        let Plan { api, handle } = self.plan;
        let sign = if self.wanted.inverse { 1 } else { -1 };
        // SAFETY: the plan is alive; the stream is the caller's, of the same context.
        check("taking a stream", unsafe { (api.stream)(handle, stream) })?;
        // SAFETY: the caller guarantees the memory. A transform of complex numbers out of place keeps its input, and so does one of real
        // numbers.
        let status = unsafe {
            match self.wanted.real {
                true => (api.real)(handle, address(x), address(out)),
                false => (api.complex)(handle, address(x), address(out), sign),
            }
        };
        check("transforming", status)
    }
}

/// Address on the device, as the library takes it.
fn address(pointer: CUdeviceptr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(pointer as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_the_right_kind() {
        assert!(check("planning", SUCCESS).is_ok());
        assert!(matches!(check("planning", ALLOC_FAILED), Err(BackendError::OutOfMemory(_))));
        assert!(matches!(check("planning", INVALID_SIZE), Err(BackendError::Refused(_))));
        assert!(matches!(check("planning", 6), Err(BackendError::Device(_))));
    }

    #[test]
    fn without_the_library_the_sentence_names_it() {
        // Where the library is installed, the test is that it loads.
        match api() {
            Ok(api) => {
                let mut version = 0;
                // SAFETY: the argument outlives the call.
                assert_eq!(unsafe { (api.version)(&mut version) }, SUCCESS);
                assert!(version > 0);
            }
            Err(error) => {
                assert!(matches!(error, BackendError::Refused(_)));
                assert!(error.to_string().contains("libcufft"), "{error}");
            }
        }
    }
}
