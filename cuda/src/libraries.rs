//! Search for NVIDIA's libraries at run time.
//!
//! A library is loaded by its full path where that is known, and called through its own symbols. The file then does not depend on
//! the names that the loader knows, and any major version is acceptable. The order of the search:
//!
//! 1. the folder in the library's own variable, if it has one; when it is set, the search ends there;
//! 2. the folders of `LD_LIBRARY_PATH`, in order, with any version of the library;
//! 3. the loader's own path, by name;
//! 4. the library folders below `CUDA_HOME` and `CUDA_PATH`, then those of `/usr/local/cuda`;
//! 5. Python wheels: `nvidia/cu13/lib` and the library's own wheel in every folder on `python3`'s path.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A library and its own places.
pub(crate) struct Wanted {
    /// Name without prefix and suffix: `nvrtc` is `libnvrtc.so`.
    pub(crate) stem: &'static str,
    /// Suffixes of its name on the loader's path, except on Windows: nothing, or a major version.
    pub(crate) versions: &'static [&'static str],
    /// Names on the loader's path on Windows, where they carry a version.
    pub(crate) windows: &'static [&'static str],
    /// Environment variable that names its folder.
    pub(crate) variable: Option<&'static str>,
    /// Folder below a CUDA toolkit, in addition to the usual ones.
    pub(crate) toolkit: Option<&'static str>,
    /// Folder of its Python wheel below `nvidia`.
    pub(crate) wheel: &'static str,
}

/// Versions of the toolkit's own libraries.
pub(crate) const OF_TOOLKIT: &[&str] = &["", ".13", ".12"];

/// Reason to reject a library.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It does not load.
    Unloadable(libloading::Error),
    /// It loads, and is unsuitable.
    Unfit(String),
}

impl From<libloading::Error> for Refusal {
    fn from(error: libloading::Error) -> Refusal {
        use libloading::Error::{DlSym, GetProcAddress};
        match error {
            // It loads, and lacks the named call.
            lacks @ (DlSym { .. } | GetProcAddress { .. }) => Refusal::Unfit(words(&lacks)),
            other => Refusal::Unloadable(other),
        }
    }
}

/// Returns the loader's own message of an error. It names the file or the symbol.
fn words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Calls `load` on each place until it succeeds. `load` receives a file, and the file's folder where that is known.
///
/// # Errors
/// Every place of the search with its result, when none had an acceptable library.
pub(crate) fn load<T, E: Into<Refusal>>(
    wanted: &Wanted,
    mut load: impl FnMut(&Path, Option<&Path>) -> Result<T, E>,
) -> Result<(T, String), String> {
    // Places without such a file, and unsuitable files.
    let (mut names, mut folders, mut unfit) = (Vec::new(), Vec::new(), Vec::new());
    for place in Locations::new(wanted) {
        match place {
            // The loader's message for an unknown name repeats the name and adds nothing.
            Location::Loader(name) => match load(Path::new(&name), None) {
                Ok(loaded) => {
                    log::debug!("loaded {name}");
                    return Ok((loaded, name));
                }
                Err(refused) => match refused.into() {
                    Refusal::Unloadable(_) => names.push(name),
                    Refusal::Unfit(why) => unfit.push(format!("{name}: {why}")),
                },
            },
            Location::Folder(folder) => {
                let files = libraries_in(&folder, wanted.stem);
                if files.is_empty() {
                    folders.push(folder.display().to_string());
                }
                for file in files {
                    match load(&file, Some(&folder)) {
                        Ok(loaded) => {
                            log::debug!("loaded {}", file.display());
                            return Ok((loaded, file.display().to_string()));
                        }
                        Err(refused) => match refused.into() {
                            Refusal::Unloadable(error) => unfit.push(format!("{}: {}", file.display(), words(&error))),
                            Refusal::Unfit(why) => unfit.push(format!("{}: {why}", file.display())),
                        },
                    }
                }
            }
        }
    }
    let list = |places: &[String]| match places {
        [] => None,
        [one] => Some(one.clone()),
        [first @ .., last] => Some(format!("{} or {last}", first.join(", "))),
    };
    let names = list(&names).map(|names| format!("no {names} on the loader's path"));
    let folders = list(&folders).map(|folders| format!("no lib{} in {folders}", wanted.stem));
    Err(names.into_iter().chain(folders).chain(unfit).collect::<Vec<_>>().join("; "))
}

/// Returns the folders of a search path that contain the library, in order.
fn in_folders(path: &OsStr, stem: &str) -> Vec<Location> {
    let contains = |folder: &PathBuf| !libraries_in(folder, stem).is_empty();
    std::env::split_paths(path).filter(contains).map(Location::Folder).collect()
}

/// A place of the search.
#[derive(Debug, PartialEq)]
enum Location {
    /// A name for the loader.
    Loader(String),
    /// A folder that may hold the library.
    Folder(PathBuf),
}

/// Places in order. The last ones start a process (Python, for its path), so they are made only when reached.
struct Locations<'a> {
    wanted: &'a Wanted,
    queue: std::vec::IntoIter<Location>,
    ask_python: bool,
}

impl Locations<'_> {
    fn new(wanted: &Wanted) -> Locations<'_> {
        // An empty variable names no folder.
        if let Some(folder) = wanted.variable.and_then(std::env::var_os).filter(|folder| !folder.is_empty()) {
            return Locations { wanted, queue: vec![Location::Folder(folder.into())].into_iter(), ask_python: false };
        }
        // The loader takes the first library of one name. `libcudnn.so` of the system would come before a wheel's `libcudnn.so.9`.
        let path = std::env::var_os("LD_LIBRARY_PATH").filter(|_| cfg!(unix)).unwrap_or_default();
        let mut queue = in_folders(&path, wanted.stem);
        queue.extend(match cfg!(windows) {
            true => wanted.windows.iter().map(|name| Location::Loader((*name).to_owned())).collect::<Vec<_>>(),
            false => wanted
                .versions
                .iter()
                .map(|version| Location::Loader(format!("lib{}.so{version}", wanted.stem)))
                .collect(),
        });
        let usual = if cfg!(windows) { ["bin", "bin/x64"] } else { ["lib64", "lib"] };
        let below = || usual.iter().copied().chain(wanted.toolkit);
        for root in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os) {
            queue.extend(below().map(|folder| Location::Folder(Path::new(&root).join(folder))));
        }
        if cfg!(unix) {
            let toolkit = Path::new("/usr/local/cuda");
            queue.extend(
                ["lib64"].into_iter().chain(wanted.toolkit).map(|folder| Location::Folder(toolkit.join(folder))),
            );
        }
        Locations { wanted, queue: queue.into_iter(), ask_python: true }
    }
}

impl Iterator for Locations<'_> {
    type Item = Location;

    fn next(&mut self) -> Option<Location> {
        if self.queue.len() == 0 && std::mem::take(&mut self.ask_python) {
            let folders = wheel_folders(python_path(), self.wanted.wheel).into_iter();
            self.queue = folders.filter(|folder| folder.is_dir()).map(Location::Folder).collect::<Vec<_>>().into_iter();
        }
        self.queue.next()
    }
}

/// Folders on Python's path, queried once. Empty without Python.
fn python_path() -> &'static [PathBuf] {
    static PATH: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        let python = if cfg!(windows) { "python" } else { "python3" };
        let script = r"import sys; print('\n'.join(filter(None, sys.path)))";
        let Ok(output) = Command::new(python).args(["-c", script]).output() else { return Vec::new() };
        String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
    })
}

/// Folders of the library in the wheels of CUDA 13 (one folder for all) and of CUDA 12 (one folder each).
fn wheel_folders(path: &[PathBuf], wheel: &str) -> Vec<PathBuf> {
    let below = if cfg!(windows) {
        ["nvidia/cu13/bin/x86_64".to_owned(), format!("nvidia/{wheel}/bin")]
    } else {
        ["nvidia/cu13/lib".to_owned(), format!("nvidia/{wheel}/lib")]
    };
    path.iter().flat_map(|site| below.iter().map(|folder| site.join(folder))).collect()
}

/// Sorted names of the files in a folder. Wheels contain a second build of some libraries (`libnvrtc.alt.so.13`), which is
/// excluded.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.contains(".alt."))
        .collect();
    names.sort();
    names
}

/// All versions of the library in a folder, in descending order of name.
pub(crate) fn libraries_in(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let (unix, windows) = (format!("lib{stem}.so"), format!("{stem}64_"));
    let is_library = |name: &String| name.starts_with(&unix) || (name.starts_with(&windows) && name.ends_with(".dll"));
    names_in(folder).into_iter().filter(is_library).rev().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_build_in_a_folder_is_taken() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert!(libraries_in(folder.path(), "nvrtc").is_empty());
        for name in ["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.so.12", "libnvrtc.so.13"] {
            std::fs::write(folder.path().join(name), "").expect("writable");
        }
        let found = ["libnvrtc.so.13", "libnvrtc.so.12"].map(|name| folder.path().join(name));
        assert_eq!(libraries_in(folder.path(), "nvrtc"), found);
        assert!(libraries_in(folder.path(), "cupti").is_empty());
    }

    #[test]
    fn folders_of_a_search_path_keep_their_order_and_need_no_plain_name() {
        let root = tempfile::tempdir().expect("temporary folder");
        let [wheel, empty, system] = ["wheel", "empty", "system"].map(|name| root.path().join(name));
        for folder in [&wheel, &empty, &system] {
            std::fs::create_dir(folder).expect("writable");
        }
        std::fs::write(wheel.join("libcudnn.so.9"), "").expect("writable");
        std::fs::write(system.join("libcudnn.so"), "").expect("writable");
        let path = std::env::join_paths([&empty, &wheel, &system]).expect("no separator in a name");
        assert_eq!(in_folders(&path, "cudnn"), [Location::Folder(wheel), Location::Folder(system)]);
    }

    #[test]
    fn both_generations_of_wheels_are_looked_at() {
        let folders = wheel_folders(&[PathBuf::from("site")], "cublas");
        let told: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
        assert!(told[0].starts_with("site/nvidia/cu13/") && told[1].starts_with("site/nvidia/cublas/"), "{told:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_call_that_a_library_lacks_is_named() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("libempty.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&file);
        assert!(compiler.status().expect("a C compiler").success());
        // SAFETY: the library is empty.
        let library = unsafe { libloading::Library::new(&file) }.expect("loads");
        // SAFETY: the symbol does not exist, so it is not called.
        let lacks = unsafe { library.get::<fn()>(c"cudnnCreate") }.map(|_| ()).expect_err("it has no symbols");
        assert!(matches!(Refusal::from(lacks), Refusal::Unfit(said) if said.contains("cudnnCreate")));
    }

    #[test]
    fn a_library_that_is_nowhere_is_told_with_every_place() {
        let wanted = Wanted {
            stem: "parallax-has-no-such-library",
            versions: OF_TOOLKIT,
            windows: &["parallax-has-no-such-library64_1.dll"],
            variable: None,
            toolkit: Some("extras"),
            wheel: "none",
        };
        // SAFETY: no library of that name exists, so none is loaded.
        let error = load(&wanted, |file, _| unsafe { libloading::Library::new(file) }).expect_err("nowhere");
        assert!(error.contains("parallax-has-no-such-library") && error.contains("; "), "{error}");
    }
}
