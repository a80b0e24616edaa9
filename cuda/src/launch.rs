//! Kernels that are loaded, and launches with their arguments in place.

use std::ffi::{CString, c_void};
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream, result, sys};
use parallax_core::device::{BackendError, Launch};
use parallax_core::suite::Stage;
use parallax_core::units::Bytes;

use crate::cublaslt::Gemm;
use crate::errors::Context;
use crate::occupancy::{Multiprocessors, occupancy};

/// A loaded binary.
pub(crate) struct Module {
    handle: sys::CUmodule,
    context: Arc<CudaContext>,
}

impl Module {
    /// Load it into the context.
    pub(crate) fn load(context: &Arc<CudaContext>, cubin: &[u8]) -> Result<Module, BackendError> {
        // SAFETY: the compiler or its cache made the image; its header carries its length.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.doing(|| "loading a kernel".into())?;
        Ok(Module { handle, context: context.clone() })
    }

    /// The kernel of a stage, allowed as much shared memory as the stage asks for.
    pub(crate) fn function(&self, stage: &Stage) -> Result<sys::CUfunction, BackendError> {
        let entry = stage.entry;
        if stage.cuda.cluster > 1 {
            return Err(BackendError::Unsupported(format!(
                "{entry} asks for a cluster launch, which is not made here"
            )));
        }
        let name = CString::new(entry).map_err(|_| BackendError::Device(format!("{entry:?} is not a name")))?;
        // SAFETY: the module is loaded and outlives the function: the case owns both.
        let function = unsafe { result::module::get_function(self.handle, name) }
            .doing(|| format!("looking for the entry `{entry}`"))?;
        let dynamic = stage.cuda.dynamic_shared_bytes;
        if dynamic > 0 {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            unsafe { result::function::set_function_attribute(function, attribute, dynamic as i32) }
                .doing(|| format!("reserving {dynamic} bytes of shared memory for {entry}"))?;
        }
        Ok(function)
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

/// What a stage is on this device, the same for every set of buffers.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel of our own.
    Kernel(sys::CUfunction),
    /// A product by the library, with the address of its workspace.
    Gemm(Rc<Gemm>, sys::CUdeviceptr),
}

/// One launch with its arguments in place.
pub(crate) struct Step {
    pub(crate) entry: &'static str,
    work: Work,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    /// Addresses of the buffers, which live as long as the case that owns this.
    pointers: Box<[sys::CUdeviceptr]>,
}

impl Step {
    /// A stage on buffers at the given addresses, in the order of its uses.
    pub(crate) fn new(stage: &Stage, work: Work, pointers: Box<[sys::CUdeviceptr]>) -> Result<Step, BackendError> {
        let fits = match work {
            Work::Kernel(_) => pointers.len() <= MOST_BUFFERS,
            Work::Gemm(..) => pointers.len() == 3,
        };
        if !fits {
            let (entry, count) = (stage.entry, pointers.len());
            return Err(BackendError::Unsupported(format!("{entry} cannot be given {count} buffers")));
        }
        Ok(Step {
            entry: stage.entry,
            work,
            grid: stage.grid,
            block: stage.workgroup,
            dynamic_shared_bytes: stage.cuda.dynamic_shared_bytes,
            pointers,
        })
    }

    /// The call that launches it.
    pub(crate) fn call(&self) -> &'static str {
        match self.work {
            Work::Kernel(_) => "cuLaunchKernel",
            Work::Gemm(..) => "cublasLtMatmul",
        }
    }

    /// Queue it on the stream. The context is current.
    pub(crate) fn launch(&self, stream: &CudaStream) -> Result<(), BackendError> {
        match &self.work {
            Work::Kernel(function) => self.launch_kernel(*function, stream),
            Work::Gemm(gemm, workspace) => {
                let [a, b, c] = self.pointers[..] else { unreachable!("counted when it was made") };
                // SAFETY: the case owns plan, buffers and workspace, and waits for the stream before it drops them; the
                // workload vouches that the buffers hold the matrices.
                unsafe { gemm.launch([a, b, c], *workspace, stream.cu_stream()) }
            }
        }
    }

    fn launch_kernel(&self, function: sys::CUfunction, stream: &CudaStream) -> Result<(), BackendError> {
        // Launching copies the arguments, so the list of their addresses need not live longer than the call.
        let mut arguments: [*mut c_void; MOST_BUFFERS] = [std::ptr::null_mut(); MOST_BUFFERS];
        let used = &mut arguments[..self.pointers.len()];
        for (argument, pointer) in used.iter_mut().zip(&self.pointers) {
            *argument = std::ptr::from_ref(pointer).cast_mut().cast();
        }
        let three = |[x, y, z]: [u32; 3]| (x, y, z);
        // SAFETY: module and buffers are alive until the stream has been waited for; a test checks that the parameters
        // of every kernel are the stage's buffers.
        unsafe {
            result::launch_kernel(
                function,
                three(self.grid),
                three(self.block),
                self.dynamic_shared_bytes,
                stream.cu_stream(),
                used,
            )
        }
        .doing(|| format!("launching {}", self.entry))
    }

    /// What is launched, and what the driver tells about it. The context is current.
    pub(crate) fn describe(&self, device: Multiprocessors) -> Launch {
        let launch = Launch { entry: self.entry.to_owned(), grid: self.grid, block: self.block, ..Launch::default() };
        // The library keeps its kernels to itself.
        let Work::Kernel(function) = self.work else { return launch };
        let ask = |attribute| {
            // SAFETY: the function is alive as long as the case.
            let value = unsafe { result::function::get_function_attribute(function, attribute) }.ok()?;
            u32::try_from(value).ok()
        };
        let fixed = ask(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).unwrap_or(0);
        let threads = self.block.iter().product::<u32>();
        let grid = self.grid.iter().map(|extent| u64::from(*extent)).product();
        Launch {
            registers: ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
            shared: Bytes(u64::from(fixed) + u64::from(self.dynamic_shared_bytes)),
            spilled: ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES).map(|bytes| Bytes(bytes.into())),
            occupancy: resident(function, threads, self.dynamic_shared_bytes)
                .and_then(|resident| occupancy(grid, threads, resident, device)),
            ..launch
        }
    }
}

/// Parameters of one kernel, at most.
const MOST_BUFFERS: usize = 16;

/// Blocks that fit on one multiprocessor at a time.
fn resident(function: sys::CUfunction, threads: u32, dynamic_shared_bytes: u32) -> Option<u32> {
    let mut blocks = 0;
    // SAFETY: the function is alive as long as the case, and the argument outlives the call.
    let code = unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function,
            threads as i32,
            dynamic_shared_bytes as usize,
        )
    };
    code.result().ok()?;
    u32::try_from(blocks).ok()
}
