//! Stages that copy from or to mappable buffers: commands between passes.

use std::borrow::Cow;

use parallax_ir::{CopyRange, Stage};
use parallax_schema::device::Launch;
use parallax_schema::units::Bytes;

use crate::timestamp_fence::Fenced;

/// A copy stage, on every buffer set.
#[derive(Clone)]
pub struct PassCopy {
    /// Label of the stage.
    pub label: Cow<'static, str>,
    entry: &'static str,
    part: CopyRange,
    /// One pair of buffers per set.
    sets: Vec<Ends>,
    /// Copy to make before the stage, with several sets: see [`crate::barriers`].
    order: Option<[wgpu::Buffer; 2]>,
}

/// Source and destination of a copy, and the launch that cannot overlap it.
#[derive(Clone)]
pub struct Ends {
    pub from: wgpu::Buffer,
    pub to: wgpu::Buffer,
    pub fenced: Fenced,
}

impl PassCopy {
    /// Returns a stage that copies a range or a whole buffer. Copies have a multiple of four bytes, like buffers.
    pub fn new(stage: &Stage, part: CopyRange, sets: Vec<Ends>, order: Option<[wgpu::Buffer; 2]>) -> PassCopy {
        let part = CopyRange { bytes: Bytes(part.bytes.0.next_multiple_of(4)), ..part };
        PassCopy { label: stage.label.clone(), entry: stage.entry(), part, sets, order }
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> Bytes {
        self.part.bytes
    }

    /// Description of the stage. A copy has neither grid nor workgroups.
    pub fn launch(&self) -> Launch {
        let (label, entry) = (self.label.to_string(), self.entry.to_owned());
        Launch { label, entry, grid: [1; 3], block: [1; 3], ..Launch::default() }
    }

    /// Encodes the copy on one set, with a timestamped pass before and after it where requested.
    pub fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        set: usize,
        [before, behind]: [Option<wgpu::ComputePassTimestampWrites<'_>>; 2],
    ) {
        let Ends { from, to, fenced } = &self.sets[set];
        if before.is_some() {
            fenced.encode(encoder, before);
        }
        if let Some([order, away]) = &self.order {
            encoder.copy_buffer_to_buffer(order, 0, away, 0, 4);
        }
        encoder.copy_buffer_to_buffer(from, self.part.from.0, to, self.part.to.0, self.part.bytes.0);
        if behind.is_some() {
            fenced.encode(encoder, behind);
        }
    }

    /// Encodes the launch that waits for the copy on one set. Returns the buffer that the launch writes.
    pub fn wait(&self, encoder: &mut wgpu::CommandEncoder, set: usize) -> &wgpu::Buffer {
        let fenced = &self.sets[set].fenced;
        fenced.encode(encoder, None);
        fenced.written()
    }
}
