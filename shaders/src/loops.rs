//! Detection of devices that end loops early.
//!
//! Mesa's llvmpipe counts the iterations of all loops of an invocation. When the count is exhausted, it leaves every loop without
//! an error.

use parallax_ir::device::BackendError;

use crate::gpu::Gpu;
use crate::memory::TrackedBuffer;

/// Iterations of the probe's loop: more than any 16-bit count.
const TURNS: u32 = 70_000;

/// Returns the number of iterations after which the device ends loops. `None` without a limit within the probe.
///
/// # Errors
/// A failure of the probe.
pub async fn limit(gpu: &Gpu) -> Result<Option<u32>, BackendError> {
    let pipeline = gpu.pipeline(
        "turns",
        // The count comes from memory, so that no compiler knows it.
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
         @compute @workgroup_size(1) fn turns() {
             var taken = 0u;
             for (var i = 0u; i < data[0]; i += 1u) { taken += 1u; }
             data[1] = taken;
         }",
        None,
    );
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let data = TrackedBuffer::new(&gpu.ledger, &gpu.device, "turns", 8, usage);
    gpu.queue.write_buffer(&data.buffer, 0, &[TURNS, 0].map(u32::to_le_bytes).concat());
    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: data.buffer.as_entire_binding() }],
    });
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    gpu.queue.submit([encoder.finish()]);
    let taken = gpu.read(&gpu.ledger, &data.buffer, 4..8).await?;
    let taken = u32::from_le_bytes(taken.try_into().expect("four bytes were read"));
    Ok((taken < TURNS).then_some(taken))
}
