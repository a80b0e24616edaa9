//! The sets of a case's buffers: allocation, inputs and bindings.

use std::rc::Rc;

use parallax_ir::device::{BackendError, Ledger};
use parallax_ir::{
    Access, Arg, BufferSpec, Case, CopyRange, Inputs, Place, Program, Region, Role, Scratch, Stage, StageOp,
};
use parallax_schema::device::Launching;
use parallax_schema::units::Bytes;

use crate::barriers::BarrierBuffer;
use crate::foreign::{Binding, BindingKind, GUARD, GUARD_BYTES};
use crate::gpu::Gpu;
use crate::launch::{BoundStage, Launched, Stamped, encode};
use crate::mapped;
use crate::memory::{TrackedBuffer, UPLOAD, padded};
use crate::pass_copies::{Ends, PassCopy};
use crate::poison::{Fill, Poison};
use crate::timestamp_fence::Fence;
use crate::wait::yield_now;

/// Bytes copied on the device in one submission.
const COPY: u64 = 1 << 30;

/// One set of buffers in the workload's order; `None` for buffers that the variant does not use.
type Set = Vec<Option<Rc<TrackedBuffer>>>;

/// Every buffer of a case, once per set.
///
/// Scratch buffers with disjoint lifetimes share one buffer. Each binding covers only the length of its own buffer. They are no
/// ranges of one arena, because in WebGPU a launch cannot read one range of a buffer and write another.
pub struct Buffers {
    sets: Vec<Set>,
    scratch: Scratch,
    /// Buffers that executions modify, before the first one: position and contents.
    first: Vec<(usize, TrackedBuffer)>,
    /// Index of the last device buffer that a stage writes.
    written_last: usize,
    /// Buffers that the device copies to the host: position and role.
    brought: Vec<(usize, Role)>,
}

impl Buffers {
    /// Allocates `sets` copies of a program's buffers. The error scope around this call receives the errors.
    pub fn allocate(gpu: &Gpu, ledger: &Rc<Ledger>, case: &Case, program: &Program, sets: usize) -> Buffers {
        use wgpu::BufferUsages as U;
        let specs = case.problem.buffers();
        let make = |name: &str, bytes| {
            TrackedBuffer::new(ledger, &gpu.device, name, bytes, U::STORAGE | U::COPY_SRC | U::COPY_DST)
        };
        // The device's ledger does not count host memory.
        let host = Rc::<Ledger>::default();
        let own = |spec: &BufferSpec| {
            let bytes = spec.bytes(case.problem.dtype).0;
            let made = || match spec.place {
                Place::HostPinned => {
                    TrackedBuffer::new(&host, &gpu.device, spec.name, bytes, mapped::usage(program, spec.name))
                }
                _ => make(spec.name, bytes),
            };
            program.uses(spec.name).then(made)
        };
        let scratch = Scratch::new(program, &specs, case.problem.dtype);
        let set = |_| {
            // In the order of the list, so that a variant with scratch and one without have their other buffers at equal positions.
            let mut slots = vec![None; scratch.slots.len()];
            let one = |(spec, region): (&BufferSpec, &Option<Region>)| match region {
                Some(Region { slot, .. }) => {
                    Some(slots[*slot].get_or_insert_with(|| Rc::new(make("scratch", scratch.slots[*slot]))).clone())
                }
                None => own(spec).map(Rc::new),
            };
            specs.iter().zip(&scratch.regions).map(one).collect()
        };
        let position = |name| specs.iter().position(|b| b.name == name).expect("stages use buffers of the workload");
        let written = program.stages.iter().flat_map(|s| &s.args).filter(|arg| arg.access == Access::Write);
        let written: Vec<usize> = written.map(|arg| position(arg.buffer)).collect();
        let (brought, written): (Vec<usize>, _) = written.into_iter().partition(|i| specs[*i].place.is_host());
        let brought = brought.into_iter().map(|i| (i, specs[i].role)).collect();
        // A program that only copies data to the host waits in another way.
        let written_last = written.last().copied().unwrap_or(0);
        let changed = specs.iter().enumerate().filter(|(_, spec)| spec.role.restored());
        let first = changed.filter_map(|(index, spec)| own(spec).map(|held| (index, held))).collect();
        Buffers { written_last, brought, first, sets: (0..sets).map(set).collect(), scratch }
    }

    /// Allocates one set of buffers for bindings of the caller, each with guard bytes behind it. The error scope around this call
    /// receives the errors.
    pub fn of_bindings(gpu: &Gpu, ledger: &Rc<Ledger>, bindings: &[Binding<'_>]) -> Buffers {
        use wgpu::BufferUsages as U;
        let make = |binding: &Binding<'_>| {
            let usage = if binding.kind == BindingKind::Uniform { U::UNIFORM } else { U::STORAGE };
            let bytes = binding.contents.len() as u64 + GUARD_BYTES;
            TrackedBuffer::new(ledger, &gpu.device, "binding", bytes, usage | U::COPY_SRC | U::COPY_DST)
        };
        let written = |(_, binding): &(usize, &Binding<'_>)| binding.kind == BindingKind::ReadWrite;
        let first: Vec<_> =
            bindings.iter().enumerate().filter(written).map(|(index, binding)| (index, make(binding))).collect();
        Buffers {
            sets: vec![bindings.iter().map(|binding| Some(Rc::new(make(binding)))).collect()],
            scratch: Scratch { regions: vec![None; bindings.len()], arena: 0, slots: Vec::new() },
            written_last: first.last().map_or(0, |(index, _)| *index),
            first,
            brought: Vec::new(),
        }
    }

    /// Uploads the contents of bindings and their guard bytes, and waits.
    pub async fn fill_bindings(&self, gpu: &Gpu, bindings: &[Binding<'_>]) -> Result<(), BackendError> {
        for (index, binding) in bindings.iter().enumerate() {
            let buffer = self.get(0, index)?;
            let pieces = binding.contents.chunks(UPLOAD as usize);
            for (offset, piece) in (0..).step_by(UPLOAD as usize).zip(pieces) {
                gpu.queue.write_buffer(buffer, offset, piece);
                // Submits the staged copy, so that a large input is not in memory twice.
                gpu.queue.submit([]);
                yield_now().await;
                gpu.incident()?;
            }
            gpu.queue.write_buffer(buffer, binding.contents.len() as u64, &[GUARD; GUARD_BYTES as usize]);
        }
        self.keep_first(gpu).await
    }

    /// Returns buffer `index` of one set.
    pub fn get(&self, set: usize, index: usize) -> Result<&wgpu::Buffer, BackendError> {
        let held = self.sets[set].get(index).and_then(Option::as_ref);
        let unused = || BackendError::Device(format!("buffer {index} is not used by this case"));
        held.map(|held| &held.buffer).ok_or_else(unused)
    }

    /// Queues new bytes of an input in every set, before the commands of the next submission. Inputs that no stage uses are left
    /// out.
    pub fn write(&self, gpu: &Gpu, index: usize, bytes: &[u8]) -> Result<(), BackendError> {
        // Writes have a multiple of four bytes. The padding lies in the buffer, whose size is rounded up.
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        for held in self.in_every_set(index) {
            same_length(held.buffer.size(), padded(bytes.len() as u64))?;
            gpu.queue.write_buffer(&held.buffer, 0, whole);
            if !rest.is_empty() {
                gpu.queue.write_buffer(&held.buffer, whole.len() as u64, &last);
            }
        }
        Ok(())
    }

    /// Records copies of a buffer to an input in every set. An input that no stage uses is left out.
    pub fn copy_from(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        index: usize,
        from: &wgpu::Buffer,
    ) -> Result<(), BackendError> {
        for held in self.in_every_set(index) {
            same_length(held.buffer.size(), from.size())?;
            encoder.copy_buffer_to_buffer(from, 0, &held.buffer, 0, held.buffer.size());
        }
        Ok(())
    }

    fn in_every_set(&self, index: usize) -> impl Iterator<Item = &TrackedBuffer> {
        self.sets.iter().filter_map(move |set| set[index].as_deref())
    }

    /// Last device buffer that a stage writes, in one set.
    pub fn written_last(&self, set: usize) -> &wgpu::Buffer {
        let held = self.sets[set][self.written_last].as_ref();
        &held.expect("a buffer that a stage writes is allocated").buffer
    }

    /// First buffer that the device copies to the host, in one set. `None` without such a buffer.
    pub fn brought(&self, set: usize) -> Option<&wgpu::Buffer> {
        let (index, _) = self.brought.first()?;
        self.sets[set][*index].as_ref().map(|held| &held.buffer)
    }

    /// Binds a stage in every set. `further` is bind group 1.
    pub fn bind(
        &self,
        gpu: &Gpu,
        case: &Case,
        stage: &Stage,
        pipeline: wgpu::ComputePipeline,
        further: Option<wgpu::BindGroup>,
    ) -> Launched {
        let specs = case.problem.buffers();
        let layout = pipeline.get_bind_group_layout(0);
        let group = |set: &Set| {
            let entry = |(position, arg): (usize, &Arg)| {
                let index =
                    specs.iter().position(|b| b.name == arg.buffer).expect("stages use buffers of the workload");
                let held = set[index].as_ref().expect("every used buffer is allocated");
                wgpu::BindGroupEntry { binding: position as u32, resource: self.range(held, index) }
            };
            let entries: Vec<_> = stage.args.iter().enumerate().map(entry).collect();
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&stage.label),
                layout: &layout,
                entries: &entries,
            })
        };
        let groups = self.sets.iter().map(group).collect();
        Launched::new(stage, pipeline, groups, further)
    }

    /// Returns the binding of a buffer. It covers the buffer's own length in a longer shared one.
    fn range<'b>(&self, held: &'b TrackedBuffer, index: usize) -> wgpu::BindingResource<'b> {
        let size = self.scratch.regions[index].and_then(|region| wgpu::BufferSize::new(padded(region.bytes)));
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: &held.buffer, offset: 0, size })
    }

    /// Returns a stage that copies from or to a mappable buffer, with its buffers in every set.
    pub fn copied(
        &self,
        gpu: &Gpu,
        case: &Case,
        stage: &Stage,
        order: Option<&BarrierBuffer>,
        fence: &Fence,
    ) -> PassCopy {
        let specs = case.problem.buffers();
        let position =
            |arg: &Arg| specs.iter().position(|b| b.name == arg.buffer).expect("stages use buffers of the workload");
        let (from, to) = (position(&stage.args[0]), position(&stage.args[1]));
        let on_device = if specs[from].place.is_host() { to } else { from };
        let ends = |set: &Set| {
            let buffer = |index: usize| &set[index].as_ref().expect("every used buffer is allocated").buffer;
            let fenced = fence.beside(gpu, buffer(on_device));
            Ends { from: buffer(from).clone(), to: buffer(to).clone(), fenced }
        };
        let part = match stage.work {
            StageOp::CopyRange(part) => part,
            _ => CopyRange { from: Bytes(0), to: Bytes(0), bytes: specs[from].bytes(case.problem.dtype) },
        };
        PassCopy::new(stage, part, self.sets.iter().map(ends).collect(), order.map(BarrierBuffer::before_copies))
    }

    /// Fills, in every set, the buffers that the device copies to the host and that have a selected role.
    pub fn poison_host(&self, gpu: &Gpu, word: u32, which: impl Fn(Role) -> bool) {
        let wanted = self.brought.iter().filter(|(_, role)| which(*role));
        for held in wanted.flat_map(|(index, _)| self.sets.iter().filter_map(|set| set[*index].as_ref())) {
            mapped::poison(gpu, &held.buffer, word);
        }
    }

    /// Whether executions modify any input.
    pub fn changes(&self) -> bool {
        !self.first.is_empty()
    }

    /// Restores, in every set, the buffers that executions modify.
    pub fn restore(&self, encoder: &mut wgpu::CommandEncoder) {
        for (index, first) in &self.first {
            for held in self.sets.iter().filter_map(|set| set[*index].as_ref()) {
                encoder.copy_buffer_to_buffer(&first.buffer, 0, &held.buffer, 0, first.buffer.size());
            }
        }
    }

    /// Records the stages of the set-up on every set.
    pub fn encode_setup(&self, encoder: &mut wgpu::CommandEncoder, setup: &[BoundStage]) {
        let work: Vec<_> = (0..self.sets.len()).flat_map(|set| setup.iter().map(move |step| (step, set))).collect();
        encode(encoder, &work, Launching::OnePass, Stamped::default());
    }

    /// Returns the fills that poison the buffers of selected roles in every set.
    pub fn poison(&self, gpu: &Gpu, case: &Case, poison: &Poison, which: impl Fn(Role) -> bool) -> Vec<Fill> {
        let specs = case.problem.buffers();
        let written = |set: &&Set, index: usize| {
            let spec = &specs[index];
            let wanted = which(spec.role) && !spec.place.is_host();
            set[index].as_ref().filter(|_| wanted).map(|held| poison.fill(gpu, &held.buffer))
        };
        self.sets.iter().flat_map(|set| (0..specs.len()).filter_map(move |i| written(&set, i))).collect()
    }

    /// Uploads the inputs to the first set, copies them to the others on the device, and waits.
    pub async fn fill(&self, gpu: &Gpu, case: &Case, inputs: &Inputs) -> Result<(), BackendError> {
        let mut given = Vec::new();
        for (index, spec) in case.problem.buffers().iter().enumerate() {
            let Some(held) = self.sets[0][index].as_ref().filter(|_| spec.role.fill().is_some()) else {
                continue;
            };
            let storage = spec.elem.storage(case.problem.dtype);
            if spec.place.is_host() {
                let all = self.sets.iter().filter_map(|set| set[index].as_ref()).map(|held| &held.buffer);
                mapped::write(gpu, inputs, (index, spec, storage), all).await?;
                continue;
            }
            let size = storage.bytes();
            upload(gpu, inputs, index, spec.bytes(case.problem.dtype).0, &held.buffer, size).await?;
            given.push(index);
        }
        self.copy(gpu, &given).await?;
        self.keep_first(gpu).await
    }

    /// Copies the contents of buffers that executions modify, for later restores, and waits.
    async fn keep_first(&self, gpu: &Gpu) -> Result<(), BackendError> {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (index, first) in &self.first {
            let Some(held) = &self.sets[0][*index] else { continue };
            encoder.copy_buffer_to_buffer(&held.buffer, 0, &first.buffer, 0, first.buffer.size());
        }
        gpu.queue.submit([encoder.finish()]);
        gpu.done().await
    }

    /// Copies these buffers of the first set to the others, in submissions of bounded length.
    async fn copy(&self, gpu: &Gpu, given: &[usize]) -> Result<(), BackendError> {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let mut copied = 0;
        for set in &self.sets[1..] {
            for index in given {
                let (Some(from), Some(to)) = (&self.sets[0][*index], &set[*index]) else { continue };
                encoder.copy_buffer_to_buffer(&from.buffer, 0, &to.buffer, 0, from.buffer.size());
                copied += from.buffer.size();
                if copied >= COPY {
                    let full = std::mem::replace(&mut encoder, gpu.device.create_command_encoder(&Default::default()));
                    gpu.finish(full).await?;
                    copied = 0;
                }
            }
        }
        gpu.queue.submit([encoder.finish()]);
        Ok(())
    }
}

fn same_length(input: u64, contents: u64) -> Result<(), BackendError> {
    match input == contents {
        true => Ok(()),
        false => Err(BackendError::Device(format!("an input of {input} bytes got {contents} bytes"))),
    }
}

/// Generates and uploads `bytes` of input `index`, with elements of `size` bytes.
async fn upload(
    gpu: &Gpu,
    inputs: &Inputs,
    index: usize,
    bytes: u64,
    buffer: &wgpu::Buffer,
    size: u64,
) -> Result<(), BackendError> {
    let mut chunk = vec![0; UPLOAD.min(bytes.next_multiple_of(4)) as usize];
    let mut offset = 0;
    while offset < bytes {
        let length = UPLOAD.min(bytes - offset) as usize;
        inputs.write(index, offset / size, &mut chunk[..length]);
        // Writes have a multiple of four bytes. The padding lies in the buffer, whose size is rounded up.
        let padded = length.next_multiple_of(4);
        chunk[length..padded].fill(0);
        gpu.queue.write_buffer(buffer, offset, &chunk[..padded]);
        offset += length as u64;
        // Submits the staged copy, so that a large input is not in memory twice.
        gpu.queue.submit([]);
        yield_now().await;
        gpu.incident()?;
    }
    Ok(())
}
