//! Origin of kernel sources: the folder of `--kernels` or `PARALLAX_KERNELS`, then the program.
//!
//! The folder is a checkout, or has the layout of the program's two folders. `DIR/cuda/matmul/tiled.cu` replaces
//! `cuda/kernels/matmul/tiled.cu`, and `DIR/shaders/lib/launch.wgsl` replaces `shaders/kernels/lib/launch.wgsl`.
//! Missing files come from the program. Files are read at each assembly of a source. The target wgpu compiles them with
//! all checks: a foreign source may access memory out of bounds.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::bail;
use parallax_ir::device::settle;
use parallax_ir::{KernelSources, Program};
use parallax_schema::case::DType;
use parallax_schema::device::Dialect;
use parallax_shaders::source::{Form, WrittenLoops};

use crate::args::Native;

/// Environment variable with the default of `--kernels`. Empty: none.
pub const VARIABLE: &str = "PARALLAX_KERNELS";

/// Returns the named folder, if any.
pub fn folder(options: &Native) -> Option<PathBuf> {
    let variable = || std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    options.kernels.clone().or_else(variable)
}

/// Returns the kernel sources of the target cuda.
///
/// # Errors
/// Named path that is no folder of kernels.
pub fn cuda_texts(options: &Native) -> Result<KernelSources, NoFolder> {
    chosen(folder(options), "cuda", translated(parallax_cuda::source::embedded()))
}

/// Returns the kernel sources of the target wgpu.
///
/// # Errors
/// Named path that is no folder of kernels.
pub fn wgsl_texts(options: &Native) -> Result<KernelSources, NoFolder> {
    chosen(folder(options), "shaders", translated(parallax_shaders::source::embedded()))
}

/// Returns the folder of WGSL sources that replace a page's own, if the named folder has such.
///
/// # Errors
/// Named path that is no folder of kernels.
pub fn wgsl_folder(options: &Native) -> Result<Option<PathBuf>, NoFolder> {
    let Some(folder) = folder(options) else { return Ok(None) };
    let root = root(&checked(folder)?, "shaders");
    Ok(root.is_dir().then_some(root))
}

/// Adds CubeCL's compilers, if the program has them.
fn translated(own: KernelSources) -> KernelSources {
    #[cfg(feature = "cube")]
    let own = own.translated_by(parallax_cube::translator());
    own
}

/// Error of the kernel folder. A fallback to the program's own sources would hide the mistake.
#[derive(Debug, thiserror::Error)]
#[error("--kernels or {VARIABLE} names {0}, which has no folder `cuda` or `shaders`")]
pub struct NoFolder(PathBuf);

fn chosen(folder: Option<PathBuf>, dialect: &str, own: KernelSources) -> Result<KernelSources, NoFolder> {
    let Some(folder) = folder else { return Ok(own) };
    let root = root(&checked(folder)?, dialect);
    Ok(own.with_lookup(move |file| read(&root, file)))
}

/// Returns a folder, if it is one of kernels.
fn checked(folder: PathBuf) -> Result<PathBuf, NoFolder> {
    let there = ["cuda", "shaders"].iter().any(|dialect| folder.join(dialect).is_dir());
    if there { Ok(folder) } else { Err(NoFolder(folder)) }
}

/// Returns the folder of a dialect's sources in a folder of kernels.
fn root(folder: &Path, dialect: &str) -> PathBuf {
    let in_checkout = folder.join(dialect).join("kernels");
    if in_checkout.is_dir() { in_checkout } else { folder.join(dialect) }
}

/// Kernel source as the compiler receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalText {
    /// File of the kernel.
    pub file: String,
    /// Text of the source.
    pub text: String,
    /// First line and file name of each import behind the file; empty if the compiler knows the origins from the
    /// source.
    imports: Vec<(usize, String)>,
}

impl FinalText {
    /// Returns the file and the line of origin of a line; both lines count from one.
    pub fn origin(&self, line: usize) -> (&str, usize) {
        match self.imports.iter().rev().find(|(first, _)| *first <= line) {
            Some((first, file)) => (file, line - first + 1),
            None => (&self.file, line),
        }
    }
}

/// Returns a program with the launches that its plan left open.
///
/// # Errors
/// Launch that stays open.
pub fn settled(program: Program, dtype: DType, dialect: Dialect, options: &Native) -> anyhow::Result<Program> {
    let texts = match dialect {
        Dialect::Cuda => cuda_texts(options)?,
        Dialect::Wgsl => wgsl_texts(options)?,
        Dialect::Vendor | Dialect::Cpu => return Ok(program),
    };
    Ok(settle(&texts, program, dtype, dialect)?.0)
}

/// Returns the final sources of a program, each once, and the index of the source of each stage's kernel.
///
/// # Errors
/// Missing source, or dialect without sources.
pub fn assembled(
    program: &Program,
    dtype: DType,
    dialect: Dialect,
    options: &Native,
) -> anyhow::Result<(Vec<FinalText>, Vec<Option<usize>>)> {
    Ok(match dialect {
        Dialect::Cuda => {
            let (texts, places) = parallax_cuda::source::assemble_all(&cuda_texts(options)?, program, dtype)?;
            let one = |text: parallax_cuda::source::KernelSource| FinalText {
                file: text.file,
                text: text.source,
                imports: Vec::new(),
            };
            (texts.into_iter().map(one).collect(), places)
        }
        Dialect::Wgsl => {
            let guarded = options.checked.is_some_and(|checks| checks.loops);
            let loops = if guarded { WrittenLoops::Long } else { WrittenLoops::None };
            let form = Form { loops, ..Form::HERE };
            let (texts, places) = parallax_shaders::source::assemble_all(&wgsl_texts(options)?, program, dtype, form)?;
            let one = |text: parallax_shaders::source::KernelSource| FinalText {
                file: text.file,
                text: text.wgsl,
                imports: text.imports,
            };
            (texts.into_iter().map(one).collect(), places)
        }
        Dialect::Vendor | Dialect::Cpu => bail!("this target has no kernel sources"),
    })
}

fn read(root: &Path, file: &str) -> Result<Option<String>, String> {
    match std::fs::read_to_string(root.join(file)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_before_the_program_and_is_read_again_each_time() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("cuda/copy/scalar.cu");
        std::fs::create_dir_all(file.parent().expect("below")).expect("writable");
        let texts = |dialect, own| chosen(Some(folder.path().into()), dialect, own).expect("a folder");
        let cuda = texts("cuda", parallax_cuda::source::embedded());
        let find = |name: &str| cuda.find(name).expect("readable").expect("there").into_owned();
        for text in ["first", "second"] {
            std::fs::write(&file, text).expect("writable");
            assert_eq!(find("copy/scalar.cu"), text);
        }
        assert!(find("copy/vec4.cu").contains("copy_vec4"));
        let wgsl = texts("shaders", parallax_shaders::source::embedded());
        assert!(wgsl.find("copy/scalar.wgsl").is_ok_and(|text| text.is_some()), "no folder `shaders` is no mistake");
        std::fs::write(&file, b"\xff").expect("writable");
        assert!(cuda.find("copy/scalar.cu").is_err(), "an unreadable file is an error");
    }

    #[test]
    fn a_checkout_is_a_folder_of_kernels() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("shaders/kernels/copy/scalar.wgsl");
        std::fs::create_dir_all(file.parent().expect("below")).expect("writable");
        std::fs::write(&file, "edited").expect("writable");
        let texts =
            chosen(Some(folder.path().into()), "shaders", parallax_shaders::source::embedded()).expect("a folder");
        assert!(texts.find("copy/scalar.wgsl").is_ok_and(|text| text.as_deref() == Some("edited")));
        let native = |folder: &Path| Native { kernels: Some(folder.to_owned()), ..Native::default() };
        let given = wgsl_folder(&native(folder.path())).expect("a folder of kernels");
        assert_eq!(given, Some(folder.path().join("shaders/kernels")));
        assert!(wgsl_folder(&native(&folder.path().join("shaders"))).is_err());
    }

    #[test]
    fn lines_are_those_of_the_file_that_they_come_from() {
        let imports = vec![(10, "lib/a.wgsl".to_owned()), (20, "lib/b.wgsl".to_owned())];
        let text = FinalText { file: "x/y.wgsl".to_owned(), text: String::new(), imports };
        for (line, want) in [(9, ("x/y.wgsl", 9)), (10, ("lib/a.wgsl", 1)), (22, ("lib/b.wgsl", 3))] {
            assert_eq!(text.origin(line), want);
        }
    }

    #[test]
    fn what_names_no_folder_is_a_mistake() {
        let own = parallax_cuda::source::embedded;
        assert!(chosen(Some("/no/such/folder".into()), "cuda", own()).is_err());
        assert!(chosen(None, "cuda", own()).is_ok());
    }
}
