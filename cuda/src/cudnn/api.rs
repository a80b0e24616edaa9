//! The library itself: found, loaded, and the few calls that are needed.
//!
//! The calls are those that cuDNN has had since its seventh version. NVIDIA calls them legacy, and answers them by the engines
//! of its graph interface.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::cudnn::sys;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use libloading::Library;
use parallax_core::device::BackendError;
use parallax_core::suite::ConvPass;

use crate::libraries;
use crate::libraries::Wanted;

pub(crate) const WANTED: Wanted = Wanted {
    stem: "cudnn",
    versions: &["", ".9", ".8"],
    windows: &["cudnn64_9.dll", "cudnn64_8.dll"],
    variable: None,
    toolkit: None,
    wheel: "cudnn",
};

/// Objects of the library, which it hands out as pointers.
pub(super) type Object = *mut c_void;
type Make = unsafe extern "C" fn(*mut Object) -> c_int;
pub(super) type Destroy = unsafe extern "C" fn(Object) -> c_int;

/// How an object is made, and what destroys it.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    make: Make,
    destroy: Destroy,
}

/// The calls of one of the three passes, which take the same arguments.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    /// Library, first and second operand, convolution, result, how many, how many there are, and where they go.
    pub(super) heuristic:
        unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut c_int, *mut Offer) -> c_int,
    /// Library, first and second operand, convolution, result, algorithm, and where the bytes go.
    pub(super) workspace: unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut usize) -> c_int,
    /// Library, alpha, first and second operand each with its memory, convolution, algorithm, workspace, beta, result.
    #[allow(clippy::type_complexity, reason = "the signature is NVIDIA's")]
    pub(super) run: unsafe extern "C" fn(
        Object,
        *const c_void,
        Object,
        CUdeviceptr,
        Object,
        CUdeviceptr,
        Object,
        c_int,
        CUdeviceptr,
        usize,
        *const c_void,
        Object,
        CUdeviceptr,
    ) -> c_int,
}

/// The calls, resolved once. The library stays loaded as long as the pointers exist.
pub(super) struct Api {
    pub(super) handle: Kind,
    pub(super) tensor: Kind,
    pub(super) filter: Kind,
    pub(super) convolution: Kind,
    pub(super) activation: Kind,
    pub(super) version: unsafe extern "C" fn() -> usize,
    status: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) stream: unsafe extern "C" fn(Object, CUstream) -> c_int,
    /// Tensor, type, how many dimensions, extents, distances.
    pub(super) set_tensor: unsafe extern "C" fn(Object, c_int, c_int, *const c_int, *const c_int) -> c_int,
    /// Kernels, type, order, how many dimensions, extents.
    pub(super) set_filter: unsafe extern "C" fn(Object, c_int, c_int, c_int, *const c_int) -> c_int,
    /// Convolution, how many dimensions, padding, stride, dilation, mode, type of the sums.
    pub(super) set_convolution:
        unsafe extern "C" fn(Object, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int) -> c_int,
    pub(super) set_groups: unsafe extern "C" fn(Object, c_int) -> c_int,
    pub(super) set_math: unsafe extern "C" fn(Object, c_int) -> c_int,
    /// Activation, mode, what becomes of numbers that are none, coefficient.
    pub(super) set_activation: unsafe extern "C" fn(Object, c_int, c_int, f64) -> c_int,
    passes: [Calls; 3],
    /// Library, alpha 1, image, kernels, convolution, algorithm, workspace, alpha 2, what is added, bias, activation, result.
    #[allow(clippy::type_complexity, reason = "the signature is NVIDIA's")]
    pub(super) fused: unsafe extern "C" fn(
        Object,
        *const c_void,
        Object,
        CUdeviceptr,
        Object,
        CUdeviceptr,
        Object,
        c_int,
        CUdeviceptr,
        usize,
        *const c_void,
        Object,
        CUdeviceptr,
        Object,
        CUdeviceptr,
        Object,
        Object,
        CUdeviceptr,
    ) -> c_int,
    /// Library, alpha, what is added, beta, what it is added to.
    pub(super) add:
        unsafe extern "C" fn(Object, *const c_void, Object, CUdeviceptr, *const c_void, Object, CUdeviceptr) -> c_int,
    /// Library, activation, alpha, what it is of, beta, result.
    pub(super) activate: unsafe extern "C" fn(
        Object,
        Object,
        *const c_void,
        Object,
        CUdeviceptr,
        *const c_void,
        Object,
        CUdeviceptr,
    ) -> c_int,
    _library: Library,
}

/// `cudnnConvolutionFwdAlgoPerf_t` and its two likes, with enums as the numbers that they are: a newer library may know more.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offer {
    pub(super) algorithm: c_int,
    pub(super) status: c_int,
    pub(super) time: f32,
    pub(super) memory: usize,
    pub(super) determinism: c_int,
    pub(super) math: c_int,
    pub(super) reserved: [c_int; 3],
}

/// The library of this process, loaded at the first call.
pub(super) fn api() -> Result<&'static Api, BackendError> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| libraries::load(&WANTED, |file, _| resolve(file)).map(|(api, _)| api));
    loaded.as_ref().map_err(|tried| {
        BackendError::Unsupported(format!(
            "cuDNN, NVIDIA's library of convolutions (libcudnn), could not be loaded (tried: {tried}). Install cuDNN 9, or \
             run `pip install nvidia-cudnn-cu13`"
        ))
    })
}

fn resolve(file: &std::path::Path) -> Result<Api, libloading::Error> {
    // SAFETY: the library's initialisers touch nothing of ours, and every symbol is given the signature of its header,
    // with enums as the integers, objects as the pointers, and device memory as the addresses that they are.
    unsafe {
        let library = Library::new(file)?;
        Ok(Api {
            handle: Kind { make: *library.get(c"cudnnCreate")?, destroy: *library.get(c"cudnnDestroy")? },
            tensor: Kind {
                make: *library.get(c"cudnnCreateTensorDescriptor")?,
                destroy: *library.get(c"cudnnDestroyTensorDescriptor")?,
            },
            filter: Kind {
                make: *library.get(c"cudnnCreateFilterDescriptor")?,
                destroy: *library.get(c"cudnnDestroyFilterDescriptor")?,
            },
            convolution: Kind {
                make: *library.get(c"cudnnCreateConvolutionDescriptor")?,
                destroy: *library.get(c"cudnnDestroyConvolutionDescriptor")?,
            },
            activation: Kind {
                make: *library.get(c"cudnnCreateActivationDescriptor")?,
                destroy: *library.get(c"cudnnDestroyActivationDescriptor")?,
            },
            version: *library.get(c"cudnnGetVersion")?,
            status: *library.get(c"cudnnGetErrorString")?,
            stream: *library.get(c"cudnnSetStream")?,
            set_tensor: *library.get(c"cudnnSetTensorNdDescriptor")?,
            set_filter: *library.get(c"cudnnSetFilterNdDescriptor")?,
            set_convolution: *library.get(c"cudnnSetConvolutionNdDescriptor")?,
            set_groups: *library.get(c"cudnnSetConvolutionGroupCount")?,
            set_math: *library.get(c"cudnnSetConvolutionMathType")?,
            set_activation: *library.get(c"cudnnSetActivationDescriptor")?,
            passes: [
                Calls {
                    heuristic: *library.get(c"cudnnGetConvolutionForwardAlgorithm_v7")?,
                    workspace: *library.get(c"cudnnGetConvolutionForwardWorkspaceSize")?,
                    run: *library.get(c"cudnnConvolutionForward")?,
                },
                Calls {
                    heuristic: *library.get(c"cudnnGetConvolutionBackwardDataAlgorithm_v7")?,
                    workspace: *library.get(c"cudnnGetConvolutionBackwardDataWorkspaceSize")?,
                    run: *library.get(c"cudnnConvolutionBackwardData")?,
                },
                Calls {
                    heuristic: *library.get(c"cudnnGetConvolutionBackwardFilterAlgorithm_v7")?,
                    workspace: *library.get(c"cudnnGetConvolutionBackwardFilterWorkspaceSize")?,
                    run: *library.get(c"cudnnConvolutionBackwardFilter")?,
                },
            ],
            fused: *library.get(c"cudnnConvolutionBiasActivationForward")?,
            add: *library.get(c"cudnnAddTensor")?,
            activate: *library.get(c"cudnnActivationForward")?,
            _library: library,
        })
    }
}

impl Api {
    /// The calls of a pass.
    pub(super) fn pass(&self, pass: ConvPass) -> Calls {
        match pass {
            ConvPass::Forward { .. } => self.passes[0],
            ConvPass::Image => self.passes[1],
            ConvPass::Kernels => self.passes[2],
        }
    }

    /// Make an object.
    pub(super) fn make(&self, doing: &str, Kind { make, destroy }: Kind) -> Result<Owned, BackendError> {
        let mut object = std::ptr::null_mut();
        // SAFETY: the argument outlives the call; callers that make the library's handle have the context current.
        self.check(doing, unsafe { make(&mut object) })?;
        Ok(Owned { object, destroy })
    }

    /// What a status means for the case.
    pub(super) fn check(&self, doing: &str, status: c_int) -> Result<(), BackendError> {
        if status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS as c_int {
            return Ok(());
        }
        // SAFETY: the library answers every status with a static string.
        let text = unsafe {
            let text = (self.status)(status);
            if text.is_null() {
                format!("status {status}")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(classify(status, format!("cuDNN, {doing}: {text}")))
    }

    /// The version, for people.
    pub(super) fn told_version(&self) -> String {
        // SAFETY: takes nothing and returns a number.
        version(unsafe { (self.version)() })
    }
}

/// Versions have two digits more since the ninth.
fn version(number: usize) -> String {
    let major = if number >= 90_000 { 10_000 } else { 1_000 };
    format!("cuDNN {}.{}.{}", number / major, number % major / 100, number % 100)
}

/// Since the ninth version each kind of failure has a thousand of its own.
fn classify(status: c_int, message: String) -> BackendError {
    use sys::cudnnStatus_t as Status;
    // Of the eighth version: allocation failed; what is asked for is unknown here, or cannot be on this device.
    const ALLOCATION: c_int = 2;
    const UNSUPPORTED: [c_int; 2] = [6, 9];
    let is = |known: Status| status == known as c_int;
    if status == ALLOCATION
        || is(Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
        || is(Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    {
        BackendError::OutOfMemory(message)
    } else if status / 1000 == Status::CUDNN_STATUS_NOT_SUPPORTED as c_int / 1000 || UNSUPPORTED.contains(&status) {
        BackendError::Unsupported(message)
    } else {
        BackendError::Device(message)
    }
}

/// An object that is destroyed by the call that belongs to it.
pub(super) struct Owned {
    pub(super) object: Object,
    destroy: Destroy,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the call that `destroy` belongs to, and destroyed only here. A failure changes nothing.
        let _ = unsafe { (self.destroy)(self.object) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offers_of_the_heuristics_have_the_headers_layout() {
        use std::mem::offset_of;
        macro_rules! same {
            ($($header:ty),*) => {$(
                assert_eq!(size_of::<Offer>(), size_of::<$header>());
                assert_eq!(offset_of!(Offer, algorithm), offset_of!($header, algo));
                assert_eq!(offset_of!(Offer, status), offset_of!($header, status));
                assert_eq!(offset_of!(Offer, time), offset_of!($header, time));
                assert_eq!(offset_of!(Offer, memory), offset_of!($header, memory));
                assert_eq!(offset_of!(Offer, determinism), offset_of!($header, determinism));
                assert_eq!(offset_of!(Offer, math), offset_of!($header, mathType));
                assert_eq!(offset_of!(Offer, reserved), offset_of!($header, reserved));
            )*};
        }
        same!(
            sys::cudnnConvolutionFwdAlgoPerfStruct,
            sys::cudnnConvolutionBwdDataAlgoPerfStruct,
            sys::cudnnConvolutionBwdFilterAlgoPerfStruct
        );
    }

    #[test]
    fn statuses_become_the_right_kind() {
        let kind = |status: sys::cudnnStatus_t| classify(status as c_int, String::new());
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED), BackendError::Unsupported(_)));
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_LAYOUT), BackendError::Unsupported(_)));
        assert!(matches!(
            kind(sys::cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED),
            BackendError::OutOfMemory(_)
        ));
        assert!(matches!(kind(sys::cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED), BackendError::Device(_)));
        assert!(matches!(classify(9, String::new()), BackendError::Unsupported(_)), "of the eighth version");
    }

    #[test]
    fn versions_are_told_as_people_write_them() {
        assert_eq!(version(92_600), "cuDNN 9.26.0");
        assert_eq!(version(8_907), "cuDNN 8.9.7");
    }

    #[test]
    fn without_the_library_the_sentence_names_it() {
        // Where it is installed there is nothing to say, and loading it is what is tested.
        match api() {
            Ok(api) => assert!(api.told_version().starts_with("cuDNN ")),
            Err(error) => {
                assert!(matches!(error, BackendError::Unsupported(_)));
                let told = error.to_string();
                assert!(told.contains("libcudnn") && told.contains("pip install nvidia-cudnn-cu13"), "{told}");
            }
        }
    }
}
