//! Launches, their rotation over buffer sets, and the encoding of a batch as command buffers.

use std::borrow::Cow;
use std::ops::Range;

use parallax_ir::Stage;
use parallax_ir::device::{Batch, Rotation};
use parallax_schema::device::{Launch, Launching};
use parallax_schema::units::Bytes;

use crate::foreign::ForeignKernel;
use crate::gpu::Gpu;
use crate::pass_copies::PassCopy;
use crate::timing::Timestamps;

/// Maximum number of launches in a pass, and so in a command buffer. Interfaces specify no limit, but keep every command in memory
/// until its submission. A longer batch becomes several command buffers of the same submission.
const PASS: u32 = 1 << 14;

/// A stage on the device.
#[derive(Clone)]
pub enum BoundStage {
    /// A launch, inside a pass.
    Launch(Launched),
    /// A copy from or to a mappable buffer, between passes.
    Copy(PassCopy),
}

impl BoundStage {
    /// Label of the stage.
    pub fn label(&self) -> &str {
        match self {
            BoundStage::Launch(launched) => &launched.label,
            BoundStage::Copy(copied) => &copied.label,
        }
    }

    /// Description of the stage.
    pub fn launch(&self) -> Launch {
        match self {
            BoundStage::Launch(launched) => launched.launch(),
            BoundStage::Copy(copied) => copied.launch(),
        }
    }
}

/// A launch: a pipeline, its grid, and its bindings in every buffer set.
#[derive(Clone)]
pub struct Launched {
    /// Label of the stage.
    pub label: Cow<'static, str>,
    entry: Cow<'static, str>,
    pipeline: wgpu::ComputePipeline,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// One bind group per set.
    groups: Vec<wgpu::BindGroup>,
    /// Bind groups from 1 on: the order of executions on different sets, the emulated matrices, or a kernel's own.
    further: Vec<wgpu::BindGroup>,
}

impl Launched {
    /// Creates the launch of a kernel stage. `groups` has one entry per buffer set.
    pub fn new(
        stage: &Stage,
        pipeline: wgpu::ComputePipeline,
        groups: Vec<wgpu::BindGroup>,
        further: Option<wgpu::BindGroup>,
    ) -> Launched {
        let kernel = stage.kernel_launch().expect("all work has been made kernels");
        Launched {
            label: stage.label.clone(),
            entry: kernel.entry.into(),
            pipeline,
            grid: kernel.grid,
            block: kernel.workgroup,
            shared: kernel.shared_bytes,
            groups,
            further: further.into_iter().collect(),
        }
    }

    /// Creates the launch of a kernel from outside the program, on one buffer set. `groups` are its bind groups, from 0 on.
    pub fn foreign(
        kernel: &ForeignKernel<'_>,
        pipeline: wgpu::ComputePipeline,
        groups: Vec<wgpu::BindGroup>,
    ) -> Launched {
        let mut groups = groups.into_iter();
        Launched {
            label: kernel.name.to_owned().into(),
            entry: kernel.entry.to_owned().into(),
            pipeline,
            grid: kernel.grid,
            block: kernel.workgroup,
            shared: kernel.shared_bytes,
            groups: groups.by_ref().take(1).collect(),
            further: groups.collect(),
        }
    }

    /// Description of the launch. Drivers do not expose registers, spills and occupancy through WebGPU.
    pub fn launch(&self) -> Launch {
        Launch {
            label: self.label.to_string(),
            entry: self.entry.to_string(),
            grid: self.grid,
            block: self.block,
            shared: Bytes(u64::from(self.shared)),
            ..Launch::default()
        }
    }

    /// Encodes the launch on one set.
    pub fn encode<'a>(&'a self, pass: &mut Pass<'a>, set: usize) {
        pass.dispatch(&self.pipeline, &self.groups[set], &self.further, self.grid);
    }
}

/// A compute pass that sets only the state that changes between launches.
pub struct Pass<'a> {
    pass: wgpu::ComputePass<'a>,
    pipeline: Option<&'a wgpu::ComputePipeline>,
    group: Option<&'a wgpu::BindGroup>,
}

impl<'a> Pass<'a> {
    /// Begins a pass.
    pub fn begin(
        encoder: &'a mut wgpu::CommandEncoder,
        label: Option<&str>,
        stamps: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) -> Pass<'a> {
        let descriptor = wgpu::ComputePassDescriptor { label, timestamp_writes: stamps };
        Pass { pass: encoder.begin_compute_pass(&descriptor), pipeline: None, group: None }
    }

    /// Encodes one launch.
    pub fn dispatch(
        &mut self,
        pipeline: &'a wgpu::ComputePipeline,
        group: &'a wgpu::BindGroup,
        further: &'a [wgpu::BindGroup],
        [x, y, z]: [u32; 3],
    ) {
        if self.pipeline != Some(pipeline) {
            self.pass.set_pipeline(pipeline);
            self.pipeline = Some(pipeline);
            self.group = None;
            for (index, group) in (1..).zip(further) {
                self.pass.set_bind_group(index, group, &[]);
            }
        }
        if self.group != Some(group) {
            self.pass.set_bind_group(0, group, &[]);
            self.group = Some(group);
        }
        self.pass.dispatch_workgroups(x, y, z);
    }
}

/// Encodes a batch as command buffers of one submission: the lead without timestamps, then the timed executions. One timestamp is
/// before the first of them and one after the last.
///
/// `written` returns the buffer of a set that the last stage writes.
pub fn batch<'a>(
    gpu: &Gpu,
    (steps, launching): (&[BoundStage], Launching),
    rotation: Rotation,
    Batch { lead, repeats }: Batch,
    timestamps: Option<&Timestamps>,
    written: impl Fn(usize) -> &'a wgpu::Buffer,
) -> Vec<wgpu::CommandBuffer> {
    let (lead, all) = (u64::from(lead), u64::from(lead) + u64::from(repeats));
    let each = u64::from(PASS) / steps.len().max(1) as u64;
    let commands_of = |part, stamped| command_buffer(gpu, (steps, launching), rotation, part, stamped);
    let mut commands: Vec<_> = parts(0..lead, each).map(|part| commands_of(part, Stamped::default())).collect();
    if let Some(timestamps) = timestamps.filter(|_| lead > 0) {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let set = rotation.ahead(lead - 1);
        let last = match steps.last() {
            Some(BoundStage::Copy(copied)) => copied.wait(&mut encoder, set),
            _ => written(set),
        };
        timestamps.wait_for(&mut encoder, last);
        commands.push(encoder.finish());
    }
    let mut timed = parts(lead..all, each).peekable();
    let mut begins = true;
    while let Some(part) = timed.next() {
        let stamped = Stamped { timestamps, begins, ends: timed.peek().is_none() };
        commands.push(commands_of(part, stamped));
        begins = false;
    }
    commands
}

/// Timestamps of a command buffer.
#[derive(Clone, Copy, Default)]
pub struct Stamped<'a> {
    timestamps: Option<&'a Timestamps>,
    begins: bool,
    ends: bool,
}

fn command_buffer(
    gpu: &Gpu,
    (steps, launching): (&[BoundStage], Launching),
    rotation: Rotation,
    executions: Range<u64>,
    stamped: Stamped<'_>,
) -> wgpu::CommandBuffer {
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    let work = executions.flat_map(|execution| steps.iter().map(move |step| (step, rotation.ahead(execution))));
    encode(&mut encoder, &work.collect::<Vec<_>>(), launching, stamped);
    if let Some(timestamps) = stamped.timestamps.filter(|_| stamped.ends) {
        timestamps.resolve(&mut encoder, 2);
    }
    encoder.finish()
}

/// Encodes steps on buffer sets, in order. Launches form as few passes as `launching` allows, and copies stand between passes.
pub fn encode(
    encoder: &mut wgpu::CommandEncoder,
    work: &[(&BoundStage, usize)],
    launching: Launching,
    stamped: Stamped<'_>,
) {
    let is_launch = |step: &BoundStage| matches!(step, BoundStage::Launch(_));
    let together = |(a, _): &(&BoundStage, usize), (b, _): &(&BoundStage, usize)| {
        launching != Launching::PassEach && is_launch(a) && is_launch(b)
    };
    let mut parts = work.chunk_by(together).peekable();
    let mut first = true;
    while let Some(part) = parts.next() {
        // The first part begins the timed interval, and the last one ends it.
        let (begins, ends) = (stamped.begins && first, stamped.ends && parts.peek().is_none());
        first = false;
        if let [(BoundStage::Copy(copied), set)] = part {
            let stamp = |takes: bool, stamp| stamped.timestamps.filter(|_| takes).map(|t| t.at_end(stamp));
            copied.encode(encoder, *set, [stamp(begins, 0), stamp(ends, 1)]);
            continue;
        }
        let mut pass = Pass::begin(encoder, None, stamped.timestamps.and_then(|t| t.span(begins, ends)));
        for (step, set) in part {
            if let BoundStage::Launch(launched) = step {
                launched.encode(&mut pass, *set);
            }
        }
    }
}

/// Splits a range into parts of at most `each` (at least one). Empty for an empty range.
fn parts(range: Range<u64>, each: u64) -> impl Iterator<Item = Range<u64>> {
    let each = each.max(1);
    let end = range.end;
    (range.start..end).step_by(each as usize).map(move |start| start..(start + each).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_batch_is_cut_and_nothing_is_lost() {
        let cut: Vec<_> = parts(3..10, 3).collect();
        assert_eq!(cut, [3..6, 6..9, 9..10]);
        assert_eq!(parts(5..5, 3).count(), 0);
        assert_eq!(parts(0..2, 0).count(), 2, "one execution is never cut");
    }
}
