//! Instructions and copies of CUDA devices, and numbers of GPUs, that variants require.

use parallax_schema::device::Caps;

use super::Problem;

/// Checks that a device has instructions of warpgroups.
///
/// # Errors
/// Its compute capability.
pub fn has_wgmma(caps: &Caps) -> Result<(), String> {
    match caps.cuda {
        Some(cuda) if cuda.wgmma => Ok(()),
        _ => Err(format!("wgmma is an instruction of compute capability 9.0, not {:?}", caps.compute_capability)),
    }
}

/// Checks that a device has instructions of warpgroups, and a copy engine for their tiles.
///
/// # Errors
/// The first that it lacks.
pub fn has_wgmma_on_tensor_maps(caps: &Caps) -> Result<(), String> {
    has_wgmma(caps)?;
    match caps.cuda {
        Some(cuda) if cuda.tensor_maps => Ok(()),
        _ => Err("wgmma copies tiles by tensor maps, which this device does not offer".to_owned()),
    }
}

/// Checks that threads of a device copy to shared memory while they compute.
///
/// # Errors
/// Its compute capability.
pub fn has_async_copies(caps: &Caps) -> Result<(), String> {
    match caps.compute_capability {
        found if found >= Some((8, 0)) => Ok(()),
        found => Err(format!("copies begin with compute capability 8.0, not {found:?}")),
    }
}

/// Checks that a target drives as many GPUs as a problem spans.
///
/// # Errors
/// Both numbers, and the flag that asks for more GPUs.
pub fn has_gpus(problem: &Problem, caps: &Caps) -> Result<(), String> {
    match (problem.gpus(), u64::from(caps.ranks)) {
        (needed, driven) if needed <= driven => Ok(()),
        (needed, driven) => {
            Err(format!("needs {needed} GPUs, this target drives {driven}: `--target cuda --gpus {needed}`"))
        }
    }
}
