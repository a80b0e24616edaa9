//! Launches that wait for copies, and on which copies wait.
//!
//! Timestamps are taken at the ends of passes, and copies stand outside of passes. A timestamp belongs to a copy only if a pass
//! cannot overlap the copy. The fence is a launch that binds the copy's device buffer as writable, without an access to it. It
//! begins after an earlier copy and ends before a later one. The timestamp is that of the pass end, because some implementations
//! take the begin of a pass while earlier work still runs.

use crate::gpu::Gpu;
use crate::memory::TrackedBuffer;

/// Factory of fence launches.
pub struct Fence {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    /// Buffer that the launch writes: a launch without work has no timestamps on some platforms.
    work: TrackedBuffer,
}

/// The fence launch for copies of one buffer.
#[derive(Clone)]
pub struct Fenced {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    work: wgpu::Buffer,
}

impl Fence {
    /// Compiles the fence kernel.
    pub fn new(gpu: &Gpu) -> Fence {
        use wgpu::BufferUsages as U;
        let entry = |binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("fence"),
            entries: &[entry(0), entry(1)],
        });
        let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("fence"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = gpu.pipeline(
            "fence",
            "@group(0) @binding(0) var<storage, read_write> work: array<u32>;
                 @compute @workgroup_size(4) fn fence(@builtin(local_invocation_index) i: u32) { work[i] += 1u; }",
            Some(&pipeline_layout),
        );
        let work = TrackedBuffer::new(&gpu.ledger, &gpu.device, "fence", 16, U::STORAGE | U::COPY_SRC);
        Fence { pipeline, layout, work }
    }

    /// Returns the fence launch for copies from or to this device buffer.
    pub fn beside(&self, gpu: &Gpu, buffer: &wgpu::Buffer) -> Fenced {
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("fence"),
            layout: &self.layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: self.work.buffer.as_entire_binding() },
                // A binding of any range synchronises the whole buffer.
                wgpu::BindGroupEntry {
                    binding: 1,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer,
                        offset: 0,
                        size: wgpu::BufferSize::new(16),
                    }),
                },
            ],
        });
        Fenced { pipeline: self.pipeline.clone(), group, work: self.work.buffer.clone() }
    }
}

impl Fenced {
    /// Encodes a pass with the launch, with an optional timestamp at its end.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder, stamp: Option<wgpu::ComputePassTimestampWrites<'_>>) {
        let descriptor = wgpu::ComputePassDescriptor { label: Some("fence"), timestamp_writes: stamp };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }

    /// Buffer that the launch writes.
    pub fn written(&self) -> &wgpu::Buffer {
        &self.work
    }
}
