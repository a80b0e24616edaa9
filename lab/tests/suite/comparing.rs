//! Comparisons on a device: agreement, differences, times, and kernels that misbehave.

use std::time::Duration;

use parallax_analysis::compare::verdict::Verdict;
use parallax_lab::{LabError, Phase, Plan, Report, Request, View, run};
use parallax_shaders::{Wgpu, WgpuOptions, open};
use pollster::block_on;

use crate::{request, text};

fn device() -> Wgpu {
    block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)")
}

fn compared(wgpu: &mut Wgpu, request: Request) -> Result<Report, LabError> {
    block_on(run(wgpu, &Plan::new(request)?, &mut |_| {}, || true))
}

#[test]
fn equal_kernels_agree_and_have_times() {
    let mut wgpu = device();
    let plan = Plan::new(request(&text("y[i] = 2.0 * x[i];"), &text("y[i] = x[i] + x[i];"))).expect("both match");
    let mut phases = Vec::new();
    let report = block_on(run(&mut wgpu, &plan, &mut |phase| phases.push(phase), || true)).expect("it runs");
    assert_eq!(phases, [Phase::Compile, Phase::Check, Phase::Time]);
    assert!(report.agrees() && report.timings.is_some(), "{report:?}");
    assert_eq!(report.outputs[0].changed, [4096, 4096]);
    let view = View::from(&report);
    assert!(view.sentence.starts_with("The outputs agree. "), "{}", view.sentence);
    assert_eq!((view.times.len(), view.outputs.len()), (2, 1));
    assert!(view.ratio.is_some_and(|ratio| ratio.contains('×')));
    assert!(serde_json::to_string(&report).is_ok_and(|json| json.contains("\"verdict\"")));
}

#[test]
fn more_work_is_slower() {
    let more = "var sum = 0.0; for (var k = 0u; k < 200u; k++) { sum += x[(i + k) & 4095u]; } y[i] = 2.0 * x[i]; if sum > 1e30 { y[i] = 0.0; }";
    let mut request = request(&text("y[i] = 2.0 * x[i];"), &text(more));
    (request.elements, request.budget) = (1 << 16, 1.0);
    request.lengths.clear();
    let report = compared(&mut device(), request).expect("it runs");
    assert_eq!(report.ratio.as_ref().map(|ratio| ratio.verdict), Some(Verdict::Slower), "{:?}", report.ratio);
    assert!(View::from(&report).sentence.contains("B is slower than A"));
}

#[test]
fn outputs_that_differ_have_no_time() {
    let wrong = "y[i] = 2.0 * x[i]; if i >= 100u { y[i] += 1.0; }";
    let report = compared(&mut device(), request(&text("y[i] = 2.0 * x[i];"), &text(wrong))).expect("it runs");
    let output = &report.outputs[0];
    assert_eq!((output.differing, output.first.map(|first| first.index)), (3996, Some(100)));
    assert!(report.timings.is_none() && report.ratio.is_none());
    let view = View::from(&report);
    assert_eq!(view.sentence, "No time is shown, because the outputs differ: `y`.");
    assert!(view.outputs[0].first.starts_with("[100]: "), "{:?}", view.outputs);
}

#[test]
fn outputs_that_no_kernel_writes_are_named() {
    let report =
        compared(&mut device(), request(&text("let k = x[i] + y[i];"), &text("let k = y[i];"))).expect("it runs");
    let notes = View::from(&report).notes.join("\n");
    assert!(notes.contains("Neither kernel changed `y`"), "{notes}");
}

#[test]
fn hostile_kernels_end_in_a_message_and_the_device_lives_on() {
    let mut wgpu = device();
    let good = text("y[i] = 2.0 * x[i];");
    let sized = |sizes: &str| good.replace("workgroup_size(64)", &format!("workgroup_size({sizes})"));
    let memory = format!("var<workgroup> tile: array<f32, 4000000>;\n{}", text("tile[i] = x[i]; y[i] = tile[i + 1u];"));
    for (b, elements, grid, part) in [
        (sized("16384"), 4096, None, "B: 16384 threads in a workgroup, the limit of this device is"),
        (sized("1, 1, 16000"), 4096, None, "B: 16000 threads in"),
        (memory, 4096, None, "B: 16000000 bytes of workgroup memory"),
        (good.clone(), 4096, Some([u32::MAX; 3]), "B: 4294967295 workgroups in one dimension"),
        (good.clone(), 1 << 27, None, "workgroups in one dimension, the limit of this device is 65535: set fewer"),
    ] {
        let mut request = request(&good, &b);
        (request.elements, request.b.workgroups) = (elements, grid);
        let error = compared(&mut wgpu, request).expect_err(part);
        assert!(error.to_string().contains(part) && !error.lost(), "{error}");
    }
    // Indices far outside stay within the buffers.
    let outside = "y[i + 1000000000u] = x[i * 100000u] + y[4294967295u - i];";
    let report = compared(&mut wgpu, request(&good, &text(outside))).expect("it ends");
    assert!(!report.agrees(), "{report:?}");
    let report = compared(&mut wgpu, request(&good, &good)).expect("the device lives");
    assert!(report.agrees());
}

#[test]
fn an_endless_loop_ends_in_a_message() {
    let mut wgpu = device();
    // A software adapter ends loops after 65 536 iterations of an invocation, so it gets many invocations.
    let endless = "loop { y[0] += sin(y[1]); if x[i & 1u] > 1e30 { break; } }";
    let mut request = request(&text("y[i] = x[i];"), &text(endless));
    (request.b.workgroups, request.limit) = (Some([65535, 1024, 1]), 1.0);
    let began = std::time::Instant::now();
    let error = compared(&mut wgpu, request).expect_err("no end");
    assert!(error.lost() && error.to_string().contains("B: device lost: its work did not end within 1 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
    // The queue would wait for the kernel.
    std::mem::forget(wgpu);
}
