//! The final kernel text of a case: element type, prelude, named integers, kernel. Pure text, no device.

use parallax_core::device::BackendError;
use parallax_core::suite::{Case, DType, Program};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

const PRELUDE: &str = include_str!("../kernels/prelude.cuh");

/// A text that the compiler gets as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Name of the kernel file, as it appears in messages.
    pub file: String,
    /// The text.
    pub source: String,
}

/// Name of every embedded kernel text: NAME or NAME/VARIANT.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

/// Name and body of the kernel file of a variant: `WORKLOAD/VARIANT.cu`, or else `WORKLOAD.cu`.
pub fn kernel(workload: &str, variant: &str) -> Option<(String, &'static str)> {
    find(&format!("{workload}/{variant}")).or_else(|| find(workload))
}

fn find(name: &str) -> Option<(String, &'static str)> {
    TEXTS.iter().find(|(n, _)| *n == name).map(|(n, body)| (format!("{n}.cu"), *body))
}

/// Whether a program needs a text: calls into the vendor's library do not.
pub fn needed(program: &Program) -> bool {
    program.stages.iter().any(|stage| stage.cuda.library.is_none())
}

/// The text of a case.
///
/// # Errors
/// When there is no kernel file for it.
pub fn assemble(case: &Case, program: &Program) -> Result<Text, BackendError> {
    let (workload, variant) = (case.problem.workload.name, case.variant);
    let (file, body) = kernel(workload, variant)
        .ok_or_else(|| BackendError::Unsupported(format!("no CUDA kernel for {workload}/{variant}")))?;
    let common = find(&format!("{workload}/common"));
    Ok(Text { source: source(common, &file, body, case.problem.dtype, program), file })
}

/// Put the parts in order: element type, prelude, integers, what the variants share, kernel. The prelude comes before the integers: their short names (`D`, `H`, `W`) must not meet it.
fn source(common: Option<(String, &str)>, file: &str, body: &str, dtype: DType, program: &Program) -> String {
    let elem = match dtype {
        DType::F32 => "ELEM_F32",
        DType::F16 => "ELEM_F16",
        DType::BF16 => "ELEM_BF16",
    };
    let consts: String = program.consts.iter().map(|(name, value)| format!("#define {name} {value}u\n")).collect();
    let common = common.map(|(file, body)| format!("#line 1 \"{file}\"\n{body}")).unwrap_or_default();
    format!("#define {elem} 1\n#line 1 \"prelude.cuh\"\n{PRELUDE}{consts}{common}#line 1 \"{file}\"\n{body}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::suite::{Library, Stage};

    #[test]
    fn parts_come_in_order_and_lines_count_from_the_kernel_file() {
        let program = Program { consts: vec![("S", 7), ("CAUSAL", 0)], stages: Vec::new() };
        let common = Some(("x/common.cu".to_owned(), "common\n"));
        let text = source(common, "x.cu", "body\n", DType::BF16, &program);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is missing"));
        assert!(at("#define ELEM_BF16 1\n") < at("#line 1 \"prelude.cuh\"\n"));
        assert!(
            at("flat_workgroup")
                < at("#define S 7u\n#define CAUSAL 0u\n#line 1 \"x/common.cu\"\ncommon\n#line 1 \"x.cu\"\nbody\n")
        );
        assert!(!text.contains("#define ELEM_F32"));
    }

    #[test]
    fn calls_into_the_library_need_no_text() {
        let own = Stage::new("own", &[], [1; 3], [1; 3], 0);
        let mut call = own.clone();
        call.cuda.library = Some(Library::Gemm { m: 1, n: 1, k: 1 });
        let program =
            |stages: &[&Stage]| Program { consts: Vec::new(), stages: stages.iter().copied().cloned().collect() };
        assert!(!needed(&program(&[&call])));
        assert!(needed(&program(&[&call, &own])));
    }

    #[test]
    fn a_variants_own_file_comes_before_the_workloads() {
        let file = |workload, variant| kernel(workload, variant).map(|(file, _)| file);
        assert_eq!(file("attention", "flash").as_deref(), Some("attention/flash.cu"));
        assert_eq!(file("hash_embedding", "owner").as_deref(), Some("hash_embedding/owner.cu"));
        assert_eq!(file("hash_embedding", "other"), None);
    }

    #[test]
    fn the_text_depends_on_shape_and_element_type_only() {
        let text = |case: &str| {
            let case: Case = case.parse().expect("valid case");
            let program = Program { consts: vec![("D", case.problem["d"] as u32)], stages: Vec::new() };
            assemble(&case, &program).expect("there is a kernel").source
        };
        let one = text("attention/fwd/b1,h1,s1,d8/f16/flash");
        assert_eq!(one, text("attention/fwd/b1,h1,s1,d8/f16/flash"));
        assert_ne!(one, text("attention/fwd/b1,h1,s1,d9/f16/flash"));
        assert_ne!(one, text("attention/fwd/b1,h1,s1,d8/bf16/flash"));
    }
}
