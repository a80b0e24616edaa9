//! Runs put together by hand, with spans such as the backends give.

use parallax_schema::case::DType;
use parallax_schema::device::{
    Caps, Clock, Compiled, Conditions, DeviceInfo, DeviceKind, Dialect, Launch, MemoryStats, Span, SpanKind, Trace,
    TraceSource, Track,
};
use parallax_schema::record::{Drift, Measured, Outcome, Phase, Record, Run, Suite};
use parallax_schema::spec::Spec;
use parallax_schema::testing::{caps, clock, device, exact};
use parallax_schema::units::{Bytes, Nanos};
use parallax_workloads::parse_case;

/// Two cases of several stages and one of one.
const CASES: [(&str, &[&str]); 3] = [
    ("attention/fwd/b1,h8,s512,d64/f16/manual", &["scores", "softmax", "weighted_sum"]),
    ("attention/fwd/b1,h8,s512,d64/f16/flash", &["flash"]),
    ("hash_embedding/fwd/r4096,g8,d64,unsorted/f32/basic", &["hash", "gather"]),
];

/// Executions that are kept of each case.
pub const KEPT: usize = 3;

fn span(name: &str, kind: SpanKind, start: f64, end: f64, correlation: Option<u32>) -> Span {
    let device = matches!(kind, SpanKind::Kernel | SpanKind::Memcpy | SpanKind::Memset);
    Span {
        name: name.to_owned(),
        kind,
        track: if device { Track::Gpu } else { Track::Host },
        start: Nanos(start),
        end: Nanos(end),
        correlation,
        ..Span::default()
    }
}

/// Spans that a backend records of one execution that begins at `at`, and its end.
type Backend = fn(at: f64, stages: &[&str], nth: usize) -> (Vec<Span>, f64);

/// A launch for each stage, kernels from CUPTI, numbers from one in each execution.
fn cuda(at: f64, stages: &[&str], nth: usize) -> (Vec<Span>, f64) {
    let mut spans = Vec::new();
    let mut kernel = at + 6_000.0;
    for (i, stage) in stages.iter().enumerate() {
        let number = Some(i as u32 + 1);
        let call = at + 2_500.0 * i as f64;
        spans.push(span("cuLaunchKernel", SpanKind::Runtime, call, call + 2_150.5, number));
        let end = kernel + 14_016.25 * (i + 1) as f64 + 32.0 * nth as f64;
        spans.push(span(stage, SpanKind::Kernel, kernel, end, number));
        kernel = end + 1_056.0;
    }
    let (called, done) = (at + 2_500.0 * stages.len() as f64, kernel + 9_000.0);
    spans.push(span("cuStreamSynchronize", SpanKind::Wait, called, done, None));
    (spans, done)
}

/// Each stage's input is copied on a stream of its own while the stage before it computes on another.
fn overlapped(at: f64, stages: &[&str], nth: usize) -> (Vec<Span>, f64) {
    const COPIES: Option<u32> = Some(14);
    const KERNELS: Option<u32> = Some(13);
    let mut spans = Vec::new();
    let (mut copied, mut computed) = (at + 9_000.0, at);
    for (i, stage) in stages.iter().enumerate() {
        let (copy, kernel) = (Some(2 * i as u32 + 1), Some(2 * i as u32 + 2));
        let call = at + 5_000.0 * i as f64;
        spans.push(span("cuMemcpyHtoDAsync_v2", SpanKind::Runtime, call, call + 2_100.0, copy));
        spans.push(span("cuLaunchKernel", SpanKind::Runtime, call + 2_500.0, call + 4_650.5, kernel));
        let length = 20_000.0 + 64.0 * nth as f64;
        spans.push(Span {
            stream: COPIES,
            bytes: Some(Bytes(1 << 20)),
            symbol: Some("Memcpy HtoD (Pinned -> Device)".to_owned()),
            ..span(&format!("upload {i}"), SpanKind::Memcpy, copied, copied + length, copy)
        });
        copied += length + 1_000.0;
        let start = copied.max(computed + 500.0);
        computed = start + 31_500.0;
        spans.push(Span { stream: KERNELS, ..span(stage, SpanKind::Kernel, start, computed, kernel) });
    }
    let (called, done) = (at + 5_000.0 * stages.len() as f64, computed + 9_000.0);
    spans.push(span("cuStreamSynchronize", SpanKind::Wait, called, done, None));
    (spans, done)
}

/// One submission for all stages, kernels from timestamps in steps of 65 536 ns.
fn browser(at: f64, stages: &[&str], nth: usize) -> (Vec<Span>, f64) {
    const STEP: f64 = 65_536.0;
    let number = Some(7 + nth as u32);
    let (encoded, submitted) = (at + 80_000.0, at + 140_000.0);
    let mut kernel = submitted + 100_000.0;
    let mut kernels = Vec::new();
    for (i, stage) in stages.iter().enumerate() {
        let end = kernel + STEP * ((i + nth) % 3) as f64;
        kernels.push(span(stage, SpanKind::Kernel, kernel, end, number));
        kernel = end;
    }
    let done = kernel + 900_000.0;
    let mut spans = vec![
        span("encode", SpanKind::Runtime, at, encoded, None),
        span("submit", SpanKind::Runtime, encoded, submitted, number),
        span("wait", SpanKind::Wait, submitted, done, None),
    ];
    spans.extend(kernels);
    (spans, done)
}

/// A record of a case that was right, whose trace has these spans and was taken from one moment to another.
pub fn record(case: &str, prepared: f64, spans: Vec<Span>, (from, to): (f64, f64), source: TraceSource) -> Record {
    let parsed = parse_case(case).expect("a case");
    let phase = |name: &str, start, end| Phase { name: name.to_owned(), start: Nanos(start), end: Nanos(end) };
    let held = parsed.problem.buffers().iter().map(|b| b.bytes(parsed.problem.dtype).0).sum();
    let kernels = spans.iter().filter(|s| s.kind == SpanKind::Kernel);
    let launch = |s: &Span| Launch {
        entry: s.name.clone(),
        grid: [64, 8, 1],
        block: [128, 1, 1],
        registers: (source == TraceSource::Cupti).then_some(40),
        shared: Bytes(16_384),
        occupancy: (source == TraceSource::Cupti).then_some(0.4375),
        ..Launch::default()
    };
    let mut launches: Vec<Launch> = kernels.map(launch).collect();
    launches.truncate(launches.len() / KEPT.max(1));
    let measured = Measured {
        compiled: Compiled::default(),
        check: exact(),
        timing: None,
        call: None,
        energy: None,
        counters: None,
        scores: Vec::new(),
        memory: MemoryStats { current: Bytes(held), peak: Bytes(held), ..MemoryStats::default() },
        launches,
        analysis: None,
        trace: Some(Trace { spans, alignment_error: Some(Nanos(420.0)), source: Some(source) }),
        phases: vec![
            phase("prepare", prepared, prepared + 2e6),
            phase("check", prepared + 2e6, prepared + 3e6),
            phase("trace", from, to),
            phase("recheck", to, to + 1e6),
        ],
    };
    Record {
        case: case.to_owned(),
        parts: parsed.parts(),
        actual: None,
        device: 0,
        cost: parsed.problem.cost(),
        items: parsed.items(),
        outcome: Outcome::Pass(Box::new(measured)),
    }
}

/// Cases one after the other: prepared and checked, some rounds, then traced.
fn records(backend: Backend, source: TraceSource) -> Vec<Record> {
    let mut at = 1e6;
    let prepared: Vec<f64> = CASES.iter().map(|_| (at, at += 3.5e6).0).collect();
    at += 50e6;
    let mut record_of = |(i, (case, stages)): (usize, &(&str, &[&str]))| {
        let from = at;
        at += 30_000.0;
        let mut spans = Vec::new();
        for nth in 0..KEPT {
            let (one, done) = backend(at, stages, nth);
            spans.push(span(&format!("ProfilerStep#{}", nth + 1), SpanKind::Annotation, at, done, None));
            spans.extend(one);
            at = done + 20_000.0;
        }
        let to = at;
        at += 1.2e6;
        record(case, prepared[i], spans, (from, to), source)
    };
    CASES.iter().enumerate().map(&mut record_of).collect()
}

/// A run without records.
pub fn begun(target: &str) -> Run {
    let spec = Spec::from_pairs([("schedule", "wait=0,warmup=1,active=3,repeat=1")]).expect("valid");
    let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
    let mut run = Run::begin_on(target, suite, (&device(caps()), &clock()), &spec, Vec::new());
    run.started = 1_700_000_000;
    run.planned = CASES.iter().map(|(case, _)| (*case).to_owned()).collect();
    run.drift = (0..4)
        .map(|i| Drift {
            at: Nanos(12e6 + 10e6 * f64::from(i)),
            reference_kernel: Nanos(200_000.0 + 500.0 * f64::from(i)),
            conditions: Conditions::default(),
        })
        .collect();
    run
}

/// As on a data-centre GPU with CUPTI.
pub fn cuda_run() -> Run {
    let mut run = begun("cuda");
    run.devices[0] = DeviceInfo {
        name: "NVIDIA H200".to_owned(),
        vendor: "NVIDIA".to_owned(),
        kind: DeviceKind::Discrete,
        api: "CUDA 13.0".to_owned(),
        driver: "580.95.05".to_owned(),
        caps: Caps {
            dialect: Dialect::Cuda,
            dtypes: vec![DType::F32, DType::F16, DType::BF16],
            subgroup: Some((32, 32)),
            memory: Some(Bytes(150_000_000_000)),
            compute_capability: Some((9, 0)),
            compute_units: Some(132),
            ..run.device().caps.clone()
        },
        ..run.device().clone()
    };
    run.clock.clock = Clock::CudaEvents;
    run.clock.launch_jitter = Nanos(250.0);
    for drift in &mut run.drift {
        let (sm_clock_mhz, temperature_c, power_w) = (Some(1980.0), Some(41.0), Some(310.0));
        drift.conditions = Conditions { sm_clock_mhz, temperature_c, power_w, ..Conditions::default() };
    }
    run.records = records(cuda, TraceSource::Cupti);
    run
}

/// As on the same GPU, with copies beside kernels.
pub fn overlapped_run() -> Run {
    Run { records: records(overlapped, TraceSource::Cupti), ..cuda_run() }
}

/// As in a browser.
pub fn browser_run() -> Run {
    let mut run = begun("browser");
    run.devices[0].name = "nvidia hopper".to_owned();
    run.devices[0].api = "WebGPU".to_owned();
    run.clock.step = Nanos(65_536.0);
    run.records = records(browser, TraceSource::Timestamps);
    run
}
