//! NVRTC, NVIDIA's run-time compiler: its search, and the calls that Parallax needs.
//!
//! The search takes the first compiler that supports the device's architecture and is no newer than the driver. CUDA 13 does not
//! compile for architectures before 7.5. A driver loads no binary of a later major version.
//!
//! `PARALLAX_NVRTC_DIR` names the folder that holds the library. It replaces the search that all libraries share (the loader's
//! path, the CUDA toolkit, Python wheels).
//!
//! The kernels of Parallax include no header, so they need no include folder: `pip install nvidia-cuda-nvrtc` is enough. The
//! sources that CubeCL generates for 16-bit floats include the toolkit's headers. The compiler uses these where they are installed
//! ([`Nvrtc::headers`]).

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use parallax_schema::device::CUDA_HALVES;

use crate::arch::Arch;
use crate::ffi::{self, status_string};
use crate::libraries;
use crate::libraries::{Refusal, Wanted, names_in};

/// Environment variable that names a folder with the library, instead of the search.
pub const DIR_VARIABLE: &str = "PARALLAX_NVRTC_DIR";

const WANTED: Wanted = Wanted {
    stem: "nvrtc",
    versions: &["", ".13", ".12", ".11.2"],
    windows: &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
    variable: Some(DIR_VARIABLE),
    toolkit: None,
    wheel: "cuda_nvrtc",
};

/// A loaded compiler.
pub struct Nvrtc {
    api: Api,
    /// Major and minor version.
    version: (u32, u32),
    /// Architectures that it compiles for: 90 is `sm_90`.
    archs: Vec<u32>,
    /// File or name of the library, for messages.
    origin: String,
}

/// Error of a compiler that is missing or broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// The library was not found, or did not load.
    #[error(
        "NVRTC, the CUDA compiler library, could not be loaded (tried: {tried}). Install the CUDA toolkit, or run \
         `pip install nvidia-cuda-nvrtc`, or set PARALLAX_NVRTC_DIR to the folder of libnvrtc"
    )]
    Missing {
        /// Every place of the search, with its result.
        tried: String,
    },
    /// No installed compiler supports the device.
    #[error("no NVRTC here compiles for compute capability {}.{}: {}; {remedy}", .arch.major, .arch.minor, .found.join(", "))]
    NoneFits {
        /// The device's compute capability.
        arch: Arch,
        /// Each compiler, with the reason.
        found: Vec<String>,
        /// The remedy.
        remedy: &'static str,
    },
    /// A call failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The function.
        call: &'static str,
        /// The library's message.
        message: String,
    },
    /// The compiler rejected the source.
    #[error("{log}")]
    Rejected {
        /// The compiler's log.
        log: String,
    },
}

type Program = *mut c_void;

/// The calls, resolved once. The library stays loaded as long as the pointers exist.
struct Api {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    arch_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    _library: Library,
    /// The compiler's built-in definitions. It opens them by name, and finds them in any folder once they are loaded.
    _builtins: Vec<Library>,
}

/// Result of `nvrtcCompileProgram` for a rejected source (`NVRTC_ERROR_COMPILATION`).
const REJECTED: c_int = 6;

/// Requirements of a compiler: an architecture, and the CUDA version of the driver. `None` where unknown.
type Purpose = (Option<Arch>, Option<(u32, u32)>);

/// Returns the first compiler of the search.
///
/// # Errors
/// No compiler, or one without the calls that describe it.
pub fn get() -> Result<&'static Nvrtc, NvrtcError> {
    chosen((None, None))
}

/// Returns the first compiler that supports an architecture and that the driver accepts. The choice is made once.
///
/// # Errors
/// No such compiler.
pub fn for_device(arch: Arch, driver: Option<(u32, u32)>) -> Result<&'static Nvrtc, NvrtcError> {
    chosen((Some(arch), driver))
}

fn chosen(purpose: Purpose) -> Result<&'static Nvrtc, NvrtcError> {
    type Choice = (Purpose, Result<&'static Nvrtc, NvrtcError>);
    static CHOSEN: Mutex<Vec<Choice>> = Mutex::new(Vec::new());
    let mut known = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, choice)) = known.iter().find(|(of, _)| *of == purpose) {
        return choice.clone();
    }
    // The compiler stays in memory until the process ends, as the library does.
    let choice = choose(purpose).map(|nvrtc| &*Box::leak(Box::new(nvrtc)));
    known.push((purpose, choice.clone()));
    choice
}

/// Suitability of a compiler.
enum Fit {
    Well,
    /// Newer than the driver, of the same major version: its binaries run.
    Newer,
    /// Unsuitable, with the reason.
    Not(String),
}

/// Returns the suitability of a compiler with this version and these architectures.
fn fit(version: (u32, u32), archs: &[u32], (arch, driver): Purpose) -> Fit {
    if let Some(arch) = arch
        && arch.supported_by(archs).is_none()
    {
        let named = |arch: Option<&u32>| arch.map_or(String::new(), |arch| format!("{}.{}", arch / 10, arch % 10));
        return Fit::Not(format!("knows {} to {}", named(archs.iter().min()), named(archs.iter().max())));
    }
    match driver {
        Some((major, minor)) if version.0 > major => {
            Fit::Not(format!("is newer than the driver's CUDA {major}.{minor}"))
        }
        Some(driver) if version > driver => Fit::Newer,
        _ => Fit::Well,
    }
}

fn choose(purpose: Purpose) -> Result<Nvrtc, NvrtcError> {
    let (mut newer, mut unfit) = (None, Vec::new());
    let take = |file: &Path, folder: Option<&Path>| {
        let origin = file.display().to_string();
        let nvrtc = load_library(file, folder)
            .map_err(Refusal::from)
            .and_then(|api| Nvrtc::describe(api, origin).map_err(|error| Refusal::Unfit(error.to_string())))?;
        let (major, minor) = nvrtc.version;
        match fit(nvrtc.version, &nvrtc.archs, purpose) {
            Fit::Well => Ok(nvrtc),
            Fit::Newer => {
                newer.get_or_insert(nvrtc);
                Err(Refusal::Unfit("it is newer than the driver".to_owned()))
            }
            Fit::Not(why) => {
                let sentence = format!("{major}.{minor} ({}) {why}", nvrtc.origin);
                // One file may have several names.
                if !unfit.iter().any(|(version, _)| *version == nvrtc.version) {
                    unfit.push((nvrtc.version, sentence));
                }
                Err(Refusal::Unfit(why))
            }
        }
    };
    match (libraries::load(&WANTED, take), newer, purpose.0) {
        (Ok((nvrtc, _)), ..) | (Err(_), Some(nvrtc), _) => Ok(nvrtc),
        (Err(_), None, Some(arch)) if !unfit.is_empty() => {
            let (versions, found): (Vec<_>, _) = unfit.into_iter().unzip();
            Err(NvrtcError::NoneFits { arch, found, remedy: remedy(arch, &versions, purpose.1) })
        }
        (Err(tried), ..) => Err(NvrtcError::Missing { tried }),
    }
}

/// Returns the package to install when none of these versions is suitable.
fn remedy(arch: Arch, versions: &[(u32, u32)], driver: Option<(u32, u32)>) -> &'static str {
    /// Oldest architecture of CUDA 13.
    const OLDEST_OF_13: Arch = Arch::new(7, 5);
    let too_new = driver.is_some_and(|(major, _)| versions.iter().any(|version| version.0 > major));
    match arch < OLDEST_OF_13 || too_new {
        true => "install that of CUDA 12 beside it: `pip install nvidia-cuda-nvrtc-cu12`",
        false => "install a newer one: `pip install --upgrade nvidia-cuda-nvrtc`",
    }
}

impl Nvrtc {
    fn describe(api: Api, origin: String) -> Result<Nvrtc, NvrtcError> {
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the signatures are NVRTC's, and the arguments outlive the calls.
        api.check("nvrtcVersion", unsafe { (api.version)(&mut major, &mut minor) })?;
        // SAFETY: as above.
        api.check("nvrtcGetNumSupportedArchs", unsafe { (api.arch_count)(&mut count) })?;
        let mut archs: Vec<c_int> = vec![0; count.max(0) as usize];
        // SAFETY: as above; the array has the length that the library asked for.
        api.check("nvrtcGetSupportedArchs", unsafe { (api.archs)(archs.as_mut_ptr()) })?;
        let archs = archs.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect();
        Ok(Nvrtc { api, version: (major as u32, minor as u32), archs, origin })
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Architectures that it compiles for: 90 is `sm_90`.
    pub fn archs(&self) -> &[u32] {
        &self.archs
    }

    /// File or name that the library was loaded from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Folder of the toolkit's headers, if installed. The search covers the folder beside the compiler, the wheels of CUDA 12 and
    /// 13, the toolkit in `CUDA_HOME` or `CUDA_PATH`, and its usual place.
    pub fn headers(&self) -> Option<PathBuf> {
        let folder = Path::new(&self.origin).parent().filter(|folder| folder.is_absolute());
        let beside = folder.into_iter().flat_map(|lib| {
            ["../include", "../../include", "../../cuda_runtime/include"].map(|relative| lib.join(relative))
        });
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let toolkits = named.chain([PathBuf::from("/usr/local/cuda")]).map(|root| root.join("include"));
        beside.chain(toolkits).find(|folder| folder.join(CUDA_HALVES).is_file())
    }

    /// Compiles a kernel source to a binary for the architecture in the options. Returns the binary and the compiler's warnings.
    ///
    /// # Errors
    /// [`NvrtcError::Rejected`] with the compiler's log for an invalid source.
    pub fn cubin(&self, file: &str, source: &str, options: &[String]) -> Result<(Vec<u8>, String), NvrtcError> {
        let c_string = |text: &str| {
            CString::new(text).map_err(|_| NvrtcError::Rejected { log: format!("{file} contains a zero byte") })
        };
        let (name, source) = (c_string(file)?, c_string(source)?);
        let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();

        let mut program = OwnedProgram { api: &self.api, handle: std::ptr::null_mut() };
        let no_headers = std::ptr::null();
        // SAFETY: all strings outlive the program, which is destroyed at the end of this function.
        let created = unsafe {
            (self.api.create)(&mut program.handle, source.as_ptr(), name.as_ptr(), 0, no_headers, no_headers)
        };
        self.api.check("nvrtcCreateProgram", created)?;
        // SAFETY: the program exists, and the option count matches the array.
        let code = unsafe { (self.api.compile)(program.handle, options.len() as c_int, options.as_ptr()) };
        if code == REJECTED {
            return Err(NvrtcError::Rejected { log: program.log()? });
        }
        self.api.check("nvrtcCompileProgram", code)?;
        Ok((program.bytes("nvrtcGetCUBIN", self.api.cubin_size, self.api.cubin)?, program.log()?))
    }
}

struct OwnedProgram<'a> {
    api: &'a Api,
    handle: Program,
}

impl OwnedProgram<'_> {
    fn log(&self) -> Result<String, NvrtcError> {
        let bytes = self.bytes("nvrtcGetProgramLog", self.api.log_size, self.api.log)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim_end().to_owned())
    }

    /// Returns the bytes of an output. The library returns the size first, and the contents by a second call.
    fn bytes(
        &self,
        call: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut length = 0;
        // SAFETY: the program exists, and the argument outlives the call.
        self.api.check(call, unsafe { size(self.handle, &mut length) })?;
        let mut bytes = vec![0u8; length];
        // SAFETY: as above; the array has the length that the library asked for.
        self.api.check(call, unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created by `nvrtcCreateProgram` and destroyed only here. Nothing can be done about a failure.
            let _ = unsafe { (self.api.destroy)(&mut self.handle) };
        }
    }
}

impl Api {
    fn check(&self, call: &'static str, code: c_int) -> Result<(), NvrtcError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library returns static strings.
        let message = unsafe { status_string(self.error_string, code) }.unwrap_or_else(|| format!("code {code}"));
        Err(NvrtcError::Call { call, message })
    }
}

fn load_library(path: &Path, folder: Option<&Path>) -> Result<Api, libloading::Error> {
    let builtins = folder.map(builtins_in).unwrap_or_default();
    // SAFETY: NVRTC's initialisers touch no memory of this program.
    let builtins = builtins.into_iter().filter_map(|file| unsafe { Library::new(file) }.ok()).collect();
    // SAFETY: as above, and every symbol has the signature of NVRTC's header.
    unsafe {
        ffi::resolve!(path => Api {
            create: c"nvrtcCreateProgram",
            compile: c"nvrtcCompileProgram",
            destroy: c"nvrtcDestroyProgram",
            log_size: c"nvrtcGetProgramLogSize",
            log: c"nvrtcGetProgramLog",
            cubin_size: c"nvrtcGetCUBINSize",
            cubin: c"nvrtcGetCUBIN",
            version: c"nvrtcVersion",
            arch_count: c"nvrtcGetNumSupportedArchs",
            archs: c"nvrtcGetSupportedArchs",
            error_string: c"nvrtcGetErrorString",
        } _builtins: builtins)
    }
}

fn builtins_in(folder: &Path) -> Vec<PathBuf> {
    let is_builtins = |name: &String| name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64_");
    names_in(folder).into_iter().filter(is_builtins).map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtins_are_found_beside_the_compiler() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["libnvrtc-builtins.alt.so.13.0", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13"] {
            std::fs::write(folder.path().join(name), "").expect("writable");
        }
        assert_eq!(builtins_in(folder.path()), [folder.path().join("libnvrtc-builtins.so.13.0")]);
    }

    #[test]
    fn a_compiler_serves_where_it_knows_the_card_and_the_driver_takes_it() {
        let (of_13, of_12) = ([75, 80, 90, 100, 120], [50, 60, 70, 75, 80, 90]);
        let said = |version, archs: &[u32], arch, driver| match fit(version, archs, (Some(arch), driver)) {
            Fit::Well => "well".to_owned(),
            Fit::Newer => "newer".to_owned(),
            Fit::Not(why) => why,
        };
        let [volta, hopper, ada] = [Arch::new(7, 0), Arch::new(9, 0), Arch::new(8, 9)];
        assert_eq!(said((13, 0), &of_13, volta, Some((13, 0))), "knows 7.5 to 12.0");
        assert_eq!(said((12, 8), &of_12, volta, Some((13, 0))), "well");
        assert_eq!(said((13, 0), &of_13, hopper, Some((12, 8))), "is newer than the driver's CUDA 12.8");
        assert_eq!(said((12, 9), &of_12, hopper, Some((12, 8))), "newer");
        assert_eq!(said((12, 8), &of_12, ada, Some((12, 8))), "well", "as its older relative");
        assert_eq!(said((13, 0), &of_13, Arch::new(11, 0), None), "knows 7.5 to 12.0");
        assert!(remedy(volta, &[(13, 0)], None).contains("cu12"));
        assert!(remedy(hopper, &[(13, 0)], Some((12, 8))).contains("cu12"));
        assert!(remedy(Arch::new(13, 0), &[(13, 0)], Some((13, 1))).contains("--upgrade"));
    }

    #[test]
    fn an_empty_file_is_an_error_and_not_a_crash() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("libnvrtc.so.13");
        std::fs::write(&file, "").expect("writable");
        assert!(load_library(&file, Some(folder.path())).is_err());
    }
}
