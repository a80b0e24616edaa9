//! The GPU of this process, and its part of the cases of a group.

use std::collections::BTreeMap;
use std::rc::Rc;

use parallax_ir::device::BackendError;
use parallax_ir::{BufferSpec, Case, Inputs};
use parallax_schema::device::Caps;
use parallax_schema::units::Nanos;

use crate::group::prepare::unsupported;
use crate::group::program::PreparedProgram;
use crate::nccl::{Communicators, Id};
use crate::profiler::Cuda;

/// A rank: one GPU, and its communicators.
pub(super) struct Rank {
    pub(super) number: u64,
    pub(super) device: Cuda,
    /// Communicators of the first ranks, by their number. They end before the device.
    communicators: BTreeMap<u64, Rc<Communicators>>,
}

impl Rank {
    pub(super) fn new(number: u64, device: Cuda) -> Rank {
        Rank { number, device, communicators: BTreeMap::new() }
    }

    pub(super) fn is_connected(&self, ranks: u64) -> bool {
        self.communicators.contains_key(&ranks)
    }

    /// Connects this rank as one of the first `ranks`. It returns when all of them do.
    ///
    /// # Errors
    /// A missing library, or an error of the library.
    pub(super) fn connect(&mut self, id: Id, ranks: u64) -> Result<(), BackendError> {
        let made = Communicators::join(id, [self.number, ranks], &self.device.device.context)?;
        self.communicators.insert(ranks, Rc::new(made));
        Ok(())
    }

    /// Places the rank's part of a case on its GPU. `caps` are those of the first rank, so that all ranks run the same program.
    /// `inputs` are those of this rank. `connected` is the time of the connection, for the record.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`] for a case without stages. Errors of the driver and of the compiler.
    pub(super) fn prepare(
        &mut self,
        case: &Case,
        caps: &Caps,
        inputs: &Inputs,
        (sets, connected): (u32, Nanos),
    ) -> Result<PreparedProgram, BackendError> {
        let (program, setup) = case.whole_program(caps).ok_or_else(|| unsupported(format!("{case} has no stages")))?;
        let ranks = case.problem.gpus();
        let communicators = self.communicators.get(&ranks).cloned();
        let communicators = communicators.ok_or_else(|| unsupported(format!("{ranks} ranks are not connected")))?;
        let own: Vec<BufferSpec> = case.problem.buffers().iter().map(BufferSpec::of_rank).collect();
        let placed = self.device.prepare_on((case, own), (&program, setup), inputs, sets)?;
        PreparedProgram::new(vec![placed], &program.stages[setup..], Vec::new(), (communicators, connected))
    }
}
