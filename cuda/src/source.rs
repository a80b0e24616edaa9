//! Assembly of a kernel source: element type, constants, the kernel file and its includes. It needs no device.
//!
//! A kernel file below `kernels/` includes others by lines `#include "lib/reduce.cuh"`, with names relative to that folder. This
//! module resolves them, not the compiler, so that one kernel source is complete. The first include of a file is replaced by its
//! lines, and further includes of it are removed. This precedes the evaluation of any `#if`. Includes stand at the top of a file.
//! `#line` keeps every message at its file and line.
//!
//! Parts of lines may be for some stages only: [`lines_for`].
//!
//! Boolean constants are macros, so that the preprocessor evaluates `#if NAME` too. A name in an `#if` that is no constant is an
//! error, not zero.

use parallax_ir::device::BackendError;
use parallax_ir::{Authoring, Kernel, KernelSources, Program, TextError, Value, lines_for, translated};
use parallax_schema::case::DType;
use parallax_schema::device::{Dialect, Step};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A kernel source, complete for the compiler.
#[derive(Debug, Clone)]
pub struct KernelSource {
    /// Name of the kernel file, for messages.
    pub file: String,
    /// The source.
    pub source: String,
    /// Steps of the translation of a translated kernel source. Empty for an assembled one.
    pub made: Vec<Step>,
}

/// Equality ignores the time of the steps.
impl PartialEq for KernelSource {
    fn eq(&self, other: &KernelSource) -> bool {
        (&self.file, &self.source) == (&other.file, &other.source)
    }
}

/// Returns the kernel sources embedded in the program.
pub fn embedded() -> KernelSources {
    KernelSources::embedded(FILES)
}

/// Returns the kernel source of a kernel, for a case of element type `dtype`.
///
/// # Errors
/// A missing kernel file, or a missing include.
pub fn assemble(sources: &KernelSources, kernel: &Kernel, dtype: DType) -> Result<KernelSource, BackendError> {
    if kernel.authoring != Authoring::Handwritten {
        let file = format!("{}.cube", kernel.text);
        return match translated(sources, kernel, dtype, Dialect::Cuda) {
            Ok(translated) => Ok(KernelSource { file, made: translated.timed_steps(), source: translated.text }),
            Err(why) => Err(BackendError::untranslated(file, why)),
        };
    }
    let file = format!("{}.cu", kernel.text);
    let parts = sources
        .with_imports_of::<TextError>(&file, &|_, text| Ok(lines_for(text, &kernel.consts)), &included)
        .map_err(|e| BackendError::Unsupported(e.to_string()))?;
    let elem = match kernel.elem.unwrap_or(dtype) {
        DType::F32 => "ELEM_F32",
        DType::F16 => "ELEM_F16",
        DType::BF16 => "ELEM_BF16",
    };
    let mut source = format!("#define {elem} 1\n");
    for (name, value) in &kernel.consts {
        source += &match value {
            Value::U32(value) => format!("constexpr unsigned {name} = {value}u;\n"),
            Value::F32(value) => format!("constexpr float {name} = {value:?}f;\n"),
            Value::Bool(value) => format!("#define {name} {value}\n"),
            Value::Word(_) => String::new(),
        };
    }
    source += UNKNOWN_NAMES_FAIL;
    for part in &parts {
        source += &format!("#line {} \"{}\"\n{}", part.first_line, part.file, part.text);
    }
    Ok(KernelSource { file, source, made: Vec::new() })
}

/// Pragma that makes an error of the compiler's remark on an unknown name in an `#if`. Compilers before 11.5 ignore it.
const UNKNOWN_NAMES_FAIL: &str = "#pragma nv_diag_error 193\n";

/// Returns the distinct kernel sources of a program, and the index of each stage's source.
///
/// # Errors
/// Those of [`assemble`].
pub fn assemble_all(
    sources: &KernelSources,
    program: &Program,
    dtype: DType,
) -> Result<(Vec<KernelSource>, Vec<Option<usize>>), BackendError> {
    program.distinct(|kernel| assemble(sources, kernel, dtype))
}

/// Returns the file that a line includes. The compiler resolves names in angle brackets.
fn included(line: &str) -> Option<String> {
    let name = line.strip_prefix("#include \"")?.trim_end().strip_suffix('"')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Stage;

    fn kernel(stage: Stage) -> Kernel {
        stage.kernel_launch().expect("a kernel").clone()
    }

    #[test]
    fn parts_come_in_order_and_lines_count_from_their_files() {
        let texts = KernelSources::embedded(&[
            ("x/y.cu", "// about\n#include \"lib/a.cuh\"\n#include <cuda.h>\nbody\n#include \"lib/a.cuh\"\nend\n"),
            ("lib/a.cuh", "lib\n"),
        ]);
        let consts: [(&str, Value); 4] =
            [("S", 7.into()), ("CAUSAL", false.into()), ("EPS", 1e-5.into()), ("EPILOGUE", "bias".into())];
        let kernel = kernel(Stage::kernel("y", "x/y", "y").consts(&consts));
        let text = assemble(&texts, &kernel, DType::BF16).expect("there");
        assert_eq!(text.file, "x/y.cu");
        let want = "#define ELEM_BF16 1\nconstexpr unsigned S = 7u;\n#define CAUSAL false\n\
                    constexpr float EPS = 1e-5f;\n#pragma nv_diag_error 193\n#line 1 \"x/y.cu\"\n// about\n#line 1 \"lib/a.cuh\"\nlib\n\
                    #line 3 \"x/y.cu\"\n#include <cuda.h>\nbody\n#line 6 \"x/y.cu\"\nend\n";
        assert_eq!(text.source, want);
    }

    #[test]
    fn a_kernel_may_have_another_element_type_than_its_case() {
        let stage = Stage::kernel("y", "x/y", "y");
        let texts = KernelSources::embedded(&[("x/y.cu", "body\n")]);
        let source = |stage: Stage| assemble(&texts, &kernel(stage), DType::F16).expect("there").source;
        assert!(source(stage.clone()).starts_with("#define ELEM_F16 1\n"));
        assert!(source(stage.elem(DType::F32)).starts_with("#define ELEM_F32 1\n"));
    }

    #[test]
    fn stages_with_the_same_constants_share_their_text() {
        let one = |n: u32| Stage::kernel("copy", "copy/scalar", "copy_scalar").consts(&[("N", n), ("THREADS", 64)]);
        let program = Program { stages: vec![one(5), Stage::fill("zeros", "out", 0), one(6), one(5)] };
        let (texts, places) = assemble_all(&embedded(), &program, DType::F32).expect("there");
        assert_eq!((texts.len(), places), (2, vec![Some(0), None, Some(1), Some(0)]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = kernel(Stage::kernel("y", "no/such", "y"));
        let error = assemble(&embedded(), &missing, DType::F32).expect_err("no such text").to_string();
        assert!(error.contains("no/such.cu"), "{error}");
    }
}
