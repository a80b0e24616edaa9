//! A profiler with scripted times that computes with the reference: for tests of everything that is not a device.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;

use crate::case::{Case, DType, Problem};
use crate::input::Inputs;
use crate::profiler::{
    BackendError, Caps, Clock, ClockInfo, Compiled, DeviceInfo, DeviceKind, Dialect, MemoryStats, Prepared, Profiler,
    Sample, Span, Trace, Track,
};
use crate::units::{Bytes, Nanos};
use crate::workload::{Elem, Role};

/// Time of one execution as a function of the execution's number.
pub type Script = fn(u64) -> f64;

/// What goes wrong, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// One element of the output is off.
    WrongElement,
    /// One element is never written.
    UnwrittenElement,
    /// The device is lost at this execution.
    LostAt(u64),
}

/// The scripted profiler.
pub struct Mock {
    device: DeviceInfo,
    clock: ClockInfo,
    time: Script,
    fault: Fault,
    now: Rc<Cell<f64>>,
    executions: Rc<Cell<u64>>,
}

/// Capabilities of a small imaginary GPU.
pub fn caps() -> Caps {
    Caps {
        dialect: Dialect::Wgsl,
        dtypes: vec![DType::F32, DType::F16],
        subgroup: None,
        shared_bytes: 16_384,
        max_invocations: 256,
        max_workgroup: [256, 256, 64],
        max_grid: [65_535; 3],
        max_binding: Bytes(128 << 20),
        memory: None,
        compute_capability: None,
        units: None,
    }
}

impl Mock {
    /// A mock whose executions take `time(i)` nanoseconds.
    pub fn new(time: Script, fault: Fault) -> Mock {
        Mock {
            device: DeviceInfo {
                name: "imaginary".to_owned(),
                vendor: "nobody".to_owned(),
                kind: DeviceKind::Unknown,
                api: "mock".to_owned(),
                driver: String::new(),
                caps: caps(),
                limits: Default::default(),
                features: Vec::new(),
            },
            clock: ClockInfo { clock: Clock::GpuTimestamps, step: Nanos(1.0), host_step: Nanos(1.0), note: None },
            time,
            fault,
            now: Rc::default(),
            executions: Rc::default(),
        }
    }
}

#[async_trait(?Send)]
impl Profiler for Mock {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    async fn breathe(&self) {}

    async fn prepare(&mut self, case: &Case, inputs: &Inputs) -> Result<Box<dyn Prepared>, BackendError> {
        let problem = case.problem.clone();
        let results = compute(&problem, inputs, self.fault);
        Ok(Box::new(MockCase {
            compiled: Compiled { time: Nanos(1000.0), text_hash: "0".to_owned(), ..Compiled::default() },
            time: self.time,
            fault: self.fault,
            now: self.now.clone(),
            executions: self.executions.clone(),
            results,
            poisoned: true,
        }))
    }
}

/// Bytes of every buffer after the case ran.
fn compute(problem: &Problem, inputs: &Inputs, fault: Fault) -> Vec<Vec<u8>> {
    let mut output = 0;
    let outcome = problem.buffers().into_iter().map(|spec| {
        let Role::Output { row_len } = spec.role else { return Vec::new() };
        let mut row = vec![0.0; row_len as usize];
        let mut values = Vec::new();
        for r in 0..spec.len / row_len {
            (problem.workload.reference)(problem, inputs, output, r, &mut row);
            values.extend(row.iter().map(|x| *x as f32));
        }
        output += 1;
        match fault {
            Fault::WrongElement => values[0] += 1.0,
            Fault::UnwrittenElement => values[0] = f32::NAN,
            _ => {}
        }
        let dtype = if spec.elem == Elem::F32 { DType::F32 } else { problem.dtype };
        crate::input::encode(dtype, &values)
    });
    outcome.collect()
}

struct MockCase {
    compiled: Compiled,
    time: Script,
    fault: Fault,
    now: Rc<Cell<f64>>,
    executions: Rc<Cell<u64>>,
    results: Vec<Vec<u8>>,
    poisoned: bool,
}

#[async_trait(?Send)]
impl Prepared for MockCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn poison(&mut self) -> Result<(), BackendError> {
        self.poisoned = true;
        Ok(())
    }

    async fn measure(&mut self, repeats: u32) -> Result<Sample, BackendError> {
        self.poisoned = false;
        let mut total = 0.0;
        for _ in 0..repeats {
            let i = self.executions.get();
            if self.fault == Fault::LostAt(i) {
                return Err(BackendError::Lost("scripted".to_owned()));
            }
            total += (self.time)(i);
            self.executions.set(i + 1);
        }
        self.now.set(self.now.get() + total + 1000.0);
        Ok(Sample { time: Nanos(total), host: Nanos(total + 1000.0) })
    }

    async fn trace(&mut self) -> Result<Trace, BackendError> {
        let start = self.now.get();
        let time = (self.time)(self.executions.get());
        self.now.set(start + time + 1000.0);
        let span = |name: &str, track, from: f64, to: f64| Span {
            name: name.to_owned(),
            track,
            start: Nanos(start + from),
            end: Nanos(start + to),
            correlation: Some(1),
        };
        Ok(Trace {
            spans: vec![
                span("submit", Track::Host, 0.0, 500.0),
                span("wait", Track::Host, 500.0, time + 1000.0),
                span("kernel", Track::Gpu, 600.0, 600.0 + time),
            ],
            alignment_error: Some(Nanos(400.0)),
        })
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let all = &self.results[buffer];
        let part = &all[bytes.start as usize..bytes.end as usize];
        Ok(if self.poisoned { vec![0xFF; part.len()] } else { part.to_vec() })
    }

    fn memory(&self) -> MemoryStats {
        let held = Bytes(self.results.iter().map(|r| r.len() as u64).sum());
        MemoryStats { current: held, peak: held, reserved: None }
    }
}
