//! From a kernel to its final WGSL: pure text, no device.
//!
//! A file below `kernels/` imports what it needs by lines `#import lib/launch`: another file below that folder, without
//! its extension. WGSL has nothing of the kind and does not care about the order of declarations, so the final text is
//! the kernel's file first, which keeps the line numbers of messages right, with its import lines left empty; then
//! everything imported, directly or not, each file once; then the constants and the element type `elem`. Of a line
//! `#when NAME rest` the rest is there where that constant is true: see [`decided`]. Where browsers have other words than naga
//! for the same, the text is for the one that compiles it: see [`Compiler`]. Lines may also ask for `IN_A_BROWSER`.

use parallax_core::device::{BackendError, Step};
use parallax_core::suite::{DType, Dialect, Kernel, KernelSources, Part, Program, Source, Value, decided, translated};
use sha2::{Digest, Sha256};

pub use crate::imitate::Imitation;
use crate::{imitate, matrix};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// What compiles a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    /// wgpu's own, in a program.
    Naga,
    /// The browser's, in a page.
    Browser,
    /// wgpu's own, for a device whose matrix units are imitated.
    Imitating,
}

impl Compiler {
    /// That of where this program runs.
    pub const HERE: Compiler = if cfg!(target_arch = "wasm32") { Compiler::Browser } else { Compiler::Naga };
}

/// The final text of a kernel.
#[derive(Debug, Clone)]
pub struct Text {
    /// File that line numbers refer to, relative to the kernels folder.
    pub file: String,
    /// WGSL.
    pub wgsl: String,
    /// What stands behind the file: where each imported file begins.
    pub imports: Vec<(usize, String)>,
    /// What it binds besides, where matrix units are imitated.
    pub imitation: Option<Imitation>,
    /// What it took to make it, where it was not just put together.
    pub made: Vec<Step>,
    /// Whether all of it is of the program. Others may reach for memory that is not theirs.
    pub own: bool,
}

/// The same text is the same however long it took.
impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        (&self.file, &self.wgsl, &self.imports) == (&other.file, &other.wgsl, &other.imports)
    }
}

impl Text {
    /// SHA-256 of the text, in hexadecimal: its identity in records.
    pub fn hash(&self) -> String {
        hash(&self.wgsl)
    }

    /// Says which lines of the text come from which imported file, for whoever reads a message about them.
    pub(crate) fn legend(&self) -> String {
        let one = |(line, file): &(usize, String)| format!("\nline {line} of the text is the first of {file}");
        self.imports.iter().map(one).collect()
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// The identity of several texts in records: of one, its own; of none, empty.
pub(crate) fn hash_of(texts: &[Text]) -> String {
    match texts {
        [] => String::new(),
        [one] => one.hash(),
        several => hash(&several.iter().map(Text::hash).collect::<String>()),
    }
}

/// The texts of the program.
pub fn embedded() -> KernelSources {
    KernelSources::embedded(FILES)
}

/// The text of a kernel of a case of element type `dtype`.
///
/// # Errors
/// When there is no file for it, something that it imports is missing, WGSL lacks the element type, or the compiler has no words
/// for what it does.
pub fn assemble(
    texts: &KernelSources,
    kernel: &Kernel,
    dtype: DType,
    compiler: Compiler,
) -> Result<Text, BackendError> {
    let (enable, elem) = match kernel.elem.unwrap_or(dtype) {
        DType::F32 => ("", "f32"),
        DType::F16 => ("enable f16; ", "f16"),
        DType::BF16 => return Err(BackendError::Unsupported("WGSL has no bf16".to_owned())),
    };
    if kernel.source != Source::Own {
        let file = format!("{}.cube", kernel.text);
        return match translated(texts, kernel, dtype, Dialect::Wgsl) {
            Ok(made) => {
                let (made, wgsl) = (Step::made(&made), made.text);
                Ok(Text { file, wgsl, imports: Vec::new(), imitation: None, made, own: true })
            }
            Err(why) => Err(BackendError::untranslated(file, why)),
        };
    }
    let file = format!("{}.wgsl", kernel.text);
    let parts = texts.with_imports(&file, &imported).map_err(|e| BackendError::Unsupported(e.to_string()))?;
    // `enable` must come first of all, and shares the first line.
    let mut wgsl = enable.to_owned();
    if compiler == Compiler::Browser && parts.iter().any(|part| by_subgroups(&part.text)) {
        // Browsers ask for it; naga takes subgroup operations without, and does not know the word yet.
        wgsl += "enable subgroups; ";
    }
    if compiler != Compiler::Browser && parts.iter().any(|part| part.text.contains("u16(")) {
        wgsl += "enable wgpu_int16; ";
    }
    let mut known = kernel.consts.clone();
    known.push(("IN_A_BROWSER", Value::Bool(compiler == Compiler::Browser)));
    let mut lines = 0;
    let mut put = |part: &Part, wgsl: &mut String, above: usize| {
        // Import lines become empty ones.
        let missing = (part.first_line + above).saturating_sub(lines + 1);
        *wgsl += &"\n".repeat(missing);
        *wgsl += &decided(&part.text, &known);
        lines += missing + part.text.lines().count();
        lines
    };
    let mut end = 0;
    for part in parts.iter().filter(|part| part.file == file) {
        end = put(part, &mut wgsl, 0);
    }
    let mut others: Vec<&str> = Vec::new();
    for part in &parts {
        if part.file != file && !others.contains(&part.file.as_str()) {
            others.push(&part.file);
        }
    }
    let mut imports = Vec::new();
    for other in others {
        let above = end;
        imports.push((above + 1, other.to_owned()));
        for part in parts.iter().filter(|part| part.file == other) {
            end = put(part, &mut wgsl, above);
        }
    }
    for (name, value) in &kernel.consts {
        wgsl += &match value {
            Value::U32(value) => format!("const {name}: u32 = {value}u;\n"),
            Value::F32(value) => format!("const {name}: f32 = {value:?}f;\n"),
            Value::Bool(value) => format!("const {name}: bool = {value};\n"),
        };
    }
    wgsl += &format!("alias elem = {elem};\n");
    let mut imitation = None;
    match compiler {
        Compiler::Naga => {}
        Compiler::Browser => wgsl = matrix::in_a_browser(&wgsl).map_err(BackendError::Unsupported)?,
        // Not in what a visitor downloads: only tests ask for it.
        Compiler::Imitating if cfg!(not(target_family = "wasm")) && wgsl.contains(matrix::NATIVE) => {
            let imitated = imitate::imitated(&wgsl).map_err(BackendError::Unsupported)?;
            (wgsl, imitation) = (imitated.wgsl, Some(imitated.buffers));
        }
        Compiler::Imitating => {}
    }
    Ok(Text { file, wgsl, imports, imitation, made: Vec::new(), own: parts.iter().all(|part| part.own) })
}

/// The texts of a program for a compiler, every different one once, and which of them each stage's kernel comes from.
///
/// # Errors
/// As for one.
pub fn assemble_all(
    texts: &KernelSources,
    program: &Program,
    dtype: DType,
    compiler: Compiler,
) -> Result<(Vec<Text>, Vec<Option<usize>>), BackendError> {
    program.distinct(|kernel| assemble(texts, kernel, dtype, compiler))
}

/// Whether a text asks for what threads of a subgroup know, or exchange.
fn by_subgroups(text: &str) -> bool {
    ["@builtin(subgroup_", "subgroupShuffle"].iter().any(|word| text.contains(word))
}

/// The file that a line imports.
fn imported(line: &str) -> Option<String> {
    line.strip_prefix("#import ").map(|name| format!("{}.wgsl", name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::suite::{Caps, Case, MatrixShape, Stage};
    use parallax_core::testing::mock;

    const TEXTS: &[(&str, &str)] = &[
        ("x/y.wgsl", "// about\n#import lib/a\nthree\n#import lib/b\nfive\n"),
        ("lib/a.wgsl", "#import lib/b\n\na three\n"),
        ("lib/b.wgsl", "b one\n"),
    ];

    fn kernel(stage: Stage) -> Kernel {
        stage.kernel_launch().expect("a kernel").clone()
    }

    #[test]
    fn the_kernel_comes_first_and_every_import_once() {
        let consts: [(&str, Value); 3] = [("S", 7.into()), ("CAUSAL", true.into()), ("EPS", 1e-5.into())];
        let kernel = kernel(Stage::kernel("y", "x/y", "y").consts(&consts));
        let text = assemble(&KernelSources::embedded(TEXTS), &kernel, DType::F16, Compiler::HERE).expect("there");
        let want = "enable f16; // about\n\nthree\n\nfive\nb one\n\n\na three\nconst S: u32 = 7u;\n\
                    const CAUSAL: bool = true;\nconst EPS: f32 = 1e-5f;\nalias elem = f16;\n";
        assert_eq!(text.wgsl, want);
        assert_eq!(text.file, "x/y.wgsl");
        let legend = "\nline 6 of the text is the first of lib/b.wgsl\nline 7 of the text is the first of lib/a.wgsl";
        assert_eq!(text.legend(), legend);
    }

    #[test]
    fn texts_differ_by_shape_and_by_element_type() {
        let hash = |text: &str| {
            let case: Case = text.parse().expect("valid");
            let program = case.program(&mock::caps()).expect("a kernel variant");
            let (texts, _) = assemble_all(&embedded(), &program, case.problem.dtype, Compiler::HERE).expect("has WGSL");
            hash_of(&texts)
        };
        let one = hash("attention/fwd/b1,h2,s3,d4/f16/flash");
        assert_eq!((one.len(), &one), (64, &hash("attention/fwd/b1,h2,s3,d4/f16/flash")));
        for other in ["b1,h2,s3,d5/f16/flash", "b1,h2,s3,d4/f32/flash", "b1,h2,s3,d4/f16/manual"] {
            assert_ne!(one, hash(&format!("attention/fwd/{other}")));
        }
        assert_eq!(hash_of(&[]), "");
    }

    #[test]
    fn a_kernel_may_have_another_element_type_than_its_case() {
        let text =
            |stage: Stage, dtype| assemble(&KernelSources::embedded(TEXTS), &kernel(stage), dtype, Compiler::HERE);
        let stage = Stage::kernel("y", "x/y", "y");
        assert!(text(stage.clone(), DType::BF16).is_err_and(|e| e.to_string().contains("bf16")));
        assert!(text(stage.elem(DType::F32), DType::BF16).is_ok_and(|t| t.wgsl.ends_with("alias elem = f32;\n")));
    }

    /// Both spellings of every kernel that multiplies matrices, over the shapes that the tests compile.
    #[test]
    fn matrices_are_spelled_for_both_compilers() {
        let caps = Caps { matrices: vec![MatrixShape::F16_IN_F32], subgroup: Some((32, 32)), ..mock::caps() };
        for (text, file) in [
            ("matmul/fwd/m33,n65,k17/f16/coopmat", "matmul/coopmat.wgsl"),
            ("attention/fwd/b1,h2,s33,d40/f16/flash_coopmat", "attention/flash_coopmat.wgsl"),
            ("attention/bwd/b1,h2,s33,d40/f16/flash_coopmat", "attention/flash_coopmat_backward.wgsl"),
            ("conv2d/fwd/n1,c3,m5,h9,k3,p1,nchw/f16/coopmat", "conv2d/coopmat.wgsl"),
            ("conv2d/fwd/n1,c3,m5,h9,k3,p1,nhwc/f16/coopmat", "conv2d/coopmat.wgsl"),
        ] {
            let case: Case = text.parse().expect("valid");
            let program = case.program(&caps).expect("a kernel variant");
            let kernel = program.stages.iter().filter_map(Stage::kernel_launch).find(|k| file.starts_with(k.text));
            let of =
                |compiler| assemble(&embedded(), kernel.expect("there"), DType::F16, compiler).expect("there").wgsl;
            let (native, browser) = (of(Compiler::Naga), of(Compiler::Browser));
            assert!(native.starts_with("enable f16; enable wgpu_int16; enable wgpu_cooperative_matrix;"), "{text}");
            let subgroups = if by_subgroups(&native) { "enable subgroups; " } else { "" };
            let head = format!(
                "enable f16; {subgroups}enable chromium_experimental_subgroup_matrix; \
                 diagnostic(off, chromium.subgroup_matrix_uniformity);\n"
            );
            assert!(browser.starts_with(&head), "{text}");
            for (naga, chromium) in [
                ("= coop_mat16x16<f32, C>()", "= subgroup_matrix_result<f32, 16, 16>()"),
                (
                    "coopLoadT<coop_mat16x16<f16, A>>(&",
                    "subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(&",
                ),
                (
                    "coopLoadT<coop_mat16x16<f16, B>>(&",
                    "subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, row_major>(&",
                ),
                (
                    "coopLoad<coop_mat16x16<f16, B>>(&",
                    "subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(&",
                ),
                ("coopStoreT(", "subgroupMatrixStore<row_major>(&"),
                ("coopMultiplyAdd(", "subgroupMatrixMultiplyAccumulate("),
            ] {
                let count = native.matches(naga).count();
                assert_eq!(browser.matches(chromium).count(), count, "{text}: {naga}");
            }
            assert!(native.matches("coopMultiplyAdd(").count() >= 2, "{text}");
            // Messages name lines, and nothing differs but the first, matrices, and what is for one of both alone.
            assert_eq!(native.lines().count(), browser.lines().count());
            for (i, (one, other)) in native.lines().zip(browser.lines()).enumerate().skip(1) {
                assert!(
                    one == other
                        || one.is_empty() != other.is_empty()
                        || one.contains("coop") && other.contains("subgroup"),
                    "{text} {i}: {one} / {other}"
                );
            }
        }
    }

    /// Of matrices of bytes naga has none: they are for browsers, and for where they are imitated.
    #[test]
    fn matrices_of_bytes_are_spelled_and_imitated() {
        let caps = Caps { matrices: vec![MatrixShape::I8_IN_I32], subgroup: Some((32, 32)), ..mock::caps() };
        for dtype in ["f32", "f16"] {
            let case: Case = format!("matmul_i8/fwd/m33,n65,k36/{dtype}/coopmat").parse().expect("valid");
            let program = case.program(&caps).expect("a kernel variant");
            let kernel = program.kernels().next().expect("there");
            let of = |compiler| assemble(&embedded(), kernel, case.problem.dtype, compiler).expect("there");
            let (native, browser) = (of(Compiler::Naga).wgsl, of(Compiler::Browser).wgsl);
            assert_eq!(native.matches("coopMultiplyAdd(").count(), 32);
            for (ours, chromium) in [
                ("= coop_mat16x16<i32, C>()", "= subgroup_matrix_result<i32, 16, 16>()"),
                (
                    "coopLoadT<coop_mat32x16<i8, A>>(&",
                    "subgroupMatrixLoad<subgroup_matrix_left<i8, 32, 16>, row_major>(&",
                ),
                (
                    "coopLoad<coop_mat16x32<i8, B>>(&",
                    "subgroupMatrixLoad<subgroup_matrix_right<i8, 16, 32>, col_major>(&",
                ),
                ("coopMultiplyAdd(", "subgroupMatrixMultiplyAccumulate("),
            ] {
                let count = native.matches(ours).count();
                assert!(count > 0 && browser.matches(chromium).count() == count, "{dtype}: {ours}");
            }
            let imitated = of(Compiler::Imitating);
            assert_eq!(imitated.imitation.map(|buffers| buffers.arrays), Some(3), "{dtype}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = assemble(&embedded(), &kernel(Stage::kernel("y", "no/such", "y")), DType::F32, Compiler::HERE);
        assert!(error.is_err_and(|e| e.to_string().contains("no/such.wgsl")));
    }
}
