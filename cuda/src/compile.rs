//! Kernel text to a binary for one architecture, through a cache on disk.
//!
//! A cached binary is found by a hash of everything that goes into it: text, options (the architecture is one of them)
//! and the compiler's version. So an entry is never wrong, only unused, and nothing ever needs to be invalidated. It is
//! written under another name and renamed into place, and carries its length and hash: a torn one is compiled anew.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use parallax_core::device::{BackendError, Compiled, Step};
use parallax_core::units::Nanos;
use sha2::{Digest, Sha256};

use crate::nvrtc;
use crate::nvrtc::{Nvrtc, NvrtcError};
use crate::text::Text;

/// Names the folder of the cache, instead of the user's cache folder. Empty: no cache.
pub const CACHE_VARIABLE: &str = "PARALLAX_CACHE";

/// A compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// Generation.
    pub major: u32,
    /// Member of the generation.
    pub minor: u32,
}

impl Arch {
    /// From the two numbers.
    pub const fn new(major: u32, minor: u32) -> Arch {
        Arch { major, minor }
    }

    /// Whether its own name has instructions that no other has: the matrix products of four warps (`wgmma`) among them.
    pub fn has_wgmma(self) -> bool {
        self == Arch::new(9, 0)
    }

    /// What to compile for so that it runs here: this architecture, or where the compiler does not know it yet, the
    /// nearest older member of the same generation, whose binaries run here too.
    pub(crate) fn supported_by(self, archs: &[u32]) -> Option<Arch> {
        let known = archs.iter().map(|arch| Arch::new(arch / 10, arch % 10));
        known.filter(|known| known.major == self.major && *known <= self).max()
    }
}

/// The compiler's name. 9.0 has instructions (`wgmma`, `setmaxnreg`) that exist only under its own name, with an `a`:
/// binaries for `sm_90a` run on 9.0 alone, which is where they are made for.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.has_wgmma() { "a" } else { "" };
        write!(f, "sm_{}{}{suffix}", self.major, self.minor)
    }
}

/// Options for an architecture.
///
/// `--use_fast_math` is not among them: it would flush denormals, and take `expf` and division to a precision that the
/// tolerances of the workloads do not allow for. Kernels say where the fast instruction is good enough (`exp2f`).
pub fn options(arch: Arch) -> Vec<String> {
    // Line information costs nothing at run time and lets a profiler show the source.
    [&format!("--gpu-architecture={arch}"), "-std=c++17", "-default-device", "-lineinfo"].map(str::to_owned).into()
}

/// Those, and where the toolkit's headers lie for a text that includes one: ours do not, what CubeCL makes for 16-bit floats does.
fn options_for(nvrtc: &Nvrtc, arch: Arch, text: &Text) -> Vec<String> {
    let wants = text.source.lines().any(|line| line.starts_with("#include <"));
    let headers = nvrtc.headers().filter(|_| wants);
    options(arch).into_iter().chain(headers.map(|folder| format!("--include-path={}", folder.display()))).collect()
}

/// Compile a text without a cache, and give the binary and what the compiler says of it, such as that it could not do what
/// the text asks for and did it more slowly. Needs the compiler, but no device.
///
/// # Errors
/// When the compiler is missing, does not know the architecture, or rejects the text.
pub fn compile_text(text: &Text, arch: Arch) -> Result<(Vec<u8>, String), BackendError> {
    uncached(text, arch, false)
}

/// Whether a text compiles: as [`compile_text`], but nearly no time is spent on making the binary fast, where the compiler can do so.
/// Texts for warpgroups are compiled as ever: what is said of them comes of that.
///
/// # Errors
/// As there.
pub fn check_text(text: &Text, arch: Arch) -> Result<(Vec<u8>, String), BackendError> {
    uncached(text, arch, !text.source.contains("wgmma"))
}

fn uncached(text: &Text, arch: Arch, quickly: bool) -> Result<(Vec<u8>, String), BackendError> {
    let nvrtc = nvrtc::for_device(arch, None).map_err(|error| match error {
        unknown @ NvrtcError::NoneFits { .. } => BackendError::Unsupported(unknown.to_string()),
        other => BackendError::Device(other.to_string()),
    })?;
    let quickly = quickly && nvrtc.version() >= FIRST_QUICK;
    let options = options_for(nvrtc, known(nvrtc, arch)?, text);
    let options: Vec<String> = options.into_iter().chain(quickly.then(|| "--Ofast-compile=max".to_owned())).collect();
    compile(nvrtc, text, &options)
}

/// The first compiler that is sure to have that option.
const FIRST_QUICK: (u32, u32) = (13, 0);

/// A kernel's binary, and how it came to be.
pub(crate) type Binary = (Vec<u8>, Compiled);

/// Compile a text for the device at hand by its compiler, or take it from the cache in `cache`.
pub(crate) fn compile_cached(
    text: &Text,
    arch: Arch,
    nvrtc: &Nvrtc,
    cache: Option<&Path>,
) -> Result<Binary, BackendError> {
    let begin = Instant::now();
    let options = options_for(nvrtc, known(nvrtc, arch)?, text);
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

/// The folder of the cache: `PARALLAX_CACHE`, or `parallax/nvrtc` in the user's cache folder.
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

fn compile(nvrtc: &Nvrtc, text: &Text, options: &[String]) -> Result<(Vec<u8>, String), BackendError> {
    nvrtc.cubin(&text.file, &text.source, options).map_err(|error| match error {
        NvrtcError::Rejected { log } => BackendError::Compile { file: text.file.clone(), log },
        other => BackendError::Device(other.to_string()),
    })
}

/// The name of a cache entry. Every part is preceded by its length, so that no two lists of parts look alike.
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

/// What an entry of the cache begins with: what it is, and the version of its form.
const MARK: &[u8] = b"PARALLAX CUBIN 1\n";

/// A binary as the cache keeps it: mark, length in eight bytes, SHA-256, binary. The driver is given no length and believes what the binary
/// says of itself, so nothing but what was stored may reach it.
fn entry_of(cubin: &[u8]) -> Vec<u8> {
    let length = (cubin.len() as u64).to_le_bytes();
    [MARK, &length, &Sha256::digest(cubin), cubin].concat()
}

/// The binary of an entry that is whole; `None` for any other bytes.
fn entry_in(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.strip_prefix(MARK)?.split_first_chunk::<8>()?;
    let (hash, cubin) = rest.split_first_chunk::<32>()?;
    let whole = cubin.len() as u64 == u64::from_le_bytes(*length) && Sha256::digest(cubin)[..] == hash[..];
    whole.then(|| cubin.to_vec())
}

/// On the disk before it has its name, so that a machine that stops at any moment leaves a whole entry or none.
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
        let base = key("text", &options(Arch::new(8, 0)), (13, 0));
        assert_eq!(base, key("text", &options(Arch::new(8, 0)), (13, 0)));
        assert_ne!(base, key("texts", &options(Arch::new(8, 0)), (13, 0)));
        assert_ne!(base, key("text", &options(Arch::new(9, 0)), (13, 0)));
        assert_ne!(base, key("text", &options(Arch::new(8, 0)), (13, 1)));
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
