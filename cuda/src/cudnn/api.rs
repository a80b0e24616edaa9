//! The cuDNN library: search, loading, and the calls of its backend interface, which describes a computation as a graph.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::cudnn::sys;
use cudarc::driver::sys::CUstream;
use libloading::Library;
use parallax_ir::device::BackendError;

use crate::ffi::{self, Object, Owned, status_string};
use crate::libraries;
use crate::libraries::Wanted;

pub(crate) const WANTED: Wanted = Wanted {
    stem: "cudnn",
    versions: &["", ".9"],
    windows: &["cudnn64_9.dll"],
    variable: None,
    toolkit: None,
    wheel: "cudnn",
};

/// Oldest version that supports the graphs of this crate, in the format of [`Api::version`]: 9.1.
pub(super) const OLDEST: usize = 90_100;

/// Maximum length of a message from the library, in bytes.
const MESSAGE: usize = 512;

/// The calls, resolved once. The library stays loaded as long as the pointers exist. Enums are integers, because a newer library
/// may have more values.
pub(super) struct Api {
    version: unsafe extern "C" fn() -> usize,
    status: unsafe extern "C" fn(c_int) -> *const c_char,
    message: unsafe extern "C" fn(*mut c_char, usize),
    create_handle: unsafe extern "C" fn(*mut Object) -> c_int,
    destroy_handle: unsafe extern "C" fn(Object) -> c_int,
    pub(super) set_stream: unsafe extern "C" fn(Object, CUstream) -> c_int,
    /// Kind of descriptor, output pointer.
    pub(super) create: unsafe extern "C" fn(u32, *mut Object) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(Object) -> c_int,
    /// Descriptor, attribute, type, number of values, values.
    pub(super) set: unsafe extern "C" fn(Object, u32, u32, i64, *const c_void) -> c_int,
    /// Descriptor, attribute, type, capacity, number of values, values.
    pub(super) get: unsafe extern "C" fn(Object, u32, u32, i64, *mut i64, *mut c_void) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(Object) -> c_int,
    /// Handle, execution plan, variant pack.
    pub(super) execute: unsafe extern "C" fn(Object, Object, Object) -> c_int,
    _library: Library,
}

/// The library of this process, loaded at the first call.
///
/// # Errors
/// [`BackendError::Refused`] with every place of the search, or for a version that is too old.
pub(super) fn api() -> Result<&'static Api, BackendError> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| libraries::load(&WANTED, |file, _| resolve(file)).map(|(api, _)| api));
    let api = loaded.as_ref().map_err(|tried| {
        BackendError::Refused(format!(
            "cuDNN, NVIDIA's library of convolutions and attention (libcudnn), could not be loaded (tried: {tried}). Install \
             cuDNN 9, or run `pip install nvidia-cudnn-cu13`"
        ))
    })?;
    match api.number() {
        old if old < OLDEST => Err(BackendError::Refused(format!(
            "{} is older than {}, install a newer one",
            version(old),
            version(OLDEST)
        ))),
        _ => Ok(api),
    }
}

fn resolve(file: &std::path::Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library's initialisers touch no memory of this program. Every symbol has the signature of its header, with enums
    // as integers and objects as pointers.
    unsafe {
        ffi::resolve!(file => Api {
            version: c"cudnnGetVersion",
            status: c"cudnnGetErrorString",
            message: c"cudnnGetLastErrorString",
            create_handle: c"cudnnCreate",
            destroy_handle: c"cudnnDestroy",
            set_stream: c"cudnnSetStream",
            create: c"cudnnBackendCreateDescriptor",
            destroy: c"cudnnBackendDestroyDescriptor",
            set: c"cudnnBackendSetAttribute",
            get: c"cudnnBackendGetAttribute",
            finalize: c"cudnnBackendFinalize",
            execute: c"cudnnBackendExecute",
        })
    }
}

impl Api {
    /// Converts a status to a result. The error has the library's own message.
    pub(super) fn check(&self, doing: &str, status: c_int) -> Result<(), BackendError> {
        if status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS as c_int {
            return Ok(());
        }
        let mut message: [c_char; MESSAGE] = [0; MESSAGE];
        // SAFETY: the library writes at most `MESSAGE` bytes, including a final zero.
        let message = unsafe {
            (self.message)(message.as_mut_ptr(), MESSAGE);
            message[MESSAGE - 1] = 0;
            CStr::from_ptr(message.as_ptr())
        };
        let message = message.to_string_lossy();
        let message = message.trim();
        // SAFETY: the library returns static strings.
        let name = unsafe { status_string(self.status, status) }.unwrap_or_else(|| "an unknown status".to_owned());
        let message = if message.is_empty() { String::new() } else { format!(" ({message})") };
        Err(classify(status, format!("cuDNN, {doing}: {name}{message}")))
    }

    /// The version as a number: 91900 is 9.19.0.
    pub(super) fn number(&self) -> usize {
        // SAFETY: takes nothing and returns a number.
        unsafe { (self.version)() }
    }

    /// The version, for messages.
    pub(super) fn version(&self) -> String {
        version(self.number())
    }
}

/// Creates the library's handle of one device: that of the current context.
pub(super) fn handle(api: &Api) -> Result<Owned, BackendError> {
    // SAFETY: the calls are a pair, and the argument outlives the call.
    unsafe {
        Owned::new(api.destroy_handle, |status| api.check("setting up", status), |object| (api.create_handle)(object))
    }
}

/// Formats a version number as major, minor and patch.
fn version(number: usize) -> String {
    let major = if number >= 90_000 { 10_000 } else { 1_000 };
    format!("cuDNN {}.{}.{}", number / major, number % major / 100, number % 100)
}

/// Returns the kind of a failure. Each kind has a range of one thousand codes.
fn classify(status: c_int, message: String) -> BackendError {
    use sys::cudnnStatus_t as Status;
    let thousand = |known: Status| status / 1000 == known as c_int / 1000;
    if status == Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED as c_int
        || status == Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED as c_int
    {
        BackendError::OutOfMemory(message)
    } else if thousand(Status::CUDNN_STATUS_NOT_SUPPORTED) || thousand(Status::CUDNN_STATUS_BAD_PARAM) {
        // The graph is the same on every device. So this library version does not support a rejected parameter on any device.
        BackendError::Unsupported(message)
    } else {
        BackendError::Device(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_the_right_kind() {
        let kind = |status: sys::cudnnStatus_t| classify(status as c_int, String::new());
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED), BackendError::Unsupported(_)));
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_LAYOUT), BackendError::Unsupported(_)));
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_BAD_PARAM), BackendError::Unsupported(_)));
        assert!(matches!(
            kind(sys::cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED),
            BackendError::OutOfMemory(_)
        ));
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED), BackendError::Device(_)));
    }

    #[test]
    fn versions_have_three_numbers() {
        assert_eq!(version(92_600), "cuDNN 9.26.0");
        assert_eq!(version(8_907), "cuDNN 8.9.7");
    }

    #[test]
    fn without_the_library_the_sentence_names_it() {
        // Where the library is installed, it loads.
        match api() {
            Ok(api) => assert!(api.version().starts_with("cuDNN ")),
            Err(error) => {
                assert!(matches!(error, BackendError::Refused(_)));
                let sentence = error.to_string();
                assert!(
                    sentence.contains("libcudnn") && sentence.contains("pip install nvidia-cudnn-cu13"),
                    "{sentence}"
                );
            }
        }
    }
}
