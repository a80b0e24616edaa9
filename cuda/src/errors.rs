//! Driver errors as [`BackendError`]s.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use parallax_core::device::BackendError;

/// What a driver call was for, in front of what the driver said about it.
pub(crate) trait Context<T> {
    /// Map the error; `doing` completes the sentence "... failed".
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, BackendError>;
}

impl<T> Context<T> for Result<T, DriverError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, BackendError> {
        self.map_err(|error| classify(error.0, format!("{}: {}", doing(), describe(error))))
    }
}

/// The driver's name of an error and its explanation.
pub(crate) fn describe(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{:?} ({})", error.0, text.to_string_lossy()),
        Err(_) => format!("{:?}", error.0),
    }
}

fn classify(code: CUresult, message: String) -> BackendError {
    match code {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => BackendError::OutOfMemory(message),
        // The kernel asks for more than the device has, not more than is free.
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES | CUresult::CUDA_ERROR_NOT_SUPPORTED => {
            BackendError::Unsupported(message)
        }
        // A stage does what no graph can hold.
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => BackendError::Unsupported(message),
        // After one of these every later call fails too: the context must be rebuilt.
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_ASSERT
        | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | CUresult::CUDA_ERROR_DEINITIALIZED => BackendError::Lost(message),
        _ => BackendError::Device(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_the_right_kind() {
        let kind = |code| classify(code, String::new());
        assert!(matches!(kind(CUresult::CUDA_ERROR_OUT_OF_MEMORY), BackendError::OutOfMemory(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), BackendError::Lost(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), BackendError::Unsupported(_)));
        let no_graph = kind(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert!(matches!(no_graph, BackendError::Unsupported(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_INVALID_VALUE), BackendError::Device(_)));
    }
}
