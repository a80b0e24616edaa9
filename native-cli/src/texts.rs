//! Where kernel texts come from: the program, or in front of it the folder that `PARALLAX_KERNELS` names.
//!
//! The folder has the layout of the two that the program was built with: `DIR/cuda/matmul/tiled.cu` stands for
//! `cuda/kernels/matmul/tiled.cu`, `DIR/shaders/lib/launch.wgsl` for `shaders/kernels/lib/launch.wgsl`. Files that are not
//! there come from the program. They are read whenever a text is put together.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parallax_core::suite::Texts;

/// Names the folder. Empty: none.
pub const VARIABLE: &str = "PARALLAX_KERNELS";

/// The texts of the target cuda.
///
/// # Errors
/// When the variable names no folder.
pub fn cuda_texts() -> Result<Texts, NoFolder> {
    chosen(std::env::var_os(VARIABLE), "cuda", parallax_cuda::text::embedded())
}

/// The texts of the target wgpu.
///
/// # Errors
/// When the variable names no folder.
pub fn wgsl_texts() -> Result<Texts, NoFolder> {
    chosen(std::env::var_os(VARIABLE), "shaders", parallax_shaders::text::embedded())
}

/// The variable is a mistake: running the program's own texts would hide it.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE} names {0}, which is no folder that holds a folder `cuda` or `shaders`")]
pub struct NoFolder(PathBuf);

fn chosen(variable: Option<OsString>, dialect: &str, own: Texts) -> Result<Texts, NoFolder> {
    let Some(folder) = variable.filter(|folder| !folder.is_empty()).map(PathBuf::from) else { return Ok(own) };
    if !["cuda", "shaders"].iter().any(|dialect| folder.join(dialect).is_dir()) {
        return Err(NoFolder(folder));
    }
    let root = folder.join(dialect);
    Ok(own.behind(move |file| read(&root, file)))
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
        let cuda = texts("cuda", parallax_cuda::text::embedded());
        let find = |name: &str| cuda.find(name).expect("readable").expect("there").into_owned();
        for text in ["first", "second"] {
            std::fs::write(&file, text).expect("writable");
            assert_eq!(find("copy/scalar.cu"), text);
        }
        assert!(find("copy/vec4.cu").contains("copy_vec4"));
        let wgsl = texts("shaders", parallax_shaders::text::embedded());
        assert!(wgsl.find("copy/scalar.wgsl").is_ok_and(|text| text.is_some()), "no folder `shaders` is no mistake");
        std::fs::write(&file, b"\xff").expect("writable");
        assert!(cuda.find("copy/scalar.cu").is_err(), "what cannot be read is not passed over");
    }

    #[test]
    fn a_variable_that_names_no_folder_is_a_mistake() {
        let own = parallax_cuda::text::embedded;
        assert!(chosen(Some("/no/such/folder".into()), "cuda", own()).is_err());
        assert!(chosen(Some("".into()), "cuda", own()).is_ok());
        assert!(chosen(None, "cuda", own()).is_ok());
    }
}
