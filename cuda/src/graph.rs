//! A whole execution as a CUDA graph: captured once, launched as one.

use std::sync::Arc;

use cudarc::driver::sys;
use parallax_core::device::BackendError;

use crate::driver::{
    CudaContext, CudaStream, cuGraphDestroy, cuGraphExecDestroy, cuGraphInstantiateWithFlags, cuGraphLaunch,
    cuGraphUpload, cuStreamBeginCapture_v2, cuStreamEndCapture,
};
use crate::errors::Context;

/// A graph that can be launched.
pub(crate) struct Graph {
    handle: sys::CUgraphExec,
    context: Arc<CudaContext>,
}

/// A graph that is only described, until it is made launchable.
struct Description(sys::CUgraph);

impl Drop for Description {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the capture handed it over, and it is destroyed once; what was made of it does not need it.
            let _ = unsafe { cuGraphDestroy(self.0) };
        }
    }
}

impl Graph {
    /// What `queue` puts on the stream, and on streams that it makes wait for this one and this one for, as a graph.
    /// Nothing of it runs. The context is current.
    ///
    /// # Errors
    /// What `queue` gives; [`BackendError::Unsupported`] when something in it cannot be captured.
    pub(crate) fn capture(
        context: &Arc<CudaContext>,
        stream: &CudaStream,
        queue: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Graph, BackendError> {
        // Relaxed: a library may do on this thread what capturing would otherwise forbid, as loading its kernels.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive, and its capture is ended below, whatever happens in between.
        unsafe { cuStreamBeginCapture_v2(stream.cu_stream(), mode) }.doing(|| "beginning a graph".into())?;
        let queued = queue();
        let mut described = Description(std::ptr::null_mut());
        // SAFETY: as above. A capture that went wrong has no graph, and the stream is free again all the same.
        let ended = unsafe { cuStreamEndCapture(stream.cu_stream(), &mut described.0) };
        // The first error says why; that the capture is no good any more only follows from it.
        queued?;
        ended.doing(|| "ending a graph".into())?;
        if described.0.is_null() {
            return Err(BackendError::Unsupported("ending a graph: the driver gave none".to_owned()));
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the description is alive. What the graph refers to is the caller's, as for any launch.
        unsafe { cuGraphInstantiateWithFlags(&mut handle, described.0, 0) }
            .doing(|| "making a graph launchable".into())?;
        let graph = Graph { handle, context: context.clone() };
        // So that the first launch costs no more than any other.
        // SAFETY: graph and stream are alive.
        let uploaded = unsafe { cuGraphUpload(graph.handle, stream.cu_stream()) };
        // Wait also after an upload that failed: nothing may be in flight when the graph is dropped.
        stream.synchronize().and(uploaded).doing(|| "uploading a graph".into())?;
        Ok(graph)
    }

    /// Queue all of it on the stream. The context is current.
    pub(crate) fn launch(&self, stream: &CudaStream) -> Result<(), BackendError> {
        // SAFETY: graph and stream are alive; the case keeps what the graph refers to until the stream was waited for.
        unsafe { cuGraphLaunch(self.handle, stream.cu_stream()) }.doing(|| "launching a graph".into())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made by `capture` and destroyed only here, after all its work was waited for.
            let _ = unsafe { cuGraphExecDestroy(self.handle) };
        }
    }
}
