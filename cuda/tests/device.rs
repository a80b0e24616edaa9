//! A case on a real device, through the whole contract. Where there is no device, opening must say so.

use parallax_cuda::{Cuda, CudaOptions, open};
use parallax_ir::device::{BackendError, Batch, Contents, POISON, Prepared, Profiler, Transfer};
use parallax_ir::{Case, Role};
use parallax_schema::case::DType;
use parallax_schema::device::{Launching, Span, SpanKind, TraceSource};
use parallax_schema::units::Nanos;
use parallax_workloads::parse_case;
use pollster::block_on;
use tempfile::TempDir;

/// Three launches, so that joining launches and kernels means something.
const CASE: &str = "attention/fwd/b1,h2,s130,d40/f32/manual";
const SETS: u32 = 3;

/// The device with an empty cache, unless there is none and opening said why.
fn device() -> Option<(Cuda, TempDir)> {
    let cache = tempfile::tempdir().expect("temporary folder");
    match open(CudaOptions { cache: Some(cache.path().into()), ..CudaOptions::default() }) {
        Ok(cuda) => Some((cuda, cache)),
        Err(error) => {
            assert!(error.to_string().len() > 40, "not a sentence: {error}");
            None
        }
    }
}

fn prepare(cuda: &mut Cuda) -> (Case, Box<dyn Prepared>) {
    let case = parse_case(CASE).expect("a valid case");
    let inputs = case.problem.inputs(1);
    let prepared = block_on(cuda.prepare(&case, &inputs, SETS)).expect("fits on any device");
    (case, prepared)
}

fn output(case: &Case, prepared: &mut dyn Prepared) -> Vec<u8> {
    let buffers = case.problem.buffers();
    let index = buffers.iter().position(|spec| matches!(spec.role, Role::Output { .. })).expect("has an output");
    block_on(prepared.read_back(index, 0..buffers[index].bytes(DType::F32).0)).expect("the buffer is there")
}

#[test]
fn every_set_gives_the_same_result() {
    let Some((mut cuda, _cache)) = device() else { return };
    let (case, mut prepared) = prepare(&mut cuda);
    let poisoned = output(&case, &mut *prepared);
    assert!(poisoned.iter().all(|byte| *byte == 0xFF), "nothing has run yet");
    let results: Vec<Vec<u8>> = (0..SETS + 1)
        .map(|_| {
            block_on(prepared.measure(Batch::new(1))).expect("runs");
            output(&case, &mut *prepared)
        })
        .collect();
    assert_ne!(results[0], poisoned);
    assert!(results.iter().all(|result| *result == results[0]), "sets have the same inputs");
    // The execution above took the first set, so this one takes the second, and the third stays poisoned.
    block_on(prepared.poison(POISON)).expect("poisons");
    block_on(prepared.measure(Batch { lead: 1, repeats: 0 })).expect("runs");
    assert_eq!(output(&case, &mut *prepared), results[0]);
}

#[test]
fn the_lead_is_in_the_hosts_time_and_not_in_the_devices() {
    let Some((mut cuda, _cache)) = device() else { return };
    let (_, mut prepared) = prepare(&mut cuda);
    let mut take = |lead, repeats| block_on(prepared.measure(Batch { lead, repeats })).expect("runs");
    take(50, 50);
    let (few, many) = (take(200, 10), take(10, 200));
    assert!(few.time.0 > 0.0 && few.time.0 * 4.0 < many.time.0, "{few:?} against {many:?}");
    assert!(few.time < few.host && many.time < many.host);
}

#[test]
fn every_launch_has_its_kernel_and_its_stack() {
    let Some((mut cuda, _cache)) = device() else { return };
    let (_, mut prepared) = prepare(&mut cuda);
    let launches = prepared.launches();
    assert_eq!(launches.len(), 3);
    for launch in &launches {
        assert!(launch.registers.is_some_and(|count| count > 0), "{launch:?}");
        assert!(launch.occupancy.is_some_and(|share| share > 0.0 && share <= 1.0), "{launch:?}");
    }
    let trace = block_on(prepared.trace(true)).expect("runs");
    let of = |kind| trace.spans.iter().filter(move |span| span.kind == kind).collect::<Vec<&Span>>();
    let (calls, kernels) = (of(SpanKind::Runtime), of(SpanKind::Kernel));
    assert_eq!((calls.len(), kernels.len(), of(SpanKind::Wait).len()), (3, 3, 1), "{trace:?}");
    for ((call, kernel), launch) in calls.iter().zip(&kernels).zip(&launches) {
        assert_eq!(kernel.name, launch.label());
        assert_eq!(call.correlation, kernel.correlation);
        assert!(call.stack.iter().any(|name| name.contains("every_launch_has_its_kernel")), "{:?}", call.stack);
        let slack = trace.alignment_error.expect("stated").0;
        assert!(kernel.start.0 + slack >= call.start.0 && kernel.start < kernel.end, "{call:?} {kernel:?}");
    }
    println!("device spans come from {:?}", trace.source.expect("stated"));
}

#[test]
fn compiling_memory_and_transfers_are_told() {
    let Some((mut cuda, _cache)) = device() else { return };
    let (_, prepared) = prepare(&mut cuda);
    let steps: Vec<&str> = prepared.compiled().steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps, ["NVRTC", "module load"]);
    assert!(prepared.compiled().repeat.is_some_and(|repeat| repeat.0 > 0.0 && repeat < prepared.compiled().time));
    let memory = prepared.memory();
    assert!(memory.device_used.is_some_and(|used| used >= memory.current), "{memory:?}");
    for way in [Transfer::Upload, Transfer::Download] {
        let time = block_on(cuda.transfer(way, 1 << 24)).expect("moves").expect("has memory of its own");
        assert!(time.0 > 1e4, "16 MiB in {time:?}");
    }
    assert!(block_on(cuda.empty()).expect("does nothing").0 > 0.0);
    assert!(cuda.clock().zero_share < 1.0 && cuda.clock().negative_share == 0.0, "{:?}", cuda.clock());
}

#[test]
fn a_graph_gives_what_the_stream_gives() {
    let Some((mut cuda, _cache)) = device() else { return };
    let (case, mut prepared) = prepare(&mut cuda);
    assert_eq!(prepared.launching(), Some(Launching::Stream));
    block_on(prepared.measure(Batch::new(1))).expect("runs");
    let by_stream = output(&case, &mut *prepared);
    assert!(block_on(prepared.launch_as(Launching::OnePass)).is_err(), "that is WebGPU's");
    block_on(prepared.launch_as(Launching::Graph)).expect("three kernels can be captured");
    assert_eq!(prepared.launching(), Some(Launching::Graph));
    block_on(prepared.poison(POISON)).expect("poisons");
    for _ in 0..SETS {
        let sample = block_on(prepared.measure(Batch::new(1))).expect("runs");
        assert!(sample.time.0 > 0.0 && sample.time < sample.host, "{sample:?}");
        assert_eq!(output(&case, &mut *prepared), by_stream, "every set has a graph of its own");
    }
    let trace = block_on(prepared.trace(true)).expect("runs");
    let of = |kind| trace.spans.iter().filter(move |span| span.kind == kind).collect::<Vec<&Span>>();
    let names = |spans: Vec<&Span>| spans.iter().map(|span| span.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(of(SpanKind::Runtime)), ["cuGraphLaunch"], "{trace:?}");
    let kernels = names(of(SpanKind::Kernel));
    match trace.source {
        Some(TraceSource::Cupti) => {
            let labels: Vec<String> = prepared.launches().iter().map(|launch| launch.label().to_owned()).collect();
            assert_eq!(kernels, labels, "{trace:?}");
        }
        _ => assert_eq!(kernels, ["graph of 3 stages"]),
    }
    block_on(prepared.launch_as(Launching::Stream)).expect("as before");
    block_on(prepared.measure(Batch::new(1))).expect("runs");
    assert_eq!(output(&case, &mut *prepared), by_stream);
}

/// Big enough for copies and kernels of some hundred microseconds.
const PIECES: &str = "upload_compute/fwd/n262144,k2048,c8,pinned/f32";

#[test]
fn copies_lie_beside_kernels_and_the_result_is_the_same() {
    let Some((mut cuda, _cache)) = device() else { return };
    let mut outputs = Vec::new();
    for variant in ["serial", "overlapped"] {
        let case = parse_case(&format!("{PIECES}/{variant}")).expect("a valid case");
        let inputs = case.problem.inputs(1);
        let mut prepared = block_on(cuda.prepare(&case, &inputs, 1)).expect("fits on any device");
        for launching in [Launching::Stream, Launching::Graph] {
            block_on(prepared.launch_as(launching)).expect("copies and kernels can be captured");
            block_on(prepared.poison(POISON)).expect("poisons");
            let sample = block_on(prepared.measure(Batch { lead: 2, repeats: 5 })).expect("runs");
            println!("{variant} as {}: {} an execution", launching.name(), Nanos(sample.time.0 / 5.0));
            let specs = case.problem.buffers();
            let checked = specs.iter().enumerate().filter(|(_, spec)| matches!(spec.role, Role::Output { .. }));
            let bytes: Vec<Vec<u8>> = checked
                .map(|(i, spec)| block_on(prepared.read_back(i, 0..spec.bytes(DType::F32).0)).expect("an output"))
                .collect();
            assert!(bytes.iter().all(|one| one.iter().any(|byte| *byte != 0xFF)), "all are written");
            outputs.push(bytes);
        }
        block_on(prepared.launch_as(Launching::Stream)).expect("as before");
        let trace = block_on(prepared.trace(false)).expect("runs");
        let of = |kind| trace.spans.iter().filter(move |span| span.kind == kind).collect::<Vec<&Span>>();
        let (copies, kernels) = (of(SpanKind::Memcpy), of(SpanKind::Kernel));
        assert_eq!((copies.len(), kernels.len()), (8, 8), "{trace:?}");
        let both = |a: &Span, b: &Span| (a.end.0.min(b.end.0) - a.start.0.max(b.start.0)).max(0.0);
        let overlap: f64 = copies.iter().flat_map(|a| kernels.iter().map(|b| both(a, b))).sum();
        let lanes = |spans: &[&Span]| spans.iter().map(|span| span.stream).collect::<std::collections::BTreeSet<_>>();
        println!("{variant}: copies beside kernels for {} ({:?})", Nanos(overlap), trace.source.expect("stated"));
        if variant == "overlapped" {
            assert!(lanes(&copies).is_disjoint(&lanes(&kernels)), "{trace:?}");
            assert!(overlap > 0.0, "{trace:?}");
        } else {
            assert_eq!(lanes(&copies), lanes(&kernels), "{trace:?}");
            assert_eq!(overlap, 0.0, "{trace:?}");
        }
    }
    assert!(outputs.iter().all(|one| *one == outputs[0]));
}

/// Positions in the buffer list of `copy`.
const X: usize = 0;
const OUT: usize = 1;

#[test]
fn inputs_of_every_set_become_bytes_or_copies_of_other_buffers() {
    let Some((mut cuda, _cache)) = device() else { return };
    let bytes = 4036;
    let mut copy = |seed, sets| {
        let case = parse_case("copy/fwd/n1009/f32/scalar").expect("a valid case");
        block_on(cuda.prepare(&case, &case.problem.inputs(seed), sets)).expect("fits on any device")
    };
    for sets in [1, SETS] {
        let (mut first, mut second) = (copy(1, 1), copy(2, sets));
        let outputs = |case: &mut dyn Prepared, contents: Option<Contents<'_>>| {
            block_on(case.enqueue(&contents.map(|contents| (X, contents)).into_iter().collect::<Vec<_>>()))
                .expect("runs");
            (0..SETS)
                .map(|_| {
                    block_on(case.enqueue(&[])).expect("runs");
                    block_on(case.read_back(OUT, 0..bytes)).expect("the buffer is there")
                })
                .collect::<Vec<_>>()
        };
        let of_first = outputs(&mut *first, None).remove(0);
        assert!(outputs(&mut *second, None).iter().all(|out| *out != of_first));
        assert!(outputs(&mut *second, Some(Contents::Buffer(&*first, OUT))).iter().all(|out| *out == of_first));
        let given: Vec<u8> = (0..bytes).map(|at| (at % 113) as u8).collect();
        assert!(outputs(&mut *second, Some(Contents::Bytes(&given))).iter().all(|out| *out == given));
        let short = block_on(second.enqueue(&[(X, Contents::Bytes(&given[..4032]))]));
        assert!(matches!(&short, Err(BackendError::Device(why)) if why.contains("4036 bytes got 4032")), "{short:?}");
        // Work in flight does not survive its case.
        block_on(second.enqueue(&[(X, Contents::Buffer(&*first, OUT))])).expect("runs");
    }
}
