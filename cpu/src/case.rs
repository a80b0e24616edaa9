//! A case on the processor.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Contents, Prepared, Sample, typical};
use parallax_ir::parallel::*;
use parallax_ir::{BufferSpec, HostBuffer, Inputs, Problem, Role, bytes_of, load, round_to};
use parallax_schema::case::Storage;
use parallax_schema::device::{Compiled, Launch, MemoryStats, Span, SpanKind, Trace, TraceSource, Track};
use parallax_schema::units::{Bytes, Nanos};
use web_time::Instant;

use crate::profiler::YieldNow;

/// Computes the results of the set-up, by position in the buffer list. It uses the reference, once and untimed.
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

/// Converts values to the buffer type of a host implementation.
fn array(storage: Storage, values: &[f64]) -> HostBuffer {
    match storage.is_integer() {
        true => HostBuffer::U32(values.iter().map(|x| *x as u32).collect()),
        false => HostBuffer::F32(values.iter().map(|x| *x as f32).collect()),
    }
}

/// Whether the host implementation reads a buffer: an input, or a result of the set-up.
fn is_array(spec: &BufferSpec) -> bool {
    spec.role.fill().is_some() || matches!(spec.role, Role::Setup { .. })
}

/// Inputs and results of the set-up, in the types of the host implementation.
fn arrays(
    problem: &Problem,
    inputs: &Inputs,
    setup: &BTreeMap<usize, Vec<f64>>,
) -> Result<Vec<HostBuffer>, BackendError> {
    let host = |(index, spec): (usize, &BufferSpec)| match spec.role {
        Role::Setup { .. } => setup.get(&index).map(|values| Ok(array(spec.elem.storage(problem.dtype), values))),
        role => role.fill().map(|_| inputs.host(index).map_err(|_| no_room(spec.len.saturating_mul(4)))),
    };
    problem.buffers().iter().enumerate().filter_map(host).collect()
}

/// Additional bytes for the computation and the check of a case.
const BESIDE: u64 = 64 << 20;

/// Reserves the total memory of a case in one piece, and frees it. Later allocations, by code without error handling, then succeed.
///
/// # Errors
/// [`BackendError::OutOfMemory`] for an impossible allocation.
fn make_sure_of_room(problem: &Problem, specs: &[BufferSpec]) -> Result<(), BackendError> {
    // The reference and the set-up compute in double precision.
    let wide = problem.form().host.is_none();
    let bytes = |spec: &BufferSpec| match spec.role {
        Role::Setup { .. } => spec.len.saturating_mul(12),
        Role::Output { .. } if wide => spec.len.saturating_mul(8),
        _ => spec.len.saturating_mul(4),
    };
    is_there(specs.iter().map(bytes).fold(BESIDE, u64::saturating_add))
}

/// Checks that one allocation of `bytes` succeeds.
fn is_there(bytes: u64) -> Result<(), BackendError> {
    let mut room: Vec<u8> = Vec::new();
    usize::try_from(bytes).ok().and_then(|bytes| room.try_reserve_exact(bytes).ok()).ok_or_else(|| no_room(bytes))
}

fn no_room(bytes: u64) -> BackendError {
    BackendError::OutOfMemory(format!(
        "cannot allocate {}; choose a smaller shape, or end other programs",
        Bytes(bytes)
    ))
}

fn filled<T: Copy>(len: usize, value: T) -> Result<Vec<T>, BackendError> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| no_room((len as u64).saturating_mul(size_of::<T>() as u64)))?;
    all.resize(len, value);
    Ok(all)
}

/// Replaces numbers by little-endian ones. Returns `false`, and changes nothing, for another length.
fn filled_from<T>(to: &mut [T], bytes: &[u8], read: fn([u8; 4]) -> T) -> bool {
    let (numbers, rest) = bytes.as_chunks();
    let fits = numbers.len() == to.len() && rest.is_empty();
    if fits {
        to.iter_mut().zip(numbers).for_each(|(to, number)| *to = read(*number));
    }
    fits
}

/// Returns the positions of the buffers that the set-up accesses. The host has no stages, but those of every device access the same
/// buffers.
fn of_setup(problem: &Problem, specs: &[BufferSpec]) -> Vec<usize> {
    let Some(setup) = problem.form().setup else { return Vec::new() };
    let program = setup(problem, &typical::browser());
    program.used_by_first(program.stages.len(), specs)
}

/// Results of a case, one entry per output.
enum Outputs {
    /// From the host implementation of the operation.
    Host(Vec<Vec<f32>>),
    /// From the reference.
    Reference(Vec<Vec<f64>>),
}

/// A case, ready for execution.
pub struct HostCase {
    problem: Problem,
    inputs: Inputs,
    /// The inputs in the types of the host implementation.
    arrays: Vec<HostBuffer>,
    /// Results of the set-up, by position in the buffer list.
    setup: BTreeMap<usize, Vec<f64>>,
    /// Positions of the buffers that the set-up accesses.
    of_setup: Vec<usize>,
    /// Positions of `outputs` in the buffer list.
    written: Vec<usize>,
    outputs: Outputs,
    held: Bytes,
    opened: Instant,
    yield_now: YieldNow,
    compiled: Compiled,
}

impl HostCase {
    /// Creates the case with its inputs and the results of the set-up, once and untimed.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`] for insufficient memory.
    pub fn new(
        problem: &Problem,
        inputs: &Inputs,
        opened: Instant,
        yield_now: YieldNow,
    ) -> Result<HostCase, BackendError> {
        let specs = problem.buffers();
        make_sure_of_room(problem, &specs)?;
        let setup = set_up(problem, inputs);
        let arrays = arrays(problem, inputs, &setup)?;
        let written: Vec<usize> = problem.outputs().into_iter().filter(|index| !setup.contains_key(index)).collect();
        let lengths = written.iter().map(|index| specs[*index].len as usize);
        let (outputs, options) = match problem.form().host {
            Some(_) => (Outputs::Host(lengths.map(|len| filled(len, f32::NAN)).collect::<Result<_, _>>()?), Vec::new()),
            None => {
                let note = "no host implementation: this is the f64 reference itself, parallel over rows".to_owned();
                (Outputs::Reference(lengths.map(|len| filled(len, f64::NAN)).collect::<Result<_, _>>()?), vec![note])
            }
        };
        let held = |spec: &BufferSpec| match (spec.role, &outputs) {
            (Role::Scratch, _) => 0,
            (Role::Output { .. }, Outputs::Reference(_)) => spec.len * 8,
            _ => spec.len * 4,
        };
        let held = Bytes(specs.iter().map(held).sum());
        Ok(HostCase {
            of_setup: of_setup(problem, &specs),
            problem: problem.clone(),
            inputs: inputs.clone(),
            arrays,
            setup,
            written,
            outputs,
            held,
            opened,
            yield_now,
            compiled: Compiled { options, ..Compiled::default() },
        })
    }

    /// Replaces an input of the host implementation. The set-up gets it too, where it uses it.
    fn replace(&mut self, index: usize, contents: Contents<'_>) -> Result<(), BackendError> {
        let specs = self.problem.buffers();
        let at = specs[..index].iter().filter(|spec| is_array(spec)).count();
        let fits = match (&mut self.arrays[at], contents) {
            (HostBuffer::F32(to), Contents::Bytes(bytes)) => filled_from(to, bytes, f32::from_le_bytes),
            (HostBuffer::U32(to), Contents::Bytes(bytes)) => filled_from(to, bytes, u32::from_le_bytes),
            (HostBuffer::F32(to), Contents::Buffer(case, from)) => {
                let case: &dyn Any = case;
                let from = case.downcast_ref::<HostCase>().and_then(|case| case.output(from));
                let from = from.filter(|from| from.len() == to.len());
                from.map(|from| to.copy_from_slice(from)).is_some()
            }
            (HostBuffer::U32(_), Contents::Buffer(..)) => false,
        };
        let BufferSpec { name, elem, .. } = specs[index];
        if !fits {
            return Err(BackendError::Device(format!("input `{name}` got contents that do not fit")));
        }
        if self.sets_up_from(index) {
            let bytes = match &self.arrays[at] {
                HostBuffer::F32(all) => bytes_of(elem.storage(self.problem.dtype), all.iter().map(|x| f64::from(*x))),
                HostBuffer::U32(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            self.inputs.replace(index, bytes).map_err(|why| BackendError::Device(why.to_string()))?;
        }
        Ok(())
    }

    /// Whether results of the set-up depend on an input.
    pub fn sets_up_from(&self, input: usize) -> bool {
        self.of_setup.contains(&input)
    }

    /// Computes the results of the set-up again, from the present inputs.
    fn set_up(&mut self) {
        self.setup = set_up(&self.problem, &self.inputs);
        let specs = self.problem.buffers();
        let arrays = specs.iter().enumerate().filter(|(_, spec)| is_array(spec));
        for ((index, spec), to) in arrays.zip(&mut self.arrays) {
            if let Some(values) = self.setup.get(&index) {
                *to = array(spec.elem.storage(self.problem.dtype), values);
            }
        }
    }

    /// Returns an output of the host implementation.
    fn output(&self, buffer: usize) -> Option<&[f32]> {
        let which = self.written.iter().position(|output| *output == buffer)?;
        match &self.outputs {
            Outputs::Host(outputs) => Some(&outputs[which]),
            Outputs::Reference(_) => None,
        }
    }

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
impl Prepared for HostCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        self.setup = set_up(&self.problem, inputs);
        self.arrays = arrays(&self.problem, inputs, &self.setup)?;
        self.inputs = inputs.clone();
        Ok(())
    }

    fn enqueues(&self) -> bool {
        matches!(self.outputs, Outputs::Host(_))
    }

    async fn enqueue(&mut self, inputs: &[(usize, Contents<'_>)]) -> Result<(), BackendError> {
        if !self.enqueues() {
            return Err(BackendError::Unsupported("this case needs all its inputs at once".to_owned()));
        }
        inputs.iter().try_for_each(|(index, contents)| self.replace(*index, *contents))?;
        if inputs.iter().any(|(index, _)| self.sets_up_from(*index)) {
            self.set_up();
        }
        self.run();
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as f64)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        // Every execution writes all outputs from unmodified inputs. No input needs restoration.
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
        let host = Nanos(begun.elapsed().as_nanos() as f64);
        // No other task ran during the sample. The page reports the sample after this yield.
        (self.yield_now)().await;
        Ok(Sample { time, host })
    }

    /// The host computes synchronously: the result exists when the call returns.
    async fn call(&mut self, executions: u32, _until: Awaited) -> Result<Nanos, BackendError> {
        Ok(self.measure(Batch::new(executions)).await?.host)
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
        // The device is the host. Both tracks show the same interval, so that the traces of all targets have one form.
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
        let which = which.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is not an output")))?;
        Ok(match &self.outputs {
            Outputs::Host(outputs) => {
                let value = |x: &f32| if storage.is_integer() { f64::from(x.to_bits()) } else { f64::from(*x) };
                bytes_of(storage, outputs[which][elements].iter().map(value))
            }
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
    use parallax_schema::case::DType;
    use parallax_workloads::all;

    #[test]
    fn memory_that_cannot_be_had_is_an_error_of_the_case() {
        // More bytes than any processor can address.
        for refused in [is_there(1 << 60), is_there(u64::MAX), filled(1 << 58, 0f32).map(|_| ())] {
            assert!(
                matches!(&refused, Err(BackendError::OutOfMemory(why)) if why.contains("cannot allocate")),
                "{refused:?}"
            );
        }
        assert_eq!((is_there(1 << 20), filled(3, 1.5f32)), (Ok(()), Ok(vec![1.5; 3])));
    }

    #[test]
    fn every_set_up_says_which_inputs_it_uses() {
        let mut forms = 0;
        for (workload, form) in all().iter().flat_map(|w| w.forms.iter().map(move |form| (w, form))) {
            let shapes = form.awkward.iter().map(|shape| Problem::new(workload, form.direction, shape, DType::F32));
            for problem in shapes.filter_map(Result::ok) {
                let specs = problem.buffers();
                let has_results = specs.iter().any(|spec| matches!(spec.role, Role::Setup { .. }));
                let used = of_setup(&problem, &specs);
                let inputs = used.iter().filter(|index| specs[**index].role.fill().is_some()).count();
                assert_eq!(inputs > 0, has_results, "{problem}: {used:?}");
                forms += usize::from(has_results);
            }
        }
        assert!(forms > 20, "{forms}");
    }
}
