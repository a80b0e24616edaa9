//! The buffers of a case in so many copies, filled and bound.

use std::rc::Rc;

use parallax_core::device::BackendError;
use parallax_core::suite::{Access, Arg, BufferSpec, Case, Inputs, Program, Role, Stage};

use crate::gpu::Gpu;
use crate::launch::Launched;
use crate::memory::{Account, Held};
use crate::order::Order;
use crate::poison::{Fill, Poison};
use crate::wait::breathe;

/// Bytes of input made and uploaded at a time, which bounds host memory and the time without a breath.
const UPLOAD: u64 = 4 << 20;
/// Bytes copied on the device in one submission.
const COPY: u64 = 1 << 30;

/// Every buffer of a case, once per set; `None` for buffers that the variant does not use.
pub struct Buffers {
    sets: Vec<Vec<Option<Held>>>,
    /// What executions change, as it was before the first one: position and contents.
    first: Vec<(usize, Held)>,
    /// Index of a buffer that the last stage writes.
    written_last: usize,
}

impl Buffers {
    /// Allocate `sets` copies of what a program uses. Errors are seen by the scope around this call.
    pub fn allocate(gpu: &Gpu, account: &Rc<Account>, case: &Case, program: &Program, sets: usize) -> Buffers {
        use wgpu::BufferUsages as U;
        let specs = case.problem.buffers();
        let one = |spec: &BufferSpec| {
            let bytes = spec.bytes(case.problem.dtype).0;
            let usage = U::STORAGE | U::COPY_SRC | U::COPY_DST;
            program.uses(spec.name).then(|| account.buffer(&gpu.device, spec.name, bytes, usage))
        };
        let last = program.stages.iter().flat_map(|s| &s.args).rfind(|arg| arg.access == Access::Write);
        let name = last.expect("a program writes something").buffer;
        let written_last = specs.iter().position(|b| b.name == name).expect("stages use buffers of the workload");
        let changed = specs.iter().enumerate().filter(|(_, spec)| spec.role.restored());
        let first = changed.filter_map(|(index, spec)| one(spec).map(|held| (index, held))).collect();
        Buffers { written_last, first, sets: (0..sets).map(|_| specs.iter().map(one).collect()).collect() }
    }

    /// Buffer `index` of one set.
    pub fn get(&self, set: usize, index: usize) -> Result<&wgpu::Buffer, BackendError> {
        let held = self.sets[set].get(index).and_then(Option::as_ref);
        let unused = || BackendError::Device(format!("buffer {index} is not used by this case"));
        held.map(|held| &held.buffer).ok_or_else(unused)
    }

    /// The buffer of one set that the last stage writes.
    pub fn written_last(&self, set: usize) -> &wgpu::Buffer {
        let held = self.sets[set][self.written_last].as_ref();
        &held.expect("a buffer that a stage writes is allocated").buffer
    }

    /// A stage with its bindings in every set.
    pub fn bind(
        &self,
        gpu: &Gpu,
        case: &Case,
        stage: &Stage,
        pipeline: wgpu::ComputePipeline,
        order: Option<&Order>,
    ) -> Launched {
        let specs = case.problem.buffers();
        let layout = pipeline.get_bind_group_layout(0);
        let group = |set: &Vec<Option<Held>>| {
            let entry = |(position, arg): (usize, &Arg)| {
                let index =
                    specs.iter().position(|b| b.name == arg.buffer).expect("stages use buffers of the workload");
                let held = set[index].as_ref().expect("every used buffer is allocated");
                wgpu::BindGroupEntry { binding: position as u32, resource: held.buffer.as_entire_binding() }
            };
            let entries: Vec<_> = stage.args.iter().enumerate().map(entry).collect();
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&stage.label),
                layout: &layout,
                entries: &entries,
            })
        };
        let groups = self.sets.iter().map(group).collect();
        Launched::new(stage, pipeline, groups, order.map(|o| o.group().clone()))
    }

    /// Whether executions change any input.
    pub fn changes(&self) -> bool {
        !self.first.is_empty()
    }

    /// Put back, in every set, what executions change.
    pub fn restore(&self, encoder: &mut wgpu::CommandEncoder) {
        for (index, first) in &self.first {
            for held in self.sets.iter().filter_map(|set| set[*index].as_ref()) {
                encoder.copy_buffer_to_buffer(&first.buffer, 0, &held.buffer, 0, first.buffer.size());
            }
        }
    }

    /// What poisons buffers of these roles in every set.
    pub fn poison(&self, gpu: &Gpu, case: &Case, poison: &Poison, which: impl Fn(Role) -> bool) -> Vec<Fill> {
        let specs = case.problem.buffers();
        let written = |set: &&Vec<Option<Held>>, index: usize| {
            set[index].as_ref().filter(|_| which(specs[index].role)).map(|held| poison.fill(gpu, &held.buffer))
        };
        self.sets.iter().flat_map(|set| (0..specs.len()).filter_map(move |i| written(&set, i))).collect()
    }

    /// Upload the inputs to the first set and copy them to the others on the device; returns when that is done.
    pub async fn fill(&self, gpu: &Gpu, case: &Case, inputs: &Inputs) -> Result<(), BackendError> {
        let mut given = Vec::new();
        for (index, spec) in case.problem.buffers().iter().enumerate() {
            let Some(held) = self.sets[0][index].as_ref().filter(|_| spec.role.fill().is_some()) else {
                continue;
            };
            let size = spec.elem.storage(case.problem.dtype).bytes();
            upload(gpu, inputs, index, spec.bytes(case.problem.dtype).0, &held.buffer, size).await?;
            given.push(index);
        }
        self.copy(gpu, &given).await?;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (index, first) in &self.first {
            let Some(held) = &self.sets[0][*index] else { continue };
            encoder.copy_buffer_to_buffer(&held.buffer, 0, &first.buffer, 0, first.buffer.size());
        }
        gpu.queue.submit([encoder.finish()]);
        gpu.done().await
    }

    /// Copy these buffers of the first set to the others, in submissions of bounded length.
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

/// Make and upload `bytes` of input `index`, whose elements have `size` bytes each.
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
        // Writes come in multiples of four bytes; the buffer is rounded up, so the padding falls into it.
        let padded = length.next_multiple_of(4);
        chunk[length..padded].fill(0);
        gpu.queue.write_buffer(buffer, offset, &chunk[..padded]);
        offset += length as u64;
        // Hands the staged copy over, so that a large input is not held twice.
        gpu.queue.submit([]);
        breathe().await;
        gpu.incident()?;
    }
    Ok(())
}
