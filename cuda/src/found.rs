//! What of NVIDIA's libraries is here: for whoever asks why something is missing.

use std::path::Path;

use crate::libraries::{self, Wanted};
use crate::nvrtc::{Nvrtc, NvrtcError};
use crate::{cublaslt, cudnn, cupti, nvrtc};

/// One of NVIDIA's libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its name, as people know it.
    pub name: &'static str,
    /// What is not there without it.
    pub serves: &'static str,
    /// Its Python package, the shortest way to have it.
    pub package: &'static str,
    /// The package of NVIDIA's that has it, as people know it.
    pub part_of: &'static str,
    /// Whether nothing runs without it.
    pub needed: bool,
    /// Where it was found, or every place that was tried.
    pub found: Result<String, String>,
}

/// Look for each of the libraries where its user does. The compiler is that of an open device, or the first that there is.
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
            name: "CUPTI",
            serves: "traces take their times from events and lack the names of a library's kernels",
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
        // They keep threads and handlers of their own, and are not made to be unloaded.
        std::mem::forget(library);
        Ok(())
    };
    libraries::load(wanted, open).map(|((), origin)| origin)
}
