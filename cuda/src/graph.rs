//! An execution as a CUDA graph: captured once, and launched as a whole.

use std::sync::Arc;

use cudarc::driver::sys;
use parallax_ir::device::BackendError;

use crate::driver::{
    CudaContext, CudaStream, cuGraphDestroy, cuGraphExecDestroy, cuGraphInstantiateWithFlags, cuGraphLaunch,
    cuGraphUpload, cuStreamBeginCapture_v2, cuStreamEndCapture,
};
use crate::errors::Context;

/// An executable graph.
pub(crate) struct Graph {
    handle: sys::CUgraphExec,
    context: Arc<CudaContext>,
}

/// A captured graph, before its instantiation.
struct Description(sys::CUgraph);

impl Drop for Description {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the capture returned it, and it is destroyed once; the executable graph does not need it.
            let _ = unsafe { cuGraphDestroy(self.0) };
        }
    }
}

impl Graph {
    /// Captures the work that `queue` puts on the stream as a graph. The capture includes streams joined to this one by events.
    /// None of the work runs. The context is current.
    ///
    /// # Errors
    /// The error of `queue`; [`BackendError::Unsupported`] for work that cannot be captured.
    pub(crate) fn capture(
        context: &Arc<CudaContext>,
        stream: &CudaStream,
        queue: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Graph, BackendError> {
        // Relaxed mode: a library on this thread may make calls that a capture otherwise forbids, such as loading its kernels.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive, and its capture is ended below in every case.
        unsafe { cuStreamBeginCapture_v2(stream.cu_stream(), mode) }.doing(|| "beginning a graph".into())?;
        let queued = queue();
        let mut described = Description(std::ptr::null_mut());
        // SAFETY: as above. A failed capture has no graph, and still releases the stream.
        let ended = unsafe { cuStreamEndCapture(stream.cu_stream(), &mut described.0) };
        // The first error has the cause; the invalid capture is its consequence.
        queued?;
        ended.doing(|| "ending a graph".into())?;
        if described.0.is_null() {
            return Err(BackendError::Unsupported("ending a graph: the driver gave none".to_owned()));
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the description is alive. The caller owns the graph's memory, as for any launch.
        unsafe { cuGraphInstantiateWithFlags(&mut handle, described.0, 0) }
            .doing(|| "making a graph launchable".into())?;
        let graph = Graph { handle, context: context.clone() };
        // The upload makes the first launch as cheap as any other.
        // SAFETY: graph and stream are alive.
        let uploaded = unsafe { cuGraphUpload(graph.handle, stream.cu_stream()) };
        // Wait also after a failed upload: no work may be in flight when the graph is dropped.
        stream.synchronize().and(uploaded).doing(|| "uploading a graph".into())?;
        Ok(graph)
    }

    /// Queues the whole graph on the stream. The context is current.
    pub(crate) fn launch(&self, stream: &CudaStream) -> Result<(), BackendError> {
        // SAFETY: graph and stream are alive; the case keeps the graph's memory until the stream was synchronised.
        unsafe { cuGraphLaunch(self.handle, stream.cu_stream()) }.doing(|| "launching a graph".into())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made by `capture` and destroyed only here, after all its work has completed.
            let _ = unsafe { cuGraphExecDestroy(self.handle) };
        }
    }
}
