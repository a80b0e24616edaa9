//! The driver's library: loaded once. All calls are resolved before the first one is made.
//!
//! Result codes cross from C as integers. A newer driver returns codes that the bindings do not contain. Another driver lacks
//! calls. Both are errors here, with the number or the name.

mod calls;
mod handles;

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;
use libloading::Library;

use self::calls::Calls;
pub(crate) use self::calls::*;
pub(crate) use self::handles::*;

/// Error of a driver call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverError {
    /// The driver returned this `CUresult`.
    Code(c_int),
    /// The driver has no call of this name.
    Lacks(&'static str),
}

impl DriverError {
    /// Whether the driver returned this code.
    pub(crate) fn is(self, known: CUresult) -> bool {
        self == DriverError::Code(known as c_int)
    }

    /// Result code of the driver.
    pub(crate) fn code(self) -> Option<c_int> {
        match self {
            DriverError::Code(code) => Some(code),
            DriverError::Lacks(_) => None,
        }
    }
}

/// The code and the driver's message.
impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DriverError::Lacks(call) => write!(f, "the driver lacks the call {call}"),
            DriverError::Code(code) => {
                let name = said(code, cuGetErrorName);
                let text = said(code, cuGetErrorString);
                let parts: Vec<String> = name.into_iter().chain(text).collect();
                match parts.is_empty() {
                    true => write!(f, "error {code}, for which the driver has no name"),
                    false => write!(f, "error {code} ({})", parts.join(": ")),
                }
            }
        }
    }
}

/// Returns the driver's string for a code. `None` for an unknown code.
fn said(code: c_int, ask: unsafe fn(c_int, *mut *const c_char) -> Result<(), DriverError>) -> Option<String> {
    let mut text = std::ptr::null();
    // SAFETY: the argument outlives the call.
    unsafe { ask(code, &mut text) }.ok()?;
    // SAFETY: the driver's strings are static, and end with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Converts a result code to a result.
fn answered(code: c_int) -> Result<(), DriverError> {
    if code == CUresult::CUDA_SUCCESS as c_int { Ok(()) } else { Err(DriverError::Code(code)) }
}

/// A loaded driver.
pub(crate) struct Driver {
    calls: Calls,
    /// Result of `cuInit`.
    pub(crate) started: Result<(), DriverError>,
}

impl Driver {
    fn load(file: &Path) -> Option<Driver> {
        // SAFETY: the driver's library may be loaded anywhere.
        let calls = Calls::resolve(unsafe { Library::new(file) }.ok()?);
        let started = match calls.cuInit {
            // SAFETY: a plain call, made before any other.
            Some(start) => answered(unsafe { start(0) }),
            None => Err(DriverError::Lacks("cuInit")),
        };
        Some(Driver { calls, started })
    }

    /// Whether this is the stub that the CUDA toolkit provides for linkers.
    pub(crate) fn is_stub(&self) -> bool {
        self.started.is_err_and(|error| error.is(CUresult::CUDA_ERROR_STUB_LIBRARY))
    }

    /// Supported CUDA version: major times 1000 plus minor times 10.
    pub(crate) fn version(&self) -> Result<c_int, DriverError> {
        let mut version = 0;
        // SAFETY: the argument outlives the call, which needs no initialisation.
        unsafe { cuDriverGetVersion(&mut version) }?;
        Ok(version)
    }

    /// Missing calls that are necessary to open a device.
    pub(crate) fn lacks_to_open(&self) -> Vec<&'static str> {
        self.calls.missing().filter(|call| TO_OPEN.contains(call)).collect()
    }

    /// Missing calls that are necessary for some cases only.
    pub(crate) fn lacks_for_cases(&self) -> Vec<&'static str> {
        self.calls.missing().filter(|call| !TO_OPEN.contains(call)).collect()
    }
}

/// The driver of this process, loaded at the first call. `None` without a driver.
pub(crate) fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(|| first(places())).as_ref()
}

/// Returns the first driver of these files that is no stub. If all are stubs, returns a stub.
fn first(files: impl Iterator<Item = PathBuf>) -> Option<Driver> {
    let mut stub = None;
    for file in files {
        match Driver::load(&file) {
            // The stub is unloaded here: NVIDIA's other libraries request the driver by a name that a stub may have too.
            Some(driver) if driver.is_stub() => stub = stub.or(Some(file)),
            Some(driver) => {
                log::debug!("loaded {}", file.display());
                return Some(driver);
            }
            None => {}
        }
    }
    Driver::load(&stub?)
}

/// Candidate files of the driver. The loader knows it by its name with a version. A stub usually has the bare name, which comes
/// last. A folder of stubs on the loader's path may hide the driver in a later folder.
fn places() -> impl Iterator<Item = PathBuf> {
    let (name, bare) = if cfg!(windows) { ("nvcuda.dll", None) } else { ("libcuda.so.1", Some("libcuda.so")) };
    let path = std::env::var_os("LD_LIBRARY_PATH").filter(|_| cfg!(unix)).unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect();
    let usual = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"];
    let folders = folders.into_iter().chain(usual.into_iter().filter(|_| cfg!(unix)).map(PathBuf::from));
    let hidden = folders.map(move |folder| folder.join(name)).filter(|file| file.is_file());
    [PathBuf::from(name)].into_iter().chain(hidden).chain(bare.map(PathBuf::from))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles a library from this C source. `None` without a C compiler.
    fn library(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
        let (source, file) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&source, text).expect("writable");
        let made = Command::new("cc").args(["-w", "-shared", "-fPIC", "-o"]).arg(&file).arg(&source).status().ok()?;
        assert!(made.success(), "{text}");
        Some(file)
    }

    #[test]
    fn a_stub_is_passed_over_and_a_code_without_a_name_is_a_number() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let answers = |name, code| library(folder.path(), name, &format!("int cuInit(unsigned f){{return {code};}}"));
        let Some(stub) = answers("stub.so", 34) else { return };
        let real = answers("real.so", 917).expect("as above");
        let absent = folder.path().join("absent.so");
        let chosen = |files: &[&PathBuf]| first(files.iter().map(|file| (*file).clone())).map(|driver| driver.started);
        assert_eq!(chosen(&[&absent, &stub, &real]), Some(Err(DriverError::Code(917))));
        assert_eq!(chosen(&[&stub, &absent]), Some(Err(DriverError::Code(34))), "a stub is better than nothing to say");
        assert_eq!(chosen(&[&absent]), None);
        assert!(DriverError::Code(917).to_string().starts_with("error 917"));
    }

    #[test]
    fn a_driver_that_lacks_calls_says_which() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let text = "int cuInit(unsigned f){return 0;} int cuDriverGetVersion(int*v){*v=13000;return 0;}";
        let Some(file) = library(folder.path(), "short.so", text) else { return };
        let driver = Driver::load(&file).expect("loads");
        let lacks = driver.lacks_to_open();
        assert!(lacks.contains(&"cuMemAlloc_v2") && !lacks.contains(&"cuInit"), "{lacks:?}");
        assert!(driver.lacks_for_cases().contains(&"cuGraphLaunch"));
        let empty = library(folder.path(), "empty.so", "int nothing;").expect("as above");
        assert_eq!(Driver::load(&empty).map(|driver| driver.started), Some(Err(DriverError::Lacks("cuInit"))));
    }
}
