//! Initial contents of outputs and scratch: a word that remains in an element without a write.

use parallax_ir::spread;

use crate::gpu::Gpu;
use crate::launch::Pass;

/// Kernel that fills buffers with a word.
pub struct Poison {
    pipeline: wgpu::ComputePipeline,
    word: wgpu::Buffer,
}

/// The launch that fills one buffer.
pub struct Fill {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: [u32; 3],
}

impl Fill {
    /// Encodes the launch.
    pub fn encode<'a>(&'a self, pass: &mut Pass<'a>) {
        pass.dispatch(&self.pipeline, &self.group, &[], self.grid);
    }
}

impl Poison {
    /// Sets the word of fills in later submissions.
    pub fn set(&self, gpu: &Gpu, word: u32) {
        gpu.queue.write_buffer(&self.word, 0, &word.to_le_bytes());
    }

    /// Compiles the pipeline.
    pub fn new(gpu: &Gpu) -> Poison {
        let pipeline = gpu.pipeline(
            "poison",
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                 @group(0) @binding(1) var<uniform> word: u32;
                 @compute @workgroup_size(256)
                 fn poison(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                           @builtin(local_invocation_index) lane: u32) {
                     let i = (group.y * groups.x + group.x) * 256u + lane;
                     if i < arrayLength(&data) { data[i] = word; }
                 }",
            None,
        );
        let word = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("poison"),
            size: 4,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Poison { pipeline, word }
    }

    /// Returns the fill of a buffer.
    pub fn fill(&self, gpu: &Gpu, buffer: &wgpu::Buffer) -> Fill {
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("poison"),
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: self.word.as_entire_binding() },
            ],
        });
        let grid = spread((buffer.size() / 4).div_ceil(256));
        Fill { pipeline: self.pipeline.clone(), group, grid }
    }
}
