//! Loaded kernels, and launches with bound arguments.

use std::borrow::Cow;
use std::ffi::{CString, c_void};
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;
use parallax_ir::device::BackendError;
use parallax_ir::{CopyRange, CudaLaunch, Kernel, Place, Stage};
use parallax_schema::device::{Launch, SpanKind};
use parallax_schema::units::Bytes;

use crate::cublaslt::PlannedGemm;
use crate::driver::{
    CudaContext, CudaStream, DriverError, cuFuncGetAttribute, cuFuncSetAttribute, cuLaunchKernel, cuMemAllocAsync,
    cuMemFreeAsync, cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuMemsetD16Async,
    cuMemsetD32Async, cuModuleGetFunction, cuModuleLoadData, cuModuleUnload,
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
};
use crate::errors::Context;
use crate::function::Function;
use crate::occupancy::{Multiprocessors, occupancy};
use crate::{cluster, cudnn, cufft, nvtx};

/// A loaded binary.
pub(crate) struct Module {
    handle: sys::CUmodule,
    context: Arc<CudaContext>,
}

impl Module {
    /// Loads a binary into the context.
    pub(crate) fn load(context: &Arc<CudaContext>, cubin: &[u8]) -> Result<Module, BackendError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image is whole: the compiler made it, and the cache returns the stored bytes. Its header carries its length.
        unsafe { cuModuleLoadData(&mut handle, cubin.as_ptr().cast()) }.doing(|| "loading a kernel".into())?;
        Ok(Module { handle, context: context.clone() })
    }

    /// Returns a kernel of the binary, and raises its limit of dynamic shared memory to the requested size.
    pub(crate) fn function(&self, kernel: &Kernel) -> Result<Function, BackendError> {
        let entry = kernel.entry;
        let name = CString::new(entry).map_err(|_| BackendError::Device(format!("{entry:?} is not a name")))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the module is loaded and outlives the function: the case owns both.
        unsafe { cuModuleGetFunction(&mut handle, self.handle, name.as_ptr()) }
            .doing(|| format!("looking for the entry `{entry}`"))?;
        let (grid, block) = (kernel.grid, kernel.workgroup);
        let CudaLaunch { cluster, dynamic_shared_bytes } = kernel.cuda;
        if dynamic_shared_bytes > 0 {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            unsafe { cuFuncSetAttribute(handle, attribute, dynamic_shared_bytes as i32) }
                .doing(|| format!("reserving {dynamic_shared_bytes} bytes of shared memory for {entry}"))?;
        }
        Ok(Function { handle, grid, block, cluster, dynamic_shared_bytes })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: loaded by `load` and unloaded only here, after all its work was waited for.
            let _ = unsafe { cuModuleUnload(self.handle) };
        }
    }
}

/// Operation of a stage on this device. It is the same for every set of buffers.
#[derive(Clone)]
pub(crate) enum Ready {
    /// A kernel of this suite.
    Kernel(Rc<Function>),
    /// A GEMM of the library, with the address of its workspace.
    Gemm(Rc<PlannedGemm>, sys::CUdeviceptr),
    /// A convolution or attention of the library, with a workspace of its own.
    Graph(Rc<cudnn::Planned>),
    /// Fourier transforms of the library, with a workspace of their own.
    Fourier(Rc<cufft::PlannedFourier>),
    /// A fill with a 32-bit word, of the whole buffer or of a range: offset and length.
    Fill(u32, Option<[Bytes; 2]>),
    /// A copy of the whole buffer or of a range.
    Copy(Option<CopyRange>),
    /// A copy of the whole buffer through memory that is allocated for it.
    CopyThrough,
    /// An exchange, which a group queues on all its devices together.
    Exchange,
}

/// A memory range. It lives as long as the case that owns the launch.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) pointer: sys::CUdeviceptr,
    pub(crate) bytes: u64,
    pub(crate) place: Place,
}

impl Range {
    /// Returns a part of the range. `None` beyond its end.
    fn part(self, from: Bytes, bytes: Bytes) -> Option<Range> {
        let end = from.0.checked_add(bytes.0)?;
        (end <= self.bytes).then_some(Range { pointer: self.pointer + from.0, bytes: bytes.0, ..self })
    }

    /// Host address of a range in host memory.
    fn host(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.pointer as usize)
    }
}

/// A bound argument.
pub(crate) struct Given {
    pub(crate) range: Range,
    /// Tensor map that replaces the address, where the stage requests one.
    pub(crate) map: Option<Box<sys::CUtensorMap>>,
}

impl Given {
    /// Address that the launch copies the parameter from.
    fn parameter(&self) -> *mut c_void {
        match &self.map {
            Some(map) => std::ptr::from_ref::<sys::CUtensorMap>(map).cast_mut().cast(),
            None => std::ptr::from_ref(&self.range.pointer).cast_mut().cast(),
        }
    }
}

/// A stage with bound arguments.
pub(crate) struct BoundStage {
    pub(crate) label: Cow<'static, str>,
    entry: &'static str,
    work: Ready,
    /// The arguments, in order.
    given: Box<[Given]>,
}

impl BoundStage {
    /// Binds a stage to memory ranges, in the order of its arguments.
    pub(crate) fn new(stage: &Stage, work: Ready, given: Box<[Given]>) -> Result<BoundStage, BackendError> {
        let (count, host) = (given.len(), |one: &Given| one.range.place.is_host());
        let fits = match work {
            // The device accesses pinned memory like its own.
            Ready::Kernel(_) => count <= MOST_BUFFERS && given.iter().all(|one| one.range.place != Place::HostPageable),
            Ready::Gemm(ref gemm, _) => count == gemm.buffers() && !given.iter().any(host),
            Ready::Graph(ref planned) => count == planned.buffers() && !given.iter().any(host),
            Ready::Fourier(_) => count == 2 && !given.iter().any(host),
            Ready::Fill(_, part) => count == 1 && !given.iter().any(host) && filled(&given, part).is_some(),
            Ready::Copy(part) => count == 2 && !given.iter().all(host) && ends(&given, part).is_some(),
            Ready::CopyThrough => count == 2 && !given.iter().all(host) && ends(&given, None).is_some(),
            Ready::Exchange => count.is_multiple_of(2) && !given.iter().any(host),
        };
        if !fits {
            let label = &stage.label;
            return Err(BackendError::Unsupported(format!("{label} cannot be given these {count} buffers")));
        }
        Ok(BoundStage { label: stage.label.clone(), entry: stage.entry(), work, given })
    }

    /// Driver or library call that launches the stage.
    pub(crate) fn call(&self) -> &'static str {
        match &self.work {
            Ready::Kernel(function) if function.in_clusters() => "cuLaunchKernelEx",
            Ready::Kernel(_) => "cuLaunchKernel",
            Ready::Gemm(..) => "cublasLtMatmul",
            Ready::Graph(_) => "cudnnBackendExecute",
            Ready::Fourier(planned) => planned.call(),
            Ready::Fill(..) => "cuMemsetD32Async",
            Ready::Copy(_) => match [0, 1].map(|end| self.given[end].range.place.is_host()) {
                [true, _] => "cuMemcpyHtoDAsync",
                [_, true] => "cuMemcpyDtoHAsync",
                _ => "cuMemcpyDtoDAsync",
            },
            Ready::CopyThrough => "cuMemAllocAsync",
            Ready::Exchange => "ncclGroupEnd",
        }
    }

    /// Kernel name that the driver reports. `None` for stages without a kernel of this suite.
    pub(crate) fn symbol(&self) -> Option<&'static str> {
        matches!(self.work, Ready::Kernel(_)).then_some(self.entry)
    }

    /// Kind of the stage's span on the device. For fills and copies also the bytes that they move.
    pub(crate) fn kind(&self) -> (SpanKind, Option<Bytes>) {
        match self.work {
            Ready::Kernel(_) | Ready::Gemm(..) | Ready::Graph(_) | Ready::Fourier(_) | Ready::Exchange => {
                (SpanKind::Kernel, None)
            }
            Ready::Fill(_, part) => {
                (SpanKind::Memset, Some(part.map_or(Bytes(self.given[0].range.bytes), |[_, bytes]| bytes)))
            }
            Ready::Copy(part) => {
                (SpanKind::Memcpy, Some(part.map_or(Bytes(self.given[0].range.bytes), |part| part.bytes)))
            }
            Ready::CopyThrough => (SpanKind::Memcpy, Some(Bytes(self.given[0].range.bytes))),
        }
    }

    /// Queues the stage on the stream. The context is current.
    pub(crate) fn launch(&self, stream: &CudaStream) -> Result<(), BackendError> {
        let _range = nvtx::range(&self.label);
        let doing = || format!("launching {}", self.label);
        match (&self.work, &self.given[..]) {
            (Ready::Kernel(function), _) => self.launch_kernel(function, stream),
            (Ready::Gemm(gemm, workspace), [a, b, c, others @ ..]) => {
                let others = others.iter().map(|one| one.range.pointer);
                // SAFETY: the case owns plan, buffers and workspace, and waits for the stream before it drops them. The workload
                // guarantees that the buffers hold the matrices.
                unsafe { gemm.launch([a, b, c].map(|one| one.range.pointer), others, *workspace, stream.cu_stream()) }
            }
            (Ready::Graph(planned), given) => {
                let mut arguments = [0; MOST_BUFFERS];
                for (argument, given) in arguments.iter_mut().zip(given) {
                    *argument = given.range.pointer;
                }
                // SAFETY: as for GEMMs; the plan has its workspace.
                unsafe { planned.launch(&arguments[..given.len()], stream.cu_stream()) }
            }
            (Ready::Fourier(planned), [x, out]) => {
                // SAFETY: as for GEMMs; the plan has its workspace.
                unsafe { planned.launch([x, out].map(|one| one.range.pointer), stream.cu_stream()) }
            }
            (Ready::Fill(word, part), given) => {
                let to = filled(given, *part).expect("looked at when it was made");
                fill(to, *word, stream).doing(doing)
            }
            (Ready::Copy(part), given) => {
                let [from, to] = ends(given, *part).expect("looked at when it was made");
                copy(from, to, stream).doing(doing)
            }
            (Ready::CopyThrough, [from, to]) => copy_through(from.range, to.range, stream).doing(doing),
            (Ready::Exchange, _) => Err(alone(&self.label)),
            _ => unreachable!("counted when it was made"),
        }
    }

    fn launch_kernel(&self, function: &Function, stream: &CudaStream) -> Result<(), BackendError> {
        // The launch copies the arguments. The array of their addresses need not live longer than the call.
        let mut arguments: [*mut c_void; MOST_BUFFERS] = [std::ptr::null_mut(); MOST_BUFFERS];
        let used = &mut arguments[..self.given.len()];
        for (argument, given) in used.iter_mut().zip(&self.given) {
            *argument = given.parameter();
        }
        let doing = || format!("launching {}", self.label);
        if function.in_clusters() {
            // SAFETY: as below.
            return unsafe { cluster::launch(function, stream, used) }.doing(doing);
        }
        let ([gx, gy, gz], [bx, by, bz]) = (function.grid, function.block);
        // SAFETY: module and buffers are alive until the stream has been synchronised. A test checks that the parameters of every
        // kernel are the stage's arguments.
        unsafe {
            cuLaunchKernel(
                function.handle,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                function.dynamic_shared_bytes,
                stream.cu_stream(),
                used.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .doing(doing)
    }

    /// Describes the launch with the attributes that the driver reports. The context is current.
    pub(crate) fn describe(&self, device: Multiprocessors) -> Launch {
        let launch = Launch {
            label: self.label.to_string(),
            entry: self.entry.to_owned(),
            grid: [1; 3],
            block: [1; 3],
            ..Launch::default()
        };
        // The library does not expose its kernels; fills and copies have none.
        let Ready::Kernel(kernel) = &self.work else { return launch };
        let function = kernel.handle;
        let ask = |attribute| {
            let mut value = 0;
            // SAFETY: the function is alive as long as the case.
            unsafe { cuFuncGetAttribute(&mut value, attribute, function) }.ok()?;
            u32::try_from(value).ok()
        };
        let fixed = ask(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).unwrap_or(0);
        let threads = kernel.block.iter().product::<u32>();
        let grid = kernel.grid.iter().map(|extent| u64::from(*extent)).product();
        Launch {
            grid: kernel.grid,
            block: kernel.block,
            registers: ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
            shared: Bytes(u64::from(fixed) + u64::from(kernel.dynamic_shared_bytes)),
            spilled: ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES).map(|bytes| Bytes(bytes.into())),
            occupancy: resident(kernel, device).and_then(|wave| occupancy(grid, threads, wave, device)),
            ..launch
        }
    }
}

/// Returns the error of an exchange on one device.
pub(crate) fn alone(label: &str) -> BackendError {
    BackendError::Unsupported(format!("{label} needs several devices"))
}

/// Returns the destination of a fill: the whole argument, or a range. `None` for a wrong argument count or a range out of bounds.
fn filled(given: &[Given], part: Option<[Bytes; 2]>) -> Option<Range> {
    let [to] = given else { return None };
    part.map_or(Some(to.range), |[from, bytes]| to.range.part(from, bytes))
}

/// Returns source and destination of a copy, of equal length: both arguments, or a range of each. `None` for a wrong argument
/// count, unequal sizes or a range out of bounds.
fn ends(given: &[Given], part: Option<CopyRange>) -> Option<[Range; 2]> {
    let [from, to] = given else { return None };
    match part {
        None => (from.range.bytes == to.range.bytes).then_some([from.range, to.range]),
        Some(part) => Some([from.range.part(part.from, part.bytes)?, to.range.part(part.to, part.bytes)?]),
    }
}

/// Copies a range to another of the same length, in stream order. At most one of them is in host memory.
fn copy(from: Range, to: Range, stream: &CudaStream) -> Result<(), DriverError> {
    let (bytes, stream) = (from.bytes as usize, stream.cu_stream());
    // SAFETY: both ranges are alive until the stream has been synchronised, and have the same length.
    unsafe {
        match (from.place.is_host(), to.place.is_host()) {
            (true, _) => cuMemcpyHtoDAsync_v2(to.pointer, from.host().cast_const(), bytes, stream),
            (_, true) => cuMemcpyDtoHAsync_v2(to.host(), from.pointer, bytes, stream),
            _ => cuMemcpyDtoDAsync_v2(to.pointer, from.pointer, bytes, stream),
        }
    }
}

/// Copies through memory of the device's default pool. The stream allocates it before the copy and frees it after.
fn copy_through(from: Range, to: Range, stream: &CudaStream) -> Result<(), DriverError> {
    let mut pointer = 0;
    // SAFETY: the stream is alive, and all uses of the memory are on it.
    unsafe { cuMemAllocAsync(&mut pointer, from.bytes as usize, stream.cu_stream()) }?;
    let room = Range { pointer, bytes: from.bytes, place: Place::Device };
    let copied = copy(from, room, stream).and_then(|()| copy(room, to, stream));
    // SAFETY: allocated above on the same stream, and freed once, after its uses.
    let freed = unsafe { cuMemFreeAsync(pointer, stream.cu_stream()) };
    copied.and(freed)
}

/// Fills a range with a 32-bit word, in stream order. A range that ends within a word receives the word's lower half.
fn fill(to: Range, word: u32, stream: &CudaStream) -> Result<(), DriverError> {
    let (whole, rest) = (to.bytes / 4, to.bytes % 4);
    // SAFETY: the range is alive until the stream has been synchronised.
    unsafe {
        cuMemsetD32Async(to.pointer, word, whole as usize, stream.cu_stream())?;
        if rest > 0 {
            cuMemsetD16Async(to.pointer + 4 * whole, word as u16, rest as usize / 2, stream.cu_stream())?;
        }
    }
    Ok(())
}

/// Maximum number of parameters of a kernel.
const MOST_BUFFERS: usize = 16;

/// Number of blocks resident on the device at once.
fn resident(function: &Function, device: Multiprocessors) -> Option<u64> {
    if function.in_clusters() {
        return cluster::resident(function);
    }
    let threads = function.block.iter().product::<u32>();
    let mut blocks = 0;
    // SAFETY: the function is alive as long as the case, and the argument outlives the call.
    let asked = unsafe {
        cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function.handle,
            threads as i32,
            function.dynamic_shared_bytes as usize,
        )
    };
    asked.ok()?;
    Some(u64::try_from(blocks).ok()? * u64::from(device.count))
}
