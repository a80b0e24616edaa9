//! The NCCL library: search, loading, and the calls that Parallax needs.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use libloading::Library;
use parallax_ir::device::BackendError;

use crate::ffi::{self, Destroy, Object, status_string};
use crate::libraries;
use crate::libraries::Wanted;

pub(crate) const WANTED: Wanted =
    Wanted { stem: "nccl", versions: &["", ".2"], windows: &[], variable: None, toolkit: None, wheel: "nccl" };

/// Call that sends and receives: both addresses, count, type, communicator, stream.
type Gather = unsafe extern "C" fn(CUdeviceptr, CUdeviceptr, usize, c_int, Object, CUstream) -> c_int;
/// The same with an operation or a root before the communicator.
type Reduce = unsafe extern "C" fn(CUdeviceptr, CUdeviceptr, usize, c_int, c_int, Object, CUstream) -> c_int;
/// Call to or from one peer: address, count, type, peer, communicator, stream.
type Peer = unsafe extern "C" fn(CUdeviceptr, usize, c_int, c_int, Object, CUstream) -> c_int;

/// Identity of a connection between processes: `ncclUniqueId`, which the library takes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id(pub(crate) [u8; ID]);

/// Bytes of an identity: `NCCL_UNIQUE_ID_BYTES`.
pub(crate) const ID: usize = 128;

/// The calls, resolved once. The library stays loaded as long as the pointers exist. Enums are integers.
pub(super) struct Api {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    status: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Message of the last error of a communicator, or of any for a null pointer.
    message: unsafe extern "C" fn(Object) -> *const c_char,
    /// Communicators, number of devices, their numbers.
    pub(super) init_all: unsafe extern "C" fn(*mut Object, c_int, *const c_int) -> c_int,
    /// Identity of a connection between processes.
    pub(super) unique_id: unsafe extern "C" fn(*mut Id) -> c_int,
    /// Communicator, number of ranks, identity, own rank.
    pub(super) init_rank: unsafe extern "C" fn(*mut Object, c_int, Id, c_int) -> c_int,
    pub(super) destroy: Destroy,
    pub(super) group_start: unsafe extern "C" fn() -> c_int,
    pub(super) group_end: unsafe extern "C" fn() -> c_int,
    pub(super) all_reduce: Reduce,
    pub(super) reduce_scatter: Reduce,
    pub(super) broadcast: Reduce,
    pub(super) all_gather: Gather,
    pub(super) send: Peer,
    pub(super) receive: Peer,
    _library: Library,
}

/// The library of this process, loaded at the first call.
///
/// # Errors
/// [`BackendError::Refused`] with every place of the search.
pub(super) fn api() -> Result<&'static Api, BackendError> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| libraries::load(&WANTED, |file, _| resolve(file)).map(|(api, _)| api));
    loaded.as_ref().map_err(|tried| {
        BackendError::Refused(format!(
            "NCCL, NVIDIA's library of exchanges between GPUs (libnccl), could not be loaded (tried: {tried}). Install \
             NCCL, or run `pip install nvidia-nccl-cu13`"
        ))
    })
}

fn resolve(file: &std::path::Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library's initialisers touch no memory of this program. Every symbol has the signature of its header, with enums
    // as integers, and objects and device memory as addresses.
    unsafe {
        ffi::resolve!(file => Api {
            version: c"ncclGetVersion",
            status: c"ncclGetErrorString",
            message: c"ncclGetLastError",
            init_all: c"ncclCommInitAll",
            unique_id: c"ncclGetUniqueId",
            init_rank: c"ncclCommInitRank",
            destroy: c"ncclCommDestroy",
            group_start: c"ncclGroupStart",
            group_end: c"ncclGroupEnd",
            all_reduce: c"ncclAllReduce",
            reduce_scatter: c"ncclReduceScatter",
            broadcast: c"ncclBroadcast",
            all_gather: c"ncclAllGather",
            send: c"ncclSend",
            receive: c"ncclRecv",
        })
    }
}

impl Api {
    /// Version as a number: 10 000 times the major, 100 times the minor, and the patch. Zero if the library gives none.
    pub(super) fn version(&self) -> c_int {
        let mut version = 0;
        // SAFETY: the argument outlives the call.
        let status = unsafe { (self.version)(&mut version) };
        if status == 0 { version } else { 0 }
    }

    /// Converts a status to a result.
    pub(super) fn check(&self, doing: &str, status: c_int) -> Result<(), BackendError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library returns static strings.
        let name = unsafe { status_string(self.status, status) }.unwrap_or_else(|| format!("status {status}"));
        // SAFETY: a null pointer asks for the last message of any communicator, which stays until the next error.
        let message = unsafe { (self.message)(std::ptr::null_mut()) };
        // SAFETY: the message is null or ends with a zero.
        let message = (!message.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy());
        let message = message.filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!(" ({text})"));
        Err(BackendError::Device(format!("NCCL, {doing}: {name}{message}; NCCL_DEBUG=INFO shows more")))
    }
}

/// Formats a version number of the library.
pub(super) fn version_words(number: c_int) -> String {
    format!("NCCL {}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_words() {
        assert_eq!(version_words(22_703), "NCCL 2.27.3");
    }

    #[test]
    fn without_the_library_the_sentence_names_it() {
        // Where the library is installed, the test is that it loads.
        match api() {
            Ok(api) => assert!(api.version() > 20_000),
            Err(error) => {
                assert!(matches!(error, BackendError::Refused(_)));
                assert!(error.to_string().contains("libnccl"), "{error}");
            }
        }
    }
}
