//! Every kernel source compiles for every relevant architecture, and its parameters match the workload.
//!
//! Needs NVRTC, and no GPU: `pip install nvidia-cuda-nvrtc`, or `PARALLAX_NVRTC_DIR`. Without it the test fails, so that it cannot
//! pass unseen.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use parallax_cuda::source::{KernelSource, assemble, assemble_all, embedded};
use parallax_cuda::{Arch, check_source, compile_source, nvrtc};
use parallax_ir::device::BackendError;
use parallax_ir::{
    Access, Arg, Case, Consts, Elem, OpSpec, Problem, Program, Stage, Value, VariantKind, Workload, lines_for,
};
use parallax_schema::case::{DType, Storage};
use parallax_schema::device::{Caps, CudaCaps, Dialect};
use parallax_schema::testing::hopper;
use parallax_tests::everything;
use parallax_tests::memo::{Key, Memo};
use parallax_workloads::{all, parse_case, tunables};

/// The first is compiled for most thoroughly: it has all features that kernels need.
const ARCHS: [Arch; 3] = [Arch::new(9, 0), Arch::new(8, 0), Arch::new(10, 0)];

pub fn caps(arch: Arch) -> Caps {
    Caps {
        subgroup: Some((32, 32)),
        compute_capability: Some((arch.major, arch.minor)),
        compute_units: Some(100),
        matrices: Vec::new(),
        matrix_units: true,
        cuda: Some(CudaCaps {
            max_cluster: if arch.major >= 9 { 8 } else { 1 },
            max_block_shared_bytes: if arch.major >= 9 { 232_448 } else { 166_912 },
            tensor_maps: arch.major >= 9,
            wgmma: arch == ARCHS[0],
            half_headers: nvrtc::get().is_ok_and(|nvrtc| nvrtc.headers().is_some()),
        }),
        ..hopper()
    }
}

/// Returns the binary of a kernel source and the compiler's remarks, kept between runs. They depend on the source, the
/// architecture, the compiler's version and the code that chooses its options. Errors are not kept.
pub fn compiled(memo: &Memo, text: &KernelSource, arch: Arch) -> Result<(Vec<u8>, String), BackendError> {
    let nvrtc = nvrtc::for_device(arch, None).map_err(|error| BackendError::Device(error.to_string()))?;
    let key = Key::default()
        .with(include_str!("../cuda/src/compile.rs"))
        .with(format!("{:?} {arch} {:?}", nvrtc.version(), nvrtc.headers().is_some()))
        .with(&text.file)
        .with(&text.source);
    let kept = memo.get(&key).and_then(|bytes| {
        let (remarks, cubin) = bytes.split_at(bytes.iter().position(|byte| *byte == 0)?);
        Some((cubin[1..].to_vec(), String::from_utf8(remarks.to_vec()).ok()?))
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let (cubin, remarks) = check_source(text, arch)?;
    memo.put(&key, &[remarks.as_bytes(), &[0], &cubin].concat());
    Ok((cubin, remarks))
}

/// A kernel source of a case, with the entry points that its stages launch.
struct Job {
    case: Case,
    text: KernelSource,
    entries: Vec<&'static str>,
}

/// Every CUDA case of a form at a shape, with its program.
fn cases(workload: &'static Workload, form: &'static OpSpec, shape: &str, arch: Arch) -> Vec<(Case, Program)> {
    let mut cases = Vec::new();
    for variant in &form.variants {
        let VariantKind::Kernel { dialects, available, program } = variant.how else { continue };
        for dtype in workload.dtypes {
            let problem = Problem::new(workload, form.direction, shape, *dtype).expect("a valid shape");
            if dialects.contains(&Dialect::Cuda) && available(&problem, &caps(arch)).is_ok() {
                let mut program = program(&problem, &caps(arch));
                program.stages.extend(form.setup.into_iter().flat_map(|setup| setup(&problem, &caps(arch)).stages));
                cases.push((Case { problem, variant: variant.name }, program));
            }
        }
    }
    cases
}

/// CUDA cases of a form that are compiled for an architecture.
///
/// - The first architecture: each variant at the last awkward shape, which is among the largest, with every type. Also each variant
///   at every sixth shape (with all tests, every second one) with alternating types. A machine with a GPU compiles them all.
/// - The others: the last shape, with one type.
/// - A variant of other workloads' stages has their sources, which compile there: it compiles once, for the first architecture.
fn chosen(workload: &'static Workload, form: &'static OpSpec, arch: Arch) -> Vec<(Case, Program)> {
    let mut variants: BTreeMap<&str, Vec<Vec<(Case, Program)>>> = BTreeMap::new();
    for shape in form.awkward {
        for types in cases(workload, form, shape, arch).chunk_by(|(a, _), (b, _)| a.variant == b.variant) {
            variants.entry(types[0].0.variant).or_default().push(types.to_vec());
        }
    }
    let own = |program: &Program| program.kernels().any(|k| k.text.split('/').next() == Some(workload.name));
    let first = arch == ARCHS[0];
    let step = if everything() { 2 } else { 6 };
    let mut chosen = Vec::new();
    for (i, shapes) in variants.into_values().enumerate() {
        let last = shapes.len() - 1;
        for (at, types) in shapes.into_iter().enumerate() {
            let own = own(&types[0].1);
            let one = (at / 2 + i) % types.len();
            let taken = match at == last {
                true if own && first => 0..types.len(),
                true if own || first => one..one + 1,
                false if own && first && at.is_multiple_of(step) => one..one + 1,
                _ => 0..0,
            };
            chosen.extend_from_slice(&types[taken]);
        }
    }
    chosen
}

/// Every kernel source of the CUDA cases of a form that are compiled.
fn jobs(workload: &'static Workload, form: &'static OpSpec, arch: Arch) -> Vec<Job> {
    let of_case = |(case, program): (Case, Program)| {
        let dtype = case.problem.dtype;
        let (texts, places) =
            assemble_all(&embedded(), &program, dtype).unwrap_or_else(|error| panic!("{case}: {error}"));
        let job = move |(i, text): (usize, KernelSource)| {
            let of_text = program.stages.iter().zip(&places).filter(|(_, place)| **place == Some(i));
            Job { case: case.clone(), text, entries: of_text.map(|(stage, _)| stage.entry()).collect() }
        };
        texts.into_iter().enumerate().map(job).collect::<Vec<_>>()
    };
    chosen(workload, form, arch).into_iter().flat_map(of_case).collect()
}

#[test]
fn every_value_of_what_is_left_open_compiles() {
    let arch = Arch::new(9, 0);
    let mut tried = 0;
    let mut known = HashSet::new();
    let memo = Memo::new("nvrtc");
    for form in all().iter().flat_map(|w| &w.forms) {
        for variant in form.variants.iter().filter(|v| matches!(v.how, VariantKind::Kernel { .. })) {
            for (i, tunable) in variant.tunables.iter().enumerate() {
                for (j, value) in tunable.allowed.candidates().into_iter().enumerate() {
                    let workload = all().iter().find(|w| w.forms.iter().any(|f| std::ptr::eq(f, form)));
                    let workload = workload.expect("the form is one of its");
                    let shape = form.awkward[(i + j) % form.awkward.len()];
                    let of = |dtype| Case {
                        problem: Problem::new(workload, form.direction, shape, dtype).expect("a valid shape"),
                        variant: variant.name,
                    };
                    let mut caps = caps(arch);
                    tunables::set(&mut caps.tuning, &of(DType::F32).tunable_key(tunable), value)
                        .expect("a candidate is allowed");
                    // Tensor cores take 16-bit floats alone.
                    let mut cases = [DType::F32, DType::BF16].map(of).into_iter();
                    let Some(case) = cases.find(|case| parallax_engine::plan::runs_as_asked(case, &caps).is_ok())
                    else {
                        continue;
                    };
                    let program = case.program(&caps).expect("a kernel variant");
                    let (texts, _) = assemble_all(&embedded(), &program, case.problem.dtype).expect("texts");
                    // Most values that are not a limit at these shapes leave the source unchanged.
                    for text in texts.into_iter().filter(|text| known.insert(text.source.clone())) {
                        let binary = compiled(&memo, &text, arch);
                        assert!(binary.is_ok(), "{case}, {}={value}: {:?}", tunable.name, binary.err());
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 30 && known.len() > 30, "{} texts of {tried} values", known.len());
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    if let Err(error) = nvrtc::get() {
        panic!("this test compiles every kernel and needs NVRTC (no GPU): {error}");
    }
    // Cases share sources, mainly those of set-ups: each is compiled once.
    let mut known = HashSet::new();
    let mut work: Vec<(Job, Arch)> = Vec::new();
    for arch in ARCHS {
        for workload in all() {
            for form in &workload.forms {
                let new = |job: &Job| known.insert((arch, job.text.source.clone(), job.entries.clone()));
                work.extend(jobs(workload, form, arch).into_iter().filter(new).map(|job| (job, arch)));
            }
        }
    }
    let memo = Memo::new("nvrtc");
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worker = || {
            let mut failures = Vec::new();
            while let Some((job, arch)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                match compiled(&memo, &job.text, *arch) {
                    Err(error) => failures.push(format!("{} for {arch}: {error}", job.case)),
                    Ok((cubin, said)) => {
                        failures.extend(missing(job, &cubin).map(|e| format!("{}: no entry {e}", job.case)));
                        failures.extend(slower(&said).map(|line| format!("{} for {arch}: {line}", job.case)));
                    }
                }
            }
            failures
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), work.len(), failures.join("\n"));
}

/// Lines of the assembler's log about requests of the source that it could not carry out. Examples are a change of the number of
/// registers (C7508) and overlap of matrix multiplications (C7510, C7512, C7519 and others).
pub fn slower(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| line.contains("(C75"))
}

#[test]
fn what_the_assembler_only_warns_of_is_told() {
    let kernel = Stage::kernel("registers", "registers", "registers").elem(DType::F16);
    let kernel = kernel.kernel_launch().expect("a kernel").clone();
    let said = |bounds: &str| {
        let body = format!(
            "#include \"lib/wgmma.cuh\"\nextern \"C\" __global__ void {bounds} registers(float* x) {{\n\
             if (threadIdx.x < 128) {{ give_registers<24>(); }} else {{ take_registers<240>(); x[threadIdx.x] = 1.0f; }}\n}}\n"
        );
        let texts = embedded().with_lookup(move |file| Ok((file == "registers.cu").then(|| body.clone())));
        let text = assemble(&texts, &kernel, DType::F16).expect("whole");
        compile_source(&text, Arch::new(9, 0)).expect("only a warning").1
    };
    assert!(slower(&said("")).any(|line| line.contains("setmaxnreg")), "{}", said(""));
    assert_eq!(slower(&said("__launch_bounds__(256, 1)")).next(), None);
}

/// Entry points of a source that are missing in its binary. The symbol table has the names of kernels as text.
fn missing<'a>(job: &'a Job, cubin: &[u8]) -> impl Iterator<Item = &'static str> + use<'a> {
    let names: HashSet<String> =
        cubin.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    job.entries.iter().copied().filter(move |entry| !names.contains(*entry))
}

#[test]
fn a_wrong_text_is_refused_with_its_file_and_line() {
    let case = parse_case("attention/fwd/b1,h1,s1,d1/f32/manual").expect("valid case");
    let program = case.program(&caps(ARCHS[0])).expect("has kernels");
    let (mut texts, _) = assemble_all(&embedded(), &program, case.problem.dtype).expect("has a kernel file");
    let body = embedded().find("attention/manual.cu").expect("readable").expect("there");
    texts[0].source += "\nnonsense here;\n";
    let error = compile_source(&texts[0], ARCHS[0]).expect_err("nonsense does not compile").to_string();
    let line = body.lines().count() + 2;
    assert!(error.contains(&format!("attention/manual.cu({line})")), "expected line {line} in: {error}");

    let broken = |file: &str| Ok((file == "attention/common.cuh").then(|| "// fine\nnonsense;\n".to_owned()));
    let (texts, _) = assemble_all(&embedded().with_lookup(broken), &program, case.problem.dtype).expect("whole");
    let error = compile_source(&texts[0], ARCHS[0]).expect_err("nonsense does not compile").to_string();
    assert!(error.contains("attention/common.cuh(2)"), "an included file keeps its lines too: {error}");
}

#[test]
fn parameters_are_the_arguments_of_the_stage() {
    for workload in all() {
        let of_form = |form: &'static OpSpec| form.awkward.iter().flat_map(move |s| cases(workload, form, s, ARCHS[0]));
        for (case, program) in workload.forms.iter().flat_map(of_form) {
            for stage in &program.stages {
                let Some(kernel) = stage.kernel_launch() else { continue };
                let file = format!("{}.cu", kernel.text);
                let body = embedded().find(&file).expect("readable").unwrap_or_else(|| panic!("{case}: no {file}"));
                let body = lines_for(body, &kernel.consts);
                let found = signatures(&with_constants(&body, &kernel.consts), kernel.entry);
                assert!(!found.is_empty(), "{file} has no entry {}", kernel.entry);
                let elem = Elem::Real.storage(kernel.elem.unwrap_or(case.problem.dtype));
                let want: Vec<String> = stage.args.iter().map(|arg| expected(arg, &case)).collect();
                for found in found {
                    let found: Vec<String> =
                        found.iter().map(|p| p.replace("elem*", &format!("{}*", name(elem)))).collect();
                    let shares = |arg: &Arg| stage.args.iter().filter(|other| other.buffer == arg.buffer).count() > 1;
                    for (parameter, arg) in found.iter().zip(&stage.args) {
                        let alone = parameter.contains("__restrict__");
                        assert!(!(alone && shares(arg)), "{case}: {parameter} of {} is not alone", kernel.entry);
                    }
                    // A parameter that may share its buffer in one stage is never declared `__restrict__`.
                    let whole = |(found, want): (&String, String)| match found.contains("__restrict__") {
                        true => want,
                        false => want.replace(" __restrict__", ""),
                    };
                    assert_eq!(found.len(), want.len(), "{case}: parameters of {} in {file}", kernel.entry);
                    let want: Vec<String> = found.iter().zip(want.clone()).map(whole).collect();
                    assert_eq!(found, want, "{case}: parameters of {} in {file}", kernel.entry);
                }
            }
        }
    }
}

/// Parameter that an argument needs.
fn expected(arg: &Arg, case: &Case) -> String {
    let buffers = case.problem.buffers();
    let spec = buffers.iter().find(|spec| spec.name == arg.buffer).expect("a buffer of the workload");
    if arg.map.is_some() {
        return format!("const __grid_constant__ CUtensorMap {}", arg.parameter);
    }
    let constant = if arg.access == Access::Read { "const " } else { "" };
    format!("{constant}{}* __restrict__ {}", name(spec.elem.storage(case.problem.dtype)), arg.parameter)
}

/// Type name of elements in this comparison: `elem` stands for one of these.
fn name(storage: Storage) -> &'static str {
    match storage {
        Storage::F32 => "float",
        Storage::F16 => "half",
        Storage::BF16 => "bfloat16",
        Storage::U32 => "unsigned",
    }
}

/// Source without the lines that the preprocessor removes for these constants. Conditions on other names leave all of their lines.
fn with_constants(body: &str, consts: &Consts) -> String {
    // Lines of an open `#if` that stay, and those of its `#else`.
    let mut open: Vec<[bool; 2]> = Vec::new();
    let mut kept = String::new();
    for line in body.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["#if", condition] => {
                let name = condition.trim_start_matches('!');
                let known = consts.iter().find_map(|(known, value)| match value {
                    Value::Bool(value) if *known == name => Some(*value != condition.starts_with('!')),
                    _ => None,
                });
                open.push(known.map_or([true; 2], |value| [value, !value]));
            }
            ["#if" | "#ifdef" | "#ifndef", ..] => open.push([true; 2]),
            ["#else", ..] => open.last_mut().expect("an #if").swap(0, 1),
            ["#endif", ..] => _ = open.pop().expect("an #if"),
            _ if open.iter().all(|[here, _]| *here) => kept += &format!("{line}\n"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "an #if without #endif");
    kept
}

#[test]
fn a_condition_on_an_unknown_constant_is_refused() {
    let kernel = |name: &str| {
        let body = format!("extern \"C\" __global__ void given(float* x) {{\n#if {name}\nx[0] = 1.0f;\n#endif\n}}\n");
        let texts = embedded().with_lookup(move |file| Ok((file == "given.cu").then(|| body.clone())));
        let stage = Stage::kernel("given", "given", "given").consts(&[("CAUSAL", false)]);
        assemble(&texts, stage.kernel_launch().expect("a kernel"), DType::F32).expect("whole")
    };
    for known in ["CAUSAL", "!CAUSAL", "__CUDA_ARCH__ >= 800", "defined(ELEM_F16)"] {
        compile_source(&kernel(known), ARCHS[0]).unwrap_or_else(|e| panic!("{known}: {e}"));
    }
    let error = compile_source(&kernel("CASUAL"), ARCHS[0]).expect_err("a name without a constant").to_string();
    assert!(error.contains("given.cu(2)") && error.contains("CASUAL"), "{error}");
}

/// Parameters of every definition of a kernel, with single spaces.
fn signatures(body: &str, entry: &str) -> Vec<Vec<String>> {
    let definitions = body.split("extern \"C\" __global__ void").skip(1).filter_map(|rest| {
        let (head, _) = rest.split_once('{')?;
        let (before, parameters) = head.split_once(&format!("{entry}("))?;
        // The name must be whole, and launch bounds may precede it.
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let (parameters, _) = parameters.rsplit_once(')')?;
        Some(parameters.split(',').map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
    });
    definitions.collect()
}

#[test]
fn signatures_are_found_across_lines_and_launch_bounds() {
    let body = "extern \"C\" __global__ void __launch_bounds__(256)\n  f(const elem* __restrict__ x,\n  float* __restrict__ y) {\n}\n\
                extern \"C\" __global__ void gf(unsigned* __restrict__ z) {}";
    assert_eq!(signatures(body, "f"), [["const elem* __restrict__ x", "float* __restrict__ y"]]);
    assert_eq!(signatures(body, "gf"), [["unsigned* __restrict__ z"]]);
}
