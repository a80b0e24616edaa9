//! The final text of a kernel: element type, constants, the kernel file and what it includes. Pure text, no device.
//!
//! A kernel file below `kernels/` includes what it needs by lines `#include "lib/reduce.cuh"`, with names as they are
//! below that folder. They are resolved here and not by the compiler, so that one text says everything: where a file is
//! included for the first time its lines are put in place, and further includes of it are left out. That is done before
//! any `#if` is looked at; includes stand at the top of a file. `#line` keeps every message at its file and line. Of a line
//! `#when NAME rest` the rest is there where that constant is true: see [`decided`].

use parallax_core::device::{BackendError, Step};
use parallax_core::suite::{DType, Dialect, Kernel, KernelSources, Program, Source, Value, decided, translated};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A text that the compiler gets as it is.
#[derive(Debug, Clone)]
pub struct Text {
    /// Name of the kernel file, as it appears in messages.
    pub file: String,
    /// The text.
    pub source: String,
    /// What it took to make it, where it was not just put together.
    pub made: Vec<Step>,
}

/// The same text is the same however long it took.
impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        (&self.file, &self.source) == (&other.file, &other.source)
    }
}

/// The texts of the program.
pub fn embedded() -> KernelSources {
    KernelSources::embedded(FILES)
}

/// The text of a kernel of a case of element type `dtype`.
///
/// # Errors
/// When there is no kernel file for it, or something that it includes is missing.
pub fn assemble(texts: &KernelSources, kernel: &Kernel, dtype: DType) -> Result<Text, BackendError> {
    if kernel.source != Source::Own {
        let file = format!("{}.cube", kernel.text);
        return match translated(texts, kernel, dtype, Dialect::Cuda) {
            Ok(translated) => Ok(Text { file, made: Step::made(&translated), source: translated.text }),
            Err(why) => Err(BackendError::untranslated(file, why)),
        };
    }
    let file = format!("{}.cu", kernel.text);
    let parts = texts.with_imports(&file, &included).map_err(|e| BackendError::Unsupported(e.to_string()))?;
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
            Value::Bool(value) => format!("constexpr bool {name} = {value};\n"),
        };
    }
    for part in &parts {
        let lines = decided(&part.text, &kernel.consts);
        source += &format!("#line {} \"{}\"\n{lines}", part.first_line, part.file);
    }
    Ok(Text { file, source, made: Vec::new() })
}

/// The texts of a program, every different one once, and which of them each stage's kernel comes from.
///
/// # Errors
/// As for one.
pub fn assemble_all(
    texts: &KernelSources,
    program: &Program,
    dtype: DType,
) -> Result<(Vec<Text>, Vec<Option<usize>>), BackendError> {
    program.distinct(|kernel| assemble(texts, kernel, dtype))
}

/// The file that a line includes; names in angle brackets are the compiler's business.
fn included(line: &str) -> Option<String> {
    let name = line.strip_prefix("#include \"")?.trim_end().strip_suffix('"')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::suite::Stage;

    fn kernel(stage: Stage) -> Kernel {
        stage.kernel_launch().expect("a kernel").clone()
    }

    #[test]
    fn parts_come_in_order_and_lines_count_from_their_files() {
        let texts = KernelSources::embedded(&[
            ("x/y.cu", "// about\n#include \"lib/a.cuh\"\n#include <cuda.h>\nbody\n#include \"lib/a.cuh\"\nend\n"),
            ("lib/a.cuh", "lib\n"),
        ]);
        let consts: [(&str, Value); 3] = [("S", 7.into()), ("CAUSAL", false.into()), ("EPS", 1e-5.into())];
        let kernel = kernel(Stage::kernel("y", "x/y", "y").consts(&consts));
        let text = assemble(&texts, &kernel, DType::BF16).expect("there");
        assert_eq!(text.file, "x/y.cu");
        let want = "#define ELEM_BF16 1\nconstexpr unsigned S = 7u;\nconstexpr bool CAUSAL = false;\n\
                    constexpr float EPS = 1e-5f;\n#line 1 \"x/y.cu\"\n// about\n#line 1 \"lib/a.cuh\"\nlib\n\
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
