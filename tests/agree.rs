//! Every variant of every workload agrees with the reference at awkward shapes, on each target of this machine.

use parallax_cpu::Cpu;
use parallax_engine::measure::check::{Expected, check};
use parallax_engine::plan::Planned;
use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler};
use parallax_ir::{Case, Inputs};
use parallax_schema::case::{CPU_VARIANT, DType};
use parallax_schema::device::{Caps, DeviceKind};
use parallax_schema::record::CheckResult;
use parallax_shaders::{Checks, WgpuOptions};
use parallax_tests::replay::{NOT_KEPT, Replaying};
use parallax_tests::{awkward_problems, everything, kernel_cases, tuned_cases, wgsl_texts};

/// Multiply-adds of reference work: enough to compare every element.
const EVERYTHING: u64 = 1 << 40;

/// A device that prepares cases, with kept results if requested.
trait Bench {
    fn profiler(&self) -> &dyn Profiler;
    async fn prepare(&mut self, case: &Case, inputs: &Inputs, kept: bool) -> Result<Box<dyn Prepared>, BackendError>;
}

impl Bench for Replaying {
    fn profiler(&self) -> &dyn Profiler {
        &self.device
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, kept: bool) -> Result<Box<dyn Prepared>, BackendError> {
        Replaying::prepare(self, case, inputs, kept).await
    }
}

/// Host code is computed at every run.
impl Bench for Cpu {
    fn profiler(&self) -> &dyn Profiler {
        self
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, _kept: bool) -> Result<Box<dyn Prepared>, BackendError> {
        Profiler::prepare(self, case, inputs, 1).await
    }
}

/// Checks every case on seeded inputs.
fn agree(bench: &mut impl Bench, cases: Vec<Case>) {
    agree_on(bench, cases.into_iter().map(|case| Planned { case, actual: None, stress: None }).collect());
}

/// Checks a few shapes of every problem on each of its stress inputs.
fn agree_on_hard_inputs(bench: &mut impl Bench, cases: Vec<Case>) {
    let on_each = |case: Case| {
        let sets = case.problem.form().stress.iter().filter(|stress| (stress.applies)(&case.problem));
        sets.map(|stress| Planned { case: case.clone(), actual: None, stress: Some(stress) }).collect::<Vec<_>>()
    };
    agree_on(bench, cases.into_iter().filter(is_hard).flat_map(on_each).collect());
}

/// Checks all cases and collects the wrong ones. Variants of a problem share its inputs and its reference.
fn agree_on(bench: &mut impl Bench, mut cases: Vec<Planned>) {
    assert!(!cases.is_empty(), "nothing to check on {}", bench.profiler().device().name);
    let of_problem = |planned: &Planned| (planned.case.problem.to_string(), planned.stress.map(|stress| stress.name));
    cases.sort_by_cached_key(of_problem);
    let (mut wrong, mut too_large) = (Vec::new(), 0);
    for variants in cases.chunk_by(|a, b| of_problem(a) == of_problem(b)) {
        let inputs = variants[0].inputs(42);
        let problem = &variants[0].case.problem;
        let expected = pollster::block_on(Expected::new(bench.profiler(), problem, &inputs, EVERYTHING));
        for planned in variants {
            match pollster::block_on(checked(bench, &planned.case, &inputs, &expected)) {
                Ok(result) if result.passed && result.compared == result.elements => {}
                Ok(result) => wrong.push(format!("{}: {}", planned.name(), result.sentence())),
                // A real device keeps its matrices in registers.
                Err(BackendError::Unsupported(why)) if why.starts_with("emulated matrices") => too_large += 1,
                Err(error) => wrong.push(format!("{}: {error}", planned.name())),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(
        20 * too_large < cases.len().max(20),
        "{too_large} of {} cases have matrices that are too large to imitate",
        cases.len()
    );
    println!("{} cases agree on {}", cases.len() - too_large, bench.profiler().device().name);
}

/// Returns the verdict on a case, from its kept result or else from the device.
async fn checked(
    bench: &mut impl Bench,
    case: &Case,
    inputs: &Inputs,
    expected: &Expected,
) -> Result<CheckResult, BackendError> {
    let mut prepared = bench.prepare(case, inputs, true).await?;
    match executed(bench.profiler(), &mut *prepared, case, expected).await {
        Err(BackendError::Device(why)) if why == NOT_KEPT => {
            let mut prepared = bench.prepare(case, inputs, false).await?;
            executed(bench.profiler(), &mut *prepared, case, expected).await
        }
        result => result,
    }
}

/// Poisons the outputs, runs twice (a second run must not build on the first), and checks.
async fn executed(
    profiler: &dyn Profiler,
    prepared: &mut dyn Prepared,
    case: &Case,
    expected: &Expected,
) -> Result<CheckResult, BackendError> {
    prepared.poison(POISON).await?;
    // If an execution changes its inputs, the second one rightly builds on the first.
    let changes = case.problem.buffers().iter().any(|b| b.role.restored());
    prepared.measure(Batch::new(if changes { 1 } else { 2 })).await?;
    check(profiler, prepared, &case.problem, expected).await
}

// Compilation takes most of the time, so each kernel is compiled once: for f32 as it is timed, for f16 with the checks of browsers.
// Out-of-bounds accesses show without checks, and results that depend on them show with checks. The kernel source is the same but
// for its type. Each type has two tests, so that two processors share them.

#[test]
fn wgsl_agrees_in_f32_for_attention_and_convolutions() {
    wgsl(Checks::NONE, |case| case.problem.dtype == DType::F32 && takes_long(case));
}

#[test]
fn wgsl_agrees_in_f32_for_all_else() {
    wgsl(Checks::NONE, |case| case.problem.dtype == DType::F32 && !takes_long(case));
}

#[test]
fn wgsl_with_checks_agrees_in_f16_for_attention_and_convolutions() {
    wgsl(Checks::ALL, |case| of_f16(case) && takes_long(case));
}

#[test]
fn wgsl_with_checks_agrees_in_f16_for_all_else() {
    wgsl(Checks::ALL, |case| of_f16(case) && !takes_long(case));
}

/// Returns whether a case of f16 is tested: the shapes of stress inputs, and with all tests every second shape. f32 has them all.
fn of_f16(case: &Case) -> bool {
    case.problem.dtype != DType::F32 && (is_hard(case) || everything() && place(case).is_multiple_of(2))
}

/// Returns whether a case has a long kernel, whose loops the compiler unrolls.
fn takes_long(case: &Case) -> bool {
    ["attention", "conv"].iter().any(|start| case.problem.workload.name.starts_with(start))
}

/// Index of a case's shape among the awkward shapes of its form.
fn place(case: &Case) -> usize {
    let shape = case.problem.shape.to_string();
    case.problem.form().awkward.iter().position(|other| *other == shape).expect("an awkward shape")
}

/// Returns whether the case's shape is tested on stress inputs.
fn is_hard(case: &Case) -> bool {
    [0, 4, case.problem.form().awkward.len() - 2].contains(&place(case))
}

/// Checks seeded inputs, then stress inputs, which need no further kernels.
fn wgsl(checks: Checks, takes: impl Fn(&Case) -> bool) {
    let texts = wgsl_texts();
    let mut bench = Replaying::open(WgpuOptions { checks, texts, ..WgpuOptions::default() });
    let caps = bench.device.device().caps.clone();
    if bench.device.device().kind == DeviceKind::Software {
        assert_eq!(caps.dtypes.len(), 2, "llvmpipe computes with f32 and f16");
    }
    let mut cases = kernel_cases(awkward_problems(&caps), &caps);
    cases.retain(takes);
    agree(&mut bench, cases.clone());
    agree_on_hard_inputs(&mut bench, cases);
}

/// Checks kernels for matrix units on a device without them. Compilation takes the time: it tests every fifth shape, or all shapes
/// with all tests.
#[test]
fn wgsl_on_imitated_matrix_units_agrees() {
    let mut bench = Replaying::open(WgpuOptions { imitate_matrices: true, ..WgpuOptions::default() });
    let caps = bench.device.device().caps.clone();
    let f16 = Caps { dtypes: vec![DType::F16], ..caps };
    let mut cases = kernel_cases(awkward_problems(&f16), &f16);
    cases.retain(|case| {
        (case.variant.ends_with("coopmat") || case.variant == "channels_last") && (everything() || place(case) % 5 == 1)
    });
    agree(&mut bench, cases);
    // The only such kernel with tunables.
    for (tuned, case) in tuned_cases(&f16, DType::F16) {
        if case.variant == "flash_coopmat" && place(&case) == 6 {
            bench.device.set_tuning(tuned.tuning);
            agree(&mut bench, vec![case]);
        }
    }
}

#[test]
fn wgsl_agrees_with_the_reference_whatever_is_chosen_for_what_it_leaves_open() {
    let mut bench = Replaying::open(WgpuOptions::default());
    let cases = tuned_cases(&bench.device.device().caps.clone(), DType::F32);
    // A part of the cases, over all variants and values, to save time.
    let some: Vec<_> = cases.into_iter().step_by(if everything() { 1 } else { 7 }).collect();
    assert!(some.len() > 20, "{}", some.len());
    for (caps, case) in some {
        bench.device.set_tuning(caps.tuning);
        agree(&mut bench, vec![case]);
    }
}

#[test]
fn the_host_implementation_agrees_with_the_reference() {
    host(agree);
}

#[test]
fn the_host_implementation_agrees_on_hard_inputs() {
    host(agree_on_hard_inputs);
}

/// Checks every problem on the host.
fn host(agree: fn(&mut Cpu, Vec<Case>)) {
    let mut host = parallax::cpu::open();
    let problems = awkward_problems(&host.device().caps.clone());
    agree(&mut host, problems.into_iter().map(|problem| Case { problem, variant: CPU_VARIANT }).collect());
}
