//! Comparisons on a device: agreement, differences, times, and kernels that misbehave.

use std::time::Duration;

use parallax_analysis::compare::verdict::Verdict;
use parallax_lab::{LabError, Label, Phase, Plan, Report, Request, View, run};
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
    let more = "var sum = 0.0; for (var k = 0u; k < 2000u; k++) { sum += x[(i + k) & 4095u]; } y[i] = 2.0 * x[i]; if sum > 1e30 { y[i] = 0.0; }";
    let mut request = request(&text("y[i] = 2.0 * x[i];"), &text(more));
    (request.elements, request.budget) = (1 << 16, 1.0);
    request.lengths.clear();
    let report = compared(&mut device(), request).expect("it runs");
    // Other tests on the same processor may leave the verdict undecided.
    let ratio = report.ratio.as_ref().expect("both are timed");
    assert!(ratio.value > 1.5 && [Verdict::Slower, Verdict::Undecided].contains(&ratio.verdict), "{ratio}");
    let slower = View::from(&report).sentence.contains("B is slower than A");
    assert_eq!(slower, ratio.verdict == Verdict::Slower);
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
fn an_endless_loop_is_found_before_the_kernel_runs() {
    let mut wgpu = device();
    let tiled = |end: &str| {
        let body = "for (var k = 0u; k < END; k++) { tile[i & 63u] = x[i]; workgroupBarrier(); y[i] = tile[63u - (i & 63u)]; \
                    workgroupBarrier(); }";
        format!("var<workgroup> tile: array<f32, 64>;\n{}", text(&body.replace("END", end)))
    };
    let called = |body: &str| format!("fn f(a: f32) -> f32 {{ {body} }}\n{}", text("y[i] = f(x[i]);"));
    for (b, endless) in [
        (text("loop { y[i] += 1.0; if x[i] > 1e30 { break; } }"), true),
        (text("while x[i] < 1e30 { for (var k = 0u; k < 5u; k++) { y[i] += 1.0; } }"), true),
        (
            text(
                "loop { switch i & 1u { case 0u: { continue; } default: { y[i] = 1.0; } } continuing { break if x[i] > 1e30; } }",
            ),
            true,
        ),
        (called("loop { if a > 1e30 { return 1.0; } } return 0.0;"), true),
        (called("var b = a; loop { b *= 2.0; if abs(b) > 8.0 || b == 0.0 { return b; } } return 0.0;"), false),
        (tiled("4000u + u32(x[0])"), true),
        (tiled("40u"), false),
        (text("for (var k = 0u; k < 999u; k++) { y[i] += x[k & 63u]; }"), false),
    ] {
        // A software adapter ends loops after 65 536 iterations of an invocation.
        let request = Request { iterations: 1000, ..request(&b, &b) };
        let plan = Plan::new(request.clone()).expect("valid");
        assert!(plan.programs[0].guarded.is_some(), "{b}");
        let found = compared(&mut wgpu, request);
        match endless {
            true => assert_eq!(found, Err(LabError::Endless { label: Label::A, iterations: 1000 }), "{b}"),
            false => assert!(found.is_ok_and(|report| report.agrees()), "{b}"),
        }
    }
}

#[test]
fn a_kernel_beyond_the_limit_of_time_ends_in_a_message() {
    let mut wgpu = device();
    let long = "for (var k = 0u; k < 60000u; k++) { y[0] += sin(y[1]); }";
    let mut request = request(&text("y[i] = x[i];"), &text(long));
    (request.b.workgroups, request.limit) = (Some([65535, 1024, 1]), 1.0);
    let began = std::time::Instant::now();
    let error = compared(&mut wgpu, request).expect_err("no end");
    assert!(error.lost() && error.to_string().contains("B: device lost: its work did not end within 1 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
    // The queue would wait for the kernel.
    std::mem::forget(wgpu);
}
