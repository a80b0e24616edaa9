//! State of NVIDIA's libraries on this machine, for the diagnosis of a missing one.

use std::path::Path;

use crate::libraries::Wanted;
use crate::nvrtc::{Nvrtc, NvrtcError};
use crate::{cublaslt, cudnn, cufft, cupti, libraries, nccl, nvrtc};

/// One of NVIDIA's libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Product name.
    pub name: &'static str,
    /// Function that needs it.
    pub serves: &'static str,
    /// Python package, the shortest way to install it.
    pub package: &'static str,
    /// NVIDIA package that contains it.
    pub part_of: &'static str,
    /// Whether the backend cannot run without it.
    pub needed: bool,
    /// Location, or every place of the search.
    pub found: Result<String, String>,
}

/// Searches for each library as its user does. The compiler is that of an open device, or else the first of the search.
pub fn libraries(chosen: Option<&'static Nvrtc>) -> Vec<Library> {
    let compiler = match chosen.map_or_else(nvrtc::get, Ok) {
        Ok(nvrtc) => Ok(format!("{}.{}, {}", nvrtc.version().0, nvrtc.version().1, nvrtc.origin())),
        Err(NvrtcError::Missing { tried }) => Err(tried),
        Err(other) => Err(other.to_string()),
    };
    vec![
        Library {
            name: "NVRTC",
            serves: "kernels cannot be compiled",
            package: "nvidia-cuda-nvrtc",
            part_of: "the CUDA toolkit",
            needed: true,
            found: compiler,
        },
        Library {
            name: "cuBLASLt",
            serves: "variants `vendor` of products are skipped",
            package: "nvidia-cublas",
            part_of: "the CUDA toolkit",
            needed: false,
            found: load(&cublaslt::WANTED),
        },
        Library {
            name: "cuDNN",
            serves: "variants `vendor` and `vendor_tuned` of convolutions and attention are skipped",
            package: "nvidia-cudnn-cu13",
            part_of: "cuDNN 9",
            needed: false,
            found: load(&cudnn::WANTED),
        },
        Library {
            name: "cuFFT",
            serves: "variants `vendor` of Fourier transforms are skipped",
            package: "nvidia-cufft",
            part_of: "the CUDA toolkit",
            needed: false,
            found: load(&cufft::WANTED),
        },
        Library {
            name: "NCCL",
            serves: "collectives of several GPUs are skipped",
            package: "nvidia-nccl-cu13",
            part_of: "NCCL 2",
            needed: false,
            found: load(&nccl::WANTED),
        },
        Library {
            name: "CUPTI",
            serves: "traces take their times from events and lack the names of a library's kernels, and `--counters` reads none",
            package: "nvidia-cuda-cupti",
            part_of: "the CUDA toolkit",
            needed: false,
            found: load(&cupti::WANTED),
        },
    ]
}

fn load(wanted: &Wanted) -> Result<String, String> {
    let open = |file: &Path, _: Option<&Path>| -> Result<(), libloading::Error> {
        // SAFETY: NVIDIA's libraries may be loaded anywhere.
        let library = unsafe { libloading::Library::new(file) }?;
        // The libraries start threads and handlers, and do not support unloading.
        std::mem::forget(library);
        Ok(())
    };
    libraries::load(wanted, open).map(|((), origin)| origin)
}
