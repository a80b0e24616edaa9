//! The target `cpu`: each form's plain multi-threaded f32 code (or, without any, its reference), as a point of reference. It is not tuned, and its
//! figures say nothing about what the processor could do.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use async_trait::async_trait;
use parallax_core::device::clock::smallest_move;
use parallax_core::device::{
    Awaited, BackendError, Batch, Clock, ClockInfo, Compiled, DeviceInfo, DeviceKind, Launch, MemoryStats, Prepared,
    Profiler, Sample, Span, SpanKind, Trace, TraceSource, Track, Transfer,
};
use parallax_core::suite::{
    BufferSpec, Caps, Case, DType, Dialect, HostBuffer, Inputs, Problem, Role, Storage, Tuning, bytes_of, load,
    round_to,
};
use parallax_core::units::{Bytes, Nanos};
use rayon::prelude::*;

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
            max_storage_buffers: None,
            memory: memory(),
            compute_capability: None,
            units: Some(threads),
            coop_matrix: false,
            matrix_units: false,
            cuda: None,
            tuning: Default::default(),
        };
        let device = DeviceInfo {
            name: processor().unwrap_or_else(|| "host processor".to_owned()),
            vendor: String::new(),
            kind: DeviceKind::Cpu,
            api: "host".to_owned(),
            driver: String::new(),
            identity: Default::default(),
            ranks: 1,
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

    fn set_tuning(&mut self, tuning: Tuning) {
        self.device.caps.tuning = tuning;
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
        let setup = set_up(&problem, inputs);
        let host = |(index, spec): (usize, &BufferSpec)| match spec.role {
            Role::Setup { .. } => setup.get(&index).map(|values| array(spec.elem.storage(problem.dtype), values)),
            role => role.fill().map(|_| inputs.host(index)),
        };
        let arrays: Vec<HostBuffer> = specs.iter().enumerate().filter_map(host).collect();
        let written: Vec<usize> = problem.outputs().into_iter().filter(|index| !setup.contains_key(index)).collect();
        let lengths = written.iter().map(|index| specs[*index].len as usize);
        let (outputs, options) = match problem.form().host {
            Some(_) => (Outputs::Host(lengths.map(|len| vec![f32::NAN; len]).collect()), Vec::new()),
            None => {
                let note = "no host implementation: this is the f64 reference itself, parallel over rows".to_owned();
                (Outputs::Reference(lengths.map(|len| vec![f64::NAN; len]).collect()), vec![note])
            }
        };
        let held = |spec: &BufferSpec| match (spec.role, &outputs) {
            (Role::Scratch, _) => 0,
            (Role::Output { .. }, Outputs::Reference(_)) => spec.len * 8,
            _ => spec.len * 4,
        };
        let held = Bytes(specs.iter().map(held).sum());
        Ok(Box::new(CpuCase {
            problem,
            inputs: inputs.clone(),
            arrays,
            setup,
            written,
            outputs,
            held,
            opened: self.opened,
            compiled: Compiled { options, ..Compiled::default() },
        }))
    }
}

/// What the set-up computes, by position in the buffer list: with the reference, once and untimed.
fn set_up(problem: &Problem, inputs: &Inputs) -> BTreeMap<usize, Vec<f64>> {
    let specs = problem.buffers();
    let row_of = (problem.form().reference.rows)(problem, inputs);
    let computed = problem.outputs().into_iter().enumerate().filter_map(|(output, buffer)| {
        let Role::Setup { row_len } = specs[buffer].role else { return None };
        let storage = specs[buffer].elem.storage(problem.dtype);
        let mut values = vec![0.0; specs[buffer].len as usize];
        let rows = values.par_chunks_mut(row_len as usize).enumerate();
        rows.for_each(|(row, out)| {
            row_of(output, row as u64, out);
            out.iter_mut().for_each(|x| *x = round_to(storage, *x));
        });
        Some((buffer, values))
    });
    computed.collect()
}

/// Values as a host implementation takes them.
fn array(storage: Storage, values: &[f64]) -> HostBuffer {
    match storage.is_integer() {
        true => HostBuffer::U32(values.iter().map(|x| *x as u32).collect()),
        false => HostBuffer::F32(values.iter().map(|x| *x as f32).collect()),
    }
}

/// What a case has computed, output by output.
enum Outputs {
    /// By the form's host implementation.
    Host(Vec<Vec<f32>>),
    /// By the reference.
    Reference(Vec<Vec<f64>>),
}

struct CpuCase {
    problem: Problem,
    inputs: Inputs,
    /// The inputs as the host implementation takes them.
    arrays: Vec<HostBuffer>,
    /// What the set-up computed, by position in the buffer list.
    setup: BTreeMap<usize, Vec<f64>>,
    /// Positions in the buffer list of `outputs`.
    written: Vec<usize>,
    outputs: Outputs,
    held: Bytes,
    opened: Instant,
    compiled: Compiled,
}

impl CpuCase {
    fn run(&mut self) {
        let form = self.problem.form();
        match &mut self.outputs {
            Outputs::Host(outputs) => {
                let host = form.host.expect("these outputs are made where there is a host implementation");
                host(&self.problem, &self.arrays, outputs);
            }
            Outputs::Reference(outputs) => {
                let specs = self.problem.buffers();
                let row_of = (form.reference.rows)(&self.problem, &self.inputs);
                let checked = self.problem.outputs();
                for (buffer, values) in self.written.iter().zip(outputs) {
                    let Some(row_len) = specs[*buffer].role.row_len() else { continue };
                    let Some(output) = checked.iter().position(|other| other == buffer) else { continue };
                    let rows = values.par_chunks_mut(row_len as usize).enumerate();
                    rows.for_each(|(row, out)| row_of(output, row as u64, out));
                }
            }
        }
    }
}

#[async_trait(?Send)]
impl Prepared for CpuCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        // Every output is written anew from inputs that stay as they are, so there is nothing to put back.
        match &mut self.outputs {
            Outputs::Host(outputs) => outputs.iter_mut().for_each(|output| output.fill(f32::from_bits(word))),
            Outputs::Reference(outputs) => {
                let specs = self.problem.buffers();
                for (buffer, values) in self.written.iter().zip(outputs) {
                    let storage = specs[*buffer].elem.storage(self.problem.dtype);
                    values.fill(load(storage, &word.to_le_bytes()[..storage.bytes() as usize]));
                }
            }
        }
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

    /// The host computes by itself: when the call returns, the result is there.
    async fn call(&mut self, executions: u32, _until: Awaited) -> Result<Nanos, BackendError> {
        Ok(self.measure(Batch::of(executions)).await?.host)
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
        let storage = self.problem.buffers()[buffer].elem.storage(self.problem.dtype);
        let elements = (bytes.start / storage.bytes()) as usize..(bytes.end / storage.bytes()) as usize;
        if let Some(values) = self.setup.get(&buffer) {
            return Ok(bytes_of(storage, values[elements].iter().copied()));
        }
        let which = self.written.iter().position(|o| *o == buffer);
        let which = which.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is no output")))?;
        Ok(match &self.outputs {
            Outputs::Host(outputs) => bytes_of(storage, outputs[which][elements].iter().map(|x| f64::from(*x))),
            Outputs::Reference(outputs) => bytes_of(storage, outputs[which][elements].iter().copied()),
        })
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats { current: self.held, peak: self.held, ..MemoryStats::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::device::POISON;
    use parallax_core::measure::check::check_once;
    use parallax_core::suite::{CPU_VARIANT, Direction, Workload, find, hash_embedding};

    #[test]
    fn without_a_host_implementation_the_reference_computes_and_says_so() {
        let mut workload = Workload { name: "hash_embedding", ..hash_embedding::workload() };
        workload.forms[0].host = None;
        let workload: &'static Workload = Box::leak(Box::new(workload));
        let mut cpu = Cpu::open();
        for (workload, says_so) in [(workload, true), (find("hash_embedding").expect("registered"), false)] {
            let problem = Problem::new(workload, Direction::Fwd, "r1009,g101,d67,unsorted", DType::F32);
            let case = Case { problem: problem.expect("valid"), variant: CPU_VARIANT };
            let inputs = case.problem.inputs(3);
            let check = pollster::block_on(async {
                let mut prepared = cpu.prepare(&case, &inputs, 1).await?;
                assert_eq!(prepared.compiled().options.iter().any(|o| o.contains("the f64 reference")), says_so);
                prepared.poison(POISON).await?;
                let poisoned = check_once(&cpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await?;
                assert!(!poisoned.passed, "nothing has been computed yet");
                prepared.measure(Batch::of(2)).await?;
                check_once(&cpu, &mut *prepared, &case.problem, &inputs, 1 << 30).await
            });
            let check = check.expect("the host has no errors");
            assert!(check.passed && check.compared == 101 * 67, "{}", check.sentence());
        }
    }
}
