//! From a case to the final WGSL: pure text, no device.

use parallax_core::suite::{Case, DType, Program};
use sha2::{Digest, Sha256};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The final text of one case's kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// File that line numbers refer to, relative to the kernels folder.
    pub file: String,
    /// WGSL.
    pub wgsl: String,
}

impl Text {
    /// SHA-256 of the text, in hexadecimal: its identity in records.
    pub fn hash(&self) -> String {
        Sha256::digest(self.wgsl.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// Name of every embedded text but the prelude: NAME, NAME/VARIANT or NAME/common.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name).filter(|name| *name != "prelude")
}

fn find(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// Put together kernel, what its siblings share (NAME/common.wgsl), constants, element type and prelude; `None` when the
/// workload has no WGSL for this variant.
///
/// The kernel comes first so that line numbers in errors are those of its file (WGSL does not care about the order of
/// declarations); only `enable` must stand before it, and shares its first line.
pub fn assemble(case: &Case, program: &Program) -> Option<Text> {
    let workload = case.problem.workload.name;
    let of_variant = format!("{workload}/{}", case.variant);
    let (name, kernel) = match find(&of_variant) {
        Some(text) => (of_variant.as_str(), text),
        None => (workload, find(workload)?),
    };
    let (enable, elem) = match case.problem.dtype {
        DType::F32 => ("", "f32"),
        DType::F16 => ("enable f16; ", "f16"),
        DType::BF16 => return None,
    };
    let common = find(&format!("{workload}/common")).unwrap_or_default();
    let mut wgsl = format!("{enable}{kernel}\n{common}\n");
    for (name, value) in &program.consts {
        wgsl += &format!("const {name}: u32 = {value}u;\n");
    }
    wgsl += &format!("alias elem = {elem};\n");
    wgsl += find("prelude").expect("kernels/prelude.wgsl is embedded");
    Some(Text { file: format!("{name}.wgsl"), wgsl })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::testing::mock;

    #[test]
    fn text_is_kernel_then_constants_then_alias_then_prelude() {
        let case: Case = "attention/fwd/b1,h2,s3,d4/f16/flash".parse().expect("valid");
        let program = case.program(&mock::caps()).expect("a kernel variant");
        let text = assemble(&case, &program).expect("has WGSL");
        assert_eq!(text.file, "attention/flash.wgsl");
        assert!(text.wgsl.starts_with("enable f16; // Scaled dot-product"));
        let at = |part: &str| text.wgsl.find(part).unwrap_or_else(|| panic!("{part} is missing"));
        assert!(at("fn attention_flash") < at("const HEADS: u32 = 2u;"));
        assert!(at("const HEADS") < at("alias elem = f16;"));
        assert!(at("alias elem") < at("fn flat_group"));
        let other: Case = "attention/fwd/b1,h2,s3,d5/f16/flash".parse().expect("valid");
        let other = assemble(&other, &other.program(&mock::caps()).expect("kernel")).expect("has WGSL");
        assert_ne!(text.hash(), other.hash());
        assert_eq!(text.hash().len(), 64);
    }

    #[test]
    fn a_folder_has_one_text_per_variant() {
        let case: Case = "hash_embedding/fwd/r3,g2,d4,sorted/f32/owner".parse().expect("valid");
        let program = case.program(&mock::caps()).expect("a kernel variant");
        assert_eq!(assemble(&case, &program).map(|t| t.file), Some("hash_embedding/owner.wgsl".to_owned()));
    }
}
