//! The streams of a case, and their dependencies.

use std::sync::Arc;

use cudarc::driver::sys;
use parallax_ir::device::BackendError;
use parallax_ir::{QueueCommand, Queues};

use crate::driver::{CudaContext, CudaEvent, CudaStream, DriverError};
use crate::errors::Context;

/// A stream for each of a program's queues, the profiler's own first, and an event for each mark between them.
pub(crate) struct Streams {
    all: Vec<Arc<CudaStream>>,
    marks: Vec<CudaEvent>,
    queues: Queues,
}

impl Streams {
    /// Creates the streams and events of an execution.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] for invalid queues; a driver error.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        main: &Arc<CudaStream>,
        queues: Result<Queues, String>,
    ) -> Result<Streams, BackendError> {
        let queues = queues.map_err(BackendError::Unsupported)?;
        let more = (1..queues.queues).map(|_| context.new_stream());
        let all = std::iter::once(Ok(main.clone())).chain(more).collect::<Result<_, _>>();
        // Marks record no time, because timestamps have a cost.
        let mark = |_| context.new_event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let marks = (0..queues.marks).map(mark).collect::<Result<_, _>>();
        Ok(Streams {
            all: all.doing(|| "creating a stream".into())?,
            marks: marks.doing(|| "creating an event".into())?,
            queues,
        })
    }

    /// Number of streams.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Position of a stream. `None` for a single stream.
    pub(crate) fn position(&self, stream: sys::CUstream) -> Option<u32> {
        let at = self.all.iter().position(|known| known.cu_stream() == stream)?;
        u32::try_from(at).ok().filter(|_| self.all.len() > 1)
    }

    /// Commands of one execution, in the order in which the host issues them.
    pub(crate) fn orders(&self) -> &[QueueCommand] {
        &self.queues.orders
    }

    /// Stream of a stage, by its position.
    pub(crate) fn of_stage(&self, stage: usize) -> Option<&CudaStream> {
        self.queues.orders.iter().find_map(|order| match *order {
            QueueCommand::Run { queue, stage: found } if found == stage => Some(&*self.all[queue]),
            _ => None,
        })
    }

    /// Queues one execution on the streams. `run` queues a stage, by its position, on the given stream.
    ///
    /// The first stream brackets the rest: the others wait for its earlier work, and it waits for them at the end.
    pub(crate) fn queue(
        &self,
        run: impl FnMut(usize, &CudaStream) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        self.obey(&self.queues.orders, run)
    }

    /// Issues some commands of an execution, which follow those before them. `run` is as for [`Streams::queue`].
    pub(crate) fn obey(
        &self,
        orders: &[QueueCommand],
        mut run: impl FnMut(usize, &CudaStream) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        orders.iter().try_for_each(|order| match *order {
            QueueCommand::Run { queue, stage } => run(stage, &self.all[queue]),
            QueueCommand::Mark { queue, mark } => {
                self.marks[mark].record(&self.all[queue]).doing(|| "marking a place on a stream".into())
            }
            QueueCommand::Wait { queue, mark } => {
                self.all[queue].wait(&self.marks[mark]).doing(|| "letting a stream wait for another".into())
            }
        })
    }

    /// Waits for all work on every stream, also after an error on one of them.
    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        self.all.iter().map(|stream| stream.synchronize()).fold(Ok(()), Result::and)
    }
}
