//! The cuDNN library: search, loading, and the calls of its backend interface, which describes a computation as a graph.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::cudnn::sys;
use cudarc::driver::sys::CUstream;
use libloading::Library;
use parallax_ir::device::BackendError;

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

/// A handle or a descriptor.
pub(super) type Object = *mut c_void;

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
        let library = Library::new(file)?;
        Ok(Api {
            version: *library.get(c"cudnnGetVersion")?,
            status: *library.get(c"cudnnGetErrorString")?,
            message: *library.get(c"cudnnGetLastErrorString")?,
            create_handle: *library.get(c"cudnnCreate")?,
            destroy_handle: *library.get(c"cudnnDestroy")?,
            set_stream: *library.get(c"cudnnSetStream")?,
            create: *library.get(c"cudnnBackendCreateDescriptor")?,
            destroy: *library.get(c"cudnnBackendDestroyDescriptor")?,
            set: *library.get(c"cudnnBackendSetAttribute")?,
            get: *library.get(c"cudnnBackendGetAttribute")?,
            finalize: *library.get(c"cudnnBackendFinalize")?,
            execute: *library.get(c"cudnnBackendExecute")?,
            _library: library,
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
        // SAFETY: the library returns a static string for every status. It writes at most `MESSAGE` bytes, including a final zero.
        let texts = unsafe {
            (self.message)(message.as_mut_ptr(), MESSAGE);
            message[MESSAGE - 1] = 0;
            let status = (self.status)(status);
            [if status.is_null() { c"an unknown status".as_ptr() } else { status }, message.as_ptr()]
                .map(|text| CStr::from_ptr(text).to_string_lossy().trim().to_owned())
        };
        let [name, message] = texts;
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

/// The library's handle of one device: that of the context current at its creation.
pub(super) struct Handle {
    api: &'static Api,
    pub(super) object: Object,
}

impl Handle {
    /// Creates a handle of the current context's device.
    pub(super) fn new(api: &'static Api) -> Result<Handle, BackendError> {
        let mut object = std::ptr::null_mut();
        // SAFETY: the argument outlives the call, and the caller has the context current.
        api.check("setting up", unsafe { (api.create_handle)(&mut object) })?;
        Ok(Handle { api, object })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by the matching call. A failure has no effect.
        let _ = unsafe { (self.api.destroy_handle)(self.object) };
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
