//! Every kernel text compiles for every architecture of interest, and its parameters are what the workload says.
//!
//! Needs NVRTC, and no GPU: `pip install nvidia-cuda-nvrtc`, or `PARALLAX_NVRTC_DIR`. Without it the test fails rather
//! than passes unseen.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parallax_core::suite::{
    Access, BufferSpec, Caps, Case, DType, Dialect, Elem, Form, How, Problem, Program, Stage, Workload, all,
};
use parallax_core::units::Bytes;
use parallax_cuda::text::{Text, assemble, kernel};
use parallax_cuda::{Arch, compile_text, nvrtc};

const ARCHS: [Arch; 3] = [Arch::new(8, 0), Arch::new(9, 0), Arch::new(10, 0)];

fn caps(arch: Arch) -> Caps {
    Caps {
        dialect: Dialect::Cuda,
        dtypes: vec![DType::F32, DType::F16, DType::BF16],
        subgroup: Some((32, 32)),
        shared_bytes: 49_152,
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 64],
        max_grid: [2_147_483_647, 65_535, 65_535],
        max_binding: Bytes(80_000_000_000),
        memory: Some(Bytes(80_000_000_000)),
        compute_capability: Some((arch.major, arch.minor)),
        units: Some(100),
        coop_matrix: false,
        matrix_units: true,
    }
}

/// A variant with kernels, its problem and its launches.
struct Job {
    case: Case,
    program: Program,
    text: Text,
}

/// Every CUDA variant of a workload at a shape.
fn jobs(workload: &'static Workload, form: &'static Form, shape: &str, arch: Arch) -> Vec<Job> {
    let mut jobs = Vec::new();
    for variant in &form.variants {
        let How::Kernel { dialects, available, program } = variant.how else { continue };
        for dtype in workload.dtypes {
            let problem = Problem::new(workload, form.direction, shape, *dtype).expect("a valid shape");
            if !dialects.contains(&Dialect::Cuda) || available(&problem, &caps(arch)).is_err() {
                continue;
            }
            let mut program = program(&problem, &caps(arch));
            // Calls into the vendor's library have no text to look at.
            program.stages.retain(|stage| stage.cuda.library.is_none());
            if program.stages.is_empty() {
                continue;
            }
            let case = Case { problem, variant: variant.name };
            let text = assemble(&case, &program).unwrap_or_else(|error| panic!("{case}: {error}"));
            jobs.push(Job { case, program, text });
        }
    }
    jobs
}

/// All awkward shapes on one architecture; on the others the first, the third and the last.
fn shapes(form: &Form, arch: Arch) -> Vec<&'static str> {
    let few = |i: usize| i == 0 || i == 2 || i + 1 == form.awkward.len();
    let chosen = form.awkward.iter().enumerate().filter(|(i, _)| arch == Arch::new(9, 0) || few(*i));
    chosen.map(|(_, shape)| *shape).collect()
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    if let Err(error) = nvrtc::get() {
        panic!("this test compiles every kernel and needs NVRTC (no GPU): {error}");
    }
    let mut work: Vec<(Job, Arch)> = Vec::new();
    for arch in ARCHS {
        for workload in all() {
            for form in &workload.forms {
                for shape in shapes(form, arch) {
                    work.extend(jobs(workload, form, shape, arch).into_iter().map(|job| (job, arch)));
                }
            }
        }
    }
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worker = || {
            let mut failures = Vec::new();
            while let Some((job, arch)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                match compile_text(&job.text, *arch) {
                    Err(error) => failures.push(format!("{} for {arch}: {error}", job.case)),
                    Ok(cubin) => failures.extend(missing(job, &cubin).map(|e| format!("{}: no entry {e}", job.case))),
                }
            }
            failures
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), work.len(), failures.join("\n"));
}

/// Entries of a case that its binary does not hold. Names of kernels stand in the symbol table as text.
fn missing<'a>(job: &'a Job, cubin: &[u8]) -> impl Iterator<Item = &'static str> + use<'a> {
    let names: HashSet<String> =
        cubin.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    job.program.stages.iter().map(|stage| stage.entry).filter(move |entry| !names.contains(*entry))
}

#[test]
fn a_wrong_text_is_refused_with_its_file_and_line() {
    let case: Case = "attention/fwd/b1,h1,s1,d1/f32/manual".parse().expect("valid case");
    let program = case.program(&caps(ARCHS[0])).expect("has kernels");
    let mut text = assemble(&case, &program).expect("has a kernel file");
    let (_, body) = kernel("attention", "manual").expect("has a kernel file");
    text.source += "\nnonsense here;\n";
    let error = compile_text(&text, ARCHS[0]).expect_err("nonsense does not compile").to_string();
    let line = body.lines().count() + 2;
    assert!(error.contains(&format!("attention/manual.cu({line})")), "expected line {line} in: {error}");
}

#[test]
fn parameters_are_the_buffers_that_the_stage_uses() {
    for workload in all() {
        let of_form = |form: &'static Form| form.awkward.iter().flat_map(move |s| jobs(workload, form, s, ARCHS[1]));
        for job in workload.forms.iter().flat_map(of_form) {
            let (file, body) = kernel(workload.name, job.case.variant).expect("has a kernel file");
            for stage in &job.program.stages {
                let found = signatures(body, stage.entry);
                assert!(!found.is_empty(), "{file} has no entry {}", stage.entry);
                let want = expected(stage, &job.case.problem.buffers());
                for found in found {
                    assert_eq!(found, want, "{file}: parameters of {}", stage.entry);
                }
            }
        }
    }
}

/// The parameters that a stage's entry must have.
fn expected(stage: &Stage, buffers: &[BufferSpec]) -> Vec<String> {
    let parameter = |(name, access): &(&'static str, Access)| {
        let spec = buffers.iter().find(|spec| spec.name == *name).expect("a buffer of the workload");
        let elem = match spec.elem {
            Elem::Real => "elem",
            Elem::F32 => "float",
            Elem::U32 => "unsigned",
        };
        let constant = if *access == Access::Read { "const " } else { "" };
        format!("{constant}{elem}* __restrict__ {name}")
    };
    stage.uses.iter().map(parameter).collect()
}

/// The parameters of every definition of a kernel, with white space made single.
fn signatures(body: &str, entry: &str) -> Vec<Vec<String>> {
    let definitions = body.split("extern \"C\" __global__ void").skip(1).filter_map(|rest| {
        let (head, _) = rest.split_once('{')?;
        let (before, parameters) = head.split_once(&format!("{entry}("))?;
        // The name must be whole, and what may stand before it are launch bounds.
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
