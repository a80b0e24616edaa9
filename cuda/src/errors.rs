//! Driver errors as [`BackendError`]s.

use cudarc::driver::sys::CUresult;
use parallax_ir::device::BackendError;

use crate::driver::DriverError;

/// Adds the purpose of a driver call to its error message.
pub(crate) trait Context<T> {
    /// Converts the error; `doing` completes the sentence "... failed".
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, BackendError>;
}

impl<T> Context<T> for Result<T, DriverError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, BackendError> {
        self.map_err(|error| classify(error, format!("{}: {error}", doing())))
    }
}

fn classify(error: DriverError, message: String) -> BackendError {
    let one_of = |known: &[CUresult]| known.iter().any(|known| error.is(*known));
    if one_of(&[CUresult::CUDA_ERROR_OUT_OF_MEMORY]) {
        BackendError::OutOfMemory(message)
    } else if matches!(error, DriverError::Lacks(_)) || one_of(&UNSUPPORTED) {
        BackendError::Unsupported(message)
    } else if one_of(&LOST) {
        BackendError::Lost(message)
    } else {
        BackendError::Device(message)
    }
}

/// Codes of a kernel that exceeds the device's limits (not its free resources), or of a stage that a graph cannot contain.
const UNSUPPORTED: [CUresult; 5] = [
    CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    CUresult::CUDA_ERROR_NOT_SUPPORTED,
    CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
];

/// Codes after which every later call fails too. The context must be recreated.
const LOST: [CUresult; 14] = [
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_DEINITIALIZED,
];

/// Returns the remedy for a failure to open a device.
pub(crate) fn remedy(code: Option<i32>) -> &'static str {
    let is = |known: CUresult| code == Some(known as i32);
    if is(CUresult::CUDA_ERROR_SYSTEM_NOT_READY) {
        "start the fabric manager of the driver's version: `sudo systemctl start nvidia-fabricmanager`"
    } else if is(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) {
        "the driver's library and its kernel module are of different versions: restart, or install both of one version"
    } else if is(CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) {
        "the library is newer than the driver and this GPU does not allow the mismatch: update the driver, or take the toolkit's folder \
         `compat` off LD_LIBRARY_PATH"
    } else if is(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE) {
        "end the process that uses the GPU; `nvidia-smi -q -d COMPUTE` shows whether its mode allows one process only"
    } else if is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
        "end the processes that fill the GPU's memory; `nvidia-smi` lists them"
    } else {
        "`nvidia-smi` says more; after an update of the driver, restart"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_the_right_kind() {
        let kind = |code| classify(DriverError::Code(code as i32), String::new());
        assert!(matches!(kind(CUresult::CUDA_ERROR_OUT_OF_MEMORY), BackendError::OutOfMemory(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), BackendError::Lost(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), BackendError::Unsupported(_)));
        let no_graph = kind(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert!(matches!(no_graph, BackendError::Unsupported(_)));
        assert!(matches!(kind(CUresult::CUDA_ERROR_INVALID_VALUE), BackendError::Device(_)));
    }

    #[test]
    fn a_code_without_a_name_and_a_call_that_is_not_there_are_errors_of_the_case() {
        for code in [47, 227, 917, 919, -1, i32::MAX] {
            let error = Err::<(), _>(DriverError::Code(code)).doing(|| "launching it".to_owned()).expect_err("a code");
            assert!(matches!(&error, BackendError::Device(said) if said.contains(&code.to_string())), "{error}");
        }
        let error = Err::<(), _>(DriverError::Lacks("cuGraphLaunch")).doing(|| "launching it".to_owned());
        assert!(matches!(error, Err(BackendError::Unsupported(said)) if said.contains("cuGraphLaunch")));
    }

    #[test]
    fn each_answer_to_opening_has_its_remedy() {
        for (code, part) in [(802, "fabric"), (803, "different versions"), (804, "mismatch"), (917, "nvidia-smi")] {
            assert!(remedy(Some(code)).contains(part), "{code}: {}", remedy(Some(code)));
        }
    }
}
