//! Assembly of a kernel's WGSL. It needs no device.
//!
//! A file below `kernels/` imports others by lines `#import lib/launch`, with names relative to that folder and without extension.
//! WGSL has no imports, and ignores the order of declarations. The kernel source begins with the kernel's file, with empty lines
//! for its imports, so that messages have its line numbers. All direct and indirect imports follow, each file once. The constants
//! and the element type `elem` come last. The other directives are those of `directives`.
//!
//! Where browsers and naga differ in syntax, the kernel source is for one of them: see [`Compiler`]. Conditions may also test
//! `IN_A_BROWSER`.

use std::borrow::Cow;

use parallax_ir::device::BackendError;
use parallax_ir::{Authoring, Consts, Kernel, KernelSources, Program, SourceChunk, Value, lines_for, translated};
use parallax_schema::case::DType;
use parallax_schema::device::{Dialect, Step};
use sha2::{Digest, Sha256};

use crate::directives::{SourceError, blocks_emitted, conditions_resolved, directive};

pub use crate::imitate::Imitation;
pub use crate::unroll::WrittenLoops;
use crate::{imitate, matrix, unroll};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Compiler of a kernel source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    /// naga, in a native program.
    Naga,
    /// The browser's, in a page.
    Browser,
    /// naga, with emulated matrix units.
    Imitating,
}

impl Compiler {
    /// Compiler of this program's platform.
    pub const HERE: Compiler = if cfg!(target_arch = "wasm32") { Compiler::Browser } else { Compiler::Naga };
}

/// Form of kernel sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Compiler.
    pub compiler: Compiler,
    /// Loops that are written out because the compiler guards loops. Sources from outside the program are compiled by naga with all
    /// checks: their loops are written out even if the program's own stay.
    pub loops: WrittenLoops,
}

impl Form {
    /// Form of this program's platform, without guards.
    pub const HERE: Form = Form { compiler: Compiler::HERE, loops: WrittenLoops::None };

    /// Writes out the loops of a kernel source, where loops are guarded.
    fn applied(self, mut text: KernelSource) -> KernelSource {
        let loops = match self.loops {
            WrittenLoops::None if !text.own && self.compiler != Compiler::Browser => WrittenLoops::Long,
            loops => loops,
        };
        // Emulated matrices are loops over memory, and too long for compilers if they are written out.
        if text.imitation.is_none() {
            (text.wgsl, text.unrolled) = unroll::unrolled(&text.wgsl, loops);
        }
        text
    }
}

/// An assembled kernel source.
#[derive(Debug, Clone)]
pub struct KernelSource {
    /// File of the line numbers, relative to the kernels folder.
    pub file: String,
    /// WGSL.
    pub wgsl: String,
    /// First line and name of each imported file, after the kernel's own.
    pub imports: Vec<(usize, String)>,
    /// Additional bindings of emulated matrix units.
    pub imitation: Option<Imitation>,
    /// Steps of the translation of a translated kernel source. Empty for an assembled one.
    pub made: Vec<Step>,
    /// Number of loops that are written out.
    pub unrolled: usize,
    /// Whether all of it is embedded in the program. Other sources may access memory out of bounds.
    pub own: bool,
}

/// Equality ignores the time of the steps.
impl PartialEq for KernelSource {
    fn eq(&self, other: &KernelSource) -> bool {
        (&self.file, &self.wgsl, &self.imports) == (&other.file, &other.wgsl, &other.imports)
    }
}

impl KernelSource {
    /// SHA-256 of the kernel source, in hexadecimal: its identity in records.
    pub fn hash(&self) -> String {
        hash(&self.wgsl)
    }

    /// Returns the kernel source of a text from outside the program, unchanged.
    pub(crate) fn foreign(file: &str, wgsl: &str) -> KernelSource {
        let (file, wgsl) = (file.to_owned(), wgsl.to_owned());
        KernelSource { file, wgsl, imports: Vec::new(), imitation: None, made: Vec::new(), unrolled: 0, own: false }
    }

    /// Returns the first line of each imported file, as an appendix to compiler messages.
    pub(crate) fn legend(&self) -> String {
        let one = |(line, file): &(usize, String)| format!("\nline {line} of the text is the first of {file}");
        self.imports.iter().map(one).collect()
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the identity of several kernel sources in records. For one source it is its hash, and for none it is empty.
pub(crate) fn hash_of(texts: &[KernelSource]) -> String {
    match texts {
        [] => String::new(),
        [one] => one.hash(),
        several => hash(&several.iter().map(KernelSource::hash).collect::<String>()),
    }
}

/// Returns the kernel sources embedded in the program.
pub fn embedded() -> KernelSources {
    KernelSources::embedded(FILES)
}

/// Returns the kernel source of a kernel, for a case of element type `dtype`.
///
/// # Errors
/// A missing file or import, a faulty directive, an element type that WGSL lacks, or an operation without syntax for the compiler.
pub fn assemble(
    sources: &KernelSources,
    kernel: &Kernel,
    dtype: DType,
    form: Form,
) -> Result<KernelSource, BackendError> {
    Ok(form.applied(plain(sources, kernel, dtype, form.compiler)?))
}

/// Returns the kernel source of a kernel, with its loops as they are.
fn plain(
    sources: &KernelSources,
    kernel: &Kernel,
    dtype: DType,
    compiler: Compiler,
) -> Result<KernelSource, BackendError> {
    let (enable, elem) = match kernel.elem.unwrap_or(dtype) {
        DType::F32 => ("", "f32"),
        DType::F16 => ("enable f16; ", "f16"),
        DType::BF16 => return Err(BackendError::Unsupported("WGSL has no bf16".to_owned())),
    };
    if kernel.authoring != Authoring::Handwritten {
        let file = format!("{}.cube", kernel.text);
        return match translated(sources, kernel, dtype, Dialect::Wgsl) {
            Ok(made) => {
                let (made, wgsl) = (made.timed_steps(), made.text);
                Ok(KernelSource { file, wgsl, imports: Vec::new(), imitation: None, made, unrolled: 0, own: true })
            }
            Err(why) => Err(BackendError::untranslated(file, why)),
        };
    }
    let file = format!("{}.wgsl", kernel.text);
    let mut known = kernel.consts.clone();
    known.push(("IN_A_BROWSER", Value::Bool(compiler == Compiler::Browser)));
    // The emulation reads one statement per line.
    let between = if compiler == Compiler::Imitating { "\n" } else { " " };
    let parts = parts_of(sources, &file, &known, between).map_err(|e| BackendError::Unsupported(e.to_string()))?;
    // `enable` must precede all else, and shares the first line.
    let mut wgsl = enable.to_owned();
    if compiler == Compiler::Browser && parts.iter().any(|part| by_subgroups(&part.text)) {
        // Browsers require it. naga accepts subgroup operations without it, and does not support the word yet.
        wgsl += "enable subgroups; ";
    }
    if compiler != Compiler::Browser && parts.iter().any(|part| part.text.contains("u16(")) {
        wgsl += "enable wgpu_int16; ";
    }
    let mut lines = 0;
    let mut put = |part: &SourceChunk, wgsl: &mut String, above: usize| {
        // Import lines become empty lines.
        let missing = (part.first_line + above).saturating_sub(lines + 1);
        *wgsl += &"\n".repeat(missing);
        *wgsl += &part.text;
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
            Value::Word(_) => String::new(),
        };
    }
    wgsl += &format!("alias elem = {elem};\n");
    let mut imitation = None;
    match compiler {
        Compiler::Naga => {}
        Compiler::Browser => wgsl = matrix::in_a_browser(&wgsl).map_err(BackendError::Unsupported)?,
        // Excluded from the page's download: only tests use it.
        Compiler::Imitating if cfg!(not(target_family = "wasm")) && wgsl.contains(matrix::NATIVE) => {
            let imitated = imitate::imitated(&wgsl).map_err(BackendError::Unsupported)?;
            (wgsl, imitation) = (imitated.wgsl, Some(imitated.buffers));
        }
        Compiler::Imitating => {}
    }
    let own = parts.iter().all(|part| part.own);
    Ok(KernelSource { file, wgsl, imports, imitation, made: Vec::new(), unrolled: 0, own })
}

/// Returns the distinct kernel sources of a program in a form, and the index of each stage's source.
///
/// # Errors
/// Those of [`assemble`].
pub fn assemble_all(
    sources: &KernelSources,
    program: &Program,
    dtype: DType,
    form: Form,
) -> Result<(Vec<KernelSource>, Vec<Option<usize>>), BackendError> {
    let (texts, places) = program.distinct(|kernel| plain(sources, kernel, dtype, form.compiler))?;
    Ok((texts.into_iter().map(|text| form.applied(text)).collect(), places))
}

/// Whether a kernel source uses subgroup builtins or exchanges.
fn by_subgroups(text: &str) -> bool {
    ["@builtin(subgroup_", "subgroupShuffle"].iter().any(|word| text.contains(word))
}

/// Returns a file and its imports, without directives.
fn parts_of(
    sources: &KernelSources,
    file: &str,
    consts: &Consts,
    between: &str,
) -> Result<Vec<SourceChunk>, SourceError> {
    let resolve = |file: &str, text: Cow<'static, str>| {
        conditions_resolved(file, &lines_for(text, consts), consts).map(Cow::Owned)
    };
    let mut parts = sources.with_imports_of(file, &resolve, &imported)?;
    blocks_emitted(&mut parts, consts, between)?;
    Ok(parts)
}

/// Returns the file that a line imports.
fn imported(line: &str) -> Option<String> {
    match directive(line) {
        Ok(Some(("#import", name))) => Some(format!("{name}.wgsl")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Stage;
    use parallax_schema::device::{Caps, MatrixShape};
    use parallax_schema::testing::caps;
    use parallax_workloads::parse_case;

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
        let text = assemble(&KernelSources::embedded(TEXTS), &kernel, DType::F16, Form::HERE).expect("there");
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
            let case = parse_case(text).expect("valid");
            let program = case.program(&caps()).expect("a kernel variant");
            let (texts, _) = assemble_all(&embedded(), &program, case.problem.dtype, Form::HERE).expect("has WGSL");
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
        let text = |stage: Stage, dtype| assemble(&KernelSources::embedded(TEXTS), &kernel(stage), dtype, Form::HERE);
        let stage = Stage::kernel("y", "x/y", "y");
        assert!(text(stage.clone(), DType::BF16).is_err_and(|e| e.to_string().contains("bf16")));
        assert!(text(stage.elem(DType::F32), DType::BF16).is_ok_and(|t| t.wgsl.ends_with("alias elem = f32;\n")));
    }

    /// Both syntaxes of every kernel with matrices, over the shapes that the tests compile.
    #[test]
    fn matrices_are_spelled_for_both_compilers() {
        let caps = Caps { matrices: vec![MatrixShape::F16_IN_F32], subgroup: Some((32, 32)), ..caps() };
        for (text, file) in [
            ("matmul/fwd/m33,n65,k17/f16/coopmat", "matmul/coopmat.wgsl"),
            ("attention/fwd/b1,h2,s33,d40/f16/flash_coopmat", "attention/flash_coopmat.wgsl"),
            ("attention/bwd/b1,h2,s33,d40/f16/flash_coopmat", "attention/flash_coopmat_backward.wgsl"),
            ("conv2d/fwd/n1,c3,m5,h9,k3,p1,nchw/f16/coopmat", "conv2d/coopmat.wgsl"),
            ("conv2d/fwd/n1,c3,m5,h9,k3,p1,nhwc/f16/coopmat", "conv2d/coopmat.wgsl"),
        ] {
            let case = parse_case(text).expect("valid");
            let program = case.program(&caps).expect("a kernel variant");
            let kernel = program.stages.iter().filter_map(Stage::kernel_launch).find(|k| file.starts_with(k.text));
            let of = |compiler| {
                assemble(&embedded(), kernel.expect("there"), DType::F16, Form { compiler, ..Form::HERE })
                    .expect("there")
                    .wgsl
            };
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
            // Messages name lines. Only the first line, matrices, blocks and the lines for one compiler differ.
            let source = embedded().find(file).expect("readable").expect("there");
            let emitted = |i| source.lines().nth(i).is_some_and(|line| line.trim_start().starts_with("#emit "));
            assert_eq!(native.lines().count(), browser.lines().count());
            for (i, (one, other)) in native.lines().zip(browser.lines()).enumerate().skip(1) {
                assert!(
                    one == other
                        || emitted(i)
                        || one.is_empty() != other.is_empty()
                        || one.contains("coop") && other.contains("subgroup"),
                    "{text} {i}: {one} / {other}"
                );
            }
        }
    }

    /// naga lacks 8-bit matrices: they are for browsers and for the emulation.
    #[test]
    fn matrices_of_bytes_are_spelled_and_imitated() {
        let caps = Caps { matrices: vec![MatrixShape::I8_IN_I32], subgroup: Some((32, 32)), ..caps() };
        for dtype in ["f32", "f16"] {
            let case = parse_case(&format!("matmul_i8/fwd/m33,n65,k36/{dtype}/coopmat")).expect("valid");
            let program = case.program(&caps).expect("a kernel variant");
            let kernel = program.kernels().next().expect("there");
            let of = |compiler| {
                assemble(&embedded(), kernel, case.problem.dtype, Form { compiler, ..Form::HERE }).expect("there")
            };
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
        let error = assemble(&embedded(), &kernel(Stage::kernel("y", "no/such", "y")), DType::F32, Form::HERE);
        assert!(error.is_err_and(|e| e.to_string().contains("no/such.wgsl")));
    }
}
