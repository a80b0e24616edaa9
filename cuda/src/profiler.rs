//! The profiler: prepares cases, launches them on one stream, and times them with events.

use std::ffi::{CString, c_void};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use cudarc::driver::sys::{CUevent_flags, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};
use parallax_core::case::Case;
use parallax_core::clock::{common_step, smallest_move};
use parallax_core::input::Inputs;
use parallax_core::profiler::{
    BackendError, Clock, ClockInfo, Compiled, DeviceInfo, MemoryStats, Prepared, Profiler, Sample, Span, Trace, Track,
};
use parallax_core::units::Nanos;
use parallax_core::workload::{BufferSpec, Role, Stage};

use crate::compile::{compile_cached, default_cache};
use crate::device::{Device, Unavailable, failed};
use crate::errors::Context;
use crate::memory::{Buffer, Ledger};
use crate::{nvrtc, text};

/// How to open a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Number of the device, as the driver counts.
    pub ordinal: usize,
    /// Folder of compiled kernels; `None` compiles everything anew.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    /// The first device, and the user's cache folder.
    fn default() -> Self {
        Options { ordinal: 0, cache: default_cache() }
    }
}

/// An open CUDA device.
pub struct Cuda {
    device: Device,
    stream: Arc<CudaStream>,
    clock: ClockInfo,
    opened: Instant,
    options: Options,
    ledger: Rc<Ledger>,
    /// Free device memory before anything was prepared.
    free_before: u64,
}

impl Cuda {
    pub(crate) fn open(options: Options) -> Result<Cuda, Unavailable> {
        let opened = Instant::now();
        let device = Device::open(options.ordinal)?;
        nvrtc::get()?;
        let stream = device.context.new_stream().map_err(failed("creating a stream"))?;
        let step = event_step(&device.context, &stream).map_err(failed("measuring the step of event times"))?;
        let note = step.is_none().then(|| "no two events differed: the step is the documented 0.5 µs".to_owned());
        let host_step = smallest_move(1000, || Nanos(opened.elapsed().as_nanos() as f64));
        let clock = ClockInfo { clock: Clock::CudaEvents, step: step.unwrap_or(DOCUMENTED_STEP), host_step, note };
        let (free_before, _) = device.context.mem_get_info().map_err(failed("asking for free memory"))?;
        let free_before = free_before as u64;
        Ok(Cuda { device, stream, clock, opened, options, ledger: Rc::default(), free_before })
    }
}

#[async_trait(?Send)]
impl Profiler for Cuda {
    fn device(&self) -> &DeviceInfo {
        &self.device.info
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    async fn breathe(&self) {}

    async fn prepare(&mut self, case: &Case, inputs: &Inputs) -> Result<Box<dyn Prepared>, BackendError> {
        let program = case.program(&self.device.info.caps).ok_or_else(|| {
            BackendError::Unsupported(format!("{case} has no kernels of its own: prepare the variant that it selects"))
        })?;
        self.device.context.bind_to_thread().doing(|| "binding the device to this thread".into())?;
        let final_text = text::assemble(case, &program)?;
        let (cubin, mut compiled) = compile_cached(&final_text, self.device.arch, self.options.cache.as_deref())?;
        let loading = Instant::now();
        let module = Module::load(&self.device.context, &cubin)?;
        compiled.time += since(loading);

        self.ledger.restart_peak();
        let specs = case.problem.buffers();
        let used =
            |spec: &BufferSpec| program.stages.iter().any(|stage| stage.uses.iter().any(|(n, _)| *n == spec.name));
        let mut buffers = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            // Outputs are allocated in any case: they are read back by their position.
            if matches!(spec.role, Role::Scratch) && !used(spec) {
                buffers.push(None);
                continue;
            }
            let bytes = spec.bytes(case.problem.dtype).0;
            let buffer = Buffer::new(&self.device.context, &self.ledger, spec.name, bytes)?;
            if matches!(spec.role, Role::Input(_)) {
                upload(&buffer, inputs, index, spec.elem.storage(case.problem.dtype).bytes())?;
            }
            buffers.push(Some(buffer));
        }
        let stages = program
            .stages
            .iter()
            .map(|stage| Launch::new(stage, &module, &specs, &buffers))
            .collect::<Result<Vec<_>, _>>()?;
        // Copies from ordinary host memory may still be on their way when the call returns, and the stream that kernels
        // run on does not wait for them by itself.
        self.device.context.synchronize().doing(|| "uploading inputs".into())?;
        let mut prepared = PreparedCase {
            stages,
            specs,
            begin: event(&self.device.context)?,
            end: event(&self.device.context)?,
            buffers,
            _module: module,
            compiled,
            context: self.device.context.clone(),
            stream: self.stream.clone(),
            opened: self.opened,
            ledger: self.ledger.clone(),
            free_before: self.free_before,
        };
        // Fresh memory may hold an earlier case's right answer.
        prepared.poison().await?;
        Ok(Box::new(prepared))
    }
}

/// A case on the device. Everything in it frees itself.
struct PreparedCase {
    stages: Vec<Launch>,
    specs: Vec<BufferSpec>,
    begin: CudaEvent,
    end: CudaEvent,
    /// In the workload's order; `None` for scratch that no stage uses.
    buffers: Vec<Option<Buffer>>,
    _module: Module,
    compiled: Compiled,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    opened: Instant,
    ledger: Rc<Ledger>,
    free_before: u64,
}

impl PreparedCase {
    fn bind(&self) -> Result<(), BackendError> {
        self.context.bind_to_thread().doing(|| "binding the device to this thread".into())
    }

    fn record(&self, event: &CudaEvent) -> Result<(), BackendError> {
        event.record(&self.stream).doing(|| "recording an event".into())
    }

    fn launch_all(&self, repeats: u32) -> Result<(), BackendError> {
        self.record(&self.begin)?;
        for _ in 0..repeats {
            for stage in &self.stages {
                stage.launch(&self.stream)?;
            }
        }
        self.record(&self.end)
    }

    /// Wait for everything on the stream; this is where errors inside of kernels come to light.
    fn wait(&self) -> Result<(), BackendError> {
        let entries = || self.stages.iter().map(|stage| stage.entry).collect::<Vec<_>>().join(", ");
        self.stream.synchronize().doing(|| format!("running {}", entries()))
    }
}

#[async_trait(?Send)]
impl Prepared for PreparedCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn poison(&mut self) -> Result<(), BackendError> {
        self.bind()?;
        for (spec, buffer) in self.specs.iter().zip(&self.buffers) {
            if let (Role::Output { .. } | Role::Scratch, Some(buffer)) = (spec.role, buffer) {
                buffer.poison(self.stream.cu_stream())?;
            }
        }
        self.wait()
    }

    async fn measure(&mut self, repeats: u32) -> Result<Sample, BackendError> {
        self.bind()?;
        let begin = Instant::now();
        let launched = self.launch_all(repeats);
        // Wait also after a failed launch: nothing may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        launched?;
        waited?;
        Ok(Sample { time: elapsed(&self.begin, &self.end)?, host })
    }

    /// Stages are timed by events between them, so that a stage's span includes the gap before its start.
    ///
    /// The events' clock has no common zero with the host's. The device's work lies somewhere between the begin of the
    /// submission and the end of the wait; the track is laid so that it ends with the wait, the latest that it can have
    /// been, and the room that remains at the front is stated as the alignment error.
    async fn trace(&mut self) -> Result<Trace, BackendError> {
        self.bind()?;
        let marks = (0..=self.stages.len()).map(|_| event(&self.context)).collect::<Result<Vec<_>, _>>()?;
        let submit = since(self.opened);
        let launched = self.record(&marks[0]).and_then(|()| {
            self.stages.iter().zip(&marks[1..]).try_for_each(|(stage, mark)| {
                stage.launch(&self.stream)?;
                self.record(mark)
            })
        });
        let wait = since(self.opened);
        let waited = self.wait();
        let done = since(self.opened);
        launched?;
        waited?;
        let times = marks.iter().map(|mark| elapsed(&marks[0], mark)).collect::<Result<Vec<_>, _>>()?;
        let entries: Vec<&str> = self.stages.iter().map(|stage| stage.entry).collect();
        Ok(lay_out(&entries, &times, [submit, wait, done]))
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.bind()?;
        self.wait()?;
        let held = self.buffers.get(buffer).and_then(Option::as_ref);
        held.ok_or_else(|| BackendError::Device(format!("buffer {buffer} is not on the device")))?.read(bytes)
    }

    fn memory(&self) -> MemoryStats {
        self.ledger.stats(&self.context, self.free_before)
    }
}

/// Spans of one traced execution. `times` are the marks around the stages, from the first mark on; the host's times are
/// the begin of submitting, the begin of waiting and the end of waiting.
fn lay_out(entries: &[&str], times: &[Nanos], [submit, wait, done]: [Nanos; 3]) -> Trace {
    const SUBMISSION: Option<u32> = Some(0);
    let busy = times.last().copied().unwrap_or_default();
    let room = done - submit - busy;
    // Two clocks may disagree by more than the room that there is; then the track begins with the submission.
    let zero = if room.0 < 0.0 { submit } else { done - busy };
    let span = |name: &str, track, start, end, correlation| Span { name: name.into(), track, start, end, correlation };
    let mut spans =
        vec![span("submit", Track::Host, submit, wait, SUBMISSION), span("wait", Track::Host, wait, done, None)];
    spans.extend(
        entries
            .iter()
            .zip(times.windows(2))
            .map(|(entry, mark)| span(entry, Track::Gpu, zero + mark[0], zero + mark[1], SUBMISSION)),
    );
    Trace { spans, alignment_error: Some(Nanos(room.0.abs())) }
}

/// A loaded binary.
struct Module {
    handle: sys::CUmodule,
    context: Arc<CudaContext>,
}

impl Module {
    fn load(context: &Arc<CudaContext>, cubin: &[u8]) -> Result<Module, BackendError> {
        // SAFETY: the compiler or its cache made the image; its header carries its length.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.doing(|| "loading a kernel".into())?;
        Ok(Module { handle, context: context.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: loaded by `load` and unloaded only here, after all its work was waited for.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

/// One kernel launch with its arguments in place.
struct Launch {
    entry: &'static str,
    function: sys::CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    /// Addresses of the buffers, which live as long as the case that owns this.
    pointers: Box<[sys::CUdeviceptr]>,
}

impl Launch {
    fn new(
        stage: &Stage,
        module: &Module,
        specs: &[BufferSpec],
        buffers: &[Option<Buffer>],
    ) -> Result<Launch, BackendError> {
        let entry = stage.entry;
        if stage.cuda.cluster > 1 {
            return Err(BackendError::Unsupported(format!(
                "{entry} asks for a cluster launch, which is not made here"
            )));
        }
        let name = CString::new(entry).map_err(|_| BackendError::Device(format!("{entry:?} is not a name")))?;
        // SAFETY: the module is loaded and outlives the function: the case owns both.
        let function = unsafe { result::module::get_function(module.handle, name) }
            .doing(|| format!("looking for the entry `{entry}`"))?;
        let dynamic = stage.cuda.dynamic_shared_bytes;
        if dynamic > 0 {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            unsafe { result::function::set_function_attribute(function, attribute, dynamic as i32) }
                .doing(|| format!("reserving {dynamic} bytes of shared memory for {entry}"))?;
        }
        let pointer = |name: &str| {
            let index = specs.iter().position(|spec| spec.name == name);
            let buffer = index.and_then(|index| buffers[index].as_ref());
            buffer.map(Buffer::pointer).ok_or_else(|| {
                BackendError::Device(format!("{entry} uses `{name}`, which is no buffer of the workload"))
            })
        };
        let pointers = stage.uses.iter().map(|(name, _)| pointer(name)).collect::<Result<_, _>>()?;
        Ok(Launch {
            entry,
            function,
            grid: stage.grid,
            block: stage.workgroup,
            dynamic_shared_bytes: dynamic,
            pointers,
        })
    }

    fn launch(&self, stream: &CudaStream) -> Result<(), BackendError> {
        // Launching copies the arguments, so the list of their addresses need not live longer than the call.
        let mut arguments: [*mut c_void; 16] = [std::ptr::null_mut(); 16];
        let used = arguments
            .get_mut(..self.pointers.len())
            .ok_or_else(|| BackendError::Unsupported(format!("{} takes more than 16 buffers", self.entry)))?;
        for (argument, pointer) in used.iter_mut().zip(&self.pointers) {
            *argument = std::ptr::from_ref(pointer).cast_mut().cast();
        }
        let three = |[x, y, z]: [u32; 3]| (x, y, z);
        // SAFETY: module and buffers are alive until the stream has been waited for; a test checks that the parameters
        // of every kernel are the stage's buffers.
        unsafe {
            result::launch_kernel(
                self.function,
                three(self.grid),
                three(self.block),
                self.dynamic_shared_bytes,
                stream.cu_stream(),
                used,
            )
        }
        .doing(|| format!("launching {}", self.entry))
    }
}

/// Inputs are made and copied in pieces, so that a large tensor needs no second copy of itself on the host.
const PIECE: u64 = 16 << 20;

fn upload(buffer: &Buffer, inputs: &Inputs, index: usize, elem_bytes: u64) -> Result<(), BackendError> {
    let mut piece = vec![0; PIECE.min(buffer.bytes()) as usize];
    let mut offset = 0;
    while offset < buffer.bytes() {
        let part = &mut piece[..PIECE.min(buffer.bytes() - offset) as usize];
        inputs.write(index, offset / elem_bytes, part);
        buffer.write(offset, part)?;
        offset += part.len() as u64;
    }
    Ok(())
}

fn event(context: &Arc<CudaContext>) -> Result<CudaEvent, BackendError> {
    context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).doing(|| "creating an event".into())
}

fn elapsed(begin: &CudaEvent, end: &CudaEvent) -> Result<Nanos, BackendError> {
    let milliseconds = begin.elapsed_ms(end).doing(|| "reading event times".into())?;
    Ok(Nanos(f64::from(milliseconds) * 1e6))
}

fn since(instant: Instant) -> Nanos {
    Nanos::from_secs(instant.elapsed().as_secs_f64())
}

/// What the documentation of `cuEventElapsedTime` promises.
const DOCUMENTED_STEP: Nanos = Nanos(500.0);

/// The step of event times, if they move at all. They arrive as f32 milliseconds: short spans, to whole nanoseconds.
fn event_step(context: &Arc<CudaContext>, stream: &CudaStream) -> Result<Option<Nanos>, cudarc::driver::DriverError> {
    let marks =
        (0..256).map(|_| context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))).collect::<Result<Vec<_>, _>>()?;
    for mark in &marks {
        mark.record(stream)?;
    }
    stream.synchronize()?;
    let times = marks
        .iter()
        .map(|mark| Ok((f64::from(marks[0].elapsed_ms(mark)?) * 1e6).round() as u64))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(common_step(times).map(|step| Nanos(step as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_track_ends_with_the_wait_and_states_the_room_before_it() {
        let host = [100.0, 130.0, 200.0].map(Nanos);
        let trace = lay_out(&["a", "b"], &[0.0, 30.0, 80.0].map(Nanos), host);
        let spans: Vec<_> = trace.spans.iter().map(|s| (s.name.as_str(), s.start.0, s.end.0, s.correlation)).collect();
        let want = [
            ("submit", 100.0, 130.0, Some(0)),
            ("wait", 130.0, 200.0, None),
            ("a", 120.0, 150.0, Some(0)),
            ("b", 150.0, 200.0, Some(0)),
        ];
        assert_eq!(spans, want);
        assert_eq!(trace.alignment_error, Some(Nanos(20.0)));
    }

    #[test]
    fn device_work_never_begins_before_its_submission() {
        let trace = lay_out(&["a"], &[0.0, 130.0].map(Nanos), [100.0, 110.0, 200.0].map(Nanos));
        assert_eq!(trace.spans[2].start, Nanos(100.0));
        assert_eq!(trace.alignment_error, Some(Nanos(30.0)));
    }
}
