//! The target `cpu`: each workload's plain multi-threaded f32 code, as a point of reference. It is not tuned, and its
//! figures say nothing about what the processor could do.

use std::ops::Range;
use std::time::Instant;

use async_trait::async_trait;
use parallax_core::device::clock::smallest_move;
use parallax_core::device::{
    BackendError, Batch, Clock, ClockInfo, Compiled, DeviceInfo, DeviceKind, Launch, MemoryStats, Prepared, Profiler,
    Sample, Span, SpanKind, Trace, TraceSource, Track, Transfer,
};
use parallax_core::suite::{Caps, Case, DType, Dialect, Elem, HostBuffer, Inputs, Problem, Role, encode};
use parallax_core::units::{Bytes, Nanos};

/// The host's processor as a profiler.
pub struct Cpu {
    device: DeviceInfo,
    clock: ClockInfo,
    opened: Instant,
}

impl Cpu {
    /// Always there.
    pub fn open() -> Cpu {
        let threads = rayon::current_num_threads() as u32;
        let caps = Caps {
            dialect: Dialect::Cpu,
            // 16-bit floats are emulated on most processors; the reference point is f32.
            dtypes: vec![DType::F32],
            subgroup: None,
            shared_bytes: 0,
            max_invocations: 0,
            max_workgroup: [0; 3],
            max_grid: [0; 3],
            max_binding: Bytes(u64::MAX),
            memory: memory(),
            compute_capability: None,
            units: Some(threads),
            coop_matrix: false,
            matrix_units: false,
        };
        let device = DeviceInfo {
            name: processor().unwrap_or_else(|| "host processor".to_owned()),
            vendor: String::new(),
            kind: DeviceKind::Cpu,
            api: "host".to_owned(),
            driver: String::new(),
            caps,
            limits: Default::default(),
            features: vec![format!("{threads} threads")],
        };
        let opened = Instant::now();
        let step = smallest_move(100, || Nanos(opened.elapsed().as_nanos() as f64));
        let note = Some("plain multi-threaded code, a point of reference and not tuned".to_owned());
        let clock = ClockInfo {
            clock: Clock::Host,
            step,
            host_step: step,
            zero_share: 0.0,
            negative_share: 0.0,
            launch_jitter: Nanos(0.0),
            note,
        };
        Cpu { device, clock, opened }
    }
}

fn proc_line(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn processor() -> Option<String> {
    proc_line("/proc/cpuinfo", "model name")
}

fn memory() -> Option<Bytes> {
    let kib: u64 = proc_line("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(kib * 1024))
}

#[async_trait(?Send)]
impl Profiler for Cpu {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    async fn breathe(&self) {}

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        Ok(Nanos(0.0))
    }

    async fn transfer(&mut self, _way: Transfer, _bytes: u64) -> Result<Option<Nanos>, BackendError> {
        Ok(None)
    }

    async fn expect(&mut self, _cases: &[Case]) {}

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        let problem = case.problem.clone();
        if sets > 1 {
            return Err(BackendError::Unsupported("cold caches: the host computes in one place".to_owned()));
        }
        let specs = problem.buffers();
        let host = |(index, spec): (usize, &parallax_core::suite::BufferSpec)| {
            matches!(spec.role, Role::Input(_)).then(|| inputs.host(index))
        };
        let inputs: Vec<HostBuffer> = specs.iter().enumerate().filter_map(host).collect();
        let outputs: Vec<Vec<f32>> =
            problem.outputs().into_iter().map(|index| vec![f32::NAN; specs[index].len as usize]).collect();
        let elements: u64 = specs.iter().filter(|s| !matches!(s.role, Role::Scratch)).map(|s| s.len).sum();
        Ok(Box::new(CpuCase {
            problem,
            inputs,
            outputs,
            held: Bytes(elements * 4),
            opened: self.opened,
            compiled: Compiled::default(),
        }))
    }
}

struct CpuCase {
    problem: Problem,
    inputs: Vec<HostBuffer>,
    outputs: Vec<Vec<f32>>,
    held: Bytes,
    opened: Instant,
    compiled: Compiled,
}

impl CpuCase {
    fn run(&mut self) {
        (self.problem.workload.cpu)(&self.problem, &self.inputs, &mut self.outputs);
    }
}

#[async_trait(?Send)]
impl Prepared for CpuCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn poison(&mut self) -> Result<(), BackendError> {
        self.outputs.iter_mut().for_each(|output| output.fill(f32::NAN));
        Ok(())
    }

    fn launches(&self) -> Vec<Launch> {
        Vec::new()
    }

    async fn measure(&mut self, Batch { lead, repeats }: Batch) -> Result<Sample, BackendError> {
        let begun = Instant::now();
        (0..lead).for_each(|_| self.run());
        let start = Instant::now();
        for _ in 0..repeats {
            self.run();
        }
        let time = Nanos(start.elapsed().as_nanos() as f64);
        Ok(Sample { time, host: Nanos(begun.elapsed().as_nanos() as f64) })
    }

    async fn trace(&mut self, _stacks: bool) -> Result<Trace, BackendError> {
        let start = Nanos(self.opened.elapsed().as_nanos() as f64);
        self.run();
        let end = Nanos(self.opened.elapsed().as_nanos() as f64);
        let span = |name: &str, kind, track| Span {
            name: name.to_owned(),
            kind,
            track,
            start,
            end,
            correlation: Some(1),
            ..Span::default()
        };
        // The device is the host: both tracks show the same stretch, so that every target's trace reads alike.
        let name = self.problem.workload.name;
        Ok(Trace {
            spans: vec![span("call", SpanKind::Runtime, Track::Host), span(name, SpanKind::Kernel, Track::Gpu)],
            alignment_error: Some(Nanos(0.0)),
            source: Some(TraceSource::Host),
        })
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let which = self.problem.outputs().iter().position(|o| *o == buffer);
        let which = which.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is no output")))?;
        let elem = self.problem.buffers()[buffer].elem;
        let dtype = if elem == Elem::F32 { DType::F32 } else { self.problem.dtype };
        let size = elem.storage(self.problem.dtype).bytes();
        let values = &self.outputs[which][(bytes.start / size) as usize..(bytes.end / size) as usize];
        Ok(encode(dtype, values))
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats { current: self.held, peak: self.held, ..MemoryStats::default() }
    }
}
