//! Serialisation of executions, also of those that share no data.
//!
//! WebGPU's implementations place a barrier between two launches only where both use a buffer and one writes it. Executions on
//! different buffer sets share no buffer, so a device may run them in parallel. The measured time would then be that of their
//! overlap.
//!
//! Every launch therefore binds one buffer as writable, without an access to it. Each launch then waits for the previous one, like
//! the launches of a CUDA stream. A copy stage cannot bind the buffer. So a copy of a few bytes of the buffer precedes it. That
//! copy waits for earlier launches, and later launches wait for it.

use parallax_ir::{Access, Arg, Stage};

use crate::gpu::Gpu;
use crate::memory::TrackedBuffer;

/// The buffer that all launches share, as bind group 1.
pub struct BarrierBuffer {
    layout: wgpu::BindGroupLayout,
    group: wgpu::BindGroup,
    buffer: TrackedBuffer,
    /// Destination of the copy.
    away: TrackedBuffer,
}

impl BarrierBuffer {
    /// Creates the buffers and the bind group.
    pub fn new(gpu: &Gpu) -> BarrierBuffer {
        use wgpu::BufferUsages as U;
        let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("order"),
            entries: &[storage(0, Access::Write)],
        });
        let buffer = TrackedBuffer::new(&gpu.ledger, &gpu.device, "order", 4, U::STORAGE | U::COPY_SRC);
        let away = TrackedBuffer::new(&gpu.ledger, &gpu.device, "order", 4, U::COPY_DST);
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("order"),
            layout: &layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.buffer.as_entire_binding() }],
        });
        BarrierBuffer { layout, group, buffer, away }
    }

    /// Source and destination of the copy that precedes a copy stage.
    pub fn before_copies(&self) -> [wgpu::Buffer; 2] {
        [self.buffer.buffer.clone(), self.away.buffer.clone()]
    }

    /// Whether a stage can bind one more buffer.
    pub fn fits(gpu: &Gpu, stage: &Stage) -> bool {
        stage.kernel_launch().is_none()
            || stage.args.len() < gpu.device.limits().max_storage_buffers_per_shader_stage as usize
    }

    /// Returns the layout of a stage's pipeline: its own buffers as group 0, the order buffer as group 1.
    pub fn layout(&self, gpu: &Gpu, stage: &Stage) -> wgpu::PipelineLayout {
        let entry = |(position, arg): (usize, &Arg)| storage(position as u32, arg.access);
        let entries: Vec<_> = stage.args.iter().enumerate().map(entry).collect();
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some(&stage.label), entries: &entries };
        let own = gpu.device.create_bind_group_layout(&descriptor);
        gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(&stage.label),
            bind_group_layouts: &[Some(&own), Some(&self.layout)],
            immediate_size: 0,
        })
    }

    /// Bind group 1 of the launches.
    pub fn group(&self) -> &wgpu::BindGroup {
        &self.group
    }
}

fn storage(binding: u32, access: Access) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}
