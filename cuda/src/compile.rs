//! Compilation of a kernel source to a binary for one architecture, through a cache on disk.
//!
//! The key of a binary is a hash of all inputs: source, options (including the architecture) and the compiler's version. An entry
//! is never wrong, only unused, so no entry needs invalidation. The cache writes an entry under another name and renames it into
//! place. An entry carries its length and hash; a damaged one is compiled anew.

use std::path::{Path, PathBuf};
use std::time::Instant;

use parallax_ir::device::BackendError;
use parallax_schema::device::{Compiled, Step};
use parallax_schema::units::Nanos;
use sha2::{Digest, Sha256};

use crate::arch::Arch;
use crate::arithmetic::Arithmetic;
use crate::nvrtc;
use crate::nvrtc::{Nvrtc, NvrtcError};
use crate::source::KernelSource;

/// Environment variable of the cache folder, instead of the user's cache folder. An empty value disables the cache.
pub const CACHE_VARIABLE: &str = "PARALLAX_CACHE";

/// Returns the compiler options of an architecture.
///
/// `--use_fast_math` is absent by default: it would flush denormals, and reduce `expf` and division below the precision that the
/// tolerances of the workloads require. A kernel calls the fast instruction itself where it is precise enough (`exp2f`).
pub fn options(arch: Arch, arithmetic: Arithmetic) -> Vec<String> {
    // Line information has no run-time cost and lets a profiler show the source.
    let always =
        [&format!("--gpu-architecture={arch}"), "-std=c++17", "-default-device", "-lineinfo"].map(str::to_owned);
    always.into_iter().chain(arithmetic.option().map(str::to_owned)).collect()
}

/// Compiler for a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceCompiler {
    pub(crate) nvrtc: &'static Nvrtc,
    pub(crate) arch: Arch,
    pub(crate) arithmetic: Arithmetic,
}

/// Returns the options, with the include path of the toolkit's headers for a source that includes one. Only the sources that CubeCL
/// generates for 16-bit floats do.
fn options_for(DeviceCompiler { nvrtc, arch, arithmetic }: DeviceCompiler, text: &KernelSource) -> Vec<String> {
    let wants = text.source.lines().any(|line| line.starts_with("#include <"));
    let headers = nvrtc.headers().filter(|_| wants);
    options(arch, arithmetic)
        .into_iter()
        .chain(headers.map(|folder| format!("--include-path={}", folder.display())))
        .collect()
}

/// Compiles a kernel source without a cache. Returns the binary and the compiler's warnings. A warning reports, for example, a
/// slower fallback for a request of the source that the compiler could not meet. Needs the compiler, but no device.
///
/// # Errors
/// A missing compiler, an unsupported architecture, or a rejected source.
pub fn compile_source(text: &KernelSource, arch: Arch) -> Result<(Vec<u8>, String), BackendError> {
    uncached(text, arch, false)
}

/// Checks that a kernel source compiles, as [`compile_source`] does, but with almost no optimisation where the compiler has that
/// option. Sources for warpgroups are optimised as usual, because their warnings result from the optimisation.
///
/// # Errors
/// Those of [`compile_source`].
pub fn check_source(text: &KernelSource, arch: Arch) -> Result<(Vec<u8>, String), BackendError> {
    uncached(text, arch, !text.source.contains("wgmma"))
}

fn uncached(text: &KernelSource, arch: Arch, quickly: bool) -> Result<(Vec<u8>, String), BackendError> {
    let nvrtc = nvrtc::for_device(arch, None).map_err(|error| match error {
        unknown @ NvrtcError::NoneFits { .. } => BackendError::Unsupported(unknown.to_string()),
        other => BackendError::Device(other.to_string()),
    })?;
    let quickly = quickly && nvrtc.version() >= FIRST_QUICK;
    let compiler = DeviceCompiler { nvrtc, arch: known(nvrtc, arch)?, arithmetic: Arithmetic::Precise };
    let options: Vec<String> =
        options_for(compiler, text).into_iter().chain(quickly.then(|| "--Ofast-compile=max".to_owned())).collect();
    compile(nvrtc, text, &options)
}

/// First compiler version that certainly has that option.
const FIRST_QUICK: (u32, u32) = (13, 0);

/// A kernel's binary, and the record of its compilation.
pub(crate) type Binary = (Vec<u8>, Compiled);

/// Compiles a kernel source for the present device by its compiler, or reads the binary from the folder `cache`.
pub(crate) fn compile_cached(
    text: &KernelSource,
    compiler: DeviceCompiler,
    cache: Option<&Path>,
) -> Result<Binary, BackendError> {
    let begin = Instant::now();
    let nvrtc = compiler.nvrtc;
    let options = options_for(DeviceCompiler { arch: known(nvrtc, compiler.arch)?, ..compiler }, text);
    let entry = cache.map(|folder| folder.join(key(&text.source, &options, nvrtc.version())).with_extension("cubin"));
    let found = entry.as_deref().and_then(|file| entry_in(&std::fs::read(file).ok()?));
    let cached = found.is_some();
    let cubin = match found {
        Some(cubin) => cubin,
        None => {
            let (cubin, _) = compile(nvrtc, text, &options)?;
            if let Some(file) = &entry {
                // A cache that cannot be written (full disk, read-only home) only costs time.
                let _ = store(file, &cubin);
            }
            cubin
        }
    };
    let time = Nanos::from_secs(begin.elapsed().as_secs_f64());
    log::debug!("{}: {} in {time}", text.file, if cached { "from the cache" } else { "compiled" });
    let compiled = Compiled {
        time,
        cached,
        text_hash: hash(&text.source),
        options: options.into_iter().chain([format!("NVRTC {}.{}", nvrtc.version().0, nvrtc.version().1)]).collect(),
        steps: vec![Step { name: if cached { "cache read" } else { "NVRTC" }.to_owned(), time }],
        repeat: None,
    };
    Ok((cubin, compiled))
}

/// Folder of the cache: `PARALLAX_CACHE`, or `parallax/nvrtc` in the user's cache folder.
pub fn default_cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name);
    if let Some(folder) = variable(CACHE_VARIABLE) {
        return (!folder.is_empty()).then(|| folder.into());
    }
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    let caches = match cfg!(windows) {
        true => variable("LOCALAPPDATA").map(PathBuf::from),
        false => variable("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from).or_else(home),
    };
    caches.map(|folder| folder.join("parallax").join("nvrtc"))
}

fn known(nvrtc: &Nvrtc, arch: Arch) -> Result<Arch, BackendError> {
    arch.supported_by(nvrtc.archs()).ok_or_else(|| {
        let (major, minor) = nvrtc.version();
        BackendError::Unsupported(format!(
            "NVRTC {major}.{minor} ({}) cannot compile for compute capability {}.{}; it knows {:?}: install a CUDA \
             version that does",
            nvrtc.origin(),
            arch.major,
            arch.minor,
            nvrtc.archs()
        ))
    })
}

fn compile(nvrtc: &Nvrtc, text: &KernelSource, options: &[String]) -> Result<(Vec<u8>, String), BackendError> {
    nvrtc.cubin(&text.file, &text.source, options).map_err(|error| match error {
        NvrtcError::Rejected { log } => BackendError::Compile { file: text.file.clone(), log },
        other => BackendError::Device(other.to_string()),
    })
}

/// Returns the name of a cache entry. Every part is preceded by its length, so that different lists of parts have different hashes.
fn key(source: &str, options: &[String], (major, minor): (u32, u32)) -> String {
    let mut hash = Sha256::new();
    let version = format!("NVRTC {major}.{minor}");
    for part in [version.as_str(), source].into_iter().chain(options.iter().map(String::as_str)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Magic bytes of a cache entry, with the version of its format.
const MARK: &[u8] = b"PARALLAX CUBIN 1\n";

/// Encodes a binary as a cache entry: magic bytes, length in eight bytes, SHA-256, binary. The driver receives no length and trusts
/// the length inside the binary, so only the stored bytes may reach it.
fn entry_of(cubin: &[u8]) -> Vec<u8> {
    let length = (cubin.len() as u64).to_le_bytes();
    [MARK, &length, &Sha256::digest(cubin), cubin].concat()
}

/// Decodes the binary of a whole entry. `None` for any other bytes.
fn entry_in(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.strip_prefix(MARK)?.split_first_chunk::<8>()?;
    let (hash, cubin) = rest.split_first_chunk::<32>()?;
    let whole = cubin.len() as u64 == u64::from_le_bytes(*length) && Sha256::digest(cubin)[..] == hash[..];
    whole.then(|| cubin.to_vec())
}

/// Writes an entry to the disk, and then renames it. A machine that stops at any moment leaves a whole entry or none.
fn store(file: &Path, cubin: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut partial = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut partial, &entry_of(cubin))?;
    partial.as_file().sync_all()?;
    partial.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hopper_gets_its_own_name() {
        let names = [Arch::new(8, 0), Arch::new(9, 0), Arch::new(10, 0)].map(|arch| arch.to_string());
        assert_eq!(names, ["sm_80", "sm_90a", "sm_100"]);
    }

    #[test]
    fn every_ingredient_changes_the_key() {
        let base = key("text", &options(Arch::new(8, 0), Arithmetic::Precise), (13, 0));
        assert_eq!(base, key("text", &options(Arch::new(8, 0), Arithmetic::Precise), (13, 0)));
        assert_ne!(base, key("texts", &options(Arch::new(8, 0), Arithmetic::Precise), (13, 0)));
        assert_ne!(base, key("text", &options(Arch::new(9, 0), Arithmetic::Precise), (13, 0)));
        assert_ne!(base, key("text", &options(Arch::new(8, 0), Arithmetic::Precise), (13, 1)));
        assert_ne!(base, key("text", &options(Arch::new(8, 0), Arithmetic::Fast), (13, 0)));
        assert_ne!(base, key("text", &[], (13, 0)));
        let split = |parts: [&str; 2]| key("", &parts.map(str::to_owned), (13, 0));
        assert_ne!(split(["ab", "c"]), split(["a", "bc"]));
    }

    #[test]
    fn entries_are_written_whole_and_damaged_ones_are_not_used() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("below").join("x.cubin");
        let cubin = b"\x7fELF and more";
        store(&file, cubin).expect("writable");
        let entry = std::fs::read(&file).expect("written");
        assert_eq!(entry_in(&entry).as_deref(), Some(&cubin[..]));
        let names = std::fs::read_dir(folder.path().join("below")).expect("a folder").count();
        assert_eq!(names, 1, "no partial file stays behind");
        for length in 0..entry.len() {
            assert_eq!(entry_in(&entry[..length]), None, "torn after {length} bytes");
        }
        for at in 0..entry.len() {
            let mut changed = entry.clone();
            changed[at] ^= 1;
            assert_eq!(entry_in(&changed), None, "byte {at} is another");
        }
        assert_eq!(entry_in(&[&entry[..], b"more"].concat()), None);
        assert_eq!(entry_in(cubin), None, "as entries were before they had a hash");
    }
}
