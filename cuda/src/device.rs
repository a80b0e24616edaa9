//! Opens and describes a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use parallax_schema::case::DType;
use parallax_schema::device::identity::{Identity, pci_address};
use parallax_schema::device::{Caps, CudaCaps, DeviceInfo, DeviceKind, Dialect};
use parallax_schema::units::Bytes;

use crate::arch::Arch;
use crate::driver::{CudaContext, DriverError, device_attribute, device_count, device_name, device_uuid};
use crate::errors::remedy;
use crate::nvrtc::{Nvrtc, NvrtcError};
use crate::{driver, nvrtc};

/// Reason for which CUDA is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The driver's library is not installed.
    #[error(
        "no NVIDIA driver: the CUDA driver library (libcuda.so.1, on Windows nvcuda.dll) is not on the loader's path. \
             Install the driver of an NVIDIA GPU; in a container, pass the GPU through (`--gpus all`)"
    )]
    NoDriver,
    /// The loader found the CUDA toolkit's stub in the driver's place.
    #[error(
        "libcuda on the loader's path is the CUDA toolkit's stub (folder `stubs`), no driver: take the folder off LD_LIBRARY_PATH, \
         and install the NVIDIA driver if there is none"
    )]
    Stub,
    /// The driver is too old for the calls of this crate.
    #[error("the NVIDIA driver supports CUDA {0}.{1}, at least 12.8 is needed: update the driver")]
    OldDriver(u32, u32),
    /// The driver reports no device with this number.
    #[error("there is no CUDA device {wanted}, the driver shows {count}: check `nvidia-smi` and CUDA_VISIBLE_DEVICES")]
    NoDevice {
        /// Number of the requested device.
        wanted: usize,
        /// Number of devices.
        count: usize,
    },
    /// The driver reports fewer devices than a group needs.
    #[error("a group of {wanted} GPUs from CUDA device {first} on needs {}, the driver shows {count}", .first + .wanted)]
    TooFew {
        /// Number of GPUs of the group.
        wanted: usize,
        /// Number of its first device.
        first: usize,
        /// Number of devices.
        count: usize,
    },
    /// The compiler cannot be loaded.
    #[error(transparent)]
    NoCompiler(#[from] NvrtcError),
    /// The driver lacks calls that are necessary to open a device.
    #[error(
        "the NVIDIA driver lacks {}: reinstall it, or remove other files named libcuda from the loader's path",
        listed(.0)
    )]
    Lacks(Vec<&'static str>),
    /// A driver call failed.
    #[error("the CUDA driver failed while {doing}: {message}; {}", remedy(*.code))]
    Driver {
        /// The attempted action.
        doing: &'static str,
        /// The driver's error code.
        code: Option<i32>,
        /// The code and the driver's message.
        message: String,
    },
}

impl Unavailable {
    /// Remedy for a driver error. `None` where the message contains the remedy.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Unavailable::Driver { code, .. } => Some(remedy(*code)),
            _ => None,
        }
    }
}

/// Returns the first names of a list of calls, and the number of the rest.
pub fn listed(calls: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown = calls[..calls.len().min(SHOWN)].join(", ");
    match calls.len().saturating_sub(SHOWN) {
        0 if calls.len() == 1 => format!("the call {shown}"),
        0 => format!("the calls {shown}"),
        more => format!("the calls {shown} and {more} more"),
    }
}

/// First driver version with every call made here (`cuEventElapsedTime_v2`).
const OLDEST_DRIVER: i32 = 12_080;

/// An open device.
pub(crate) struct Device {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) arch: Arch,
    pub(crate) info: DeviceInfo,
    /// A compiler that supports the device.
    pub(crate) compiler: &'static Nvrtc,
}

/// Returns a function that wraps a driver error, with the attempted action, in [`Unavailable::Driver`].
pub(crate) fn failed(doing: &'static str) -> impl Fn(DriverError) -> Unavailable {
    move |error| Unavailable::Driver { doing, code: error.code(), message: error.to_string() }
}

impl Device {
    pub(crate) fn open(ordinal: usize) -> Result<Device, Unavailable> {
        let driver = driver::driver().ok_or(Unavailable::NoDriver)?;
        if driver.is_stub() {
            return Err(Unavailable::Stub);
        }
        // A missing version call is in the list of missing calls.
        let version = match driver.version() {
            Err(error @ DriverError::Code(_)) => return Err(failed("asking for its version")(error)),
            version => version.unwrap_or(OLDEST_DRIVER),
        };
        let (major, minor) = ((version / 1000).max(0) as u32, (version % 1000 / 10).max(0) as u32);
        if version < OLDEST_DRIVER {
            return Err(Unavailable::OldDriver(major, minor));
        }
        let lacking = driver.lacks_to_open();
        if !lacking.is_empty() {
            return Err(Unavailable::Lacks(lacking));
        }
        let count = count(driver)?;
        if ordinal >= count {
            return Err(Unavailable::NoDevice { wanted: ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(failed("opening the device"))?;
        let (arch, mut info) = describe_device(&context, (major, minor)).map_err(failed("describing the device"))?;
        let compiler = nvrtc::for_device(arch, Some((major, minor)))?;
        if let Some(cuda) = &mut info.caps.cuda {
            cuda.half_headers = compiler.headers().is_some();
        }
        Ok(Device { context, arch, info, compiler })
    }
}

/// Whether a driver is installed. It may be broken.
pub fn driver_is_here() -> bool {
    driver::driver().is_some()
}

fn count(driver: &driver::Driver) -> Result<usize, Unavailable> {
    let none = |error: DriverError| error.is(CUresult::CUDA_ERROR_NO_DEVICE);
    match driver.started {
        Err(error) if none(error) => Ok(0),
        Err(error) => Err(failed("starting")(error)),
        Ok(()) => match device_count() {
            Err(error) if none(error) => Ok(0),
            count => count.map_err(failed("counting devices")),
        },
    }
}

/// Name and identity of every device that the driver reports, in order of number. Empty without a driver that starts. Opens no
/// device.
pub fn devices() -> Vec<(String, Identity)> {
    let described = |ordinal: usize| {
        let device = driver::device(ordinal)?;
        let name = device_name(device)?;
        let identity = identity(device, &name);
        Ok((name, identity))
    };
    let known = (0..driver::driver().and_then(|driver| count(driver).ok()).unwrap_or(0)).map(described);
    known.map(|device: Result<_, DriverError>| device.unwrap_or_default()).collect()
}

/// Returns the identity of a device's GPU. The PCI address is the host's, in containers too. A MIG instance has the address of its
/// GPU.
fn identity(device: sys::CUdevice, name: &str) -> Identity {
    use Attribute::{
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID as BUS, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID as DEVICE,
        CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID as DOMAIN,
    };
    let number = |which| device_attribute(device, which).ok();
    let pci = || pci_address(&format!("{:x}:{:x}:{:x}", number(DOMAIN)?, number(BUS)?, number(DEVICE)?));
    Identity { pci: pci(), uuid: device_uuid(device).ok().map(|id| uuid(id, is_slice(name))), model: None }
}

/// Whether a device name is that of a MIG instance. The driver names it by the GPU's name and the instance's profile.
fn is_slice(name: &str) -> bool {
    name.contains(" MIG ")
}

/// Formats a UUID as the driver's tools do.
fn uuid(id: sys::CUuuid, slice: bool) -> String {
    let hex = |bytes: &[std::ffi::c_char]| bytes.iter().map(|b| format!("{:02x}", *b as u8)).collect::<String>();
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&id.bytes[part]));
    format!("{}-{a}-{b}-{c}-{d}-{e}", if slice { "MIG" } else { "GPU" })
}

/// Maximum static shared memory of a block, on every architecture.
const STATIC_SHARED_BYTES: u32 = 49_152;

fn describe_device(context: &CudaContext, (major, minor): (u32, u32)) -> Result<(Arch, DeviceInfo), DriverError> {
    let attribute = |attribute| context.attribute(attribute).map(|value| value.max(0) as u32);
    let arch = Arch::new(
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let memory = Bytes(context.total_mem()?);
    let mut dtypes = vec![DType::F32, DType::F16];
    if arch.major >= 8 {
        dtypes.push(DType::BF16);
    }
    let warp = attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
    let caps = Caps {
        dialect: Dialect::Cuda,
        dtypes,
        subgroup: Some((warp, warp)),
        shared_bytes: STATIC_SHARED_BYTES,
        max_invocations: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_workgroup: [
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_grid: [
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_binding: memory,
        max_storage_buffers: None,
        memory: Some(memory),
        compute_capability: Some((arch.major, arch.minor)),
        ranks: 1,
        compute_units: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?),
        matrices: Vec::new(),
        in_a_browser: false,
        matrix_units: arch.major >= 7,
        cuda: Some(cuda_caps(context, arch)?),
        cube: false,
        no_cube: None,
        tuning: Default::default(),
    };
    // A driver that does not know one of the attributes below reports a shorter list.
    let limits: BTreeMap<String, u64> = LIMITS
        .iter()
        .filter_map(|(name, which)| Some(((*name).to_owned(), u64::try_from(context.attribute(*which).ok()?).ok()?)))
        .collect();
    let on = |(_, which): &&(&str, Attribute)| context.attribute(*which).is_ok_and(|value| value != 0);
    let features = FEATURES.iter().filter(on).map(|(name, _)| (*name).to_owned()).collect();
    let integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0;
    let name = device_name(context.cu_device())?;
    let info = DeviceInfo {
        identity: identity(context.cu_device(), &name),
        name,
        vendor: "NVIDIA".to_owned(),
        kind: if integrated { DeviceKind::Integrated } else { DeviceKind::Discrete },
        api: format!("CUDA {major}.{minor}"),
        driver: driver_version().unwrap_or_else(|| "unknown".to_owned()),
        ranks: 1,
        caps,
        limits,
        features,
    };
    Ok((arch, info))
}

/// Cluster size that every device with clusters supports. A larger one needs a kernel attribute.
const PORTABLE_CLUSTER: u32 = 8;

/// Returns the launch capabilities. A driver without attributes for clusters and tensor maps reports none.
fn cuda_caps(context: &CudaContext, arch: Arch) -> Result<CudaCaps, DriverError> {
    let has = |attribute| context.attribute(attribute).is_ok_and(|value| value != 0);
    let shared = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Ok(CudaCaps {
        max_cluster: if has(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) { PORTABLE_CLUSTER } else { 1 },
        max_block_shared_bytes: shared.max(0) as u32,
        tensor_maps: has(Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED),
        wgmma: arch.has_wgmma(),
        // Set once the compiler has been found.
        half_headers: false,
    })
}

/// Driver version from a file, on Linux. The driver interface reports the CUDA version only.
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    version_in(&text).map(str::to_owned)
}

/// Returns the first word of digits and points: a version.
fn version_in(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

const LIMITS: &[(&str, Attribute)] = &[
    ("clock_rate_khz", Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    ("global_memory_bus_width_bits", Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    ("l2_cache_bytes", Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    ("max_blocks_per_multiprocessor", Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
    ("max_persisting_l2_cache_bytes", Attribute::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE),
    ("max_registers_per_block", Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
    ("max_registers_per_multiprocessor", Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
    ("max_shared_memory_per_block", Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    ("max_shared_memory_per_block_optin", Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    ("max_shared_memory_per_multiprocessor", Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    ("max_threads_per_block", Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    ("max_threads_per_multiprocessor", Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
    ("memory_clock_rate_khz", Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
    ("multiprocessor_count", Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    ("total_constant_memory", Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
    ("warp_size", Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
];

const FEATURES: &[(&str, Attribute)] = &[
    ("cluster_launch", Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH),
    ("compute_preemption", Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED),
    ("concurrent_kernels", Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS),
    ("cooperative_launch", Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
    ("ecc_enabled", Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
    ("managed_memory", Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    ("memory_pools", Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    ("tensor_map_access", Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED),
    ("unified_addressing", Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_a_card_has_the_name_that_tools_give_it() {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (0x1f, 0x2e);
        let id = |name| uuid(sys::CUuuid { bytes }, is_slice(name));
        assert_eq!(id("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "MIG-1f000000-0000-0000-0000-00000000002e");
        assert_eq!(id("NVIDIA A100-SXM4-40GB"), "GPU-1f000000-0000-0000-0000-00000000002e");
    }

    #[test]
    fn few_of_many_calls_are_named() {
        assert_eq!(listed(&["cuInit"]), "the call cuInit");
        assert_eq!(listed(&["a", "b"]), "the calls a, b");
        let many = listed(&["x"; 20]);
        assert!(many.starts_with("the calls x, x, ") && many.ends_with(" and 8 more"), "{many}");
    }

    #[test]
    fn the_driver_version_is_found_in_both_wordings() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)\n";
        assert_eq!(version_in(closed), Some("550.54.15"));
        assert_eq!(version_in(open), Some("580.65.06"));
        assert_eq!(version_in("no version here."), None);
    }
}
