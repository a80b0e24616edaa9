//! The contract of a backend, held against a real device (a software adapter will do).

use parallax_engine::measure::check::{WORK, check_once};
use parallax_ir::device::{BackendError, Batch, POISON, Prepared, Profiler, Transfer};
use parallax_ir::{Case, Inputs, Role};
use parallax_schema::device::{Clock, Dialect, Launching, SpanKind, Track};
use parallax_schema::units::Bytes;
use parallax_shaders::{Wgpu, WgpuOptions, open};
use parallax_workloads::{all, parse_case};
use pollster::block_on;

/// One stage, several stages, inputs whose bytes are no multiple of four, and copies from what the host maps.
const CASES: [&str; 5] = [
    "attention/fwd/b1,h2,s7,d5/f32/manual",
    "attention/fwd/b1,h1,s5,d3/f16/flash",
    "depthwise_conv2d/fwd/n1,c2,h5,k3,p1,nchw/f16/tiled",
    "hash_embedding/fwd/r20,g3,d7,sorted/f32/owner",
    UPLOADS,
];
const UPLOADS: &str = "upload_compute/fwd/n257,k17,c3,pinned/f32/overlapped";

fn wgpu() -> Wgpu {
    block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)")
}

fn case(text: &str) -> (Case, Inputs) {
    let case = parse_case(text).expect("valid");
    let inputs = case.problem.inputs(42);
    (case, inputs)
}

async fn outputs(case: &Case, prepared: &mut dyn Prepared) -> Result<Vec<Vec<u8>>, BackendError> {
    let mut outputs = Vec::new();
    for (index, spec) in case.problem.buffers().iter().enumerate() {
        if matches!(spec.role, Role::Output { .. }) {
            outputs.push(prepared.read_back(index, 0..spec.bytes(case.problem.dtype).0).await?);
        }
    }
    Ok(outputs)
}

#[test]
fn any_number_of_executions_on_any_number_of_sets_gives_the_same_outputs() {
    let mut wgpu = wgpu();
    for text in CASES {
        let (case, inputs) = case(text);
        let mut expected = None;
        for sets in [1, 3] {
            let mut prepared = block_on(wgpu.prepare(&case, &inputs, sets)).expect("a small case");
            assert_eq!(prepared.launching(), Some(Launching::OnePass));
            assert!(block_on(prepared.launch_as(Launching::Graph)).is_err(), "that is CUDA's");
            let batches = [(0, 1), (0, 1), (2, 3), (1, 1), (0, 4), (5, 2)];
            let ways = Launching::choices(Dialect::Wgsl).iter().flat_map(|way| batches.map(|batch| (*way, batch)));
            // Only the set of the last execution is sure to hold the result: a cursor that is off reads poison.
            for (launching, (lead, repeats)) in ways {
                block_on(async {
                    prepared.launch_as(launching).await?;
                    prepared.poison(POISON).await?;
                    let poisoned = outputs(&case, &mut *prepared).await?;
                    assert!(poisoned.iter().flatten().all(|b| *b == 0xFF), "{case}: poison is there to be read");
                    let sample = prepared.measure(Batch { lead, repeats }).await?;
                    assert!(sample.time.0 > 0.0, "{case}: {launching:?} is on the clock");
                    let result = check_once(&wgpu, &mut *prepared, &case.problem, &inputs, WORK).await?;
                    assert!(result.passed, "{case}, {sets} sets, {lead} + {repeats}: {}", result.sentence());
                    let found = outputs(&case, &mut *prepared).await?;
                    assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{case}, {sets} sets");
                    Ok::<_, BackendError>(())
                })
                .unwrap_or_else(|e| panic!("{case}: {e}"));
            }
        }
    }
}

#[test]
fn every_variant_runs_on_several_sets() {
    let mut wgpu = wgpu();
    let mut seen = 0;
    for workload in all() {
        for (form, variant) in workload.forms.iter().flat_map(|f| f.variants.iter().map(move |v| (f, v))) {
            let direction = form.direction.name();
            let text = format!("{}/{direction}/{}/f32/{}", workload.name, form.awkward[0], variant.name);
            let (case, inputs) = case(&text);
            let caps = wgpu.device().caps.clone();
            let runs = parallax_engine::plan::runs_as_asked(&case, &caps).is_ok();
            if !runs || case.program(&caps).is_none() {
                continue;
            }
            let mut prepared = block_on(wgpu.prepare(&case, &inputs, 2)).unwrap_or_else(|e| panic!("{text}: {e}"));
            block_on(prepared.measure(Batch { lead: 2, repeats: 3 })).unwrap_or_else(|e| panic!("{text}: {e}"));
            // What changes its inputs has changed them five times: it is put back, and done once.
            if case.problem.buffers().iter().any(|buffer| buffer.role.restored()) {
                block_on(prepared.poison(POISON)).unwrap_or_else(|e| panic!("{text}: {e}"));
                block_on(prepared.measure(Batch::new(1))).unwrap_or_else(|e| panic!("{text}: {e}"));
            }
            let result = block_on(check_once(&wgpu, &mut *prepared, &case.problem, &inputs, WORK)).expect("read back");
            assert!(result.passed, "{text}: {}", result.sentence());
            seen += 1;
        }
    }
    assert!(seen >= CASES.len(), "only {seen} variants");
}

#[test]
fn a_traced_execution_takes_the_next_set_like_any_other() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(CASES[0]);
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 3)).expect("a small case");
    for _ in 0..4 {
        block_on(async {
            prepared.poison(POISON).await?;
            prepared.trace(false).await?;
            let result = check_once(&wgpu, &mut *prepared, &case.problem, &inputs, WORK).await?;
            assert!(result.passed, "{}", result.sentence());
            Ok::<_, BackendError>(())
        })
        .expect("a living device");
    }
}

#[test]
fn the_lead_is_waited_for_but_not_timed() {
    let mut wgpu = wgpu();
    assert_eq!(wgpu.clock().clock, Clock::GpuTimestamps, "llvmpipe has timestamps");
    let (case, inputs) = case("attention/fwd/b1,h4,s64,d16/f32/manual");
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 1)).expect("a small case");
    block_on(prepared.measure(Batch::new(10))).expect("warm");
    let sample = block_on(prepared.measure(Batch { lead: 300, repeats: 10 })).expect("a sample");
    assert!(sample.time.0 > 0.0 && sample.time.0 * 4.0 < sample.host.0, "{sample:?}");
}

#[test]
fn a_batch_longer_than_one_pass_is_one_sample() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(CASES[3]);
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 3)).expect("a small case");
    block_on(prepared.measure(Batch::new(100))).expect("warm");
    let short = block_on(prepared.measure(Batch::new(1_000))).expect("a sample");
    block_on(prepared.poison(POISON)).expect("poison");
    let long = block_on(prepared.measure(Batch { lead: 20_000, repeats: 20_000 })).expect("a sample");
    assert!(long.time.0 > short.time.0, "{long:?} {short:?}: stamps at both ends of all its passes");
    assert!(long.time.0 < long.host.0, "{long:?}");
    let result = block_on(check_once(&wgpu, &mut *prepared, &case.problem, &inputs, WORK)).expect("read back");
    assert!(result.passed, "{}", result.sentence());
}

#[test]
fn a_trace_says_who_submitted_what() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(CASES[0]);
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 1)).expect("a small case");
    let launches = prepared.launches();
    let stages: Vec<&str> = launches.iter().map(|l| l.label()).collect();
    assert!(stages.len() > 1, "the case has several stages");
    let mut correlations = Vec::new();
    for stacks in [false, true] {
        let trace = block_on(prepared.trace(stacks)).expect("a trace");
        let of = |track| trace.spans.iter().filter(move |s| s.track == track);
        let host: Vec<_> = of(Track::Host).map(|s| (s.name.as_str(), s.kind)).collect();
        assert_eq!(host, [("encode", SpanKind::Runtime), ("submit", SpanKind::Runtime), ("wait", SpanKind::Wait)]);
        assert_eq!(of(Track::Gpu).map(|s| s.name.as_str()).collect::<Vec<_>>(), stages);
        assert!(of(Track::Gpu).all(|s| s.kind == SpanKind::Kernel));
        let submit = of(Track::Host).find(|s| s.name == "submit").expect("listed above");
        let joined = trace.spans.iter().filter(|s| s.correlation.is_some() && s.correlation == submit.correlation);
        assert_eq!(joined.count(), 1 + stages.len(), "the submission and every stage");
        correlations.push(submit.correlation);
        for span in of(Track::Host) {
            assert_eq!(!span.stack.is_empty(), stacks && span.name == "submit", "{span:?}");
        }
        if stacks {
            assert!(submit.stack[0].starts_with("parallax_shaders::trace"), "{:?}", submit.stack);
            assert!(submit.stack.last().is_some_and(|f| f.ends_with("a_trace_says_who_submitted_what")), "{submit:?}");
        }
    }
    assert_ne!(correlations[0], correlations[1]);
}

#[test]
fn copies_from_the_host_are_spans_among_the_others() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(UPLOADS);
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 2)).expect("a small case");
    let options = prepared.compiled().options.join("; ");
    assert!(options.contains("one queue for 2") && options.contains("buffers that the host maps"), "{options}");
    let trace = block_on(prepared.trace(false)).expect("a trace");
    let device: Vec<_> = trace.spans.iter().filter(|s| s.track == Track::Gpu).collect();
    let told: Vec<_> = device.iter().map(|s| (s.name.as_str(), s.kind, s.bytes)).collect();
    let piece = Some(Bytes(257 * 8 * 4));
    let (copy, kernel) = (SpanKind::Memcpy, SpanKind::Kernel);
    let wanted = [
        ("upload 0", copy, piece),
        ("compute 0", kernel, None),
        ("upload 1", copy, piece),
        ("compute 1", kernel, None),
        ("upload 2", copy, piece),
        ("compute 2", kernel, None),
    ];
    assert_eq!(told, wanted);
    assert!(device.iter().all(|s| s.end.0 > s.start.0), "{device:?}");
    assert!(device.windows(2).all(|pair| pair[0].end.0 <= pair[1].start.0), "{device:?}");
}

#[test]
fn stamps_bracket_copies_that_begin_and_end_a_batch() {
    let mut wgpu = wgpu();
    for way in ["upload", "download"] {
        let (case, inputs) = case(&format!("link/fwd/n4194304,{way}/f32/copy"));
        for sets in [1, 2] {
            let mut prepared = block_on(wgpu.prepare(&case, &inputs, sets)).expect("a small case");
            for launching in Launching::choices(Dialect::Wgsl) {
                block_on(prepared.launch_as(*launching)).expect("WebGPU's own");
                block_on(prepared.measure(Batch::new(4))).expect("warm");
                let sample = block_on(prepared.measure(Batch { lead: 0, repeats: 20 })).expect("a sample");
                // Handing over and stamping are nothing beside 320 MiB.
                assert!(sample.time.0 < sample.host.0 && sample.time.0 > sample.host.0 / 4.0, "{way}: {sample:?}");
                let led = block_on(prepared.measure(Batch { lead: 60, repeats: 20 })).expect("a sample");
                assert!(led.time.0 < led.host.0 * 0.6, "{way}: the lead is waited for but not timed: {led:?}");
            }
        }
    }
}

#[test]
fn launches_say_what_the_plan_asked_for() {
    let mut wgpu = wgpu();
    for text in CASES {
        let (case, inputs) = case(text);
        let program = case.program(&wgpu.device().caps).expect("a kernel variant");
        let prepared = block_on(wgpu.prepare(&case, &inputs, 1)).expect("a small case");
        let launches = prepared.launches();
        assert_eq!(launches.len(), program.stages.len());
        for (launch, stage) in launches.iter().zip(&program.stages) {
            assert_eq!((&*launch.label, &*launch.entry), (&*stage.label, stage.entry()));
            let Some(kernel) = stage.kernel_launch() else {
                assert_eq!((launch.grid, launch.block), ([1; 3], [1; 3]), "a copy");
                continue;
            };
            assert_eq!((launch.grid, launch.block), (kernel.grid, kernel.workgroup));
            assert_eq!(launch.shared, Bytes(u64::from(kernel.shared_bytes)));
            assert_eq!((launch.registers, launch.spilled, launch.occupancy), (None, None, None));
        }
    }
}

#[test]
fn the_compile_ledger_adds_up() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(CASES[0]);
    let mut prepared = block_on(wgpu.prepare(&case, &inputs, 1)).expect("a small case");
    assert_eq!(prepared.compiled().repeat, None, "only those who measure ask for it");
    block_on(prepared.compile_again()).expect("as the first time");
    let compiled = prepared.compiled();
    let names: Vec<&str> = compiled.steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["WGSL module", "pipeline"]);
    assert!(compiled.steps.iter().all(|s| s.time.0 > 0.0), "{compiled:?}");
    assert_eq!(compiled.steps.iter().map(|s| s.time.0).sum::<f64>(), compiled.time.0);
    assert!(compiled.repeat.is_some_and(|t| t.0 > 0.0));
}

#[test]
fn each_case_answers_for_its_own_memory() {
    let mut wgpu = wgpu();
    let (case, inputs) = case(CASES[3]);
    let program = case.program(&wgpu.device().caps).expect("a kernel variant");
    let specs = case.problem.buffers();
    let bytes = |spec: &&parallax_ir::BufferSpec| spec.bytes(case.problem.dtype).0.next_multiple_of(16);
    let once: u64 = specs.iter().filter(|s| program.uses(s.name)).map(|s| bytes(&s)).sum();
    let mut three = block_on(wgpu.prepare(&case, &inputs, 3)).expect("a small case");
    let one = block_on(wgpu.prepare(&case, &inputs, 1)).expect("a small case");
    assert_eq!((three.memory().current, one.memory().current), (Bytes(3 * once), Bytes(once)));
    let output = specs.iter().position(|s| matches!(s.role, Role::Output { .. })).expect("an output");
    block_on(three.read_back(output, 0..8)).expect("read back");
    let after = three.memory();
    assert_eq!((after.current, after.peak), (Bytes(3 * once), Bytes(3 * once + 16)), "the copy came and went");
}

#[test]
fn bytes_move_both_ways_within_the_limits() {
    let mut wgpu = wgpu();
    assert!(block_on(wgpu.empty()).expect("a living device").0 > 0.0);
    for way in [Transfer::Upload, Transfer::Download] {
        let time = |wgpu: &mut Wgpu, bytes| block_on(wgpu.transfer(way, bytes));
        assert!(time(&mut wgpu, 1 << 20).expect("a mebibyte").is_some_and(|t| t.0 > 0.0));
        assert!(time(&mut wgpu, 7).expect("an odd size").is_some_and(|t| t.0 > 0.0));
        let too_much = time(&mut wgpu, u64::MAX - 8);
        assert!(matches!(too_much, Err(BackendError::Unsupported(_))), "{too_much:?}");
    }
}

#[test]
fn a_program_is_never_hidden() {
    assert!(!wgpu().conditions().hidden);
}
