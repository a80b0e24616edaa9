//! The profiler: a device, one stream, and the clock of its events.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use cudarc::driver::sys::CUevent_flags;
use parallax_ir::device::{BackendError, Coming, Prepared, Profiler, Transfer};
use parallax_ir::{Case, Inputs, KernelSources, Program};
use parallax_schema::case::Tuning;
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::units::Nanos;

use crate::arithmetic::Arithmetic;
use crate::compile::{Binary, DeviceCompiler, compile_cached, default_cache};
use crate::cublaslt::CublasLt;
use crate::cudnn::Cudnn;
use crate::device::{Device, Unavailable, failed};
use crate::driver::{CudaEvent, CudaStream, driver};
use crate::errors::Context;
use crate::events::{since, test_clock};
use crate::nvrtc::Nvrtc;
use crate::source::{KernelSource, embedded};
use crate::transfer::transfer;

/// Options of an open device.
#[derive(Debug, Clone)]
pub struct CudaOptions {
    /// Number of the device, in the driver's order.
    pub ordinal: usize,
    /// Folder of compiled kernels; `None` compiles all kernels anew.
    pub cache: Option<PathBuf>,
    /// Kernel sources.
    pub texts: KernelSources,
    /// Arithmetic of kernels that are compiled for the device.
    pub arithmetic: Arithmetic,
}

impl Default for CudaOptions {
    /// The first device, the user's cache folder, the embedded kernel sources, and precise arithmetic.
    fn default() -> Self {
        CudaOptions { ordinal: 0, cache: default_cache(), texts: embedded(), arithmetic: Arithmetic::default() }
    }
}

/// An open CUDA device.
pub struct Cuda {
    pub(crate) device: Device,
    pub(crate) stream: Arc<CudaStream>,
    clock: ClockInfo,
    pub(crate) opened: Instant,
    pub(crate) options: CudaOptions,
    /// Free device memory before the first preparation, in bytes.
    pub(crate) free_before: u64,
    pub(crate) products: CublasLt,
    pub(crate) graphs: Cudnn,
    /// Binaries by their kernel source, until their case is prepared.
    pub(crate) ahead: HashMap<String, Binary>,
    /// Kernel sources that were compiled ahead so far.
    pub(crate) compiled: HashSet<String>,
    /// Event that is the only content of an empty submission.
    mark: CudaEvent,
}

impl Cuda {
    pub(crate) fn open(options: CudaOptions) -> Result<Cuda, Unavailable> {
        let opened = Instant::now();
        let mut device = Device::open(options.ordinal)?;
        device.info.caps.cube = options.texts.translator().is_some();
        let context = &device.context;
        let stream = context.new_stream().map_err(failed("creating a stream"))?;
        let clock = test_clock(context, &stream).map_err(failed("testing the clock of events"))?;
        let (free_before, _) = context.mem_get_info().map_err(failed("asking for free memory"))?;
        let mark = context.new_event(CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed("creating an event"))?;
        Ok(Cuda {
            device,
            stream,
            clock,
            opened,
            options,
            free_before,
            products: CublasLt::default(),
            graphs: Cudnn::default(),
            ahead: HashMap::new(),
            compiled: HashSet::new(),
            mark,
        })
    }
}

impl Cuda {
    /// Compiler of the device.
    pub fn compiler(&self) -> &'static Nvrtc {
        self.device.compiler
    }

    /// Returns the compiler with the options of the device.
    pub(crate) fn device_compiler(&self) -> DeviceCompiler {
        let (nvrtc, arch) = (self.device.compiler, self.device.arch);
        DeviceCompiler { nvrtc, arch, arithmetic: self.options.arithmetic }
    }

    /// Checks that an empty kernel compiles for the device.
    ///
    /// # Errors
    /// The compiler's error.
    pub fn compiles(&self) -> Result<(), BackendError> {
        let source = "extern \"C\" __global__ void nothing() {}\n".to_owned();
        let text = KernelSource { file: "nothing.cu".to_owned(), source, made: Vec::new() };
        compile_cached(&text, self.device_compiler(), None).map(drop)
    }

    /// Missing driver calls that are necessary for some cases only. Those cases are skipped.
    pub fn lacks(&self) -> Vec<&'static str> {
        driver().map(|driver| driver.lacks_for_cases()).unwrap_or_default()
    }

    /// Prepares a program of the caller on the case's buffers, like [`Profiler::prepare`]. It serves kernels outside of any
    /// variant, such as those of tests.
    ///
    /// # Errors
    /// As for a case. Unlike a plan, it does not check the device's limits.
    pub fn prepare_with(
        &mut self,
        case: &Case,
        program: &Program,
        inputs: &Inputs,
        sets: u32,
    ) -> Result<Box<dyn Prepared>, BackendError> {
        Ok(Box::new(self.prepare_program(case, (program, 0), inputs, sets)?))
    }
}

#[async_trait(?Send)]
impl Profiler for Cuda {
    fn device(&self) -> &DeviceInfo {
        &self.device.info
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.device.info.caps.tuning = tuning;
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    async fn yield_now(&self) {}

    /// Times an empty submission. The host knows that an idle stream is done without a query of the device. An event requires a
    /// response of the device, and no computation.
    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        let began = Instant::now();
        self.mark.record(&self.stream).doing(|| "recording an event".into())?;
        self.stream.synchronize().doing(|| "waiting for nothing".into())?;
        Ok(since(began))
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        transfer(&self.device.context, &self.stream, way, bytes).map(Some)
    }

    /// Compiles all kernels at once: the slowest takes longer than most of the others together.
    async fn prefetch(&mut self, coming: &Coming<'_>) {
        self.compile_ahead(coming.next.iter().chain(coming.later));
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        Ok(Box::new(self.prepare_case(case, inputs, sets)?))
    }
}
