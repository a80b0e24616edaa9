//! One GPU of a group.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use parallax_ir::device::BackendError;

use crate::driver::{CudaContext, CudaEvent, CudaStream, DriverError};
use crate::errors::Context;
use crate::events::event;

/// A GPU with its own context and stream.
#[derive(Clone)]
pub(super) struct Rank {
    /// Number of the device, in the driver's order.
    pub(super) ordinal: usize,
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    /// Free device memory before the first preparation, in bytes.
    pub(super) free_before: u64,
}

impl Rank {
    /// Opens the device with this number.
    pub(super) fn open(ordinal: usize) -> Result<Rank, DriverError> {
        let context = CudaContext::new(ordinal)?;
        let stream = context.new_stream()?;
        let (free_before, _) = context.mem_get_info()?;
        Ok(Rank { ordinal, context, stream, free_before })
    }

    /// Makes the device current on this thread.
    pub(super) fn bind(&self) -> Result<(), BackendError> {
        self.context.bind_to_thread().doing(|| format!("binding device {} to this thread", self.ordinal))
    }

    /// Records an event on the stream.
    pub(super) fn record(&self, event: &CudaEvent) -> Result<(), BackendError> {
        event.record(&self.stream).doing(|| format!("recording an event on device {}", self.ordinal))
    }
}

/// Events of a rank: the clock of its samples, and a mark for the others.
pub(super) struct Marks {
    pub(super) begin: CudaEvent,
    pub(super) end: CudaEvent,
    reached: CudaEvent,
}

impl Marks {
    /// Creates the events of a rank.
    pub(super) fn new(rank: &Rank) -> Result<Marks, BackendError> {
        let (begin, end) = (event(&rank.context)?, event(&rank.context)?);
        let reached = rank.context.new_event(CUevent_flags::CU_EVENT_DISABLE_TIMING);
        Ok(Marks { begin, end, reached: reached.doing(|| "creating an event".into())? })
    }
}

/// Makes every stream wait until all others have reached this point.
pub(super) fn align(ranks: &[Rank], marks: &[Marks]) -> Result<(), BackendError> {
    ranks.iter().zip(marks).try_for_each(|(rank, marks)| rank.record(&marks.reached))?;
    for (at, rank) in ranks.iter().enumerate() {
        for (_, other) in marks.iter().enumerate().filter(|(other, _)| *other != at) {
            rank.stream.wait(&other.reached).doing(|| "letting a GPU wait for another".into())?;
        }
    }
    Ok(())
}
