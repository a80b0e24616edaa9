//! Every variant of every workload agrees with the reference at awkward shapes, on each target this machine has.

use parallax_core::device::{Batch, DeviceKind, POISON, Profiler};
use parallax_core::measure::check::check_once;
use parallax_core::suite::{CPU_VARIANT, Case};
use parallax_tests::{awkward_problems, kernel_cases};

/// Multiply-adds of reference work: enough to compare every element.
const EVERYTHING: u64 = 1 << 40;

/// Prepare, poison, run twice (a second run must not build on the first), check; collect what is wrong.
fn agree(profiler: &mut dyn Profiler, cases: Vec<Case>) {
    assert!(!cases.is_empty(), "nothing to check on {}", profiler.device().name);
    let mut wrong = Vec::new();
    for case in &cases {
        let result = pollster::block_on(async {
            let inputs = case.problem.inputs(42);
            let mut prepared = profiler.prepare(case, &inputs, 1).await?;
            prepared.poison(POISON).await?;
            // Where an execution changes its inputs, the second one rightly builds on the first.
            let changes = case.problem.buffers().iter().any(|b| b.role.restored());
            prepared.measure(Batch::of(if changes { 1 } else { 2 })).await?;
            check_once(profiler, &mut *prepared, &case.problem, &inputs, EVERYTHING).await
        });
        match result {
            Ok(result) if result.passed && result.compared == result.elements => {}
            Ok(result) => wrong.push(format!("{case}: {}", result.sentence())),
            Err(error) => wrong.push(format!("{case}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    println!("{} cases agree on {}", cases.len(), profiler.device().name);
}

#[test]
fn wgsl_with_checks_agrees_with_the_reference() {
    wgsl(true);
}

#[test]
fn wgsl_without_checks_agrees_with_the_reference() {
    wgsl(false);
}

fn wgsl(checked: bool) {
    let options = parallax_shaders::Options { checked, ..Default::default() };
    let mut profiler = pollster::block_on(parallax_shaders::open(options)).expect("an adapter (llvmpipe will do)");
    let caps = profiler.device().caps.clone();
    if profiler.device().kind == DeviceKind::Software {
        assert_eq!(caps.dtypes.len(), 2, "llvmpipe computes with f32 and f16");
    }
    let cases = kernel_cases(awkward_problems(&caps), &caps);
    agree(&mut profiler, cases);
}

#[test]
fn the_host_implementation_agrees_with_the_reference() {
    let mut profiler = parallax::cpu::Cpu::open();
    let problems = awkward_problems(&profiler.device().caps.clone());
    let cases = problems.into_iter().map(|problem| Case { problem, variant: CPU_VARIANT }).collect();
    agree(&mut profiler, cases);
}
